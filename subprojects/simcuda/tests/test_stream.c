/* Streams and events of the simulated device: order, waits, queries, errors. */
#include "test_sim.h"

#include <pthread.h>
#include <string.h>

static CUstream create_stream(unsigned int flags) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, flags));
    return stream;
}

static CUdeviceptr allocate(size_t size) {
    CUdeviceptr pointer;

    assert_ok(cuMemAlloc_v2(&pointer, size));
    return pointer;
}

/* Whether work in `later` waits for what is already in `earlier`. With order a query of `later`
 * cannot succeed while `earlier` stands still; without it a wait for `later` returns. */
static void check_order(CUstream earlier, CUstream later, bool ordered) {
    CUdeviceptr pointer = allocate(4096);
    struct gate gate = gate_close(earlier);
    CUevent event;

    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(launch_fill(later, pointer, 1024, 1));
    assert_ok(cuEventRecord(event, later));
    if (ordered)
        assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    else
        assert_ok(cuEventSynchronize(event));
    gate_open(gate);
    assert_ok(cuEventSynchronize(event));
    assert_ok(cuEventDestroy_v2(event));
    gate_remove(gate);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_default_stream_order(void **state) {
    CUstream blocking = create_stream(CU_STREAM_DEFAULT);
    CUstream other = create_stream(CU_STREAM_DEFAULT);
    CUstream free_one = create_stream(CU_STREAM_NON_BLOCKING);

    (void)state;
    check_order(blocking, blocking, true);
    check_order(blocking, other, false);
    check_order(blocking, CU_STREAM_LEGACY, true);
    check_order(CU_STREAM_LEGACY, blocking, true);
    check_order(CU_STREAM_PER_THREAD, CU_STREAM_LEGACY, true);
    check_order(NULL, CU_STREAM_PER_THREAD, true); /* NULL is the legacy stream here */
    check_order(CU_STREAM_PER_THREAD, blocking, false);
    check_order(free_one, CU_STREAM_LEGACY, false);
    check_order(CU_STREAM_LEGACY, free_one, false);
    assert_ok(cuStreamDestroy_v2(blocking));
    assert_ok(cuStreamDestroy_v2(other));
    assert_ok(cuStreamDestroy_v2(free_one));
}

/* In the _ptsz form NULL is the calling thread's stream. */
static void test_per_thread_form(void **state) {
    struct gate gate = gate_close(CU_STREAM_PER_THREAD);

    (void)state;
    assert_int_equal(cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuStreamSynchronize_ptsz(NULL));
    gate_remove(gate);
}

static void *query_own_stream(void *context) {
    CUresult *result = context;

    assert_ok(cuCtxSetCurrent(test_context));
    *result = cuStreamQuery_ptsz(NULL);
    return result;
}

static void test_threads_have_their_own_streams(void **state) {
    struct gate gate = gate_close(CU_STREAM_PER_THREAD);
    CUresult result = CUDA_ERROR_UNKNOWN;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, query_own_stream, &result), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(result, CUDA_SUCCESS); /* although this thread's stands still */
    gate_remove(gate);
}

