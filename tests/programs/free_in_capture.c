/* While a stream is being captured, cuMemFreeAsync frees a block in another stream. Natively that
 * neither fails nor disturbs the capture or the block beside it. In the legacy stream, beside a
 * blocking one that is captured, it is refused and ends the capture. */
#include "driver/cuda_api.h"
#include "program.h"

#include <string.h>

enum { SIZE = 1 << 16 };

#define TELL(call) printf("%s: %d\n", #call, (int)(call))

/* What is freed beside a capture in a non-blocking stream the driver may give to anyone. */
static void give_again(CUstream captured, CUstreamCaptureMode mode) {
    enum { FREED = 16, GIVEN = 64, MIB = 1 << 20 };
    CUdeviceptr freed[FREED], given[GIVEN], base;
    CUgraph graph;
    int errors = 0;
    size_t bytes;
    for (int i = 0; i < FREED; i++)
        errors += cuMemAlloc_v2(&freed[i], MIB) != CUDA_SUCCESS;
    TELL(cuStreamBeginCapture_v2(captured, mode));
    for (int i = 0; i < FREED; i++)
        errors += cuMemFreeAsync(freed[i], NULL) != CUDA_SUCCESS;
    TELL(cuMemFreeAsync(freed[0], NULL));
    TELL(cuStreamEndCapture(captured, &graph));
    TELL(cuStreamSynchronize(NULL));
    for (int i = 0; i < GIVEN; i++)
        errors += cuMemAllocAsync(&given[i], MIB, NULL) != CUDA_SUCCESS;
    for (int i = 0; i < GIVEN; i++) {
        errors += cuMemGetAddressRange_v2(&base, &bytes, given[i]) != CUDA_SUCCESS ||
                  base != given[i] || bytes != MIB;
        errors += cuMemFreeAsync(given[i], NULL) != CUDA_SUCCESS;
    }
    printf("errors of memory that is given again: %d\n", errors);
}

/* Nothing orders what is done to a block before the program has it before work in that stream. */
static void free_in_a_stream_of_another_context(CUstream captured, CUstreamCaptureMode mode) {
    enum { TIMES = 100, BYTES = 8 << 20 };
    CUcontext former, another;
    CUstream elsewhere;
    CUdeviceptr block;
    CUgraph graph;
    int errors = 0;
    TELL(cuCtxGetCurrent(&former));
    TELL(cuCtxCreate_v2(&another, 0, 0));
    TELL(cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING));
    TELL(cuCtxSetCurrent(former));
    for (int i = 0; i < TIMES; i++) {
        errors += cuMemAlloc_v2(&block, BYTES) != CUDA_SUCCESS;
        errors += cuStreamBeginCapture_v2(captured, mode) != CUDA_SUCCESS;
        errors += cuMemFreeAsync(block, elsewhere) != CUDA_SUCCESS;
        errors += cuStreamEndCapture(captured, &graph) != CUDA_SUCCESS;
        errors += cuCtxSynchronize() != CUDA_SUCCESS;
    }
    printf("errors of frees in a stream of another context: %d\n", errors);
    TELL(cuCtxDestroy_v2(another));
    TELL(cuCtxSetCurrent(former));
}

int main(int argc, char **argv) {
    CUcontext context, empty;
    CUstream captured, other, blocking;
    CUgraph graph;
    CUdeviceptr block, beside, again, kept;
    unsigned char bytes[SIZE];
    CUstreamCaptureMode mode = argc > 1 && strcmp(argv[1], "relaxed") == 0
                                   ? CU_STREAM_CAPTURE_MODE_RELAXED
                                   : CU_STREAM_CAPTURE_MODE_GLOBAL;
    TELL(cuInit(0));
    TELL(cuDevicePrimaryCtxRetain(&context, 0));
    TELL(cuCtxSetCurrent(context));
    TELL(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    TELL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    TELL(cuMemAlloc_v2(&block, SIZE));
    TELL(cuMemAlloc_v2(&beside, SIZE));
    TELL(cuMemsetD8_v2(beside, 7, SIZE));
    TELL(cuStreamBeginCapture_v2(captured, mode));
    TELL(cuMemFreeAsync(block, captured)); /* is no memory of a graph */
    TELL(cuStreamEndCapture(captured, &graph));
    TELL(cuStreamBeginCapture_v2(captured, mode));
    TELL(cuMemFreeAsync(block, other));
    TELL(cuStreamEndCapture(captured, &graph));
    TELL(cuMemFreeAsync(block, other));
    TELL(cuStreamSynchronize(other));
    give_again(captured, mode);
    free_in_a_stream_of_another_context(captured, mode);
    TELL(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    TELL(cuMemAlloc_v2(&kept, SIZE));
    TELL(cuStreamBeginCapture_v2(blocking, mode));
    TELL(cuMemFreeAsync(kept, NULL));
    TELL(cuStreamEndCapture(blocking, &graph));
    TELL(cuCtxCreate_v2(&empty, 0, 0)); /* nothing is allocated there */
    TELL(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    TELL(cuStreamBeginCapture_v2(blocking, mode));
    TELL(cuMemFreeAsync(kept, NULL));
    TELL(cuStreamEndCapture(blocking, &graph));
    TELL(cuCtxSetCurrent(context));
    TELL(cuMemFreeAsync(kept, NULL));
    TELL(cuMemFreeAsync(kept, NULL));
    TELL(cuStreamSynchronize(NULL));
    TELL(cuMemcpyDtoH_v2(bytes, beside, SIZE));
    printf("%d %d\n", bytes[0], bytes[SIZE - 1]);
    TELL(cuMemAlloc_v2(&again, SIZE));
    TELL(cuMemsetD8_v2(again, 9, SIZE));
    TELL(cuMemcpyDtoH_v2(bytes, beside, SIZE));
    printf("%d %d\n", bytes[0], bytes[SIZE - 1]);
    TELL(cuMemFree_v2(again));
    TELL(cuMemFree_v2(beside));
    TELL(cuMemFree_v2(beside));
    return 0;
}
