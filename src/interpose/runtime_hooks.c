/* Runtime functions that allocate, where the runtime is a shared library: they only note who
 * called. Pooling happens in the driver hook below, so that the runtime keeps its own
 * initialisation, error state and callbacks. */
#include "interpose/runtime_hooks.h"

#include "base/modules.h"
#include "counters/stats.h"
#include "interpose/caller.h"
#include "interpose/go_between.h"
#include "interpose/image.h"
#include "interpose/loader.h"
#include "interpose/own_object.h"
#include "interpose/state.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* cudaError_t and cudaErrorInitializationError, without the runtime's headers: what a program sees
 * that calls one of these names and has no runtime at all. */
typedef int runtime_error;
enum { NO_RUNTIME = 3 };

/* struct cudaExtent: by value, like the runtime's. */
struct extent {
    size_t width, height, depth;
};

#define RUNTIME_NAMES(X)                                                                           \
    X(cudaMalloc, (void **pointer, size_t bytes), (pointer, bytes))                                \
    X(cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height),               \
      (pointer, pitch, width, height))                                                             \
    X(cudaMalloc3D, (void *pitched_pointer, struct extent extent), (pitched_pointer, extent))

enum runtime_name {
#define RUNTIME_NAME(name, parameters, arguments) RUNTIME_##name,
    RUNTIME_NAMES(RUNTIME_NAME)
#undef RUNTIME_NAME
        RUNTIME_NAME_COUNT
};

/* The runtime that the callers in one stretch of code are bound to. Entries are added and refreshed
 * under the lock, read without it and never freed. An entry holds while nothing was unloaded. */
struct binding {
    _Atomic uintptr_t text_low, text_high;
    _Atomic uint64_t unloads;
    _Atomic(void *) function[RUNTIME_NAME_COUNT];
    /* All bits if the callers' return addresses are sites; 0 where go-betweens are among them: what
     * is beyond those is looked for from the driver's hook, as behind a static runtime. */
    _Atomic uintptr_t noted;
    struct binding *next;
};
static _Atomic(struct binding *) bindings;

/* Definitions of one function outside of our module. A definition in the caller's own module counts
 * unless this module comes before ours: then it is an interposer, which wants the next one. */
struct definitions {
    const struct module *caller;
    const char *name, *version; /* as image_find_function takes them */
    uintptr_t found;            /* the last one */
    int count;
    bool past_us, caller_before_us;
};

static bool visit_definitions(const struct module *module, void *state) {
    struct definitions *definitions = state;
    if (own_object_contains(module->text_low)) {
        definitions->past_us = true;
        return true;
    }
    if (module->base == definitions->caller->base && !definitions->past_us) {
        definitions->caller_before_us = true;
        return true;
    }
    uintptr_t found = image_find_function(module, definitions->name, definitions->version);
    definitions->count += found != 0;
    if (found)
        definitions->found = found;
    return true;
}

/* The function if there is but one, so that it does not matter in which order the loader searches;
 * NULL otherwise. */
static void *find_only(const struct module *caller, const char *name, const char *version,
                       bool *caller_before_us) {
    struct definitions definitions = {.caller = caller, .name = name, .version = version};
    modules_each(visit_definitions, &definitions); /* in the order of the search */
    *caller_before_us = definitions.caller_before_us;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return definitions.count == 1 ? (void *)definitions.found : NULL;
}

/* What the loader would have bound the caller's import to without us. With two runtimes in the
 * process the symbol version tells them apart, or else the module's own dependencies do. Those are
 * also the only way to a runtime that was loaded RTLD_LOCAL. */
static void *ask_loader(const struct module *caller, bool caller_before_us, void *handle,
                        const char *name, const char *version) {
    void *found = NULL;
    if (version && *version) {
        found = loader_find_version(RTLD_NEXT, name, version);
        if (!found && handle)
            found = loader_find_version(handle, name, version);
    }
    if (!found)
        found = loader_find(RTLD_NEXT, name);
    if (!found && handle)
        found = loader_find(handle, name);
    uintptr_t address = (uintptr_t)found;
    if (caller_before_us && address >= caller->text_low && address < caller->text_high)
        return NULL;
    return found;
}

