#include "order/noted.h"

#include "lock.h"
#include "planted.h"

#include <string.h>

_Atomic(const void *) noted_by;
CUstream noted_streams[(1 << NOTED_BITS) + 1];

void noted_empty(void) {
    lock_check_held(LOCK_ORDER);
    if (!PLANTED(note_kept))
        atomic_store_explicit(&noted_by, NULL, memory_order_release);
}

void noted_add(CUstream stream) {
    lock_check_held(LOCK_ORDER);
    const void *own = order_this_thread();
    if (atomic_load_explicit(&noted_by, memory_order_relaxed) != own)
        memset(noted_streams, 0, sizeof noted_streams);
    atomic_store_explicit(&noted_by, own, memory_order_relaxed);
    if (noted_has(stream))
        return;
    CUstream *place =
        &noted_streams[(unsigned)(uintptr_t)stream * NOTED_FACTOR >> (32 - NOTED_BITS)];
    if (place[0] && !place[1])
        place++;
    *place = stream;
}
