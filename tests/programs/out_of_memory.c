/* One kind of call on a device whose memory is used up, named by the first argument. With "freed"
 * as the second all of it has been freed before the call, with "held" none has. The third, if
 * given, is how often the call is made. Prints its last result and the runtime's last error. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>

#define CHECK(call) REQUIRE((int)(call) == 0)

enum { BLOCKS = 200, BIG = 16 << 20, SMALL = 2 << 20 };

static CUfunction fill;
static CUgraph graph;
static CUgraphExec executable;
static CUstream capturing;
static CUdeviceptr kept;

static int alloc(void) {
    void *pointer;
    return (int)cudaMalloc(&pointer, 100 << 20);
}

static int pitch(void) {
    void *pointer;
    size_t chosen;
    return (int)cudaMallocPitch(&pointer, &chosen, 1 << 20, 100);
}

static int volume(void) {
    struct cudaPitchedPtr pointer;
    return (int)cudaMalloc3D(&pointer, (struct cudaExtent){1 << 10, 1 << 10, 100});
}

static int alloc_async(void) {
    void *pointer;
    return (int)cudaMallocAsync(&pointer, 100 << 20, NULL);
}

static int physical(void) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    return (int)cuMemCreate(&handle, 100 << 20, &properties, 0);
}

static const struct cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat};

static int array(void) {
    CUarray made;
    CUDA_ARRAY_DESCRIPTOR description = {4096, 4096, CU_AD_FORMAT_FLOAT, 1};
    return (int)cuArrayCreate_v2(&made, &description);
}

static int array_3d(void) {
    CUarray made;
    CUDA_ARRAY3D_DESCRIPTOR description = {1024, 1024, 16, CU_AD_FORMAT_FLOAT, 1, 0};
    return (int)cuArray3DCreate_v2(&made, &description);
}

/* The driver may have made some of its levels when it finds no room for the next. */
static int mipmapped_array(void) {
    CUmipmappedArray made;
    CUDA_ARRAY3D_DESCRIPTOR description = {4096, 4096, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    return (int)cuMipmappedArrayCreate(&made, &description, 8);
}

static int runtime_array(void) {
    cudaArray_t made;
    return (int)cudaMallocArray(&made, &floats, 4096, 4096, cudaArrayDefault);
}

static int runtime_array_3d(void) {
    cudaArray_t made;
    return (int)cudaMalloc3DArray(&made, &floats, (struct cudaExtent){1024, 1024, 16},
                                  cudaArrayDefault);
}

static int runtime_mipmapped_array(void) {
    cudaMipmappedArray_t made;
    return (int)cudaMallocMipmappedArray(&made, &floats, (struct cudaExtent){4096, 4096, 0}, 8,
                                         cudaArrayDefault);
}

static int module(void) {
    CUmodule loaded;
    return (int)cuModuleLoadData(&loaded, sample_kernels_ptx);
}

static int stream(void) {
    cudaStream_t made;
    return (int)cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
}

static int event(void) {
    cudaEvent_t made;
    return (int)cudaEventCreate(&made);
}

static int context(void) {
    CUcontext made;
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    return (int)create(&made, 0, 0);
}

static int instantiate(void) {
    cudaGraphExec_t made;
    return (int)cudaGraphInstantiateWithFlags(&made, graph, 0);
}

static int graph_launch(void) {
    return (int)cudaGraphLaunch(executable, NULL);
}

static int launch(void) {
    uint64_t count = 16;
    uint32_t value = 3;
    void *arguments[] = {&kept, &count, &value};
    return (int)cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
}

/* Allowed in a relaxed capture: the release and the retry are, too. */
static int in_capture(void) {
    CUdeviceptr pointer;
    CHECK(cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    int result = (int)cuMemAlloc_v2(&pointer, 100 << 20);
    CHECK(cuStreamEndCapture(capturing, &graph));
    return result;
}

static const struct {
    const char *name;
    int (*call)(void);
} cases[] = {
    {"alloc", alloc},
    {"pitch", pitch},
    {"volume", volume},
    {"alloc_async", alloc_async},
    {"physical", physical},
    {"array", array},
    {"array_3d", array_3d},
    {"mipmapped_array", mipmapped_array},
    {"runtime_array", runtime_array},
    {"runtime_array_3d", runtime_array_3d},
    {"runtime_mipmapped_array", runtime_mipmapped_array},
    {"module", module},
    {"stream", stream},
    {"event", event},
    {"context", context},
    {"instantiate", instantiate},
    {"graph_launch", graph_launch},
    {"launch", launch},
    {"in_capture", in_capture},
};

/* Everything that the cases need, while there is memory for it. */
static void prepare(void) {
    CUmodule loaded;
    CHECK(cudaFree(NULL)); /* makes the runtime's context */
    CHECK(cuModuleLoadData(&loaded, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fill, loaded, "fill_u32"));
    CHECK(cuMemAlloc_v2(&kept, 4096));
    CHECK(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemsetD8Async(kept, 1, 4096, capturing));
    CHECK(cuStreamEndCapture(capturing, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
}

static int use_up(void **blocks) {
    int count = 0;
    for (size_t size = BIG; size >= SMALL; size = size == BIG ? SMALL : 0)
        while (count < BLOCKS && cudaMalloc(&blocks[count], size) == cudaSuccess)
            count++;
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation ? 0 : 1);
    return count;
}

int main(int argc, char **argv) {
    static void *blocks[BLOCKS];
    REQUIRE(argc >= 3);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0)
            continue;
        prepare();
        int count = use_up(blocks);
        for (int b = 0; b < count && strcmp(argv[2], "freed") == 0; b++)
            CHECK(cudaFree(blocks[b]));
        int result = cases[i].call();
        for (int made = 1; argc > 3 && made < atoi(argv[3]); made++)
            result = cases[i].call();
        printf("%s: %d, last error %d\n", cases[i].name, result, (int)cudaPeekAtLastError());
        return 0;
    }
    REQUIRE(!"a case of that name");
}
