/* The simulated runtime: graphs, arrays, textures, pools, boxes. */
#include "test_runtime.h"

#include <stdlib.h>
#include <string.h>

static void test_a_graph_of_kernels_copies_fills_and_calls_runs(void **state) {
    uint32_t *memory, result = 0, value = 6;
    uint64_t count = 1;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t fill_node, kernel_node, copy_node;

    (void)state;
    assert_ok(cudaMalloc((void **)&memory, 64));
    assert_ok(cudaGraphCreate(&graph, 0));
    struct cudaMemsetParams zeros = {
        .dst = memory, .value = 0xff, .elementSize = 1, .width = 64, .height = 1};
    assert_ok(cudaGraphAddMemsetNode(&fill_node, graph, NULL, 0, &zeros));
    void *arguments[] = {&memory, &count, &value};
    struct cudaKernelNodeParams kernel = {
        .func = &fill_host, .gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .kernelParams = arguments};
    assert_ok(cudaGraphAddKernelNode(&kernel_node, graph, &fill_node, 1, &kernel));
    uint32_t words[2] = {0, 0};
    assert_ok(cudaGraphAddMemcpyNode1D(&copy_node, graph, &kernel_node, 1, words, memory, 8,
                                       cudaMemcpyDeviceToHost));
    assert_ok(cudaGraphInstantiate(&executable, graph, 0));
    assert_ok(cudaGraphLaunch(executable, NULL));
    assert_ok(cudaDeviceSynchronize());
    assert_true(words[0] == 6 && words[1] == 0xffffffff);
    memset(&kernel, 0, sizeof kernel);
    assert_ok(cudaGraphKernelNodeGetParams(kernel_node, &kernel));
    assert_ptr_equal(kernel.func, &fill_host);
    kernel.kernelParams = arguments;
    value = 7;
    assert_ok(cudaGraphExecKernelNodeSetParams(executable, kernel_node, &kernel));
    assert_ok(cudaGraphExecMemcpyNodeSetParams1D(executable, copy_node, &result, memory, 4,
                                                 cudaMemcpyDeviceToHost));
    assert_ok(cudaGraphLaunch(executable, NULL));
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(result, 7);
    size_t nodes = 0;
    assert_ok(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 3);
    kernel.func = &counter_host;
    assert_fails(cudaErrorInvalidDeviceFunction,
                 cudaGraphAddKernelNode(&kernel_node, graph, NULL, 0, &kernel));
    (void)cudaGetLastError();
    assert_ok(cudaGraphExecDestroy(executable));
    assert_ok(cudaGraphDestroy(graph));
    assert_ok(cudaFree(memory));
}

static void test_a_copy_node_reaches_a_variable(void **state) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t node;
    uint32_t words[2] = {31, 32}, back = 0;

    (void)state;
    assert_ok(cudaGraphCreate(&graph, 0));
    assert_ok(cudaGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, &limits_host, words, 8, 0,
                                             cudaMemcpyHostToDevice));
    assert_fails(cudaErrorInvalidValue,
                 cudaGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, &limits_host, words, 8, 4,
                                                cudaMemcpyHostToDevice));
    (void)cudaGetLastError();
    assert_ok(cudaGraphInstantiate(&executable, graph, 0));
    assert_ok(cudaGraphLaunch(executable, NULL));
    assert_ok(cudaMemcpyFromSymbol(&back, &limits_host, 4, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(back, 32);
    assert_ok(cudaGraphExecDestroy(executable));
    assert_ok(cudaGraphDestroy(graph));
}

static void test_a_capture_tells_its_graph(void **state) {
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    cudaStream_t stream;
    cudaGraph_t graph, captured;
    void *memory;

    (void)state;
    assert_ok(cudaMalloc(&memory, 4));
    assert_ok(cudaStreamCreate(&stream));
    assert_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_ok(fill(memory, 1, 3, stream));
#if CUDART_VERSION >= 13000
    assert_ok(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, NULL, NULL, NULL));
#else
    assert_ok(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, NULL, NULL));
#endif
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_ok(cudaStreamEndCapture(stream, &captured));
    assert_ptr_equal(graph, captured);
    assert_ok(cudaGraphDestroy(captured));
    assert_ok(cudaStreamDestroy(stream));
    assert_ok(cudaFree(memory));
}

enum { WIDTH = 12, HEIGHT = 5, DEPTH = 3 };

