/* The hazard detector, on pools that recycle memory well and badly. */
#include "test_sim.h"

/* The smallest pool there is: it keeps one block and hands it out again. */
struct tiny_pool {
    CUdeviceptr idle;
    bool waits; /* on free, as the driver would; the broken one does not */
};

static CUdeviceptr pool_allocate(struct tiny_pool *pool, size_t size, uintptr_t site) {
    CUdeviceptr pointer = pool->idle;

    pool->idle = 0;
    if (pointer == 0)
        assert_ok(cuMemAlloc_v2(&pointer, size));
    simcuda_owner_begin(pointer, size, site); /* the program got it */
    return pointer;
}

static void pool_free(struct tiny_pool *pool, CUdeviceptr pointer, uintptr_t site) {
    simcuda_owner_end(pointer, site); /* the program gave it up */
    if (pool->waits)
        assert_ok(cuCtxSynchronize());
    pool->idle = pointer;
}

enum { COUNT = 1024, BYTES = COUNT * 4 };

/* Two owners in turn; the first one's work, behind a spinning kernel, is surely not done when the
 * second one's is submitted. Returns how many hazards that made. */
static uint64_t hazards_of(bool waits, CUstream first, CUstream second) {
    struct tiny_pool pool = {.waits = waits};
    uint64_t before = simcuda_hazards();
    struct gate gate = gate_close(first);
    CUdeviceptr pointer;

    pointer = pool_allocate(&pool, BYTES, 0x1000);
    assert_ok(launch_fill(first, pointer, COUNT, 1));
    if (waits)
        gate_open(gate); /* otherwise the pool would wait for ever */
    pool_free(&pool, pointer, 0x1001);
    pointer = pool_allocate(&pool, BYTES, 0x2000);
    assert_ok(launch_fill(second, pointer, COUNT, 2));
    gate_open(gate);
    assert_ok(cuMemFree_v2(pointer));
    gate_remove(gate);
    return simcuda_hazards() - before;
}

static CUstream create_stream(unsigned int flags) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, flags));
    return stream;
}

static void test_broken_pool_is_caught(void **state) {
    CUstream first = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = create_stream(CU_STREAM_NON_BLOCKING);

    (void)state;
    assert_int_equal(hazards_of(false, first, second), 1);
    assert_int_equal(hazards_of(true, first, second), 0);
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

/* The race is there even if the first owner's work happened to be done in time. */
static void test_luck_is_no_order(void **state) {
    CUstream first = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream third = create_stream(CU_STREAM_NON_BLOCKING);
    struct tiny_pool pool = {.waits = false};
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointer = pool_allocate(&pool, BYTES, 0x1000);

    (void)state;
    assert_ok(launch_fill(first, pointer, COUNT, 1));
    let_run(first);
    pool_free(&pool, pointer, 0x1001);
    pointer = pool_allocate(&pool, BYTES, 0x2000);
    assert_ok(launch_fill(second, pointer, COUNT, 2));
    let_run(second);
    assert_int_equal(simcuda_hazards() - before, 1);
    assert_ok(launch_fill(third, pointer, COUNT, 3)); /* the same pair of owners: one report */
    let_run(third);
    assert_int_equal(simcuda_hazards() - before, 1);
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
    assert_ok(cuStreamDestroy_v2(third));
}

/* What CUDA orders anyway needs no wait. */
static void test_ordered_reuse_is_no_hazard(void **state) {
    CUstream blocking = create_stream(CU_STREAM_DEFAULT);
    CUstream other = create_stream(CU_STREAM_DEFAULT);

    (void)state;
    assert_int_equal(hazards_of(false, blocking, blocking), 0); /* one stream */
    assert_int_equal(hazards_of(false, blocking, CU_STREAM_LEGACY), 0);
    assert_int_equal(hazards_of(false, CU_STREAM_LEGACY, blocking), 0);
    assert_int_equal(hazards_of(false, CU_STREAM_PER_THREAD, CU_STREAM_LEGACY), 0);
    assert_int_equal(hazards_of(false, blocking, other), 1); /* two blocking streams: no order */
    assert_int_equal(hazards_of(false, blocking, CU_STREAM_PER_THREAD), 1);
    assert_ok(cuStreamDestroy_v2(blocking));
    assert_ok(cuStreamDestroy_v2(other));
}

static void test_legacy_stream_leaves_non_blocking_ones_out(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);

    (void)state;
    assert_int_equal(hazards_of(false, stream, CU_STREAM_LEGACY), 1);
    assert_int_equal(hazards_of(false, CU_STREAM_LEGACY, stream), 1);
    assert_ok(cuStreamDestroy_v2(stream));
}

