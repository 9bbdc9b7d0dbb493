/* Copies: between contexts, rows of arrays, and several at once. */
#include "test_sim.h"

#include <string.h>

enum { SIZE = 4096 };

static CUdeviceptr allocate(size_t size) {
    CUdeviceptr pointer;

    assert_ok(cuMemAlloc_v2(&pointer, size));
    return pointer;
}

static uint32_t word(CUdeviceptr pointer) {
    uint32_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, pointer, sizeof value));
    return value;
}

static CUarray create_array(size_t width, size_t height, size_t depth, unsigned int channels) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = width,
                                     .Height = height,
                                     .Depth = depth,
                                     .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                     .NumChannels = channels};
    CUarray array;

    assert_ok(cuArray3DCreate_v2(&array, &shape));
    return array;
}

/* --- between contexts --- */

static void test_a_box_is_copied_from_one_device_to_the_other(void **state) {
    CUdeviceptr from = allocate(SIZE), to;
    unsigned char values[SIZE], back[SIZE];
    CUcontext other, other_context;
    CUDA_MEMCPY3D_PEER copy;
    CUstream stream;

    (void)state;
    for (int i = 0; i < SIZE; i++)
        values[i] = (unsigned char)(i % 251);
    assert_ok(cuMemcpyHtoD_v2(from, values, SIZE));
    assert_ok(cuDevicePrimaryCtxRetain(&other_context, 1));
    assert_ok(cuCtxPushCurrent_v2(other_context));
    to = allocate(SIZE);
    assert_ok(cuMemsetD8_v2(to, 0, SIZE));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuCtxPopCurrent_v2(&other));
    copy = (CUDA_MEMCPY3D_PEER){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = from,
                                .srcContext = test_context,
                                .srcPitch = 64,
                                .srcHeight = 8,
                                .srcXInBytes = 3,
                                .srcY = 1,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = to,
                                .dstContext = other_context,
                                .dstPitch = 32,
                                .dstHeight = 4,
                                .dstZ = 1,
                                .WidthInBytes = 20,
                                .Height = 4,
                                .Depth = 2};
    assert_ok(cuMemcpy3DPeer(&copy));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemcpyDtoH_v2(back, to, SIZE));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 32; x++)
                assert_int_equal(back[(1 + z) * 128 + y * 32 + x],
                                 x < 20 ? values[z * 512 + (1 + y) * 64 + 3 + x] : 0);
    assert_int_equal(back[0], 0);

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    copy.srcXInBytes = 4;
    assert_ok(cuMemcpy3DPeerAsync(&copy, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(to + 128) & 0xff, values[68]);
    copy.srcXInBytes = 5;
    assert_ok(cuMemcpy3DPeerAsync_ptsz(&copy, NULL));
    assert_ok(cuMemcpy3DPeer_ptds(&copy));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(word(to + 128) & 0xff, values[69]);
    copy.srcDevice = (CUdeviceptr)1 << 40;
    copy.srcMemoryType = (CUmemorytype)9;
    assert_int_equal(cuMemcpy3DPeer(&copy), CUDA_ERROR_INVALID_VALUE);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcContext = (CUcontext)(uintptr_t)&copy;
    assert_int_equal(cuMemcpy3DPeerAsync(&copy, stream), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuMemcpy3DPeerAsync(NULL, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy3DPeer(NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuMemFree_v2(to));
    assert_ok(cuMemFree_v2(from));
    assert_ok(cuDevicePrimaryCtxRelease_v2(1));
}

/* --- rows of arrays --- */

static void test_a_row_of_an_array_is_copied_in_all_directions(void **state) {
    CUarray array = create_array(16, 0, 0, 1), other = create_array(8, 0, 0, 1);
    CUdeviceptr memory = allocate(SIZE);
    uint32_t values[16], back[16] = {0};

    (void)state;
    for (uint32_t i = 0; i < 16; i++)
        values[i] = i * 3;
    assert_ok(cuMemcpyHtoA_v2(array, 0, values, sizeof values));
    assert_ok(cuMemcpyAtoA_v2(other, 4, array, 20, 28));
    assert_ok(cuMemcpyAtoD_v2(memory + 8, other, 4, 28));
    assert_ok(cuMemcpyDtoA_v2(array, 0, memory + 8, 8));
    assert_ok(cuMemcpyAtoH_v2(back, array, 0, sizeof back));
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(back[i], i < 2 ? (i + 5) * 3 : i * 3);
    /* as the per-thread forms do it */
    assert_ok(cuMemcpyHtoA_v2_ptds(array, 4, values, 8));
    assert_ok(cuMemcpyAtoA_v2_ptds(other, 0, array, 4, 8));
    assert_ok(cuMemcpyAtoD_v2_ptds(memory, other, 0, 8));
    assert_ok(cuMemcpyDtoA_v2_ptds(array, 56, memory, 8));
    assert_ok(cuMemcpyAtoH_v2_ptds(back, array, 56, 8));
    assert_int_equal(back[0], 0);
    assert_int_equal(back[1], 3);
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuArrayDestroy(array));
    assert_ok(cuArrayDestroy(other));
}

static void test_asynchronous_copies_of_rows_run_in_stream_order(void **state) {
    CUarray array = create_array(16, 0, 0, 1);
    uint32_t *pinned;
    CUstream stream;
    struct gate gate;

    (void)state;
    assert_ok(cuMemHostAlloc((void **)&pinned, 128, 0));
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate = gate_close(stream);
    pinned[0] = 1;
    assert_ok(cuMemcpyHtoAAsync_v2(array, 4, pinned, 4, stream));
    assert_ok(cuMemcpyAtoHAsync_v2(pinned + 16, array, 4, 4, stream));
    pinned[0] = 2; /* it is read when the stream gets there */
    pinned[16] = 7;
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(pinned[16], 2);
    pinned[0] = 3;
    assert_ok(cuMemcpyHtoAAsync_v2_ptsz(array, 0, pinned, 4, NULL));
    assert_ok(cuMemcpyAtoHAsync_v2_ptsz(pinned + 17, array, 0, 4, NULL));
    assert_ok(cuStreamSynchronize_ptsz(NULL));
    assert_int_equal(pinned[17], 3);
    gate_remove(gate);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuMemFreeHost(pinned));
    assert_ok(cuArrayDestroy(array));
}

