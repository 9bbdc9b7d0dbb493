/* A context goes on behind calls that could have ended it, and all that is in it. By the argument:
 *
 *   detached    a use of it ends that is not the last
 *   elsewhere   the same, while another one is current
 *   refused     it is a primary one, which nobody destroys
 *   destroyed_in_host_function, reset_in_host_function
 *               a host function may end none
 *   no_device   what is reset is no device's
 *
 * Then a capture goes on in it, and its memory is told of, read and freed, also by calls that fail
 * first; and what is idle does not lack. */
#include "driver/cuda_api.h"
#include "program.h"

#include <string.h>

enum { BLOCKS = 6, SIZE = 3 << 20 };

#define TELL(call) printf("%s: %d\n", #call, (int)(call))

static CUcontext context, another;

static void detach(void) {
    TELL(cuCtxDetach(context));
}

static void detach_elsewhere(void) {
    TELL(cuCtxSetCurrent(another));
    TELL(cuCtxDetach(context));
    TELL(cuCtxSetCurrent(context));
}

static void destroy(void) {
    TELL(cuCtxDestroy_v2(context));
}

static void CUDA_CB destroy_it(void *unused) {
    (void)unused;
    destroy();
}

static void CUDA_CB reset_it(void *unused) {
    (void)unused;
    TELL(cuDevicePrimaryCtxReset_v2(0));
}

static void reset_no_device(void) {
    TELL(cuDevicePrimaryCtxReset_v2(-1));
}

static void call_from(CUhostFn function) {
    CUstream stream;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    TELL(cuThreadExchangeStreamCaptureMode(&mode));
    TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE(cuLaunchHostFunc(stream, function, NULL) == CUDA_SUCCESS); /* which tells by itself */
    TELL(cuStreamSynchronize(stream));
    TELL(cuThreadExchangeStreamCaptureMode(&mode));
}

static void destroy_in_host_function(void) {
    call_from(destroy_it);
}

static void reset_in_host_function(void) {
    call_from(reset_it);
}

static const struct way {
    const char *name;
    bool created; /* the context, by cuCtxCreate */
    void (*go_on)(void);
} ways[] = {
    {"detached", true, detach},
    {"elsewhere", true, detach_elsewhere},
    {"refused", false, destroy},
    {"destroyed_in_host_function", true, destroy_in_host_function},
    {"reset_in_host_function", false, reset_in_host_function},
    {"no_device", false, reset_no_device},
};

static const struct way *find_way(const char *name) {
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    REQUIRE(!"a way of that name");
    return NULL;
}

/* In relaxed mode whatever the thread does beside the capture leaves it valid; in this one to
 * allocate is prohibited, in any context. */
static void capture_beside(void (*go_on)(void)) {
    CUstream stream;
    CUgraph graph;
    CUdeviceptr block;
    TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TELL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    go_on();
    TELL(cuCtxSetCurrent(another));
    TELL(cuMemAlloc_v2(&block, SIZE)); /* where some is idle */
    TELL(cuCtxSetCurrent(context));
    TELL(cuStreamEndCapture(stream, &graph));
    TELL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    go_on();
    TELL(cuMemAlloc_v2(&block, SIZE));
    TELL(cuMemsetD8_v2(block, 1, SIZE));
    TELL(cuMemFree_v2(block));
    TELL(cuStreamEndCapture(stream, &graph));
}

static void tell_content(CUdeviceptr block) {
    unsigned char byte = 0;
    CUresult result = cuMemcpyDtoH_v2(&byte, block + SIZE - 1, 1);
    printf("%d, holds %d\n", (int)result, byte);
}

static void make_context(bool created) {
    enum { USES = 6 };
    CUcontext attached;
    CUdeviceptr block;
    size_t available, total;
    TELL(cuInit(0));
    TELL(cuCtxCreate_v2(&another, 0, 0));
    TELL(cuMemGetInfo_v2(&available, &total));
    TELL(cuMemAlloc_v2(&block, available / 4)); /* idle from here on */
    TELL(cuMemFree_v2(block));
    if (!created) {
        TELL(cuDevicePrimaryCtxRetain(&context, 0));
        TELL(cuCtxSetCurrent(context));
        return;
    }
    TELL(cuCtxCreate_v2(&context, 0, 0));
    for (int i = 1; i < USES; i++)
        TELL(cuCtxAttach(&attached, 0));
}

/* Nearly all that was free before can be had once everything has been freed. */
static void allocate_what_was_free(size_t before) {
    CUdeviceptr block;
    TELL(cuMemAlloc_v2(&block, before / 20 * 19));
    TELL(cuMemFree_v2(block));
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    const struct way *way = find_way(argv[1]);
    CUdeviceptr blocks[BLOCKS], base;
    size_t bytes, before;
    make_context(way->created);
    TELL(cuMemGetInfo_v2(&before, &bytes));
    capture_beside(way->go_on); /* in a context where nothing was allocated */
    for (int i = 0; i < BLOCKS; i++) {
        TELL(cuMemAlloc_v2(&blocks[i], SIZE));
        TELL(cuMemsetD8_v2(blocks[i], (unsigned char)(i + 1), SIZE));
    }
    capture_beside(way->go_on);
    way->go_on();
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
    allocate_what_was_free(before);
    if (way->created) {
        TELL(cuCtxDestroy_v2(context));
        TELL(cuMemFree_v2(blocks[0]));
    }
    return 0;
}