/* How the second owner's work comes to be ordered after the first one's. */
enum order {
    BY_EVENT,
    BY_EARLY_EVENT,
    BY_QUERY,
    BY_EVENT_SYNCHRONIZE,
    BY_CONTEXT_EVENT,
    BY_BLOCKING_COPY
};

static uint64_t hazards_with(enum order order) {
    CUstream first = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = create_stream(CU_STREAM_NON_BLOCKING);
    struct tiny_pool pool = {.waits = false};
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointer = pool_allocate(&pool, BYTES, 0x1000);
    uint32_t value;
    CUevent event;

    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (order == BY_EARLY_EVENT)
        assert_ok(cuEventRecord(event, first)); /* before the work: it covers nothing */
    assert_ok(launch_fill(first, pointer, COUNT, 1));
    if (order == BY_CONTEXT_EVENT)
        assert_ok(cuCtxRecordEvent(test_context, event));
    else if (order != BY_EARLY_EVENT)
        assert_ok(cuEventRecord(event, first));
    switch (order) {
    case BY_EVENT:
    case BY_EARLY_EVENT:
    case BY_CONTEXT_EVENT:
        assert_ok(cuStreamWaitEvent(second, event, 0));
        break;
    case BY_QUERY:
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            continue;
        break;
    case BY_EVENT_SYNCHRONIZE:
        assert_ok(cuEventSynchronize(event));
        break;
    case BY_BLOCKING_COPY:
        assert_ok(cuMemcpyDtoHAsync_v2(&value, pointer, sizeof value, first)); /* pageable */
        break;
    }
    pool_free(&pool, pointer, 0x1001);
    pointer = pool_allocate(&pool, BYTES, 0x2000);
    assert_ok(launch_fill(second, pointer, COUNT, 2));
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
    return simcuda_hazards() - before;
}

static void test_events_order(void **state) {
    (void)state;
    assert_int_equal(hazards_with(BY_EVENT), 0);
    assert_int_equal(hazards_with(BY_EARLY_EVENT), 1);
    assert_int_equal(hazards_with(BY_QUERY), 0);
    assert_int_equal(hazards_with(BY_EVENT_SYNCHRONIZE), 0);
    assert_int_equal(hazards_with(BY_CONTEXT_EVENT), 0);
    assert_int_equal(hazards_with(BY_BLOCKING_COPY), 0);
}

/* Reads of the former owner conflict with writes of the new one only. */
static void test_reads(void **state) {
    CUstream first = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = create_stream(CU_STREAM_NON_BLOCKING);
    struct tiny_pool pool = {.waits = false};
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointer, sum, other;
    uint64_t count = COUNT;

    (void)state;
    assert_ok(cuMemAlloc_v2(&sum, 8));
    assert_ok(cuMemAlloc_v2(&other, 8));
    pointer = pool_allocate(&pool, BYTES, 0x1000);
    assert_ok(launch("sum_u32", first, (void *[]){&pointer, &count, &sum}));
    pool_free(&pool, pointer, 0x1001);
    pointer = pool_allocate(&pool, BYTES, 0x2000);
    assert_ok(launch("sum_u32", second, (void *[]){&pointer, &count, &other}));
    let_run(first);
    let_run(second);
    assert_int_equal(simcuda_hazards() - before, 0);
    assert_ok(launch_fill(second, pointer, COUNT, 2));
    let_run(second);
    assert_int_equal(simcuda_hazards() - before, 1);
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuMemFree_v2(sum));
    assert_ok(cuMemFree_v2(other));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