static void test_copies_beyond_a_row_are_refused(void **state) {
    CUarray array = create_array(16, 0, 0, 1), wide = create_array(16, 0, 0, 4);
    CUarray flat = create_array(16, 2, 0, 1), none = (CUarray)(uintptr_t)&none;
    CUdeviceptr memory = allocate(SIZE);
    uint32_t values[16];

    (void)state;
    assert_int_equal(cuMemcpyHtoA_v2(array, 8, values, 60), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyHtoAAsync_v2(array, 68, values, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyAtoH_v2(values, array, 0, 65), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyAtoHAsync_v2(values, array, 65, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoA_v2(none, 0, memory, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyAtoD_v2(memory, none, 0, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyAtoD_v2(0, array, 0, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyAtoA_v2(wide, 0, array, 0, 16), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyAtoA_v2(array, 0, array, 32, 6), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyAtoH_v2(values, flat, 0, 4), CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuArrayDestroy(array));
    assert_ok(cuArrayDestroy(wide));
    assert_ok(cuArrayDestroy(flat));
}

#if CUDA_VERSION >= 12080

/* --- several at once --- */

static CUmemcpyAttributes attributes(CUmemcpySrcAccessOrder order) {
    return (CUmemcpyAttributes){.srcAccessOrder = order};
}

static CUstream create_stream(void) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* Copies one word from each of `from` to each of `to`. */
static CUresult copy_words(CUdeviceptr *to, CUdeviceptr *from, size_t count,
                           CUmemcpySrcAccessOrder order, CUstream stream) {
    size_t sizes[8] = {4, 4, 4, 4, 4, 4, 4, 4}, first = 0;
    CUmemcpyAttributes all = attributes(order);

    return cuMemcpyBatchAsync_v2(to, from, sizes, count, &all, &first, 1, stream);
}

static void test_all_copies_of_a_batch_are_done_in_stream_order(void **state) {
    CUstream stream = create_stream();
    CUdeviceptr memory = allocate(SIZE), to[2] = {memory + 100, memory + 200};
    CUdeviceptr from[2] = {memory, memory + 4};
    struct gate gate;

    (void)state;
    assert_ok(cuMemsetD32_v2(memory, 1, SIZE / 4));
    assert_ok(cuCtxSynchronize());
    gate = gate_close(stream);
    assert_ok(launch_fill(stream, memory, 1, 5));
    assert_ok(launch_fill(stream, memory + 4, 1, 6));
    assert_ok(copy_words(to, from, 2, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream));
    assert_ok(launch_fill(stream, memory, 2, 7));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(memory + 100), 5);
    assert_int_equal(word(memory + 200), 6);
    assert_int_equal(word(memory + 104), 1);
    from[0] = memory + 200;
    assert_ok(cuMemcpyBatchAsync_v2_ptsz(to, from, (size_t[]){4}, 1,
                                         &(CUmemcpyAttributes){.srcAccessOrder = 1}, &(size_t){0},
                                         1, NULL));
    assert_ok(cuStreamSynchronize_ptsz(NULL));
    assert_int_equal(word(memory + 100), 6);
    gate_remove(gate);
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* A source on the stack may change once the call is back; one that may be read at any time may be
 * read later, and nothing waits. */
static void test_the_order_of_the_source_says_when_it_is_read(void **state) {
    enum { LARGE = 1 << 20 }; /* more than is staged anyway */
    static unsigned char values[LARGE], later[LARGE];
    CUstream stream = create_stream();
    CUdeviceptr memory = allocate(2 * LARGE), to[2] = {memory, memory + LARGE};
    CUdeviceptr from[2] = {(uintptr_t)values, (uintptr_t)later};
    size_t sizes[2] = {LARGE, LARGE}, first[2] = {0, 1};
    CUmemcpyAttributes each[2] = {attributes(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL),
                                  attributes(CU_MEMCPY_SRC_ACCESS_ORDER_ANY)};
    struct gate gate;

    (void)state;
    memset(values, 1, LARGE);
    memset(later, 1, LARGE);
    gate = gate_close(stream);
    assert_ok(cuMemcpyBatchAsync_v2(to, from, sizes, 2, each, first, 2, stream)); /* returns */
    memset(values, 2, LARGE);
    memset(later, 2, LARGE);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(memory + LARGE - 4), 0x01010101);
    assert_int_equal(word(memory + 2 * LARGE - 4), 0x02020202);
    gate_remove(gate);
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_a_batch_with_a_bad_copy_does_nothing_and_says_which(void **state) {
    CUstream stream = create_stream();
    CUdeviceptr memory = allocate(SIZE), to[3] = {memory, memory + 4, memory + 8};
    CUdeviceptr from[3] = {memory + 100, memory + 100, memory + SIZE + (64 << 20)};
    size_t sizes[3] = {4, 4, 4}, first = 0, failed = 7;
    CUmemcpyAttributes all = attributes(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);

    (void)state;
    assert_ok(cuMemsetD32_v2(memory, 1, SIZE / 4));
    assert_ok(cuMemsetD32_v2(memory + 100, 2, 1));
    assert_int_equal(cuMemcpyBatchAsync(to, from, sizes, 3, &all, &first, 1, &failed, stream),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(failed, 2);
    from[1] = 0;
    assert_int_equal(cuMemcpyBatchAsync(to, from, sizes, 3, &all, &first, 1, &failed, stream),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(failed, 1);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(memory), 1);
    sizes[1] = sizes[2] = 0; /* nothing to copy, so nothing is wrong with where from */
    assert_ok(cuMemcpyBatchAsync(to, from, sizes, 3, &all, &first, 1, &failed, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(memory), 2);
    assert_ok(cuMemcpyBatchAsync_ptsz(to, from, sizes, 3, &all, &first, 1, NULL, NULL));
    assert_ok(cuStreamSynchronize_ptsz(NULL));
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_a_batch_has_valid_attributes_and_no_legacy_stream(void **state) {
    CUstream stream = create_stream();
    CUdeviceptr memory = allocate(SIZE), to[2] = {memory, memory + 4}, from[2] = {to[1], to[0]};
    size_t sizes[2] = {4, 4}, first[2] = {0, 1}, failed = 7;
    CUmemcpyAttributes each[2] = {attributes(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
                                  attributes(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID)};

    (void)state;
#define REFUSED(count, of, begins, number, where)                                                  \
    assert_int_equal(                                                                              \
        cuMemcpyBatchAsync(to, from, sizes, count, of, begins, number, &failed, where),            \
        CUDA_ERROR_INVALID_VALUE)
    REFUSED(2, each, first, 2, stream); /* an order that is none */
    assert_true(failed == SIZE_MAX);
    each[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    each[1].flags = 2;
    REFUSED(2, each, first, 2, stream);
    each[1].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
    assert_ok(cuMemcpyBatchAsync(to, from, sizes, 2, each, first, 2, &failed, stream));
    REFUSED(2, each, first, 2, NULL);
    REFUSED(2, each, first, 2, CU_STREAM_LEGACY);
    REFUSED(0, each, first, 2, stream);
    REFUSED(1, each, first, 2, stream); /* more attributes than copies */
    REFUSED(2, each, first, 0, stream);
    REFUSED(2, NULL, first, 1, stream);
    REFUSED(2, each, NULL, 1, stream);
    REFUSED(2, each, ((size_t[]){0, 2}), 2, stream);
    REFUSED(2, each, ((size_t[]){0, 0}), 2, stream);
    REFUSED(2, each, ((size_t[]){1}), 1, stream);
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_a_captured_batch_is_copies_side_by_side(void **state) {
    CUstream stream = create_stream();
    CUdeviceptr memory = allocate(SIZE), to[2] = {memory + 100, memory + 200};
    CUdeviceptr from[2] = {memory, memory + 4};
    CUstreamCaptureStatus status;
    CUgraphExec executable;
    size_t nodes, ends;
    CUgraph graph;

    (void)state;
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(launch_fill(stream, memory, 2, 5));
    assert_ok(copy_words(to, from, 2, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream));
    assert_int_equal(copy_words(to, from, 2, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, stream),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, NULL, &ends));
    assert_int_equal(ends, 2);
    assert_ok(launch_fill(stream, memory + 200, 1, 6));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 4);
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_int_equal(word(memory + 100), 0);
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(memory + 100), 5);
    assert_int_equal(word(memory + 200), 6);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* The detector sees what a batch writes. */
static void test_a_batch_into_memory_of_a_former_owner_is_a_hazard(void **state) {
    CUstream first = create_stream(), second = create_stream();
    CUdeviceptr memory = allocate(SIZE), other = allocate(SIZE);
    CUdeviceptr to[2] = {memory, memory + 4}, from[2] = {other, other + 4};
    uint64_t before = simcuda_hazards();

    (void)state;
    simcuda_owner_begin(memory, SIZE, 1);
    assert_ok(launch_fill(first, memory, 2, 1));
    simcuda_owner_end(memory, 1);
    simcuda_owner_begin(memory, SIZE, 2);
    assert_ok(copy_words(to, from, 2, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, second));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_hazards(), before + 1);
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuMemFree_v2(other));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

static CUmemcpy3DOperand pointer_operand(const void *memory, size_t row, size_t height) {
    return (CUmemcpy3DOperand){
        .type = CU_MEMCPY_OPERAND_TYPE_POINTER,
        .op.ptr = {.ptr = (uintptr_t)memory, .rowLength = row, .layerHeight = height}};
}

static CUmemcpy3DOperand array_operand(CUarray array, size_t x, size_t y, size_t z) {
    return (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_ARRAY,
                               .op.array = {.array = array, .offset = {x, y, z}}};
}

static void test_boxes_are_copied_to_and_from_arrays_in_their_elements(void **state) {
    CUarray array = create_array(8, 4, 2, 1), other = create_array(8, 4, 2, 1);
    CUstream stream = create_stream();
    uint32_t values[2][3][5], back[2 * 2 * 3];
    CUDA_MEMCPY3D_BATCH_OP copy = {.src = pointer_operand(values, 5, 3),
                                   .dst = array_operand(array, 1, 1, 0),
                                   .extent = {3, 2, 2},
                                   .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    (void)state;
    for (uint32_t i = 0; i < 30; i++)
        ((uint32_t *)values)[i] = i;
    assert_ok(cuMemcpy3DBatchAsync_v2(1, &copy, 0, stream));
    copy.src = array_operand(array, 1, 1, 0);
    copy.dst = array_operand(other, 5, 2, 0);
    assert_ok(cuMemcpy3DBatchAsync(1, &copy, NULL, 0, stream));
    copy.src = array_operand(other, 5, 2, 0);
    copy.dst = pointer_operand(back, 0, 0); /* tightly */
    assert_ok(cuMemcpy3DWithAttributesAsync(&copy, 0, stream));
    assert_ok(cuStreamSynchronize(stream));
    for (int z = 0, i = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 3; x++, i++)
                assert_int_equal(back[i], values[z][y][x]);
    memset(back, 0, sizeof back);
    assert_ok(cuMemcpy3DBatchAsync_v2_ptsz(1, &copy, 0, NULL));
    assert_ok(cuStreamSynchronize_ptsz(NULL));
    assert_int_equal(back[1], 1);
    memset(back, 0, sizeof back);
    assert_ok(cuMemcpy3DBatchAsync_ptsz(1, &copy, NULL, 0, NULL));
    assert_ok(cuMemcpy3DWithAttributesAsync_ptsz(&copy, 0, NULL));
    assert_ok(cuStreamSynchronize_ptsz(NULL));
    assert_int_equal(back[1], 1);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuArrayDestroy(array));
    assert_ok(cuArrayDestroy(other));
}

static void test_boxes_beyond_their_operands_are_refused(void **state) {
    CUarray array = create_array(8, 4, 2, 1), wide = create_array(8, 4, 2, 2);
    CUstream stream = create_stream();
    uint32_t values[512];
    CUDA_MEMCPY3D_BATCH_OP good = {.src = pointer_operand(values, 0, 0),
                                   .dst = array_operand(array, 0, 0, 0),
                                   .extent = {8, 4, 2},
                                   .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_MEMCPY3D_BATCH_OP copies[2];
    size_t failed;

    (void)state;
#define BAD(change)                                                                                \
    do {                                                                                           \
        copies[0] = copies[1] = good;                                                              \
        copies[1].change;                                                                          \
        failed = 7;                                                                                \
        assert_int_equal(cuMemcpy3DBatchAsync(2, copies, &failed, 0, stream),                      \
                         CUDA_ERROR_INVALID_VALUE);                                                \
        assert_int_equal(failed, 1);                                                               \
        assert_int_equal(cuMemcpy3DWithAttributesAsync(&copies[1], 0, stream),                     \
                         CUDA_ERROR_INVALID_VALUE);                                                \
    } while (0)
    BAD(extent.width = 9);
    BAD(extent.height = 5);
    BAD(extent.depth = 3);
    BAD(extent.depth = 0);
    BAD(dst.op.array.offset.x = 1);
    BAD(dst.op.array.array = (CUarray)(uintptr_t)values);
    BAD(src = array_operand(wide, 0, 0, 0)); /* elements of another size */
    BAD(src.op.ptr.rowLength = 7);
    BAD(src.op.ptr.layerHeight = 3);
    BAD(src.type = (CUmemcpy3DOperandType)3);
    BAD(srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID);
    assert_int_equal(cuMemcpy3DBatchAsync_v2(1, &good, 1, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy3DBatchAsync_v2(0, &good, 0, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy3DBatchAsync_v2(1, NULL, 0, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy3DBatchAsync_v2(1, &good, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy3DWithAttributesAsync(NULL, 0, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuArrayDestroy(array));
    assert_ok(cuArrayDestroy(wide));
}

static void test_one_copy_can_have_attributes(void **state) {
    CUmemcpyAttributes during = attributes(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
    CUmemcpyAttributes bad = attributes(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID);
    CUstream stream = create_stream();
    CUdeviceptr memory = allocate(SIZE);
    uint32_t value = 4;
    struct gate gate = gate_close(stream);

    (void)state;
    assert_ok(cuMemcpyWithAttributesAsync(memory, (uintptr_t)&value, 4, &during, stream));
    value = 5;
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(memory), 4);
    assert_ok(cuMemcpyWithAttributesAsync_ptsz(memory, (uintptr_t)&value, 4, &during, NULL));
    assert_ok(cuStreamSynchronize_ptsz(NULL));
    assert_int_equal(word(memory), 5);
    assert_int_equal(cuMemcpyWithAttributesAsync(memory, (uintptr_t)&value, 4, &bad, stream),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyWithAttributesAsync(memory, 0, 4, &during, stream),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyWithAttributesAsync(memory, memory, 4, NULL, stream),
                     CUDA_ERROR_INVALID_VALUE);
    gate_remove(gate);
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_box_is_copied_from_one_device_to_the_other),
        cmocka_unit_test(test_a_row_of_an_array_is_copied_in_all_directions),
        cmocka_unit_test(test_asynchronous_copies_of_rows_run_in_stream_order),
        cmocka_unit_test(test_copies_beyond_a_row_are_refused),
#if CUDA_VERSION >= 12080
        cmocka_unit_test(test_all_copies_of_a_batch_are_done_in_stream_order),
        cmocka_unit_test(test_the_order_of_the_source_says_when_it_is_read),
        cmocka_unit_test(test_a_batch_with_a_bad_copy_does_nothing_and_says_which),
        cmocka_unit_test(test_a_batch_has_valid_attributes_and_no_legacy_stream),
        cmocka_unit_test(test_a_captured_batch_is_copies_side_by_side),
        cmocka_unit_test(test_a_batch_into_memory_of_a_former_owner_is_a_hazard),
        cmocka_unit_test(test_boxes_are_copied_to_and_from_arrays_in_their_elements),
        cmocka_unit_test(test_boxes_beyond_their_operands_are_refused),
        cmocka_unit_test(test_one_copy_can_have_attributes),
#endif
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
