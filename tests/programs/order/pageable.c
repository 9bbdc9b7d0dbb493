/* Ways in which an address of plain host memory gets to a kernel, where kernels reach such memory.
 * Each case frees a block right behind that work: natively the host then reads what it has written.
 */
#include "fill_behind.h"
#include "order.h"

#include <sys/mman.h>

/* LAUNCHES: after so many what was learnt of addresses is forgotten. */
enum { VALUE = 7, BUSY_NS = 20000000, PLAIN_FREES = 10, LAUNCHES = 600 };

static struct place place;
static CUdeviceptr block;

/* The arguments of fill_u32. */
struct filling {
    CUdeviceptr to;
    uint64_t count;
    uint32_t value;
};

static struct filling filling_of(const volatile uint32_t *memory) {
    return (struct filling){(CUdeviceptr)(uintptr_t)memory, WORDS, VALUE};
}

#define ARGUMENTS(filling)                                                                         \
    (void *[]) {                                                                                   \
        &(filling).to, &(filling).count, &(filling).value                                          \
    }

static volatile uint32_t *plain_memory(void) {
    volatile uint32_t *memory = calloc(WORDS, sizeof *memory);
    REQUIRE(memory != NULL);
    return memory;
}

static void start(void) {
    place = primary_place(0);
    block = allocate(BYTES);
    keep_busy(&place, BUSY_NS, NULL);
}

static void see(const volatile uint32_t *memory) {
    release(block);
    printf("the host reads %u\n", memory[WORDS - 1]);
}

static void fill_plain(volatile uint32_t *memory) {
    struct filling filling = filling_of(memory);
    start();
    launch(place.fill, ARGUMENTS(filling), NULL);
    see(memory);
}

static void parameter(void) {
    fill_plain(plain_memory());
}

static void of_the_stack(void) {
    volatile uint32_t memory[WORDS] = {0};
    fill_plain(memory);
}

static void of_a_mapping(void) {
    volatile uint32_t *memory =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    fill_plain(memory);
}

/* When the address was given before, nothing could be read there. */
static void of_a_later_mapping(void) {
    void *at = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    place = primary_place(0);
    block = allocate(BYTES);
    CHECK(cuMemcpyHtoD_v2(block, &at, sizeof at));
    for (uint32_t i = 0; i < LAUNCHES; i++)
        fill(&place, block, i, NULL);
    REQUIRE(mprotect(at, BYTES, PROT_READ | PROT_WRITE) == 0);
    struct filling filling = filling_of(at);
    keep_busy(&place, BUSY_NS, NULL);
    launch(place.fill, ARGUMENTS(filling), NULL);
    see(at);
}

static void extra(void) {
    volatile uint32_t *memory = plain_memory();
    struct filling filling = filling_of(memory);
    size_t size = sizeof filling;
    void *buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &filling, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                      CU_LAUNCH_PARAM_END};
    start();
    CHECK(cuLaunchKernel(place.fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, buffer));
    see(memory);
}

static void configured(void) {
    volatile uint32_t *memory = plain_memory();
    struct filling filling = filling_of(memory);
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    start();
    CHECK(cuLaunchKernelEx(&config, place.fill, ARGUMENTS(filling), NULL));
    see(memory);
}

static void cooperative(void) {
    volatile uint32_t *memory = plain_memory();
    struct filling filling = filling_of(memory);
    start();
    CHECK(cuLaunchCooperativeKernel(place.fill, 1, 1, 1, 1, 1, 1, 0, NULL, ARGUMENTS(filling)));
    see(memory);
}

