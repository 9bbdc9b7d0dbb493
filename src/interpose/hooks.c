#include "interpose/hooks.h"

#include "interpose/loader.h"
#include "interpose/stubs.h"

#include <stdatomic.h>
#include <string.h>

#define HOOK(name, base, since, per_thread, parameters)                                            \
    extern const char hook_entry_##name[] __attribute__((visibility("hidden")));
#include "interpose/hooks.def"
#undef HOOK

/* Names stand in the table itself: a pointer to each would cost every program at its start. */
enum { NAME_SIZE = 40 };
static const struct {
    const char *entry;
    char symbol[NAME_SIZE], base[NAME_SIZE];
    int since;
    bool per_thread;
} hook_table[HOOKS] = {
#define HOOK(name, base, since, per_thread, parameters)                                            \
    [HOOK_##name] = {hook_entry_##name, #name, base, since, per_thread},
#include "interpose/hooks.def"
#undef HOOK
};

void *hooks_real[HOOKS];

/* What the driver's cuGetProcAddress answers for each row, where that differs from its exported
 * symbol: a form is recognised by its address, never guessed from a version number. */
static void *listed[HOOKS];

static _Atomic(void *) driver_handle;
static atomic_bool listed_ready;

/* No lock and no once-guard: threads that race store the same values. The handle is kept open: the
 * entries must not be unloaded under us. */
bool hooks_load(void) {
    if (atomic_load_explicit(&driver_handle, memory_order_acquire))
        return true;
    void *handle = loader_open_loaded("libcuda.so.1");
    if (!handle)
        return false;
    for (int i = 0; i < HOOKS; i++)
        __atomic_store_n(&hooks_real[i], loader_find(handle, hook_table[i].symbol),
                         __ATOMIC_RELAXED);
    atomic_store_explicit(&driver_handle, handle, memory_order_release);
    return true;
}

void *hooks_find_in_driver(const char *name) {
    void *handle = atomic_load_explicit(&driver_handle, memory_order_acquire);
    return handle ? loader_find(handle, name) : NULL;
}

static void *replacement(int row) {
    return (void *)(uintptr_t)hook_table[row].entry;
}

void *hooks_replace_symbol(const char *name, void *found) {
    for (int i = 0; i < HOOKS; i++)
        if (strcmp(name, hook_table[i].symbol) == 0)
            return hooks_load() && found == hooks_real[i] ? replacement(i) : found;
    return stubs_replace_symbol(name, found);
}

void *hooks_ask_driver(const char *base, int version, bool per_thread) {
    void *function = NULL;
    cuuint64_t flags = per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                  : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    if (REAL(cuGetProcAddress_v2))
        REAL(cuGetProcAddress_v2)(base, &function, version, flags, NULL);
    else if (REAL(cuGetProcAddress))
        REAL(cuGetProcAddress)(base, &function, version, flags);
    return function;
}

static void list_entries(void) {
    for (int i = 0; i < HOOKS; i++)
        if (hooks_real[i])
            __atomic_store_n(
                &listed[i],
                hooks_ask_driver(hook_table[i].base, hook_table[i].since, hook_table[i].per_thread),
                __ATOMIC_RELAXED);
    atomic_store_explicit(&listed_ready, true, memory_order_release);
}

void *hooks_replace_base(const char *base, void *found, bool per_thread) {
    bool ours = false;
    for (int i = 0; i < HOOKS && !ours; i++)
        ours = strcmp(base, hook_table[i].base) == 0;
    if (!ours)
        return stubs_replace_base(base, found, per_thread);
    if (!hooks_load())
        return found;
    for (int i = 0; i < HOOKS; i++)
        if (found == hooks_real[i])
            return replacement(i);
    if (!atomic_load_explicit(&listed_ready, memory_order_acquire))
        list_entries();
    for (int i = 0; i < HOOKS; i++)
        if (found == listed[i] && strcmp(base, hook_table[i].base) == 0)
            return replacement(i);
    return stubs_replace_base(base, found, per_thread);
}
