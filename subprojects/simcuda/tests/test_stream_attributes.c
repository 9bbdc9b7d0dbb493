/* The attributes of streams. */
#include "test_sim.h"

#include <math.h>
#include <string.h>

static CUstream create_stream(void) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    return stream;
}

static CUstreamAttrValue get(CUstream stream, CUstreamAttrID id) {
    CUstreamAttrValue value;

    memset(&value, 0xa5, sizeof value);
    assert_ok(cuStreamGetAttribute(stream, id, &value));
    return value;
}

static CUresult set_policy(CUstream stream, int policy) {
    CUstreamAttrValue value = {.syncPolicy = (CUsynchronizationPolicy)policy};

    return cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
}

static CUresult set_priority(CUstream stream, int priority) {
    CUstreamAttrValue value = {.priority = priority};

    return cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &value);
}

static CUresult set_window(CUstream stream, CUaccessPolicyWindow window) {
    CUstreamAttrValue value = {.accessPolicyWindow = window};

    return cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
}

static CUresult set_domains(CUstream stream, unsigned char ordinary, unsigned char remote) {
    CUstreamAttrValue value = {.memSyncDomainMap = {ordinary, remote}};

    return cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value);
}

static void assert_defaults(CUstream stream) {
    CUaccessPolicyWindow window =
        get(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow;
    CUlaunchMemSyncDomainMap domains =
        get(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP).memSyncDomainMap;

    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY).syncPolicy,
                     CU_SYNC_POLICY_AUTO);
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_PRIORITY).priority, 0);
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain,
                     CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT);
    assert_int_equal(domains.default_, 0);
    assert_int_equal(domains.remote, 1);
    assert_null(window.base_ptr);
    assert_int_equal(window.num_bytes, 0);
}

static void test_a_new_stream_has_the_defaults(void **state) {
    CUstream stream = create_stream();

    (void)state;
    assert_defaults(stream);
    assert_defaults(NULL);
    assert_defaults(CU_STREAM_PER_THREAD);
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_what_was_set_is_answered(void **state) {
    CUstream stream = create_stream(), other = create_stream();
    CUstreamAttrValue remote = {.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE};
    CUaccessPolicyWindow window = {.base_ptr = &window,
                                   .num_bytes = 4096,
                                   .hitRatio = 0.5F,
                                   .hitProp = CU_ACCESS_PROPERTY_PERSISTING,
                                   .missProp = CU_ACCESS_PROPERTY_STREAMING};
    CUaccessPolicyWindow told;

    (void)state;
    for (int policy = CU_SYNC_POLICY_AUTO; policy <= CU_SYNC_POLICY_BLOCKING_SYNC; policy++) {
        assert_ok(set_policy(stream, policy));
        assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY).syncPolicy,
                         policy);
    }
    assert_ok(set_window(stream, window));
    told = get(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow;
    assert_ptr_equal(told.base_ptr, window.base_ptr);
    assert_int_equal(told.num_bytes, 4096);
    assert_true(told.hitRatio == 0.5F);
    assert_int_equal(told.hitProp, CU_ACCESS_PROPERTY_PERSISTING);
    assert_int_equal(told.missProp, CU_ACCESS_PROPERTY_STREAMING);
    assert_ok(set_domains(stream, 2, 3));
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP).memSyncDomainMap.default_,
                     2);
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP).memSyncDomainMap.remote,
                     3);
    assert_ok(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &remote));
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain,
                     CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
#if CUDA_VERSION >= 13000
    remote.nvlinkUtilCentricScheduling = 1;
    assert_ok(
        cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, &remote));
    assert_int_equal(
        get(stream, CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING).nvlinkUtilCentricScheduling,
        1);
    remote.nvlinkUtilCentricScheduling = 2;
    assert_int_equal(
        cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, &remote),
        CUDA_ERROR_INVALID_VALUE);
#endif
    assert_defaults(other); /* each has its own */
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuStreamDestroy_v2(other));
}