static struct binding *find_binding(uintptr_t address) {
    struct binding *binding = atomic_load_explicit(&bindings, memory_order_acquire);
    while (binding && (address < binding->text_low || address >= binding->text_high))
        binding = binding->next;
    return binding;
}

/* Looks the functions up without the lock, and without the loader where there is no choice: a
 * thread may have its lock that runs a module's constructor and waits for ours. */
static struct binding *bind_caller(uintptr_t return_address) {
    static const char names[][32] = {
#define RUNTIME_NAME(name, parameters, arguments) #name,
        RUNTIME_NAMES(RUNTIME_NAME)
#undef RUNTIME_NAME
    };
    struct module caller;
    void *functions[RUNTIME_NAME_COUNT], *handle = NULL;
    uint64_t unloads = atomic_load(&loader_unloads);
    if (!modules_find(return_address, &caller))
        return NULL;
    for (int i = 0; i < RUNTIME_NAME_COUNT; i++) {
        const char *version = image_import_version(&caller, names[i]);
        bool versioned = version && *version;
        bool before_us = false;
        functions[i] = find_only(&caller, names[i], versioned ? version : NULL, &before_us);
        if (functions[i])
            continue;
        if (!handle && !caller.executable)
            handle = loader_open_loaded(caller.path);
        functions[i] = ask_loader(&caller, before_us, handle, names[i], version);
    }
    loader_close(handle);

    if (functions[RUNTIME_cudaMalloc])
        state_enabled(); /* reads POOLCUDA_SITE_SKIP. Where there is no CUDA, nothing is started */
    lock_take(&loader_lock, LOCK_LOADER);
    struct binding *binding = find_binding(return_address);
    bool added = !binding;
    if (added)
        binding = calloc(1, sizeof *binding);
    if (binding) {
        for (int i = 0; i < RUNTIME_NAME_COUNT; i++)
            binding->function[i] = functions[i];
        binding->text_low = caller.text_low;
        binding->text_high = caller.text_high;
        binding->noted = go_between_shares_module(return_address) ? 0 : UINTPTR_MAX;
        binding->unloads = unloads;
    }
    if (binding && added) {
        binding->next = bindings;
        bindings = binding;
    }
    lock_drop(&loader_lock, LOCK_LOADER);
    return binding;
}

/* *caller, a return address, becomes what is to be noted of it. */
static void *forward_to(enum runtime_name name, uintptr_t *caller) {
    struct binding *binding = find_binding(*caller);
    if (!binding || !binding->function[name] || binding->unloads != loader_unloads)
        binding = bind_caller(*caller);
    if (!binding)
        return NULL;
    *caller &= atomic_load_explicit(&binding->noted, memory_order_relaxed);
    return binding->function[name];
}

/* A call, not a jump: the note is taken back on return, so it cannot be mistaken for that of a
 * later call. The runtime gives its caller's address no meaning. */
#define RUNTIME_HOOK(name, parameters, arguments)                                                  \
    __attribute__((visibility("default"))) runtime_error name parameters;                          \
    runtime_error name parameters {                                                                \
        uintptr_t caller = (uintptr_t)__builtin_return_address(0);                                 \
        runtime_error(*real) parameters;                                                           \
        *(void **)&real = forward_to(RUNTIME_##name, &caller);                                     \
        if (!real)                                                                                 \
            return NO_RUNTIME;                                                                     \
        stats_route(STATS_ROUTE_RUNTIME_SHARED);                                                   \
        uintptr_t previous = caller_note(caller);                                                  \
        runtime_error result = real arguments;                                                     \
        caller_note(previous);                                                                     \
        return result;                                                                             \
    }
RUNTIME_NAMES(RUNTIME_HOOK)

void *runtime_malloc(size_t bytes, uintptr_t caller) {
    void *pointer = NULL;
    runtime_error (*real)(void **, size_t);
    *(void **)&real = forward_to(RUNTIME_cudaMalloc, &caller);
    if (!real) /* one that comes before us in the order of the search */
        *(void **)&real = loader_find(RTLD_DEFAULT, "cudaMalloc");
    if (!real)
        return NULL;
    uintptr_t previous = caller_note(caller);
    runtime_error result = real(&pointer, bytes);
    caller_note(previous);
    return result == 0 ? pointer : NULL;
}