/* A kernel of a library is no function of a context. */
static void of_a_library(void) {
    volatile uint32_t *memory = plain_memory();
    struct filling filling = filling_of(memory);
    CUlibrary library;
    CUkernel kernel;
    start();
    CHECK(cuLibraryLoadData(&library, sample_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    launch((CUfunction)kernel, ARGUMENTS(filling), NULL);
    see(memory);
}

/* The handle was before that of a function with fewer arguments. */
static void of_another_module(void) {
    volatile uint32_t *memory = calloc(2, BYTES);
    CUdeviceptr sum;
    uint64_t nothing = 0, one = 1;
    CUmodule module;
    CUfunction function;
    REQUIRE(memory != NULL);
    start();
    CHECK(cuMemsetD32Async(block, VALUE, WORDS, NULL));
    sum = block + BYTES / 2;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
        CHECK(cuModuleGetFunction(&function, module, "spin_ns"));
        launch(function, (void *[]){&nothing}, NULL);
        CHECK(cuModuleUnload(module));
        CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
        CHECK(cuModuleGetFunction(&function, module, "sum_u32"));
        if (i == ROUNDS - 1) {
            sum = (CUdeviceptr)(uintptr_t)&memory[WORDS];
            keep_busy(&place, BUSY_NS, NULL);
        }
        launch(function, (void *[]){&block, &one, &sum}, NULL);
        if (i < ROUNDS - 1)
            CHECK(cuModuleUnload(module));
    }
    see(memory + 1);
}

/* In device memory, from where the kernel takes it. */
static void behind(CUresult (*copy)(CUdeviceptr to, const void *from, size_t bytes)) {
    volatile uint32_t *memory = plain_memory();
    struct {
        CUdeviceptr to;
        uint64_t count;
    } where = {(CUdeviceptr)(uintptr_t)memory, WORDS};
    uint32_t value = VALUE;
    CUmodule module;
    CUfunction fill_behind;
    place = primary_place(0);
    block = allocate(BYTES);
    CUdeviceptr there = allocate(sizeof where);
    CHECK(cuModuleLoadData(&module, fill_behind_ptx));
    CHECK(cuModuleGetFunction(&fill_behind, module, "fill_behind_u32"));
    CHECK(copy(there, &where, sizeof where));
    keep_busy(&place, BUSY_NS, NULL);
    launch(fill_behind, (void *[]){&there, &value}, NULL);
    see(memory);
}

static void struct_copied(void) {
    behind(cuMemcpyHtoD_v2);
}

static CUresult copy_asynchronously(CUdeviceptr to, const void *from, size_t bytes) {
    return cuMemcpyHtoDAsync_v2(to, from, bytes, NULL);
}

static void struct_copied_asynchronously(void) {
    behind(copy_asynchronously);
}

static CUresult copy_anything(CUdeviceptr to, const void *from, size_t bytes) {
    return cuMemcpy(to, (CUdeviceptr)(uintptr_t)from, bytes);
}

static void struct_copied_from_anywhere(void) {
    behind(copy_anything);
}

static CUDA_KERNEL_NODE_PARAMS_v2 node_of(void **arguments) {
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = place.fill,
                                        .gridDimX = 1,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = 1,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = arguments};
}

static CUgraph graph_with(void **arguments, CUgraphNode *node) {
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = node_of(arguments);
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode_v2(node, graph, NULL, 0, &parameters));
    return graph;
}

static CUgraphExec made_of(CUgraph graph) {
    CUgraphExec executable;
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}

static void run_graph(CUgraphExec executable, const volatile uint32_t *memory) {
    CHECK(cuGraphLaunch(executable, NULL));
    see(memory);
}

static void node_added(void) {
    volatile uint32_t *memory = plain_memory();
    struct filling filling = filling_of(memory);
    CUgraphNode node;
    start();
    run_graph(made_of(graph_with(ARGUMENTS(filling), &node)), memory);
}

static void node_changed(void) {
    volatile uint32_t *memory = plain_memory();
    struct filling filling = filling_of(memory), harmless = filling;
    CUgraphNode node;
    start();
    harmless.to = block;
    CUgraph graph = graph_with(ARGUMENTS(harmless), &node);
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = node_of(ARGUMENTS(filling));
    CHECK(cuGraphKernelNodeSetParams_v2(node, &parameters));
    run_graph(made_of(graph), memory);
}

static void graph_updated(void) {
    volatile uint32_t *memory = plain_memory();
    struct filling filling = filling_of(memory), harmless = filling;
    CUgraphNode node;
    start();
    harmless.to = block;
    CUgraphExec executable = made_of(graph_with(ARGUMENTS(harmless), &node));
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = node_of(ARGUMENTS(filling));
    CHECK(cuGraphExecKernelNodeSetParams_v2(executable, node, &parameters));
    run_graph(executable, memory);
}

