#include "interpose/real_entries.h"

#include "interpose/image.h"
#include "interpose/loader.h"
#include "modules.h"

#include <stdatomic.h>
#include <string.h>

/* Names stand in the table itself: a pointer to each would cost every program at its start. */
enum { NAME_SIZE = 40 };
static const char symbols[HOOKS][NAME_SIZE] = {
#define HOOK(name, base, since, per_thread, parameters) [HOOK_##name] = #name,
#include "interpose/hooks.def"
#undef HOOK
};

void *real_entries[HOOKS];

/* Where the driver is loaded: found without the loader, whose lock may be held by a thread that
 * runs a library's constructor and waits for ours. handle: what keeps it loaded, NULL so far: it is
 * taken when the program itself calls the loader, at the latest before something is unloaded.
 * by_loader: that libcuda.so.1 defines nothing itself, so that lookups have to go through the
 * handle. */
static struct module driver;
static atomic_bool driver_known, by_loader;
static _Atomic(void *) handle;
static const char driver_name[] = "libcuda.so.1";

static void *find(const struct module *module, const char *name) {
    return atomic_load_explicit(&by_loader, memory_order_relaxed)
               ? loader_find(atomic_load(&handle), name)
               : (void *)image_find_function(module, name,
                                             NULL); // NOLINT(performance-no-int-to-ptr)
}

static bool visit_driver(const struct module *module, void *state) {
    const char *slash = strrchr(module->path, '/');
    if (strcmp(slash ? slash + 1 : module->path, driver_name) != 0 &&
        strcmp(image_soname(module), driver_name) != 0)
        return true;
    *(struct module *)state = *module;
    return false;
}

void real_hold(void) {
    if (!atomic_load_explicit(&driver_known, memory_order_acquire) || atomic_load(&handle))
        return;
    void *none = NULL, *opened = loader_open_loaded(driver_name);
    if (!atomic_compare_exchange_strong(&handle, &none, opened))
        loader_close(opened);
}

/* No lock and no once-guard: threads that race store the same values. */
bool real_load(void) {
    if (atomic_load_explicit(&driver_known, memory_order_acquire))
        return true;
    struct module found = {0};
    modules_each(visit_driver, &found);
    if (!found.text_high)
        return false;
    if (!image_find_function(&found, symbols[HOOK_cuMemAlloc_v2], NULL)) {
        atomic_store(&handle, loader_open_loaded(driver_name));
        atomic_store(&by_loader, true);
        if (!atomic_load(&handle))
            return false;
    }
    driver = found;
    for (int i = 0; i < HOOKS; i++)
        __atomic_store_n(&real_entries[i], find(&found, symbols[i]), __ATOMIC_RELAXED);
    atomic_store(&loader_before_unload, real_hold);
    atomic_store_explicit(&driver_known, true, memory_order_release);
    return true;
}

void *real_find(const char *name) {
    return atomic_load_explicit(&driver_known, memory_order_acquire) ? find(&driver, name) : NULL;
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
