#include "order/noted.h"

#include "lock.h"
#include "planted.h"

#include <string.h>

_Atomic uint32_t noted_by = NOTED_BY_NONE;
CUstream noted_streams[(1 << NOTED_BITS) + 1];

void noted_empty(void) {
    lock_check_held(LOCK_ORDER);
    if (!PLANTED(note_kept))
        atomic_store_explicit(&noted_by, NOTED_BY_NONE, memory_order_release);
}

void noted_add(CUstream stream) {
    lock_check_held(LOCK_ORDER);
    uint32_t own = thread_marks.number;
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
