#include "interpose/real_entries.h"

#include "interpose/loader.h"

#include <stdatomic.h>

/* Names stand in the table itself: a pointer to each would cost every program at its start. */
enum { NAME_SIZE = 40 };
static const char symbols[HOOKS][NAME_SIZE] = {
#define HOOK(name, base, since, per_thread, parameters) [HOOK_##name] = #name,
#include "interpose/hooks.def"
#undef HOOK
};

void *real_entries[HOOKS];

static _Atomic(void *) driver_handle;

/* No lock and no once-guard: threads that race store the same values. The handle is kept open: the
 * entries must not be unloaded under us. */
bool real_load(void) {
    if (atomic_load_explicit(&driver_handle, memory_order_acquire))
        return true;
    void *handle = loader_open_loaded("libcuda.so.1");
    if (!handle)
        return false;
    for (int i = 0; i < HOOKS; i++)
        __atomic_store_n(&real_entries[i], loader_find(handle, symbols[i]), __ATOMIC_RELAXED);
    atomic_store_explicit(&driver_handle, handle, memory_order_release);
    return true;
}

void *real_find(const char *name) {
    void *handle = atomic_load_explicit(&driver_handle, memory_order_acquire);
    return handle ? loader_find(handle, name) : NULL;
}

void *real_ask(const char *base, int version, bool per_thread) {
    void *function = NULL;
    cuuint64_t flags = per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                  : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    if (REAL(cuGetProcAddress_v2))
        REAL(cuGetProcAddress_v2)(base, &function, version, flags, NULL);
    else if (REAL(cuGetProcAddress))
        REAL(cuGetProcAddress)(base, &function, version, flags);
    return function;
}