static void test_boxes_are_copied_to_arrays_and_back(void **state) {
    static float box[DEPTH][HEIGHT][WIDTH], back[DEPTH][HEIGHT][WIDTH];
    struct cudaChannelFormatDesc element = {32, 0, 0, 0, cudaChannelFormatKindFloat}, told;
    struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH}, shape;
    cudaArray_t array;

    (void)state;
    for (int i = 0; i < DEPTH * HEIGHT * WIDTH; i++)
        ((float *)box)[i] = (float)i;
    assert_ok(cudaMalloc3DArray(&array, &element, extent, 0));
    assert_ok(cudaArrayGetInfo(&told, &shape, NULL, array));
    assert_memory_equal(&told, &element, sizeof told);
    assert_memory_equal(&shape, &extent, sizeof shape);
    struct cudaMemcpy3DParms copy = {.srcPtr = {box, WIDTH * sizeof(float), WIDTH, HEIGHT},
                                     .dstArray = array,
                                     .extent = extent,
                                     .kind = cudaMemcpyHostToDevice};
    assert_ok(cudaMemcpy3D(&copy));
    copy = (struct cudaMemcpy3DParms){.srcArray = array,
                                      .srcPos = {2, 1, 1}, /* elements of the array */
                                      .dstPtr = {back, WIDTH * sizeof(float), WIDTH, HEIGHT},
                                      .extent = {3, 2, 2},
                                      .kind = cudaMemcpyDeviceToHost};
    assert_ok(cudaMemcpy3D(&copy));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            assert_memory_equal(back[z][y], &box[z + 1][y + 1][2], 3 * sizeof(float));
    copy.kind = (enum cudaMemcpyKind)9;
    assert_fails(cudaErrorInvalidMemcpyDirection, cudaMemcpy3D(&copy));
    copy.kind = cudaMemcpyDeviceToHost;
    copy.srcPtr.ptr = box; /* two sources */
    assert_fails(cudaErrorInvalidValue, cudaMemcpy3D(&copy));
    (void)cudaGetLastError();
    assert_ok(cudaFreeArray(array));
}

static void test_rows_are_copied_to_arrays_and_back(void **state) {
    uint16_t rows[HEIGHT][WIDTH], back[HEIGHT][WIDTH];
    struct cudaChannelFormatDesc element =
        cudaCreateChannelDesc(16, 0, 0, 0, cudaChannelFormatKindUnsigned);
    size_t pitch = WIDTH * sizeof rows[0][0];
    cudaArray_t array, other;

    (void)state;
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        rows[i / WIDTH][i % WIDTH] = (uint16_t)i;
    memset(back, 0, sizeof back);
    assert_ok(cudaMallocArray(&array, &element, WIDTH, HEIGHT, 0));
    assert_ok(cudaMallocArray(&other, &element, WIDTH, HEIGHT, 0));
    assert_ok(cudaMemcpy2DToArray(array, 0, 0, rows, pitch, pitch, HEIGHT, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, pitch, HEIGHT,
                                       cudaMemcpyDeviceToDevice));
    assert_ok(
        cudaMemcpy2DFromArray(back, pitch, other, 0, 0, pitch, HEIGHT, cudaMemcpyDeviceToHost));
    assert_memory_equal(back, rows, sizeof rows);
    assert_ok(cudaFreeArray(array));
    assert_ok(cudaFreeArray(other));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* programs still call them */
static void test_bytes_run_on_in_the_next_rows_of_an_array(void **state) {
    enum { BEGINS = 3, BYTES = 2 * WIDTH + 2 };
    uint8_t rows[HEIGHT * WIDTH], back[BYTES], all[HEIGHT * WIDTH];
    struct cudaChannelFormatDesc element =
        cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    cudaArray_t array;

    (void)state;
    for (size_t i = 0; i < sizeof rows; i++)
        rows[i] = (uint8_t)(i + 1);
    assert_ok(cudaMallocArray(&array, &element, WIDTH, HEIGHT, 0));
    assert_ok(cudaMemcpyToArray(array, 0, 0, rows, sizeof rows, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpyFromArray(back, array, BEGINS, 0, BYTES, cudaMemcpyDeviceToHost));
    assert_memory_equal(back, rows + BEGINS, BYTES);
    memset(rows + WIDTH + BEGINS, 0, BYTES);
    assert_ok(cudaMemcpyToArrayAsync(array, BEGINS, 1, rows + WIDTH + BEGINS, BYTES,
                                     cudaMemcpyHostToDevice, NULL));
    assert_ok(cudaMemcpyFromArrayAsync(all, array, 0, 0, sizeof all, cudaMemcpyDeviceToHost, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    assert_memory_equal(all, rows, sizeof rows);
    assert_fails(cudaErrorInvalidValue,
                 cudaMemcpyToArray(array, 1, 0, rows, sizeof rows, cudaMemcpyHostToDevice));
    assert_fails(cudaErrorInvalidValue,
                 cudaMemcpyFromArray(all, array, 0, HEIGHT, 1, cudaMemcpyDeviceToHost));
    (void)cudaGetLastError();
    assert_ok(cudaFreeArray(array));
}
#pragma GCC diagnostic pop

static void test_a_texture_is_described_as_it_was(void **state) {
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeLinear}, told;
    struct cudaTextureDesc texture = {.addressMode = {cudaAddressModeClamp, cudaAddressModeClamp,
                                                      cudaAddressModeClamp},
                                      .readMode = cudaReadModeElementType},
                           settings;
    cudaTextureObject_t object;
    void *memory;

    (void)state;
    assert_ok(cudaMalloc(&memory, 4096));
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindSigned);
    resource.res.linear.sizeInBytes = 4096;
    assert_ok(cudaCreateTextureObject(&object, &resource, &texture, NULL));
    assert_ok(cudaGetTextureObjectResourceDesc(&told, object));
    assert_ptr_equal(told.res.linear.devPtr, memory);
    assert_memory_equal(&told.res.linear.desc, &resource.res.linear.desc,
                        sizeof told.res.linear.desc);
    assert_ok(cudaGetTextureObjectTextureDesc(&settings, object));
    assert_int_equal(settings.readMode, cudaReadModeElementType);
    assert_int_equal(settings.addressMode[1], cudaAddressModeClamp);
    assert_ok(cudaDestroyTextureObject(object));
    resource.res.linear.desc.x = 5;
    assert_fails(cudaErrorInvalidChannelDescriptor,
                 cudaCreateTextureObject(&object, &resource, &texture, NULL));
    (void)cudaGetLastError();
    assert_ok(cudaFree(memory));
}

static void test_a_pool_gives_memory_and_is_told_how_much_to_keep(void **state) {
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {.type = cudaMemLocationTypeDevice}};
    uint64_t threshold = 1 << 20, told = 0;
    cudaMemPool_t pool;
    void *memory;

    (void)state;
    assert_ok(cudaMemPoolCreate(&pool, &properties));
    assert_ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    assert_ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &told));
    assert_int_equal(told, threshold);
    assert_ok(cudaMallocFromPoolAsync(&memory, 100, pool, NULL));
    assert_ok(fill(memory, 1, 44, NULL));
    assert_int_equal(word_at(memory), 44);
    assert_ok(cudaFreeAsync(memory, NULL));
    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaMemPoolDestroy(pool));
}

