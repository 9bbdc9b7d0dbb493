/* Green contexts of the simulated device. */
#include "test_sim.h"

#include <limits.h>
#include <stdio.h>

#if CUDA_VERSION >= 12040

static CUgreenCtx create(CUdevice device) {
    CUdevResource whole, groups[2], rest;
    CUdevResourceDesc description;
    unsigned int count = 2;
    CUgreenCtx green;

    assert_ok(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_ok(cuDevSmResourceSplitByCount(groups, &count, &whole, &rest, 0, 33));
    assert_int_equal(count, 2);
    assert_int_equal(groups[0].sm.smCount, 34);
    assert_int_equal(rest.sm.smCount, whole.sm.smCount - 68);
    assert_ok(cuDevResourceGenerateDesc(&description, groups, 1));
    assert_ok(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    assert_ok(cuGreenCtxGetDevResource(green, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(whole.sm.smCount, 34);
    return green;
}

static CUstream create_stream(CUgreenCtx green) {
    CUstream stream;

    assert_ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

static void test_error_codes(void **state) {
    CUgreenCtx green = create(0), other;
    unsigned int count = 1;
    CUdevResource whole;
    CUstream stream;

    (void)state;
    assert_int_equal(cuGreenCtxStreamCreate(&stream, green, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGreenCtxCreate(&other, NULL, 0, CU_GREEN_CTX_DEFAULT_STREAM),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_INVALID),
                     CUDA_ERROR_INVALID_RESOURCE_TYPE);
    assert_ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(cuDevSmResourceSplitByCount(NULL, &count, &whole, NULL, 0, 1000),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    assert_ok(cuDevSmResourceSplitByCount(NULL, &count, &whole, NULL, 0, 1));
    assert_int_equal(count, whole.sm.smCount / 2); /* never less than the device's minimum */
    whole.sm.smCount = UINT_MAX;                   /* no driver wrote that */
    assert_ok(cuDevSmResourceSplitByCount(NULL, &count, &whole, NULL, 0, UINT_MAX));
    assert_int_equal(count, 0);
    assert_ok(cuGreenCtxDestroy(green));
    assert_int_equal(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuGreenCtxDestroy((CUgreenCtx)test_context), CUDA_ERROR_INVALID_CONTEXT);
}

/* What is made while a green context is current belongs to its primary context. */
static void test_it_is_part_of_the_primary_context(void **state) {
    unsigned long long id, green_id, primary_id;
    CUgreenCtx green = create(0), of_stream;
    CUcontext context, owner, current;
    CUdeviceptr block;
    CUstream stream;
    CUdevice device;

    (void)state;
    assert_ok(cuCtxFromGreenCtx(&context, green));
    assert_ptr_not_equal(context, test_context);
    assert_ok(cuCtxPushCurrent_v2(context));
    assert_ok(cuCtxGetDevice(&device));
    assert_int_equal(device, 0);
    assert_ok(cuCtxGetId(NULL, &id));
    assert_ok(cuGreenCtxGetId(NULL, &green_id));
    assert_ok(cuCtxGetId(test_context, &primary_id));
    assert_int_equal(id, green_id);
    assert_int_not_equal(id, primary_id);
    assert_ok(cuMemAlloc_v2(&block, 4096));
    assert_ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    assert_ptr_equal(owner, test_context);
    assert_ok(launch_fill(NULL, block, 1, 1)); /* of a module in the primary context */
    assert_ok(cuStreamCreate(&stream, 0));
    assert_ok(cuStreamGetCtx_v2(stream, &owner, &of_stream));
    assert_ptr_equal(owner, test_context);
    assert_ptr_equal(of_stream, green);
    assert_ok(cuStreamGetGreenCtx(NULL, &of_stream));
    assert_ptr_equal(of_stream, green);
    assert_ok(cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, context);
    assert_ok(cuStreamGetGreenCtx(NULL, &of_stream));
    assert_null(of_stream);
    assert_int_equal(cuCtxDestroy_v2(context), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuGreenCtxDestroy(green));
    assert_int_equal(cuCtxPushCurrent_v2(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_ok(cuMemFree_v2(block)); /* the memory stays */
}

/* Recording, waiting and synchronising: the primary context's cover its green contexts, a green
 * one's only itself. */
static void test_events(void **state) {
    CUgreenCtx first = create(0), second = create(0);
    CUstream in_first = create_stream(first), in_second = create_stream(second);
    CUevent of_first, of_all, released;
    struct gate gate = gate_close(in_first);
    CUstream plain;

    (void)state;
    assert_ok(cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
    assert_ok(cuEventCreate(&of_first, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&of_all, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&released, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuGreenCtxRecordEvent(first, of_first));
    assert_ok(cuGreenCtxRecordEvent(second, released));
    assert_ok(cuCtxRecordEvent(test_context, of_all));
    assert_int_equal(cuEventQuery(of_first), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuEventQuery(of_all), CUDA_ERROR_NOT_READY);
    assert_ok(cuEventQuery(released)); /* the gate is none of its streams' */

    assert_ok(cuGreenCtxWaitEvent(second, of_first));
    assert_ok(cuEventRecord(released, in_second));
    assert_int_equal(cuEventQuery(released), CUDA_ERROR_NOT_READY);
    assert_ok(cuEventRecord(released, plain));
    assert_ok(cuEventQuery(released)); /* a stream of the primary context did not wait */
    assert_ok(cuCtxWaitEvent(test_context, of_first));
    assert_ok(cuEventRecord(released, plain));
    assert_int_equal(cuEventQuery(released), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuCtxSynchronize());
    assert_ok(cuEventQuery(released));
    assert_ok(cuEventDestroy_v2(of_first));
    assert_ok(cuEventDestroy_v2(of_all));
    assert_ok(cuEventDestroy_v2(released));
    assert_ok(cuStreamDestroy_v2(plain));
    gate_remove(gate);
    assert_ok(cuStreamDestroy_v2(in_first));
    assert_ok(cuStreamDestroy_v2(in_second));
    assert_ok(cuGreenCtxDestroy(first));
    assert_ok(cuGreenCtxDestroy(second));
}

/* A free waits for the green contexts' streams, too. */
static void test_free_waits(void **state) {
    CUgreenCtx green = create(0);
    CUstream stream = create_stream(green);
    uint64_t pause = 20000000;
    CUdeviceptr block;
    CUevent event;

    (void)state;
    assert_ok(cuMemAlloc_v2(&block, 4096));
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(launch("spin_ns", stream, (void *[]){&pause}));
    assert_ok(launch_fill(stream, block, 1, 1));
    assert_ok(cuEventRecord(event, stream));
    assert_ok(cuMemFree_v2(block));
    assert_ok(cuEventQuery(event));
    assert_int_equal(simcuda_hazards(), 0);
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuGreenCtxDestroy(green));
}

static void test_capture(void **state) {
    CUgreenCtx green = create(0);
    CUstream stream = create_stream(green);
    CUevent event;
    CUgraph graph;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int round = 0; round < 2; round++) {
        assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        assert_int_equal(round == 0 ? cuGreenCtxRecordEvent(green, event)
                                    : cuCtxRecordEvent(test_context, event),
                         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuGreenCtxDestroy(green));
}

/* A stream that was left behind answers nothing more; the green context keeps its primary one
 * alive. */
static void test_lifetime(void **state) {
    CUgreenCtx green = create(1);
    unsigned int flags;
    CUcontext context;
    CUstream stream;
    int active;

    (void)state;
    assert_ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 1);
    assert_ok(cuCtxFromGreenCtx(&context, green));
    assert_ok(cuDevicePrimaryCtxReset_v2(1)); /* takes its green contexts along */
    assert_int_equal(cuCtxFromGreenCtx(&context, green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_ok(cuDevicePrimaryCtxRelease_v2(1));

    green = create(1);
    stream = create_stream(green);
    assert_ok(cuGreenCtxDestroy(green));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuStreamDestroy_v2(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
}

static void test_a_stream_has_the_share_of_its_context(void **state) {
    CUgreenCtx green = create(0);
    CUstream stream = create_stream(green), other;
    CUdevResource resource, whole;

    (void)state;
    assert_ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_ok(cuStreamGetDevResource(stream, &resource, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(resource.sm.smCount, 34);
    assert_ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamGetDevResource(other, &resource, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(resource.sm.smCount, whole.sm.smCount);
    assert_ok(cuStreamGetDevResource_ptsz(NULL, &resource, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(resource.sm.smCount, whole.sm.smCount);
    assert_int_equal(cuStreamGetDevResource(other, &resource, CU_DEV_RESOURCE_TYPE_INVALID),
                     CUDA_ERROR_INVALID_RESOURCE_TYPE);
    assert_int_equal(cuStreamGetDevResource(other, NULL, CU_DEV_RESOURCE_TYPE_SM),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamDestroy_v2(other));
    assert_int_equal(cuStreamGetDevResource(other, &resource, CU_DEV_RESOURCE_TYPE_SM),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuGreenCtxDestroy(green));
}

static void test_a_device_is_split_into_unlike_groups(void **state) {
    CU_DEV_SM_RESOURCE_GROUP_PARAMS wishes[2] = {{.smCount = 10, .coscheduledSmCount = 2}};
    CUdevResource whole, groups[2], rest;
    CUdevResourceDesc description;
    CUgreenCtx green;
    unsigned int all;

    (void)state;
    assert_ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    all = whole.sm.smCount;
    assert_ok(cuDevSmResourceSplit(groups, 2, &whole, &rest, 0, wishes)); /* 0: what is left */
    assert_int_equal(groups[0].sm.smCount, 10);
    assert_int_equal(groups[1].sm.smCount, all - 10);
    assert_int_equal(wishes[1].smCount, all - 10);
    assert_int_equal(rest.type, CU_DEV_RESOURCE_TYPE_INVALID);
    wishes[1].smCount = 20;
    assert_ok(cuDevSmResourceSplit(groups, 2, &whole, &rest, 0, wishes));
    assert_int_equal(groups[1].sm.smCount, 20);
    assert_int_equal(rest.type, CU_DEV_RESOURCE_TYPE_SM);
    assert_int_equal(rest.sm.smCount, all - 30);
    assert_ok(cuDevResourceGenerateDesc(&description, groups, 2));
    assert_ok(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    assert_ok(cuGreenCtxGetDevResource(green, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(whole.sm.smCount, 30);
    assert_ok(cuGreenCtxDestroy(green));
}

static void test_groups_that_cannot_be_had(void **state) {
    CU_DEV_SM_RESOURCE_GROUP_PARAMS wishes[2] = {{.smCount = 3}};
    CUdevResource whole, groups[2];

    (void)state;
    assert_ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(cuDevSmResourceSplit(groups, 1, &whole, NULL, 0, wishes),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION); /* odd */
    wishes[0].smCount = whole.sm.smCount + 2;
    assert_int_equal(cuDevSmResourceSplit(groups, 1, &whole, NULL, 0, wishes),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    wishes[0].smCount = whole.sm.smCount;
    assert_int_equal(cuDevSmResourceSplit(groups, 2, &whole, NULL, 0, wishes),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION); /* nothing is left */
    assert_int_equal(wishes[1].smCount, 0);
    assert_ok(cuDevSmResourceSplit(NULL, 2, &whole, NULL, 0, wishes)); /* which may be asked */
    assert_int_equal(wishes[1].smCount, 0);
    wishes[0].coscheduledSmCount = 4; /* at most 2 on such a device */
    assert_int_equal(cuDevSmResourceSplit(groups, 1, &whole, NULL, 0, wishes),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    wishes[0].coscheduledSmCount = 2;
    wishes[0].flags = 2; /* of a domain: there are none */
    assert_int_equal(cuDevSmResourceSplit(groups, 1, &whole, NULL, 0, wishes),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    wishes[0].flags = 0;
    assert_int_equal(cuDevSmResourceSplit(groups, 1, &whole, NULL, 1, wishes),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDevSmResourceSplit(groups, 0, &whole, NULL, 0, wishes),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDevSmResourceSplit(groups, 1, &whole, NULL, 0, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    whole.type = CU_DEV_RESOURCE_TYPE_INVALID;
    assert_int_equal(cuDevSmResourceSplit(groups, 1, &whole, NULL, 0, wishes),
                     CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_codes),
        cmocka_unit_test(test_a_stream_has_the_share_of_its_context),
        cmocka_unit_test(test_a_device_is_split_into_unlike_groups),
        cmocka_unit_test(test_groups_that_cannot_be_had),
        cmocka_unit_test(test_it_is_part_of_the_primary_context),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_free_waits),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_lifetime),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}

#else

int main(void) {
    puts("the CUDA headers are too old: install those of CUDA 12.4 or later");
    return 77;
}

#endif
