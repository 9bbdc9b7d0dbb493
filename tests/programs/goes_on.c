/* A context goes on behind a call that could have ended it, and all that is in it: `detached`, a
 * use of it ends that is not the last; `refused`, it is a primary one, which nobody destroys. Then
 * a capture goes on in it, and its memory is told of, read and freed, also by calls that fail
 * first. */
#include "driver/cuda_api.h"
#include "program.h"

#include <string.h>

extern CUresult cuCtxAttach(CUcontext *context, unsigned flags);

enum { BLOCKS = 6, SIZE = 3 << 20 };

#define TELL(call) printf("%s: %d\n", #call, (int)(call))

static CUcontext context;

static void go_on(bool detached) {
    if (detached)
        TELL(cuCtxDetach(context));
    else
        TELL(cuCtxDestroy_v2(context));
}

/* In relaxed mode whatever the thread does beside the capture leaves it valid. */
static void capture_beside(bool detached) {
    CUstream stream;
    CUgraph graph;
    CUdeviceptr block;
    TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TELL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    go_on(detached);
    TELL(cuMemAlloc_v2(&block, SIZE));
    TELL(cuMemsetD8_v2(block, 1, SIZE));
    TELL(cuMemFree_v2(block));
    TELL(cuStreamEndCapture(stream, &graph));
    TELL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    go_on(detached);
    TELL(cuMemAlloc_v2(&block, SIZE)); /* is prohibited */
    TELL(cuStreamEndCapture(stream, &graph));
}

static void tell_content(CUdeviceptr block) {
    unsigned char byte = 0;
    CUresult result = cuMemcpyDtoH_v2(&byte, block + SIZE - 1, 1);
    printf("%d, holds %d\n", (int)result, byte);
}

int main(int argc, char **argv) {
    bool detached = argc > 1 && strcmp(argv[1], "detached") == 0;
    CUcontext attached;
    CUdeviceptr blocks[BLOCKS], base;
    size_t bytes;
    TELL(cuInit(0));
    if (detached) {
        TELL(cuCtxCreate_v2(&context, 0, 0));
        for (int i = 0; i < 3; i++)
            TELL(cuCtxAttach(&attached, 0));
    } else {
        TELL(cuDevicePrimaryCtxRetain(&context, 0));
        TELL(cuCtxSetCurrent(context));
    }
    for (int i = 0; i < BLOCKS; i++) {
        TELL(cuMemAlloc_v2(&blocks[i], SIZE));
        TELL(cuMemsetD8_v2(blocks[i], (unsigned char)(i + 1), SIZE));
    }
    capture_beside(detached);
    go_on(detached);
    TELL(cuMemGetAddressRange_v2(&base, &bytes, blocks[0] + 1));
    printf("%d %zu\n", base == blocks[0], bytes);
    TELL(cuMemFreeHost((void *)(uintptr_t)blocks[0])); /* is no host memory */
    TELL(cuMemFreeAsync(blocks[0], NULL));
    TELL(cuCtxSetCurrent(NULL));
    TELL(cuMemFree_v2(blocks[1])); /* without a context */
    TELL(cuCtxSetCurrent(context));
    TELL(cuMemFree_v2(blocks[1]));
    TELL(cuMemFree_v2(blocks[1]));
    TELL(cuMemFreeAsync(blocks[2], NULL));
    TELL(cuStreamSynchronize(NULL));
    for (int i = 3; i < BLOCKS; i++) {
        tell_content(blocks[i]);
        TELL(cuMemFree_v2(blocks[i]));
    }
    if (detached) {
        TELL(cuCtxDetach(context));
        TELL(cuMemFree_v2(blocks[0]));
    }
    return 0;
}
