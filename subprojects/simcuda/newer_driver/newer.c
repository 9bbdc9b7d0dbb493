/* Functions that no driver has: new ones, and newer forms whose arguments come in another order
 * than those of the forms that there are. */
#include "../driver/newer.h"

#include "../driver/cuda_symbols.h"

#include <string.h>

#define NEW(name, ...)                                                                             \
    SIM_EXPORT CUresult name(__VA_ARGS__);                                                         \
    SIM_EXPORT CUresult name(__VA_ARGS__)

NEW(cuStreamCreate_v2, unsigned int flags, CUstream *stream) {
    return cuStreamCreate(stream, flags);
}

NEW(cuStreamDestroy_v3, unsigned int flags, CUstream stream) {
    return flags ? CUDA_ERROR_INVALID_VALUE : cuStreamDestroy_v2(stream);
}

NEW(cuMemsetD8Async_v2, CUstream stream, CUdeviceptr pointer, unsigned char value, size_t count) {
    return cuMemsetD8Async(pointer, value, count, stream);
}

NEW(cuStreamBeginCapture_v3, CUstreamCaptureMode mode, CUstream stream) {
    return cuStreamBeginCapture_v2(stream, mode);
}

NEW(cuStreamBeginQuietCapture, CUstreamCaptureMode mode, CUstream stream) {
    return cuStreamBeginCapture_v2(stream, mode);
}

NEW(cuStreamEndQuietCapture, CUgraph *graph, CUstream stream) {
    return cuStreamEndCapture(stream, graph);
}

NEW(cuStreamEndCapture_v2, CUgraph *graph, CUstream stream) {
    return cuStreamEndCapture(stream, graph);
}

/* Ends a capture under a name that does not say so. */
NEW(cuStreamForget, CUstream stream) {
    CUgraph graph;
    CUresult result = cuStreamEndCapture(stream, &graph);

    return result == CUDA_SUCCESS ? cuGraphDestroy(graph) : result;
}

NEW(cuStreamIsCapturing_v2, CUstreamCaptureStatus *status, CUstream stream) {
    return cuStreamIsCapturing(stream, status);
}

NEW(cuMemPrefetchBatchAsync_v2, size_t count, CUstream stream, size_t unused,
    const CUdeviceptr *pointers, const size_t *sizes) {
    CUresult result = unused ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = cuMemPrefetchAsync_v2(
            pointers[i], sizes[i], (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE}, 0, stream);
    return result;
}

/* In a stream of its own, which does not keep the legacy stream's order. */
NEW(cuMemSparkle, CUdeviceptr pointer, size_t count) {
    static CUstream stream;
    CUresult result = stream ? CUDA_SUCCESS : cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

    return result == CUDA_SUCCESS ? cuMemsetD8Async(pointer, 42, count, stream) : result;
}

void *newer_function(const char *base) {
    static const struct {
        const char *base;
        void *function;
    } functions[] = {
        {"cuStreamCreate", (void *)cuStreamCreate_v2},
        {"cuStreamDestroy", (void *)cuStreamDestroy_v3},
        {"cuMemsetD8Async", (void *)cuMemsetD8Async_v2},
        {"cuMemPrefetchBatchAsync", (void *)cuMemPrefetchBatchAsync_v2},
        {"cuStreamBeginCapture", (void *)cuStreamBeginCapture_v3},
        {"cuStreamBeginQuietCapture", (void *)cuStreamBeginQuietCapture},
        {"cuStreamEndCapture", (void *)cuStreamEndCapture_v2},
        {"cuStreamEndQuietCapture", (void *)cuStreamEndQuietCapture},
        {"cuStreamForget", (void *)cuStreamForget},
        {"cuStreamIsCapturing", (void *)cuStreamIsCapturing_v2},
        {"cuMemSparkle", (void *)cuMemSparkle},
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(base, functions[i].base) == 0)
            return functions[i].function;
    return NULL;
}
