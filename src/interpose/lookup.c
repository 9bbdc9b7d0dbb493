/* Lookups of driver functions by name: dlsym and both forms of cuGetProcAddress. The real lookup is
 * made first; only what it found is replaced, and only by a hook of exactly that form. */
#include "interpose/lookup.h"
#include "counters/stats.h"
#include "interpose/absent.h"
#include "interpose/caller.h"
#include "interpose/entry_points.h"
#include "interpose/hooks.h"
#include "interpose/loader.h"
#include "interpose/own_object.h"
#include "interpose/state.h"
#include "interpose/symbol_order.h"

/* Whether a lookup found the driver's own function. A program without CUDA looks up names that
 * begin with "cu", too (curl_version, cuserid): it must not start the library, which reads the
 * options, makes files and complains. */
static bool is_drivers(const char *name, const void *found) {
    return found && real_load() && real_is(name, found);
}

void *lookup_dlsym(void *handle, const char *name) {
    void *(*real)(void *, const char *) = loader_resolve_dlsym();
    void *found = real ? real(handle, name) : NULL;
    if (own_object_contains((uintptr_t)found) && absent_from_handle(handle, name))
        return NULL;
    if (!is_drivers(name, found) || !state_enabled())
        return found;
    real_ask_others();
    if (real_stands_in(name, (uintptr_t)__builtin_return_address(0)))
        return found;
    void *ours = hooks_replace_symbol(name, found);
    if (ours != found) {
        real_hold();
        caller_note_lookup((uintptr_t)__builtin_return_address(0), name);
        stats_route(STATS_ROUTE_DLSYM);
    }
    return ours;
}

/* One lookup that the driver has answered with `result`. per_thread: what it found is the form that
 * takes a null stream for the calling thread's. */
struct answer {
    CUresult result;
    const char *name;
    void **function;
    bool per_thread;
    enum stats_route route;
};

/* Whether who asks is one whom calls of a form of that function are passed on to. */
static bool stands_behind(uintptr_t caller, const char *base) {
    if (!symbol_order_may_hook(caller))
        return false;
    for (unsigned i = entry_next_form(base, 0); i < ENTRIES; i = entry_next_form(base, i + 1))
        if (real_stands_in(entry_name(i), caller))
            return true;
    return false;
}

/* What the program gets for it. */
static CUresult give(const struct answer *answer, uintptr_t caller) {
    if (!answer->name || !real_load() || !state_enabled())
        return answer->result;
    caller_note_lookup(caller, answer->name);
    if (answer->result != CUDA_SUCCESS || !answer->function || !*answer->function ||
        stands_behind(caller, answer->name))
        return answer->result;
    void *ours = hooks_replace_base(answer->name, *answer->function, answer->per_thread);
    if (ours != *answer->function) {
        *answer->function = ours;
        stats_route(answer->route);
    }
    return answer->result;
}

CUresult hook_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (!real_has(HOOK_cuGetProcAddress, caller))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct answer answer = {REAL(cuGetProcAddress)(name, function, version, flags), name, function,
                            (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                            STATS_ROUTE_GET_PROC_ADDRESS};
    return give(&answer, caller);
}

CUresult hook_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                  void *status) {
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (!real_has(HOOK_cuGetProcAddress_v2, caller))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct answer answer = {REAL(cuGetProcAddress_v2)(name, function, version, flags, status), name,
                            function, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                            STATS_ROUTE_GET_PROC_ADDRESS_V2};
    return give(&answer, caller);
}
