/* What the hooked driver functions do: hand over to the pool what is the pool's, forward the rest.
 *
 * Every hook may be the first call into this library, may be called without libcuda (then there is
 * no driver to ask: NOT_INITIALIZED, as a program that linked one would see before cuInit), and
 * may be re-entered by the driver itself (then it only forwards). */
#include "interpose/caller.h"
#include "interpose/hooks.h"
#include "interpose/state.h"

/* The pool if this call may use it: not for calls that the driver makes while serving one of ours.
 */
static struct pool *enter(void) {
    struct pool *pool = state_inside ? NULL : state_pool();
    state_inside = pool || state_inside;
    return pool;
}

static void leave(void) {
    state_inside = false;
}

#define REQUIRE_DRIVER(name)                                                                       \
    do {                                                                                           \
        if (!hooks_load() || !REAL(name))                                                          \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
    } while (0)

/* The site of this call. A macro: both builtins speak of the function they stand in, which entry.S
 * has jumped to, so that they describe the program's own call. */
#define FIND_CALLER(site)                                                                          \
    caller_find(site, (uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa(),    \
                (unsigned)state_options()->site_depth)

CUresult hook_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    REQUIRE_DRIVER(cuMemAlloc_v2);
    struct pool *pool = enter();
    if (!pool)
        return REAL(cuMemAlloc_v2)(pointer, bytes);
    struct call_site site;
    FIND_CALLER(&site);
    CUresult result = pool_malloc(pool, pointer, bytes, &site);
    leave();
    return result;
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                                 unsigned int element) {
    REQUIRE_DRIVER(cuMemAllocPitch_v2);
    struct pool *pool = enter();
    if (!pool)
        return REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    struct call_site site;
    FIND_CALLER(&site);
    CUresult result = pool_malloc_pitch(pool, pointer, pitch, width, height, element, &site);
    leave();
    return result;
}

CUresult hook_cuMemFree_v2(CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuMemFree_v2);
    struct pool *pool = enter();
    if (!pool)
        return REAL(cuMemFree_v2)(pointer);
    CUresult result = pool_free(pool, pointer);
    leave();
    return result;
}

/* The record goes first: once the driver has the memory back, another thread may be given it. */
static CUresult free_async(real_cuMemFreeAsync_function *real, CUdeviceptr pointer,
                           CUstream stream) {
    size_t requested;
    struct pool *pool = enter();
    if (!pool)
        return real(pointer, stream);
    if (pool_pointer_state(pool, pointer, &requested) == POOL_POINTER_IDLE) {
        leave(); /* natively it is free already */
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct pool_block *block = pool_disown(pool, pointer);
    CUresult result = real(pointer, stream);
    if (block && result == CUDA_SUCCESS)
        pool_disown_done(pool, block);
    else if (block)
        pool_readopt(pool, block);
    leave();
    return result;
}

CUresult hook_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    REQUIRE_DRIVER(cuMemFreeAsync);
    return free_async(REAL(cuMemFreeAsync), pointer, stream);
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
    REQUIRE_DRIVER(cuMemFreeAsync_ptsz);
    return free_async(REAL(cuMemFreeAsync_ptsz), pointer, stream);
}

CUresult hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    REQUIRE_DRIVER(cuMemGetInfo_v2);
    struct pool *pool = enter();
    if (!pool)
        return REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
    CUresult result = pool_mem_get_info(pool, free_bytes, total_bytes);
    leave();
    return result;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuMemGetAddressRange_v2);
    struct pool *pool = enter();
    if (!pool)
        return REAL(cuMemGetAddressRange_v2)(base, bytes, pointer);
    CUdeviceptr start = 0;
    size_t length = 0, requested = 0;
    CUresult result = REAL(cuMemGetAddressRange_v2)(&start, &length, pointer);
    leave();
    if (result != CUDA_SUCCESS)
        return result;
    switch (pool_pointer_state(pool, start, &requested)) {
    case POOL_POINTER_IDLE:
        return CUDA_ERROR_NOT_FOUND;
    case POOL_POINTER_LIVE:
        if (pointer - start >= requested)
            return CUDA_ERROR_NOT_FOUND;
        length = requested;
        break;
    case POOL_POINTER_UNKNOWN:
        break;
    }
    if (base)
        *base = start;
    if (bytes)
        *bytes = length;
    return CUDA_SUCCESS;
}

static void taint(CUresult result, CUdeviceptr pointer, enum pool_taint reason) {
    struct pool *pool = result == CUDA_SUCCESS && !state_inside ? state_pool() : NULL;
    if (pool)
        pool_taint(pool, pointer, reason);
}

CUresult hook_cuIpcGetMemHandle(void *handle, CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuIpcGetMemHandle);
    CUresult result = REAL(cuIpcGetMemHandle)(handle, pointer);
    taint(result, pointer, POOL_TAINT_IPC);
    return result;
}

CUresult hook_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr pointer, size_t bytes,
                                            int type, unsigned long long flags) {
    REQUIRE_DRIVER(cuMemGetHandleForAddressRange);
    CUresult result = REAL(cuMemGetHandleForAddressRange)(handle, pointer, bytes, type, flags);
    taint(result, pointer, POOL_TAINT_DMA_BUF);
    return result;
}