static void test_a_box_is_filled_slice_by_slice(void **state) {
    struct cudaPitchedPtr box;
    struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};
    unsigned char bytes[DEPTH][HEIGHT][WIDTH];
    struct cudaMemcpy3DParms copy = {
        .dstPtr = {bytes, WIDTH, WIDTH, HEIGHT}, .extent = extent, .kind = cudaMemcpyDeviceToHost};

    (void)state;
    assert_ok(cudaMalloc3D(&box, extent));
    assert_ok(cudaMemset3D(box, 0x11, extent));
    assert_ok(cudaMemset3D(box, 0x22, (struct cudaExtent){WIDTH, HEIGHT - 1, DEPTH}));
    copy.srcPtr = box;
    assert_ok(cudaMemcpy3D(&copy));
    assert_int_equal(bytes[DEPTH - 1][HEIGHT - 2][WIDTH - 1], 0x22);
    assert_int_equal(bytes[DEPTH - 1][HEIGHT - 1][0], 0x11);
    assert_ok(cudaFree(box.ptr));
}

static void test_devices_are_told_and_tell_their_settings(void **state) {
    char id[32] = "";
    size_t limit = 0;
    int device = -1;

    (void)state;
    assert_ok(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    assert_ok(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    assert_int_equal(limit, 16 << 20);
    assert_ok(cudaDeviceGetPCIBusId(id, sizeof id, 1));
    assert_ok(cudaDeviceGetByPCIBusId(&device, id));
    assert_int_equal(device, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_graph_of_kernels_copies_fills_and_calls_runs),
        cmocka_unit_test(test_a_copy_node_reaches_a_variable),
        cmocka_unit_test(test_a_capture_tells_its_graph),
        cmocka_unit_test(test_boxes_are_copied_to_arrays_and_back),
        cmocka_unit_test(test_rows_are_copied_to_arrays_and_back),
        cmocka_unit_test(test_bytes_run_on_in_the_next_rows_of_an_array),
        cmocka_unit_test(test_a_texture_is_described_as_it_was),
        cmocka_unit_test(test_a_pool_gives_memory_and_is_told_how_much_to_keep),
        cmocka_unit_test(test_a_box_is_filled_slice_by_slice),
        cmocka_unit_test(test_devices_are_told_and_tell_their_settings),
    };
    return cmocka_run_group_tests(tests, register_image, unregister_image);
}
