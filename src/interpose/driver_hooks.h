/* What the hooks of the driver's functions share.
 *
 * Every hook may be the first call into this library, may be called without libcuda (then whoever
 * stands in for it is called, or there is no driver to ask: NOT_INITIALIZED, as a program that
 * linked one would see before cuInit), and may be re-entered by the driver itself (then it only
 * forwards).
 */
#ifndef POOLCUDA_INTERPOSE_DRIVER_HOOKS_H
#define POOLCUDA_INTERPOSE_DRIVER_HOOKS_H

#include "interpose/caller.h"
#include "interpose/hooks.h"
#include "interpose/state.h"
#include "pool/pool.h"
#include "site_tag.h"

/* The site of the hook's call with that return address and frame: the tag that the program has
 * given, else its code. */
static inline void find_site(struct call_site *site, uintptr_t return_address, uintptr_t frame) {
    if (!site_tag_find(site))
        caller_find(site, return_address, frame, (unsigned)state_options()->site_depth);
}

/* The site of this call. Where it is inlined both builtins speak of the hook, which entry.S has
 * jumped to, so that they describe the program's own call. */
__attribute__((always_inline)) static inline void find_caller(struct call_site *site) {
    find_site(site, (uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa());
}

/* What the driver is to be asked about where the program asks about `pointer`: POOL_NOWHERE for
 * memory that natively does not exist, an idle block or what lies behind the program's own
 * request. */
CUdeviceptr hook_asked(struct pool *pool, CUdeviceptr pointer);
/* What the program may know of the pointer; for a live block also where it begins and the bytes
 * that were requested. */
enum pool_pointer_state hook_find(struct pool *pool, CUdeviceptr pointer, CUdeviceptr *base,
                                  size_t *bytes);

/* After QUICK_MISS: whether the driver has served the call, or else nothing has happened. */
static inline bool missed(struct pool *pool, CUdeviceptr *pointer, size_t bytes, uintptr_t site) {
    thread_marks.inside = true; /* pool_enter would cost a miss more than what it does */
    bool served = cache_miss(pool, pointer, bytes, site);
    thread_marks.inside = false;
    return served;
}

#endif
