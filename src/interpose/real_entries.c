#include "interpose/real_entries.h"

#include "base/modules.h"
#include "interpose/image.h"
#include "interpose/loader.h"
#include "interpose/own_object.h"
#include "interpose/symbol_order.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Names stand in the table itself: a pointer to each would cost every program at its start. */
enum { NAME_SIZE = 40 };
static const char symbols[HOOKS][NAME_SIZE] = {
#define HOOK(name, base, since, per_thread, parameters) [HOOK_##name] = #name,
#include "interpose/hooks.def"
#undef HOOK
};

void *real_entries[HOOKS], *real_own[HOOKS];

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

/* Before driver_known: whether the driver stands behind us in the order of symbols, and whether
 * another tool's dlsym does. */
static bool in_order, other_dlsym;
static atomic_bool asks_others;

/* The definition that comes next behind ours in the order of symbols. Where programs only look the
 * driver up, such a definition is for nobody, and may find no driver behind itself: unless its
 * module hands it out by a dlsym of its own. */
static void *find_in_order(const char *name) {
    bool has_dlsym = false;
    uintptr_t next = symbol_order_next(name, &has_dlsym);
    return in_order || has_dlsym ? (void *)next : NULL; // NOLINT(performance-no-int-to-ptr)
}

/* What a call of that name is passed on to. ask: another tool's dlsym is asked, which may replace
 * the driver's own function as ours does. */
static void *find_next(const struct module *module, const char *name, bool ask) {
    void *next = find_in_order(name), *own = find(module, name);
    if (next && next != own)
        return next;
    void *answer = own && ask && other_dlsym ? loader_ask_next(atomic_load(&handle), name) : NULL;
    return answer ? answer : own;
}

static void fill(const struct module *module, bool ask) {
    for (int i = 0; i < HOOKS; i++) {
        __atomic_store_n(&real_own[i], find(module, symbols[i]), __ATOMIC_RELAXED);
        __atomic_store_n(&real_entries[i], find_next(module, symbols[i], ask), __ATOMIC_RELAXED);
    }
}

void real_ask_others(void) {
    if (!other_dlsym || atomic_load(&asks_others))
        return;
    fill(&driver, true);
    atomic_store(&asks_others, true);
}

void real_hold(void) {
    if (!atomic_load_explicit(&driver_known, memory_order_acquire) || atomic_load(&handle))
        return;
    void *none = NULL, *opened = loader_open_loaded(driver_name);
    if (!atomic_compare_exchange_strong(&handle, &none, opened))
        loader_close(opened);
}

/* While there is no driver: whose functions are called. Without `stand_in_module` it is whoever
 * stands behind us in the order of symbols. */
static _Atomic(const struct module *) stand_in_module;
static atomic_bool stands_in;

static void *find_stand_in(const char *name) {
    const struct module *module = atomic_load(&stand_in_module);
    bool has_dlsym;
    return (void *)(module ? image_find_function(module, name,
                                                 NULL) // NOLINT(performance-no-int-to-ptr)
                           : symbol_order_next(name, &has_dlsym));
}

static bool find_stand_in_module(uintptr_t caller) {
    const char *any = symbols[HOOK_cuMemAlloc_v2];
    bool has_dlsym;
    if (symbol_order_next(any, &has_dlsym))
        return true;
    struct module *module = malloc(sizeof *module); /* stays: other threads may be using it */
    const struct module *none = NULL;
    if (module && modules_find(caller, module) && !own_object_contains(caller) &&
        image_find_function(module, any, NULL) &&
        atomic_compare_exchange_strong(&stand_in_module, &none, module))
        return true;
    free(module);
    return atomic_load(&stand_in_module) != NULL;
}

bool real_stand_in(uintptr_t caller) {
    if (atomic_load_explicit(&driver_known, memory_order_acquire) || atomic_load(&stands_in))
        return true;
    if (!find_stand_in_module(caller))
        return false;
    for (int i = 0; i < HOOKS; i++)
        __atomic_store_n(&real_entries[i], find_stand_in(symbols[i]), __ATOMIC_RELAXED);
    atomic_store(&stands_in, true);
    return true;
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
    in_order = symbol_order_has(found.base);
    if (symbol_order_has_other_dlsym()) {
        void *none = NULL, *opened = loader_open_loaded(driver_name);
        if (!atomic_compare_exchange_strong(&handle, &none, opened))
            loader_close(opened);
        other_dlsym = atomic_load(&handle) != NULL;
    }
    fill(&found, false);
    atomic_store(&loader_before_unload, real_hold);
    atomic_store_explicit(&driver_known, true, memory_order_release);
    return true;
}

void *real_find(const char *name) {
    if (atomic_load_explicit(&driver_known, memory_order_acquire))
        return find_next(&driver, name, atomic_load(&asks_others));
    return atomic_load(&stands_in) ? find_stand_in(name) : NULL;
}

void *real_find_own(const char *name) {
    return atomic_load_explicit(&driver_known, memory_order_acquire) ? find(&driver, name) : NULL;
}

void *real_find_had(const char *name) {
    return real_find_own(name) ? real_find(name) : NULL;
}

bool real_is(const char *name, const void *found) {
    return found && real_find_own(name) &&
           (real_find_own(name) == found || find_next(&driver, name, true) == found);
}

bool real_stands_in(const char *name, uintptr_t address) {
    const void *next = real_find(name);
    struct module module;
    return next && next != real_find_own(name) && modules_find(address, &module) &&
           (uintptr_t)next >= module.text_low && (uintptr_t)next < module.text_high;
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
