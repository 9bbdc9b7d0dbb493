/* The public functions that allocate and free, for frameworks that take an allocator. */
#include "interpose/caller.h"
#include "interpose/checked.h"
#include "interpose/hooks.h"
#include "interpose/record.h"
#include "interpose/runtime_hooks.h"
#include "interpose/state.h"
#include "interpose/surroundings.h"
#include "peers/answer_requests.h"
#include "poolcuda.h"
#include "site_tag.h"

#define PUBLIC __attribute__((visibility("default")))

/* The public call that is being served. A macro, as both builtins speak of the function they stand
 * in. */
struct call {
    uintptr_t return_address, frame;
};
#define THIS_CALL                                                                                  \
    ((struct call){(uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa()})

/* The pool, until state_end_call. NULL: the driver's own functions are to be used. A pool that does
 * not see the program's captures, streams and ending contexts would not be safe. */
static struct pool *enter(void) {
    return surroundings_hooked() ? state_begin_call() : NULL;
}

/* The caller is the application, whatever module its code lies in. */
static void find_site(struct call_site *site, const struct call *call) {
    if (site_tag_find(site))
        return;
    uintptr_t previous = caller_note(call->return_address);
    caller_find(site, call->return_address, call->frame, (unsigned)state_options()->site_depth);
    caller_note(previous);
}

/* The current context's device; -1 without a context or a driver. */
static CUdevice current_device(void) {
    CUdevice device;
    CUresult (*ask)(CUdevice *);
    if (!real_load())
        return -1;
    *(void **)&ask = real_find("cuCtxGetDevice");
    return ask && ask(&device) == CUDA_SUCCESS ? device : -1;
}

/* For a thread without a context. */
static void *allocate_by_runtime(size_t bytes, int device, const struct call *call) {
    void *pointer = runtime_malloc(bytes, call->return_address);
    if (!pointer || current_device() == device)
        return pointer;
    hook_cuMemFree_v2((CUdeviceptr)(uintptr_t)pointer);
    return NULL;
}

static void *allocate(size_t bytes, int device, CUstream stream, const struct call *call) {
    CUdeviceptr pointer = 0;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    bool pushed;
    struct pool *pool = enter();
    if (pool && pool_push_device(pool, device, &pushed)) {
        struct call_site site;
        find_site(&site, call);
        result = checked_malloc(pool, &pointer, bytes, &site);
        record_alloc(result, &pointer, bytes, &site, stream);
        steer_look(pool, false);
        pool_pop_device(pool, pushed);
        state_end_call();
    } else {
        if (pool)
            state_end_call();
        CUdevice current = current_device();
        if (current < 0)
            return allocate_by_runtime(bytes, device, call);
        if (current == device && REAL(cuMemAlloc_v2))
            result = REAL(cuMemAlloc_v2)(&pointer, bytes);
    }
    return result == CUDA_SUCCESS ? (void *)(uintptr_t)pointer : NULL;
}

static void release(CUdeviceptr pointer, int device, CUstream stream, const struct call *call) {
    struct call_site at = {.depth = 0};
    bool pushed;
    struct pool *pool = pointer ? enter() : NULL;
    if (!pool) {
        if (pointer && real_load() && REAL(cuMemFree_v2))
            REAL(cuMemFree_v2)(pointer);
        return;
    }
    bool visiting = pool_push_device(pool, device, &pushed);
    if (state_options()->free_mode == POOL_FREE_AUTO)
        surroundings_look(pool);
    if (state_check())
        find_site(&at, call);
    if (stream && stream != CU_STREAM_LEGACY) /* no order of the legacy stream covers it */
        pool_work_pending(pool);
    uint64_t number = record_free(pointer, stream);
    CUresult result = record_freed(checked_free(pool, pointer, &at), number, pointer);
    steer_look(pool, visiting && result == CUDA_SUCCESS);
    if (visiting)
        pool_pop_device(pool, pushed);
    state_end_call();
}

PUBLIC void *poolcuda_malloc(ssize_t size, int device, void *stream) {
    return size > 0 && device >= 0 ? allocate((size_t)size, device, stream, &THIS_CALL) : NULL;
}

PUBLIC void poolcuda_free(void *pointer, ssize_t size, int device, void *stream) {
    (void)size;
    release((CUdeviceptr)(uintptr_t)pointer, device, stream, &THIS_CALL);
}

PUBLIC void *poolcuda_cupy_malloc(void *param, size_t size, int device) {
    (void)param;
    return size && device >= 0 ? allocate(size, device, NULL, &THIS_CALL) : NULL;
}

PUBLIC void poolcuda_cupy_free(void *param, void *pointer, int device) {
    (void)param;
    release((CUdeviceptr)(uintptr_t)pointer, device, NULL, &THIS_CALL);
}
