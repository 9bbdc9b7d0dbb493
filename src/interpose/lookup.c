/* Lookups of driver functions by name: dlsym and both forms of cuGetProcAddress. The real lookup is
 * made first; only what it found is replaced, and only by a hook of exactly that form. */
#include "interpose/caller.h"
#include "interpose/hooks.h"
#include "interpose/loader.h"
#include "interpose/lookup.h"
#include "interpose/state.h"
#include "observe/stats.h"

void *lookup_dlsym(void *handle, const char *name) {
    void *(*real)(void *, const char *) = loader_resolve_dlsym();
    void *found = real ? real(handle, name) : NULL;
    if (!found || !state_enabled())
        return found;
    void *answer = hooks_replace_symbol(name, found);
    if (answer != found)
        stats_route(STATS_ROUTE_DLSYM);
    return answer;
}

static void replace(const char *name, void **function, enum stats_route route, uintptr_t caller) {
    if (!name || !function || !state_enabled())
        return;
    caller_note_lookup(caller);
    if (!*function)
        return;
    void *answer = hooks_replace_base(name, *function);
    if (answer != *function) {
        *function = answer;
        stats_route(route);
    }
}

CUresult hook_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
    if (!hooks_load() || !REAL(cuGetProcAddress))
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = REAL(cuGetProcAddress)(name, function, version, flags);
    if (result == CUDA_SUCCESS)
        replace(name, function, STATS_ROUTE_GET_PROC_ADDRESS,
                (uintptr_t)__builtin_return_address(0));
    return result;
}

CUresult hook_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                  void *status) {
    if (!hooks_load() || !REAL(cuGetProcAddress_v2))
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = REAL(cuGetProcAddress_v2)(name, function, version, flags, status);
    if (result == CUDA_SUCCESS)
        replace(name, function, STATS_ROUTE_GET_PROC_ADDRESS_V2,
                (uintptr_t)__builtin_return_address(0));
    return result;
}