/* Attributes whose very reading ties something outside our sight to this allocation. */
static void taint_by_attribute(CUresult result, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
        taint(result, pointer, POOL_TAINT_P2P_TOKEN);
    else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID)
        taint(result, pointer, POOL_TAINT_BUFFER_ID);
}

CUresult hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuPointerGetAttribute);
    CUresult result = REAL(cuPointerGetAttribute)(data, attribute, pointer);
    taint_by_attribute(result, attribute, pointer);
    return result;
}

CUresult hook_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                     void **data, CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuPointerGetAttributes);
    CUresult result = REAL(cuPointerGetAttributes)(count, attributes, data, pointer);
    for (unsigned int i = 0; attributes && i < count; i++)
        taint_by_attribute(result, attributes[i], pointer);
    return result;
}

CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuPointerSetAttribute);
    CUresult result = REAL(cuPointerSetAttribute)(value, attribute, pointer);
    if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        taint(result, pointer, POOL_TAINT_SYNC_MEMOPS);
    return result;
}

/* Contexts that end: the pool lets go first, while their memory still exists. */

static void context_ending(CUcontext context) {
    struct pool *pool = enter();
    if (!pool)
        return;
    pool_context_ending(pool, context);
    leave();
}

static void device_ending(CUdevice device) {
    struct pool *pool = enter();
    if (!pool)
        return;
    pool_device_ending(pool, device);
    leave();
}

#define CONTEXT_HOOK(name)                                                                         \
    CUresult hook_##name(CUcontext context) {                                                      \
        REQUIRE_DRIVER(name);                                                                      \
        context_ending(context);                                                                   \
        return REAL(name)(context);                                                                \
    }
CONTEXT_HOOK(cuCtxDestroy)
CONTEXT_HOOK(cuCtxDestroy_v2)
CONTEXT_HOOK(cuCtxDetach)

/* Whether a release is the last one cannot be seen: the runtime's own retain does not come through
 * a function. So each one is treated as the last; that costs reuse, never correctness. */
#define PRIMARY_CONTEXT_HOOK(name)                                                                 \
    CUresult hook_##name(CUdevice device) {                                                        \
        REQUIRE_DRIVER(name);                                                                      \
        device_ending(device);                                                                     \
        return REAL(name)(device);                                                                 \
    }
PRIMARY_CONTEXT_HOOK(cuDevicePrimaryCtxRelease)
PRIMARY_CONTEXT_HOOK(cuDevicePrimaryCtxRelease_v2)
PRIMARY_CONTEXT_HOOK(cuDevicePrimaryCtxReset)
PRIMARY_CONTEXT_HOOK(cuDevicePrimaryCtxReset_v2)

/* A green context does not tell which CUcontext stood for it. */
CUresult hook_cuGreenCtxDestroy(void *green_context) {
    REQUIRE_DRIVER(cuGreenCtxDestroy);
    enum { MAX_DEVICES = 64 };
    for (CUdevice device = 0; device < MAX_DEVICES; device++)
        device_ending(device);
    return REAL(cuGreenCtxDestroy)(green_context);
}

/* Captures: counted from before the first call that could be part of one until one has ended. */

static CUresult capture_began(CUresult result, struct pool *pool) {
    if (pool && result != CUDA_SUCCESS)
        pool_capture_ended(pool);
    return result;
}

static struct pool *capture_begins(void) {
    struct pool *pool = state_inside ? NULL : state_pool();
    if (pool)
        pool_capture_began(pool);
    return pool;
}

#define BEGIN_CAPTURE(name, ...)                                                                   \
    do {                                                                                           \
        REQUIRE_DRIVER(name);                                                                      \
        struct pool *pool = capture_begins();                                                      \
        return capture_began(REAL(name)(__VA_ARGS__), pool);                                       \
    } while (0)

CUresult hook_cuStreamBeginCapture(CUstream stream) {
    BEGIN_CAPTURE(cuStreamBeginCapture, stream);
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream stream) {
    BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, stream);
}

CUresult hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    BEGIN_CAPTURE(cuStreamBeginCapture_v2, stream, mode);
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, stream, mode);
}

CUresult hook_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
                                          const void *edges, size_t count,
                                          CUstreamCaptureMode mode) {
    BEGIN_CAPTURE(cuStreamBeginCaptureToGraph, stream, graph, nodes, edges, count, mode);
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                               const CUgraphNode *nodes, const void *edges,
                                               size_t count, CUstreamCaptureMode mode) {
    BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz, stream, graph, nodes, edges, count, mode);
}

/* Success and these errors end the capture [cuda.h, cuStreamEndCapture]; others leave it running,
 * or there was none. */
static CUresult capture_ended(CUresult result) {
    switch (result) {
    case CUDA_SUCCESS:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: {
        struct pool *pool = state_inside ? NULL : state_pool();
        if (pool)
            pool_capture_ended(pool);
        break;
    }
    default:
        break;
    }
    return result;
}

CUresult hook_cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    REQUIRE_DRIVER(cuStreamEndCapture);
    return capture_ended(REAL(cuStreamEndCapture)(stream, graph));
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    REQUIRE_DRIVER(cuStreamEndCapture_ptsz);
    return capture_ended(REAL(cuStreamEndCapture_ptsz)(stream, graph));
}
