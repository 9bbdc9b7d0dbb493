/* Stream memory operations: waits for words of memory, and writes, in a stream's order. */
#include "test_sim.h"

#include <pthread.h>
#include <string.h>

static CUstream create_stream(void) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static CUdeviceptr allocate_device(void) {
    CUdeviceptr address;

    assert_ok(cuMemAlloc_v2(&address, 4096));
    assert_ok(cuMemsetD8_v2(address, 0, 4096));
    assert_ok(cuCtxSynchronize());
    return address;
}

static uint64_t *allocate_host(void) {
    void *memory;

    assert_ok(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(memory, 0, 4096);
    return memory;
}

static CUdeviceptr address_of(const void *memory) {
    return (CUdeviceptr)(uintptr_t)memory;
}

static uint32_t read_u32(CUdeviceptr address) {
    uint32_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, address, sizeof value));
    return value;
}

static uint64_t read_u64(CUdeviceptr address) {
    uint64_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, address, sizeof value));
    return value;
}

static void set(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static CUstreamBatchMemOpParams waits(CUdeviceptr address, uint32_t value, unsigned int flags) {
    return (CUstreamBatchMemOpParams){.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                    .address = address,
                                                    .value = value,
                                                    .flags = flags}};
}

static CUstreamBatchMemOpParams writes(CUdeviceptr address, uint32_t value) {
    return (CUstreamBatchMemOpParams){.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                     .address = address,
                                                     .value = value}};
}

static CUstreamBatchMemOpParams barrier(unsigned int flags) {
    return (CUstreamBatchMemOpParams){
        .memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER, .flags = flags}};
}

static CUstreamBatchMemOpParams flush(unsigned int flags) {
    return (CUstreamBatchMemOpParams){
        .flushRemoteWrites = {.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, .flags = flags}};
}

