/* Memory allocated and freed outside and inside of a stream capture, in all four combinations, by
 * stream-ordered calls and by cuMemAlloc; prints what each call returned and what the graph wrote.
 */
#include "driver/cuda_api.h"
#include "program.h"

#include <stdbool.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 3 << 20, WORDS = 16 };

static CUstream stream;

/* One way to allocate and to free; inside: while `stream` is being captured. */
struct combination {
    const char *name;
    bool ordered; /* cuMemAllocAsync, else cuMemAlloc */
    bool allocated_inside, freed_inside;
};

static CUdeviceptr allocate(const struct combination *combination) {
    CUdeviceptr pointer = 0;
    CUresult result = combination->ordered ? cuMemAllocAsync(&pointer, BYTES, stream)
                                           : cuMemAlloc_v2(&pointer, BYTES);
    printf(" alloc %d", (int)result);
    return result == CUDA_SUCCESS ? pointer : 0;
}

/* Returns what is then left to be freed. */
static CUdeviceptr release(CUdeviceptr pointer) {
    if (!pointer)
        return 0;
    CUresult result = cuMemFreeAsync(pointer, stream);
    printf(" free %d", (int)result);
    return result == CUDA_SUCCESS ? 0 : pointer;
}

static void launch(CUgraph graph, CUdeviceptr pointer, bool freed) {
    CUgraphExec executable;
    unsigned words[WORDS] = {0};
    CUresult result = cuGraphInstantiateWithFlags(&executable, graph, 0);
    printf(" instantiate %d", (int)result);
    if (result != CUDA_SUCCESS)
        return;
    printf(" launch %d", (int)cuGraphLaunch(executable, stream));
    if (pointer && !freed) {
        CHECK(cuMemcpyDtoHAsync_v2(words, pointer, sizeof words, stream));
        CHECK(cuStreamSynchronize(stream));
        printf(" wrote %x", words[WORDS - 1]);
    }
    printf(" wait %d", (int)cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(executable));
}

static void try_combination(const struct combination *combination) {
    CUgraph graph = NULL;
    CUdeviceptr pointer = 0, left = 0;
    printf("%s:", combination->name);
    if (!combination->allocated_inside)
        pointer = allocate(combination);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (combination->allocated_inside)
        pointer = allocate(combination);
    if (pointer)
        printf(" fill %d", (int)cuMemsetD32Async(pointer, 0xabcd, WORDS, stream));
    if (combination->freed_inside)
        left = release(pointer);
    printf(" end %d", (int)cuStreamEndCapture(stream, &graph));
    if (graph) {
        launch(graph, pointer, combination->freed_inside);
        CHECK(cuGraphDestroy(graph));
    }
    if (!combination->freed_inside)
        left = pointer;
    release(left); /* what the capture refused to free is still there */
    printf(" at last %d\n", (int)cuStreamSynchronize(stream));
}

int main(void) {
    static const struct combination combinations[] = {
        {"ordered, outside, outside", true, false, false},
        {"ordered, outside, inside", true, false, true},
        {"ordered, inside, outside", true, true, false},
        {"ordered, inside, inside", true, true, true},
        {"plain, outside, outside", false, false, false},
        {"plain, outside, inside", false, false, true},
        {"plain, inside, outside", false, true, false},
        {"plain, inside, inside", false, true, true},
    };
    CUcontext context;
    size_t available, total;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof combinations / sizeof combinations[0]; i++)
            try_combination(&combinations[i]);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemGetInfo_v2(&available, &total));
    printf("all free: %d\n", total - available < (size_t)8 << 20);
    return 0;
}