static void test_event_is_a_snapshot(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    struct gate gate;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventQuery(event)); /* never recorded: nothing to wait for */
    assert_ok(cuEventRecord(event, stream));
    gate = gate_close(stream);
    assert_ok(cuEventSynchronize(event)); /* what follows the record does not count */
    assert_ok(cuEventRecord(event, stream));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuEventSynchronize(event));
    assert_ok(cuEventQuery(event));
    assert_ok(cuEventDestroy_v2(event));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    gate_remove(gate);
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_wait_for_event(void **state) {
    CUstream first = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = create_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer = allocate(4);
    struct gate gate = gate_close(first);
    uint32_t value;
    CUevent event;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(launch_fill(first, pointer, 1, 1));
    assert_ok(cuEventRecord(event, first));
    assert_ok(cuStreamWaitEvent(second, event, 0));
    assert_ok(launch_fill(second, pointer, 1, 2));
    assert_int_equal(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    assert_ok(cuEventDestroy_v2(event)); /* the waits it made remain */
    gate_open(gate);
    assert_ok(cuStreamSynchronize(second));
    assert_ok(cuMemcpyDtoH_v2(&value, pointer, 4));
    assert_int_equal(value, 2);
    gate_remove(gate);
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

static void test_context_event_covers_all_streams(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    struct gate gate = gate_close(stream);
    CUevent context_event, legacy_event;

    (void)state;
    assert_ok(cuEventCreate(&context_event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&legacy_event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuCtxRecordEvent(test_context, context_event));
    assert_ok(cuEventRecord(legacy_event, CU_STREAM_LEGACY));
    assert_ok(cuEventSynchronize(legacy_event)); /* does not cover a non-blocking stream */
    assert_int_equal(cuEventQuery(context_event), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuEventSynchronize(context_event));
    gate_remove(gate);
    assert_ok(cuEventDestroy_v2(context_event));
    assert_ok(cuEventDestroy_v2(legacy_event));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_elapsed_time(void **state) {
    uint64_t ns = 3000000;
    CUevent start, end, untimed;
    float milliseconds = 0;

    (void)state;
    assert_ok(cuEventCreate(&start, 0));
    assert_ok(cuEventCreate(&end, 0));
    assert_ok(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    assert_int_equal(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuEventRecord(start, NULL));
    assert_ok(launch("spin_ns", NULL, (void *[]){&ns}));
    assert_ok(cuEventRecord(end, NULL));
    assert_ok(cuEventRecord(untimed, NULL));
    assert_ok(cuEventSynchronize(end));
    assert_ok(cuEventElapsedTime(&milliseconds, start, end));
    assert_true(milliseconds >= 3);
    assert_int_equal(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuEventDestroy_v2(start));
    assert_ok(cuEventDestroy_v2(end));
    assert_ok(cuEventDestroy_v2(untimed));
}

struct seen {
    CUresult status, inside;
    uint32_t value;
    const uint32_t *memory;
};

static void CUDA_CB see(void *data) {
    struct seen *seen = data;

    seen->value = *seen->memory;
    seen->inside = cuStreamSynchronize(NULL);
}

static void CUDA_CB see_status(CUstream stream, CUresult status, void *data) {
    (void)stream;
    see(data);
    ((struct seen *)data)->status = status;
}

static void test_host_functions(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    struct seen first = {0}, second = {.status = CUDA_ERROR_UNKNOWN}, third = {0};
    void *memory;

    (void)state;
    assert_ok(cuMemHostAlloc(&memory, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    first.memory = second.memory = third.memory = memory;
    assert_ok(launch_fill(stream, (CUdeviceptr)(uintptr_t)memory, 1, 1));
    assert_ok(cuLaunchHostFunc(stream, see, &first));
    assert_ok(launch_fill(stream, (CUdeviceptr)(uintptr_t)memory, 1, 2));
    assert_ok(cuStreamAddCallback(stream, see_status, &second, 0));
    assert_int_equal(cuLaunchHostFunc_v2(stream, see, &third, 2), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLaunchHostFunc_v2(stream, see, &third, 1));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(first.value, 1);
    assert_int_equal(first.inside, CUDA_ERROR_NOT_PERMITTED); /* no CUDA calls in there */
    assert_int_equal(second.value, 2);
    assert_int_equal(second.status, CUDA_SUCCESS);
    assert_int_equal(third.value, 2);
    assert_ok(cuMemFreeHost(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void *free_block(void *pointer) {
    assert_ok(cuCtxSetCurrent(test_context));
    assert_ok(cuMemFree_v2(*(CUdeviceptr *)pointer));
    return NULL;
}

/* A free waits for its context, non-blocking streams included, even for a block nobody uses. */
static void test_free_waits(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer = allocate(16);
    struct gate gate = gate_close(stream);
    CUdeviceptr base;
    CUevent event;
    pthread_t thread;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventRecord(event, stream));
    assert_int_equal(pthread_create(&thread, NULL, free_block, &pointer), 0);
    while (cuMemGetAddressRange_v2(&base, NULL, pointer) == CUDA_SUCCESS)
        continue; /* the other thread is in its free now */
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_int_not_equal(pthread_tryjoin_np(thread, NULL), 0);
    gate_open(gate);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(cuEventQuery(event)); /* so the free was not over before it */
    gate_remove(gate);
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_destroyed_stream_still_drains(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer = allocate(4);
    struct gate gate = gate_close(stream);
    uint32_t value;

    (void)state;
    assert_ok(launch_fill(stream, pointer, 1, 5));
    assert_ok(cuStreamDestroy_v2(stream));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    gate_open(gate);
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemcpyDtoH_v2(&value, pointer, 4));
    assert_int_equal(value, 5);
    gate_remove(gate);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_kernels(void **state) {
    enum { COUNT = 1000 };
    uint64_t count = COUNT, sum = 0;
    CUdeviceptr a = allocate(4 * COUNT), b = allocate(4 * COUNT), total = allocate(8);
    float factor = 3, host[COUNT];
    uint32_t one = 0x3f800000; /* 1.0f */
    CUfunction function;

    (void)state;
    assert_ok(launch_fill(NULL, a, COUNT, one));
    assert_ok(launch_fill(NULL, b, COUNT, one));
    assert_ok(launch("scale_f32", NULL, (void *[]){&a, &count, &factor}));
    assert_ok(launch("saxpy_f32", NULL, (void *[]){&b, &a, &count, &factor}));
    assert_ok(cuMemcpyDtoH_v2(host, b, sizeof host));
    for (int i = 0; i < COUNT; i++)
        assert_true(host[i] == 10);
    assert_ok(launch_fill(NULL, a, COUNT, 7));
    assert_ok(launch_fill(NULL, b, COUNT, 4));
    assert_ok(launch("add_u32", NULL, (void *[]){&a, &a, &b, &count}));
    assert_ok(launch("sum_u32", NULL, (void *[]){&a, &count, &total}));
    assert_ok(cuMemcpyDtoH_v2(&sum, total, 8));
    assert_int_equal(sum, 11 * COUNT);
    assert_int_equal(cuModuleGetFunction(&function, test_module, "no_such_kernel"),
                     CUDA_ERROR_NOT_FOUND);
    assert_ok(cuMemFree_v2(a));
    assert_ok(cuMemFree_v2(b));
    assert_ok(cuMemFree_v2(total));
}

/* An error of a kernel surfaces at the next call that waits, frees included, and stays. */
static void test_sticky_error(void **state) {
    CUcontext context, popped;
    CUmodule module = test_module;
    CUdeviceptr pointer;
    struct gate gate;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuModuleLoadData(&test_module, kernels_ptx));
    pointer = allocate(4096);
    gate = gate_close(NULL);
    assert_ok(launch("fault", NULL, NULL));
    assert_ok(launch_fill(NULL, pointer, 1, 1)); /* not there yet */
    gate_open(gate);
    assert_int_equal(cuMemFree_v2(pointer), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAlloc_v2(&pointer, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_ok(cuCtxDestroy_v2(context));
    test_module = module;
    assert_ok(cuCtxGetCurrent(&popped));
    assert_ptr_equal(popped, test_context);
    assert_ok(cuCtxSynchronize()); /* the other context is untouched */
}

static void *submit_and_free(void *argument) {
    CUstream stream;

    (void)argument;
    assert_ok(cuCtxSetCurrent(test_context));
    stream = create_stream(CU_STREAM_DEFAULT);
    for (uint32_t i = 0; i < 50; i++) {
        CUdeviceptr pointer = allocate(4096 + i);
        uint32_t value;

        assert_ok(launch_fill(i % 3 == 0 ? NULL : stream, pointer, 1024, i));
        assert_ok(cuStreamSynchronize(i % 3 == 0 ? NULL : stream));
        assert_ok(cuMemcpyDtoH_v2(&value, pointer + 4092, 4));
        assert_int_equal(value, i);
        assert_ok(cuMemFree_v2(pointer));
    }
    assert_ok(cuStreamDestroy_v2(stream));
    return NULL;
}

static void test_many_threads(void **state) {
    pthread_t threads[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_and_free, NULL), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_stream_order),
        cmocka_unit_test(test_per_thread_form),
        cmocka_unit_test(test_threads_have_their_own_streams),
        cmocka_unit_test(test_event_is_a_snapshot),
        cmocka_unit_test(test_wait_for_event),
        cmocka_unit_test(test_context_event_covers_all_streams),
        cmocka_unit_test(test_elapsed_time),
        cmocka_unit_test(test_host_functions),
        cmocka_unit_test(test_free_waits),
        cmocka_unit_test(test_destroyed_stream_still_drains),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_sticky_error),
        cmocka_unit_test(test_many_threads),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