static void captured(void) {
    volatile uint32_t *memory = plain_memory();
    struct filling filling = filling_of(memory);
    CUgraph graph;
    start();
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch(place.fill, ARGUMENTS(filling), stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    run_graph(made_of(graph), memory);
}

/* What is copied at the launch is no address yet when the copy is captured. */
static void captured_source_changed(void) {
    volatile uint32_t *memory = plain_memory();
    static struct {
        CUdeviceptr at;
        uint64_t count;
    } where;
    uint32_t value = VALUE;
    CUmodule module;
    CUfunction fill_behind;
    CUgraph graph;
    start();
    CUdeviceptr there = allocate(sizeof where);
    CHECK(cuModuleLoadData(&module, fill_behind_ptx));
    CHECK(cuModuleGetFunction(&fill_behind, module, "fill_behind_u32"));
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemcpyHtoDAsync_v2(there, &where, sizeof where, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CUgraphExec executable = made_of(graph);
    where.at = (CUdeviceptr)(uintptr_t)memory;
    where.count = WORDS;
    CHECK(cuGraphLaunch(executable, NULL));
    CHECK(cuCtxSynchronize());
    keep_busy(&place, BUSY_NS, NULL);
    launch(fill_behind, (void *[]){&there, &value}, NULL);
    see(memory);
}

/* What the driver says of such an address does not matter: a newer one may take it. */
static void argument_of_a_memset(void) {
    static volatile uint32_t memory[WORDS];
    start();
    cuMemsetD32Async((CUdeviceptr)(uintptr_t)memory, VALUE, WORDS, NULL);
    see((const volatile uint32_t[WORDS]){[WORDS - 1] = VALUE});
}

static void argument_of_a_copy(void) {
    static volatile uint32_t memory[WORDS];
    start();
    cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)memory, place.kept, BYTES, NULL);
    see((const volatile uint32_t[WORDS]){[WORDS - 1] = VALUE});
}

static void argument_of_a_prefetch(void) {
    static volatile uint32_t memory[WORDS];
    start();
    CUresult (*prefetch)(CUdeviceptr, size_t, CUdevice, CUstream) = cuMemPrefetchAsync;
    prefetch((CUdeviceptr)(uintptr_t)memory, BYTES, 0, NULL);
    see((const volatile uint32_t[WORDS]){[WORDS - 1] = VALUE});
}

/* --- none is given --- */

/* Frees that may owe their waits: nothing but device memory is at work. */
static void free_plainly(void) {
    for (int i = 0; i < PLAIN_FREES; i++) {
        CUdeviceptr of_device = allocate(BYTES);
        fill(&place, of_device, VALUE, NULL);
        release(of_device);
    }
}

static void device_memory(void) {
    uint32_t words[WORDS];
    uint64_t numbers[] = {0,          1,           4096,          1000000,
                          3000000000, 0x400000001, 0x7ff00000000, ~(uint64_t)0};
    place = primary_place(0);
    block = allocate(BYTES);
    CHECK(cuMemcpyHtoD_v2(block, numbers, sizeof numbers));
    free_plainly();
    fill(&place, block, VALUE, NULL);
    CHECK(cuMemcpyDtoH_v2(words, block, sizeof words));
    release(block);
    printf("the host reads %u\n", words[WORDS - 1]);
}

/* Memory that the driver knows is waited for while there is any. */
static void pinned_before(void) {
    void *host;
    CUdeviceptr device;
    start();
    CHECK(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer_v2(&device, host, 0));
    fill(&place, device, VALUE, NULL);
    see(host);
    CHECK(cuMemFreeHost(host));
    free_plainly();
}

static const struct order_case cases[] = {
    {"parameter", parameter},
    {"of_the_stack", of_the_stack},
    {"of_a_mapping", of_a_mapping},
    {"of_a_later_mapping", of_a_later_mapping},
    {"extra", extra},
    {"configured", configured},
    {"cooperative", cooperative},
    {"of_a_library", of_a_library},
    {"of_another_module", of_another_module},
    {"struct_copied", struct_copied},
    {"struct_copied_asynchronously", struct_copied_asynchronously},
    {"struct_copied_from_anywhere", struct_copied_from_anywhere},
    {"node_added", node_added},
    {"node_changed", node_changed},
    {"graph_updated", graph_updated},
    {"captured", captured},
    {"captured_source_changed", captured_source_changed},
    {"argument_of_a_memset", argument_of_a_memset},
    {"argument_of_a_copy", argument_of_a_copy},
    {"argument_of_a_prefetch", argument_of_a_prefetch},
    {"device_memory", device_memory},
    {"pinned_before", pinned_before},
};

ORDER_MAIN(cases)