static void test_a_write_comes_after_the_work_before_it(void **state) {
    CUstream stream = create_stream();
    CUdeviceptr address = allocate_device();
    uint64_t *seen = allocate_host();
    struct gate gate = gate_close(stream);

    (void)state;
    assert_ok(launch_fill(stream, address, 1, 1));
    assert_ok(cuStreamWriteValue32_v2(stream, address, 2, 0));
    assert_ok(cuStreamWriteValue64_v2(stream, address + 8, UINT64_MAX - 1, 0));
    assert_ok(cuMemcpyDtoHAsync_v2(seen, address, 4, stream));
    assert_ok(cuStreamWriteValue32_v2(stream, address, 3, 0));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(*seen, 0);
    gate_remove(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(*seen, 2);
    assert_int_equal(read_u32(address), 3);
    assert_int_equal(read_u32(address + 4), 0);
    assert_true(read_u64(address + 8) == UINT64_MAX - 1);
    assert_ok(cuMemFree_v2(address));
    assert_ok(cuMemFreeHost(seen));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* A wait of so many bits, first with a value that does not end it, then with one that does. */
static void check_condition(int bits, unsigned int flags, uint64_t value, uint64_t not_yet,
                            uint64_t there) {
    CUstream stream = create_stream();
    uint64_t *word = allocate_host(), *after = word + 1;

    set(word, not_yet);
    if (bits == 32)
        assert_ok(cuStreamWaitValue32_v2(stream, address_of(word), (uint32_t)value, flags));
    else
        assert_ok(cuStreamWaitValue64_v2(stream, address_of(word), value, flags));
    assert_ok(cuStreamWriteValue32_v2(stream, address_of(after), 1, 0));
    for (int i = 0; i < 3; i++)
        assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(__atomic_load_n(after, __ATOMIC_ACQUIRE), 0);
    set(word, there);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(__atomic_load_n(after, __ATOMIC_ACQUIRE), 1);
    assert_ok(cuMemFreeHost(word));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_each_condition_ends_a_wait_when_it_holds(void **state) {
    const uint64_t high = (uint64_t)1 << 63, above = (uint64_t)1 << 32;

    (void)state;
    check_condition(32, CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 5);
    check_condition(32, CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6);
    check_condition(32, CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0, 0xffffffef, 3); /* wraps around */
    check_condition(32, CU_STREAM_WAIT_VALUE_GEQ, 0, 0x80000000, 0x7fffffff);
    check_condition(64, CU_STREAM_WAIT_VALUE_GEQ, above, above - 1, above);
    check_condition(64, CU_STREAM_WAIT_VALUE_GEQ, UINT64_MAX, UINT64_MAX - 1, 0);
    check_condition(64, CU_STREAM_WAIT_VALUE_GEQ, 0, high, high - 1);
    check_condition(32, CU_STREAM_WAIT_VALUE_EQ, 7, 8, above + 7); /* what is above is not its */
    check_condition(64, CU_STREAM_WAIT_VALUE_EQ, 7, above + 7, 7);
    check_condition(32, CU_STREAM_WAIT_VALUE_AND, 6, 0xfffffff9, 4);
    check_condition(64, CU_STREAM_WAIT_VALUE_AND, high, ~high, high);
    check_condition(32, CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0, 0xf, 7);
    check_condition(32, CU_STREAM_WAIT_VALUE_NOR, 0, UINT32_MAX, 0xfffffffe);
    check_condition(64, CU_STREAM_WAIT_VALUE_NOR, UINT64_MAX - above, above, 0);
    check_condition(32, CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_FLUSH, 1, 0, 1);
}

static void test_work_of_another_stream_ends_a_wait(void **state) {
    CUstream first = create_stream(), second = create_stream();
    CUdeviceptr flags = allocate_device();

    (void)state;
    for (uint32_t i = 1; i <= 20; i++) { /* one of them is always ahead */
        assert_ok(cuStreamWaitValue32_v2(second, flags, i, CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(cuStreamWriteValue32_v2(second, flags + 4, i, 0));
        assert_ok(i % 2 == 0 ? launch_fill(first, flags, 1, i) /* a kernel */
                             : cuStreamWriteValue32_v2(first, flags, i, 0));
        assert_ok(cuStreamWaitValue32_v2(first, flags + 4, i, CU_STREAM_WAIT_VALUE_GEQ));
    }
    assert_ok(cuStreamSynchronize(first));
    assert_ok(cuStreamSynchronize(second));
    assert_int_equal(read_u32(flags + 4), 20);
    assert_ok(cuMemFree_v2(flags));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

/* Each stream waits for the one after it: all wait at once, on however few processors. */
static void test_many_streams_wait_at_once(void **state) {
    enum { STREAMS = 24 };
    CUstream streams[STREAMS];
    CUdeviceptr flags = allocate_device();

    (void)state;
    for (CUdeviceptr i = 0; i < STREAMS; i++) {
        streams[i] = create_stream();
        assert_ok(
            cuStreamWaitValue32_v2(streams[i], flags + 4 * (i + 1), 1, CU_STREAM_WAIT_VALUE_GEQ));
        assert_ok(cuStreamWriteValue32_v2(streams[i], flags + 4 * i, 1, 0));
    }
    assert_int_equal(cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
    assert_ok(cuStreamWriteValue32_v2(NULL, flags + (CUdeviceptr)4 * STREAMS, 1, 0));
    assert_ok(cuStreamSynchronize(streams[0]));
    assert_int_equal(read_u32(flags), 1);
    for (int i = 0; i < STREAMS; i++)
        assert_ok(cuStreamDestroy_v2(streams[i]));
    assert_ok(cuMemFree_v2(flags));
}

static void test_a_batch_is_done_in_its_order(void **state) {
    CUstream stream = create_stream();
    uint64_t *go = allocate_host();
    CUdeviceptr address = allocate_device();
    CUstreamBatchMemOpParams batch[] = {
        writes(address, 1),
        waits(address_of(go), 1, CU_STREAM_WAIT_VALUE_EQ),
        barrier(CU_STREAM_MEMORY_BARRIER_TYPE_SYS),
        barrier(CU_STREAM_MEMORY_BARRIER_TYPE_GPU),
        flush(0),
        waits(address, 1, CU_STREAM_WAIT_VALUE_EQ),
        writes(address, 2),
    };

    (void)state;
    assert_ok(cuStreamBatchMemOp_v2(stream, 7, batch, 0));
    memset(batch, 0, sizeof batch); /* it is the program's again */
    while (read_u32(address) == 0)
        continue;
    assert_int_equal(read_u32(address), 1);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    set(go, 1);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(read_u32(address), 2);
    assert_ok(cuMemFree_v2(address));
    assert_ok(cuMemFreeHost(go));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_the_longest_batch_has_255_operations(void **state) {
    CUstreamBatchMemOpParams batch[256];
    CUdeviceptr address = allocate_device();

    (void)state;
    for (uint32_t i = 0; i < 256; i++)
        batch[i] = writes(address + (CUdeviceptr)4 * i, i + 1);
    assert_int_equal(cuStreamBatchMemOp_v2(NULL, 256, batch, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBatchMemOp_v2(NULL, 0, batch, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamBatchMemOp_v2(NULL, 255, batch, 0));
    assert_int_equal(read_u32(address + (CUdeviceptr)4 * 254), 255);
    assert_int_equal(read_u32(address + (CUdeviceptr)4 * 255), 0);
    assert_ok(cuMemFree_v2(address));
}

static void assert_no_word(CUdeviceptr address, unsigned int bytes) {
    assert_int_equal(cuStreamWriteValue32_v2(NULL, address, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWaitValue32_v2(NULL, address, 1, 0), CUDA_ERROR_INVALID_VALUE);
    if (bytes == 8) {
        assert_int_equal(cuStreamWriteValue64_v2(NULL, address, 1, 0), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuStreamWaitValue64_v2(NULL, address, 1, 0), CUDA_ERROR_INVALID_VALUE);
    }
}

static void test_an_address_that_is_no_word_is_refused(void **state) {
    CUdeviceptr address = allocate_device(), managed;
    uint64_t own = 0;

    (void)state;
    assert_ok(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    assert_no_word(0, 8);
    assert_no_word(address_of(&own), 8); /* pageable */
    assert_no_word(managed, 8);          /* cuda.h 16874 */
    assert_no_word(address + 2, 4);      /* not aligned */
    assert_no_word(address + 4096, 8);   /* behind the end */
    assert_int_equal(cuStreamWriteValue64_v2(NULL, address + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWaitValue64_v2(NULL, address + 4, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(address));
    assert_ok(cuMemFree_v2(managed));
    assert_no_word(address, 8);
    assert_int_equal(own, 0);
}

static void test_flags_and_operations_that_there_are_not_are_refused(void **state) {
    CUdeviceptr address = allocate_device();
    CUstreamBatchMemOpParams batch[2] = {writes(address, 1), writes(address, 1)};

    (void)state;
    assert_int_equal(cuStreamWaitValue32_v2(NULL, address, 0, 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWaitValue64_v2(NULL, address, 0, 1U << 31), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWriteValue32_v2(NULL, address, 0, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWriteValue64_v2(NULL, address, 0, 3), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBatchMemOp_v2(NULL, 1, batch, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBatchMemOp_v2(NULL, 1, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBatchMemOp_v2((CUstream)batch, 1, batch, 0),
                     CUDA_ERROR_INVALID_HANDLE);
    batch[1].operation = 99;
    assert_int_equal(cuStreamBatchMemOp_v2(NULL, 2, batch, 0), CUDA_ERROR_INVALID_VALUE);
    batch[1] = barrier(2);
    assert_int_equal(cuStreamBatchMemOp_v2(NULL, 2, batch, 0), CUDA_ERROR_INVALID_VALUE);
    batch[1] = flush(1);
    assert_int_equal(cuStreamBatchMemOp_v2(NULL, 2, batch, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(read_u32(address), 0); /* nothing of a refused batch was done */
    assert_ok(cuMemFree_v2(address));
}

/* cuda.h 516, 569 */
static void test_the_versions_differ_in_a_flag_and_an_operation(void **state) {
    CUdeviceptr address = allocate_device();
    CUstreamBatchMemOpParams batch = barrier(0);

    (void)state;
    assert_ok(cuStreamWriteValue32(NULL, address, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    assert_int_equal(
        cuStreamWriteValue32_v2(NULL, address, 2, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
        CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuStreamBatchMemOp(NULL, 1, &batch, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuStreamBatchMemOp_v2(NULL, 1, &batch, 0));
    assert_ok(cuStreamWriteValue64(NULL, address + 8, 3, 0));
    assert_ok(cuStreamWaitValue32(NULL, address, 1, CU_STREAM_WAIT_VALUE_EQ));
    assert_ok(cuStreamWaitValue64(NULL, address + 8, 3, CU_STREAM_WAIT_VALUE_EQ));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemFree_v2(address));
}

/* NULL is the thread's own stream then, which the legacy one comes behind. */
static void test_the_per_thread_forms_use_the_threads_stream(void **state) {
    uint64_t *word = allocate_host();
    CUdeviceptr address = address_of(word), second = address_of(word + 1);
    CUstreamBatchMemOpParams batch = writes(second, 7);

    (void)state;
    assert_ok(cuStreamWaitValue32_ptsz(NULL, address, 1, 0));
    assert_ok(cuStreamWaitValue64_ptsz(NULL, address, 1, 0));
    assert_ok(cuStreamWaitValue32_v2_ptsz(NULL, address, 1, 0));
    assert_ok(cuStreamWaitValue64_v2_ptsz(NULL, address, 1, 0));
    assert_ok(cuStreamWriteValue32_ptsz(NULL, second, 1, 0));
    assert_ok(cuStreamWriteValue64_ptsz(NULL, second, 2, 0));
    assert_ok(cuStreamWriteValue32_v2_ptsz(NULL, second, 3, 0));
    assert_ok(cuStreamWriteValue64_v2_ptsz(NULL, second, 4, 0));
    assert_ok(cuStreamBatchMemOp_ptsz(NULL, 1, &batch, 0));
    batch.writeValue.value = 8;
    assert_ok(cuStreamBatchMemOp_v2_ptsz(NULL, 1, &batch, 0));
    assert_int_equal(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    assert_int_equal(word[1], 0);
    set(word, 1);
    assert_ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    assert_int_equal(word[1], 8);
    assert_ok(cuMemFreeHost(word));
}

static void test_a_wait_in_the_legacy_stream_holds_back_blocking_streams(void **state) {
    CUstream blocking, apart = create_stream();
    uint64_t *word = allocate_host();

    (void)state;
    assert_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    assert_ok(cuStreamWaitValue32_v2(NULL, address_of(word), 1, 0));
    assert_ok(cuStreamWriteValue32_v2(blocking, address_of(word + 1), 1, 0));
    assert_ok(cuStreamWriteValue32_v2(apart, address_of(word + 2), 1, 0));
    assert_ok(cuStreamSynchronize(apart));
    assert_int_equal(word[1], 0);
    assert_int_equal(word[2], 1);
    set(word, 1);
    assert_ok(cuStreamSynchronize(blocking));
    assert_int_equal(word[1], 1);
    assert_ok(cuMemFreeHost(word));
    assert_ok(cuStreamDestroy_v2(blocking));
    assert_ok(cuStreamDestroy_v2(apart));
}

static void test_a_destroyed_stream_still_waits_and_writes(void **state) {
    CUstream stream = create_stream();
    uint64_t *word = allocate_host();

    (void)state;
    assert_ok(cuStreamWaitValue32_v2(stream, address_of(word), 1, 0));
    assert_ok(cuStreamWriteValue32_v2(stream, address_of(word + 1), 1, 0));
    assert_ok(cuStreamDestroy_v2(stream));
    set(word, 1);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(word[1], 1);
    assert_ok(cuMemFreeHost(word));
}

static void test_a_captured_batch_is_a_node_that_launches_replay(void **state) {
    CUstream stream = create_stream();
    CUdeviceptr count = allocate_device();
    uint64_t *word = allocate_host();
    CUstreamBatchMemOpParams batch[] = {waits(address_of(word), 1, 0), writes(address_of(word), 0)};
    CUgraphExec executable;
    CUgraph graph;
    size_t nodes = 0;

    (void)state;
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuStreamBatchMemOp_v2(stream, 2, batch, 0));
    assert_ok(cuStreamWriteValue32_v2(stream, count, 5, 0));
    assert_int_equal(cuStreamWriteValue32_v2(stream, count + 1, 5, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 2);
    assert_int_equal(read_u32(count), 0);
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        assert_ok(cuMemsetD32_v2(count, 0, 1));
        assert_ok(cuGraphLaunch(executable, stream));
        assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        assert_int_equal(read_u32(count), 0);
        set(word, 1);
        assert_ok(cuStreamSynchronize(stream));
        assert_int_equal(read_u32(count), 5);
        assert_int_equal(*word, 0);
    }
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuMemFree_v2(count));
    assert_ok(cuMemFreeHost(word));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_a_wait_for_memory_that_is_unmapped_faults(void **state) {
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = property.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    CUcontext lost;
    CUstream stream;

    (void)state;
    assert_ok(cuCtxCreate_v2(&lost, 0, 0));
    stream = create_stream();
    assert_ok(cuMemAddressReserve(&address, 2 * MiB, 0, 0, 0));
    assert_ok(cuMemCreate(&handle, 2 * MiB, &property, 0));
    assert_ok(cuMemMap(address, 2 * MiB, 0, handle, 0));
    assert_ok(cuMemSetAccess(address, 2 * MiB, &access, 1));
    assert_ok(cuStreamWriteValue32_v2(stream, address, 1, 0));
    assert_ok(cuStreamWaitValue32_v2(stream, address, 1, CU_STREAM_WAIT_VALUE_EQ));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuStreamWaitValue32_v2(stream, address, 2, CU_STREAM_WAIT_VALUE_EQ));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_ok(cuMemUnmap(address, 2 * MiB));
    assert_ok(cuMemRelease(handle));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_ok(cuMemAddressFree(address, 2 * MiB));
    assert_ok(cuCtxDestroy_v2(lost));
    assert_ok(cuCtxSetCurrent(test_context));
}

/* All work of the context is over then, kernels included, and what is behind a wait is not done. */
static void test_an_error_of_the_context_ends_a_wait(void **state) {
    CUstream waiting, kernel, faulty;
    uint64_t *word = allocate_host();
    CUdeviceptr flag = address_of(word);
    CUcontext lost;
    CUmodule module;
    CUfunction fault, wait_flag;

    (void)state;
    assert_ok(cuCtxCreate_v2(&lost, 0, 0));
    waiting = create_stream();
    kernel = create_stream();
    faulty = create_stream();
    assert_ok(cuModuleLoadData(&module, kernels_ptx));
    assert_ok(cuModuleGetFunction(&fault, module, "fault"));
    assert_ok(cuModuleGetFunction(&wait_flag, module, "wait_flag"));
    assert_ok(cuStreamWaitValue64_v2(waiting, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    assert_ok(cuStreamWriteValue64_v2(waiting, flag + 8, 1, 0));
    assert_ok(cuLaunchKernel(wait_flag, 1, 1, 1, 1, 1, 1, 0, kernel, (void *[]){&flag}, NULL));
    assert_int_equal(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    assert_ok(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, faulty, NULL, NULL));
    assert_int_equal(cuStreamSynchronize(faulty), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_ok(cuCtxDestroy_v2(lost));
    assert_ok(cuCtxSetCurrent(test_context));
    assert_int_equal(word[1], 0);
    assert_ok(cuMemFreeHost(word));
}

/* A pool hands memory on while another stream may still write its flag there. */
static void test_the_hazard_detector_sees_the_words(void **state) {
    CUstream first = create_stream(), second = create_stream();
    CUdeviceptr address = allocate_device();
    uint64_t before = simcuda_hazards();
    struct gate gate = gate_close(first);

    (void)state;
    simcuda_owner_begin(address, 512, 0x1000);
    assert_ok(cuStreamWriteValue32_v2(first, address + 8, 1, 0));
    simcuda_owner_end(address, 0x1001);
    simcuda_owner_begin(address, 512, 0x2000);
    assert_ok(cuStreamWaitValue32_v2(second, address, 0, 0)); /* another word */
    assert_ok(cuStreamWriteValue32_v2(second, address + 16, 0, 0));
    assert_int_equal(simcuda_hazards() - before, 0);
    assert_ok(cuStreamWaitValue32_v2(second, address + 8, 0, 0));
    assert_int_equal(simcuda_hazards() - before, 1);
    gate_remove(gate);
    assert_ok(cuMemFree_v2(address));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

static void test_the_attributes_announce_them(void **state) {
    const CUdevice_attribute attributes[] = {
        CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1,
        CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
        CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
        CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
        CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
        CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
    };
    int value;

    (void)state;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        assert_ok(cuDeviceGetAttribute(&value, attributes[i], 0));
        assert_int_equal(value, 1);
    }
}

/* Threads that hand a token round, each by its own stream. */
enum { THREADS = 4, ROUNDS = 50 };
static CUdeviceptr token;

static void *pass_on(void *data) {
    uint32_t place = (uint32_t)(uintptr_t)data;
    CUstream stream;

    assert_ok(cuCtxSetCurrent(test_context));
    stream = create_stream();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        assert_ok(
            cuStreamWaitValue32_v2(stream, token, i * THREADS + place, CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(cuStreamWriteValue32_v2(stream, token, i * THREADS + place + 1, 0));
    }
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuStreamDestroy_v2(stream));
    return NULL;
}

static void test_threads_hand_a_token_round(void **state) {
    pthread_t threads[THREADS];

    (void)state;
    token = allocate_device();
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pass_on, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(read_u32(token), THREADS * ROUNDS);
    assert_ok(cuMemFree_v2(token));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_write_comes_after_the_work_before_it),
        cmocka_unit_test(test_each_condition_ends_a_wait_when_it_holds),
        cmocka_unit_test(test_work_of_another_stream_ends_a_wait),
        cmocka_unit_test(test_many_streams_wait_at_once),
        cmocka_unit_test(test_a_batch_is_done_in_its_order),
        cmocka_unit_test(test_the_longest_batch_has_255_operations),
        cmocka_unit_test(test_an_address_that_is_no_word_is_refused),
        cmocka_unit_test(test_flags_and_operations_that_there_are_not_are_refused),
        cmocka_unit_test(test_the_versions_differ_in_a_flag_and_an_operation),
        cmocka_unit_test(test_the_per_thread_forms_use_the_threads_stream),
        cmocka_unit_test(test_a_wait_in_the_legacy_stream_holds_back_blocking_streams),
        cmocka_unit_test(test_a_destroyed_stream_still_waits_and_writes),
        cmocka_unit_test(test_a_captured_batch_is_a_node_that_launches_replay),
        cmocka_unit_test(test_a_wait_for_memory_that_is_unmapped_faults),
        cmocka_unit_test(test_an_error_of_the_context_ends_a_wait),
        cmocka_unit_test(test_the_hazard_detector_sees_the_words),
        cmocka_unit_test(test_the_attributes_announce_them),
        cmocka_unit_test(test_threads_hand_a_token_round),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