/* A block split among owners: neighbours have nothing to do with each other. */
static void test_parts_of_a_block(void **state) {
    CUstream first = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = create_stream(CU_STREAM_NON_BLOCKING);
    uint64_t before = simcuda_hazards();
    CUdeviceptr block;

    (void)state;
    assert_ok(cuMemAlloc_v2(&block, 4 * BYTES));
    simcuda_owner_begin(block, BYTES, 1);
    simcuda_owner_begin(block + BYTES, BYTES, 2);
    assert_ok(launch_fill(first, block, COUNT, 1));
    assert_ok(launch_fill(second, block + BYTES, COUNT, 2));
    simcuda_owner_end(block, 3);
    simcuda_owner_begin(block, BYTES / 2, 4);
    simcuda_owner_begin(block + 2 * BYTES, BYTES, 5);
    assert_ok(launch_fill(second, block + 2 * BYTES, COUNT, 3));
    let_run(first);
    let_run(second);
    assert_int_equal(simcuda_hazards() - before, 0);
    assert_ok(launch_fill(second, block, COUNT / 2, 4));
    let_run(second);
    assert_int_equal(simcuda_hazards() - before, 1);
    assert_ok(cuMemFree_v2(block));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

/* The driver's own free waits for its context only: another context's work is left behind. */
static void test_release_under_foreign_work(void **state) {
    uint64_t before = simcuda_hazards();
    CUmodule module = test_module;
    CUcontext other;
    CUdeviceptr pointer;
    struct gate gate;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, BYTES));
    assert_ok(cuCtxCreate_v2(&other, 0, 1));
    assert_ok(cuModuleLoadData(&test_module, kernels_ptx));
    gate = gate_close(NULL);
    assert_ok(launch_fill(NULL, pointer, COUNT, 1));
    assert_ok(cuCtxPopCurrent_v2(NULL));
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuCtxPushCurrent_v2(other));
    gate_open(gate);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS); /* the memory is gone */
    assert_int_equal(simcuda_hazards() - before, 1);
    assert_ok(cuCtxDestroy_v2(other));
    test_module = module;
}

/* A graph outlives the memory that it was captured with. */
static void test_graph_of_a_former_owner(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    struct tiny_pool pool = {.waits = true};
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointer = pool_allocate(&pool, BYTES, 0x1000);
    CUgraphExec executable;
    CUgraph graph;

    (void)state;
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(launch_fill(stream, pointer, COUNT, 1));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphLaunch(executable, stream));
    let_run(stream);
    assert_int_equal(simcuda_hazards() - before, 0);
    pool_free(&pool, pointer, 0x1001);
    pointer = pool_allocate(&pool, BYTES, 0x2000);
    assert_ok(cuGraphLaunch(executable, stream));
    let_run(stream);
    assert_int_equal(simcuda_hazards() - before, 1);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* Two mappings side by side, which one owner has as one range. */
static void test_graph_over_two_mappings_of_one_owner(void **state) {
    enum { PAGE = 2 << 20, WORDS = 2 * PAGE / 4 };
    const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    uint64_t before = simcuda_hazards();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    CUgraphExec executable;
    CUgraph graph;

    (void)state;
    assert_ok(cuMemAddressReserve(&address, 2 * PAGE, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        assert_ok(cuMemCreate(&handle, PAGE, &on_device, 0));
        assert_ok(cuMemMap(address + i * PAGE, PAGE, 0, handle, 0));
        assert_ok(cuMemRelease(handle));
    }
    assert_ok(cuMemSetAccess(address, 2 * PAGE, &read_write, 1));
    simcuda_owner_begin(address, 2 * PAGE, 0x1000);
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(launch_fill(stream, address, WORDS, 1));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphLaunch(executable, stream));
    assert_int_equal(simcuda_hazards() - before, 0);
    assert_ok(cuStreamSynchronize(stream));
    simcuda_owner_end(address, 0x1001);
    simcuda_owner_begin(address, 2 * PAGE, 0x2000);
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_true(simcuda_hazards() - before > 0); /* another owner's is reported as before */
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuMemUnmap(address, 2 * PAGE));
    assert_ok(cuMemAddressFree(address, 2 * PAGE));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* The driver's own recycling of addresses is always safe. */