static void test_the_priority_is_the_one_that_there_is(void **state) {
    CUstream stream;
    int priority;

    (void)state;
    assert_ok(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, -2));
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -2);
    assert_ok(set_priority(stream, -4));
    assert_ok(cuStreamGetPriority(stream, &priority));
    assert_int_equal(priority, -4);
    assert_ok(set_priority(stream, -100)); /* as at the stream's making */
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -5);
    assert_ok(set_priority(stream, 7));
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_PRIORITY).priority, 0);
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_values_that_there_are_not_are_refused(void **state) {
    CUstream stream = create_stream();
    CUaccessPolicyWindow window = {.num_bytes = 4096};
    CUstreamAttrValue value = {.memSyncDomain = (CUlaunchMemSyncDomain)2};
    int most;

    (void)state;
    assert_int_equal(set_policy(stream, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(set_policy(stream, 5), CUDA_ERROR_INVALID_VALUE);
    window.hitRatio = 1.5F;
    assert_int_equal(set_window(stream, window), CUDA_ERROR_INVALID_VALUE);
    window.hitRatio = NAN;
    assert_int_equal(set_window(stream, window), CUDA_ERROR_INVALID_VALUE);
    window.hitRatio = 1;
    window.missProp = CU_ACCESS_PROPERTY_PERSISTING; /* cuda.h 1750 */
    assert_int_equal(set_window(stream, window), CUDA_ERROR_INVALID_VALUE);
    window.missProp = CU_ACCESS_PROPERTY_NORMAL;
    window.hitProp = (CUaccessProperty)3;
    assert_int_equal(set_window(stream, window), CUDA_ERROR_INVALID_VALUE);
    window.hitProp = CU_ACCESS_PROPERTY_STREAMING;
    assert_ok(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 0));
    window.num_bytes = (size_t)most + 1;
    assert_int_equal(set_window(stream, window), CUDA_ERROR_INVALID_VALUE);
    window.num_bytes = (size_t)most;
    assert_ok(set_window(stream, window));
    assert_ok(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 0));
    assert_int_equal(set_domains(stream, 0, (unsigned char)most), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(set_domains(stream, (unsigned char)most, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &value),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_attributes_that_streams_have_not_are_refused(void **state) {
    const CUstreamAttrID ids[] = {CU_LAUNCH_ATTRIBUTE_IGNORE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, (CUstreamAttrID)99};
    CUstreamAttrValue value = {{0}};
    CUstream stream = create_stream();

    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_int_equal(cuStreamGetAttribute(stream, ids[i], &value), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuStreamSetAttribute(stream, ids[i], &value), CUDA_ERROR_INVALID_VALUE);
    }
    assert_int_equal(cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_int_equal(cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &value),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &value),
                     CUDA_ERROR_INVALID_HANDLE);
}

static void test_attributes_are_copied_within_a_context(void **state) {
    CUstream first = create_stream(), second = create_stream(), elsewhere;
    CUcontext other;

    (void)state;
    assert_ok(set_policy(first, CU_SYNC_POLICY_SPIN));
    assert_ok(set_priority(first, -3));
    assert_ok(set_domains(first, 1, 2));
    assert_ok(cuStreamCopyAttributes(second, first));
    assert_ok(set_policy(first, CU_SYNC_POLICY_YIELD));
    assert_int_equal(get(second, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY).syncPolicy,
                     CU_SYNC_POLICY_SPIN);
    assert_int_equal(get(second, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -3);
    assert_int_equal(get(second, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP).memSyncDomainMap.remote,
                     2);
    assert_ok(cuCtxCreate_v2(&other, 0, 0));
    elsewhere = create_stream();
    assert_int_equal(cuStreamCopyAttributes(elsewhere, first), CUDA_ERROR_INVALID_VALUE);
    assert_defaults(elsewhere);
    assert_ok(cuCtxDestroy_v2(other));
    assert_ok(cuCtxSetCurrent(test_context));
    assert_int_equal(cuStreamCopyAttributes(first, elsewhere), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

static void test_the_per_thread_forms_have_the_threads_stream(void **state) {
    CUstreamAttrValue value = {.priority = -1};
    CUstream stream = create_stream();

    (void)state;
    assert_ok(cuStreamSetAttribute_ptsz(NULL, CU_STREAM_ATTRIBUTE_PRIORITY, &value));
    assert_int_equal(get(CU_STREAM_PER_THREAD, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -1);
    assert_int_equal(get(NULL, CU_STREAM_ATTRIBUTE_PRIORITY).priority, 0);
    value.priority = 0;
    assert_ok(cuStreamGetAttribute_ptsz(NULL, CU_STREAM_ATTRIBUTE_PRIORITY, &value));
    assert_int_equal(value.priority, -1);
    assert_ok(cuStreamCopyAttributes_ptsz(stream, NULL));
    assert_int_equal(get(stream, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -1);
    assert_ok(cuStreamDestroy_v2(stream));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_stream_has_the_defaults),
        cmocka_unit_test(test_what_was_set_is_answered),
        cmocka_unit_test(test_the_priority_is_the_one_that_there_is),
        cmocka_unit_test(test_values_that_there_are_not_are_refused),
        cmocka_unit_test(test_attributes_that_streams_have_not_are_refused),
        cmocka_unit_test(test_attributes_are_copied_within_a_context),
        cmocka_unit_test(test_the_per_thread_forms_have_the_threads_stream),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