/* The host is ordered after nothing but what it has waited for. */
static void test_host_memory_is_touched_at_once(void **state) {
    uint64_t before = simcuda_hazards();
    struct gate gate = gate_close(NULL);
    void *memory;

    (void)state;
    assert_ok(cuMemHostAlloc(&memory, BYTES, 0));
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)memory;
    simcuda_owner_begin(pointer, BYTES, 0x1000);
    assert_ok(launch_fill(NULL, pointer, COUNT, 1));
    simcuda_owner_end(pointer, 0x1001);
    simcuda_owner_begin(pointer, BYTES, 0x2000); /* in the same stream, but the host is in none */
    simcuda_owner_end(pointer, 0x2001);
    gate_open(gate);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_hazards() - before, 1);
    simcuda_owner_begin(pointer, BYTES, 0x3000);
    assert_int_equal(simcuda_hazards() - before, 1);
    assert_ok(cuMemFreeHost(memory));
    gate_remove(gate);
}

/* However many owners a block has had by the time at which the first one's work runs. */
static void test_many_owners_of_queued_work(void **state) {
    CUstream first = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = create_stream(CU_STREAM_NON_BLOCKING);
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointer;
    struct gate gate;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, BYTES));
    gate = gate_close(first);
    for (uintptr_t i = 1; i <= 200; i++) { /* ordered by their stream */
        simcuda_owner_begin(pointer, BYTES, 2 * i);
        assert_ok(launch_fill(first, pointer, COUNT, 1));
        simcuda_owner_end(pointer, 2 * i + 1);
    }
    gate_open(gate);
    let_run(first);
    assert_int_equal(simcuda_hazards(), before);
    simcuda_owner_begin(pointer, BYTES, 0x1000);
    assert_ok(launch_fill(second, pointer, COUNT, 2)); /* this is not */
    simcuda_owner_end(pointer, 0x1001);
    simcuda_owner_begin(pointer, BYTES, 0x2000);
    let_run(second);
    assert_int_equal(simcuda_hazards(), before + 1);
    assert_ok(cuMemFree_v2(pointer));
    gate_remove(gate);
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

static void test_driver_reuse_is_no_hazard(void **state) {
    CUstream first = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = create_stream(CU_STREAM_NON_BLOCKING);
    uint64_t before = simcuda_hazards();

    (void)state;
    for (int i = 0; i < 10; i++) {
        CUdeviceptr pointer;

        assert_ok(cuMemAlloc_v2(&pointer, BYTES));
        simcuda_owner_begin(pointer, BYTES, 1);
        assert_ok(launch_fill(i % 2 == 0 ? first : second, pointer, COUNT, 1));
        simcuda_owner_end(pointer, 2);
        assert_ok(cuMemFree_v2(pointer));
    }
    assert_int_equal(simcuda_hazards() - before, 0);
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_pool_is_caught),
        cmocka_unit_test(test_luck_is_no_order),
        cmocka_unit_test(test_ordered_reuse_is_no_hazard),
        cmocka_unit_test(test_legacy_stream_leaves_non_blocking_ones_out),
        cmocka_unit_test(test_events_order),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_parts_of_a_block),
        cmocka_unit_test(test_release_under_foreign_work),
        cmocka_unit_test(test_graph_of_a_former_owner),
        cmocka_unit_test(test_graph_over_two_mappings_of_one_owner),
        cmocka_unit_test(test_host_memory_is_touched_at_once),
        cmocka_unit_test(test_many_owners_of_queued_work),
        cmocka_unit_test(test_driver_reuse_is_no_hazard),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
