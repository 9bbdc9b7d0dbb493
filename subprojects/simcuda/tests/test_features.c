/* What programs ask of devices that the simulated ones have not, and what they get for an answer.
 */
#include "test_sim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NO_DEVICE = 2 };

static void test_cooperative_launches_are_announced(void **state) {
    int value = 0;

    (void)state;
    assert_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0));
    assert_int_equal(value, 1);
}

static void test_a_context_is_made_with_parameters_that_ask_for_nothing(void **state) {
    CUexecAffinityParam affinity = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT};
    CUctxCigParam graphics = {.sharedDataType = CIG_DATA_TYPE_D3D12_COMMAND_QUEUE};
    CUctxCreateParams parameters = {0};
    CUcontext context;

    (void)state;
    assert_ok(cuCtxCreate_v4(&context, &parameters, 0, 0));
    assert_ok(cuCtxDestroy(context));
    parameters.execAffinityParams = &affinity;
    parameters.numExecAffinityParams = 1;
    assert_int_equal(cuCtxCreate_v4(&context, &parameters, 0, 0),
                     CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    parameters.cigParams = &graphics; /* one of the two only */
    assert_int_equal(cuCtxCreate_v4(&context, &parameters, 0, 0), CUDA_ERROR_INVALID_VALUE);
    parameters.execAffinityParams = NULL;
    assert_int_equal(cuCtxCreate_v4(&context, &parameters, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
}

static void test_features_that_are_not_there_are_denied(void **state) {
    CUexecAffinityParam affinity;
    unsigned int nodes;
    int supported = 7;
    char luid[8];

    (void)state;
    assert_int_equal(cuDeviceGetLuid(luid, &nodes, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuDeviceGetLuid(luid, &nodes, NO_DEVICE), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuDeviceGetLuid(NULL, &nodes, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 1));
    assert_int_equal(supported, 0);
    assert_int_equal(
        cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, NO_DEVICE),
        CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_MAX, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
                     CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    assert_int_equal(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_MAX),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxGetExecAffinity(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxResetPersistingL2Cache(), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                (CUflushGPUDirectRDMAWritesScope)1),
                     CUDA_ERROR_INVALID_VALUE);
}

static void test_calls_about_the_context_need_one(void **state) {
    CUexecAffinityParam affinity;

    (void)state;
    assert_ok(cuCtxSetCurrent(NULL));
    assert_int_equal(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxResetPersistingL2Cache(), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuCtxSetCurrent(test_context));
}

static void test_properties_are_the_attributes(void **state) {
    CUdevprop properties;
    int value;

    (void)state;
    assert_ok(cuDeviceGetProperties(&properties, 0));
    assert_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0));
    assert_true(value != 0);
    assert_int_equal(properties.maxThreadsPerBlock, value);
    assert_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0));
    assert_int_equal(properties.maxGridSize[0], value);
    assert_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    assert_int_equal(properties.SIMDWidth, value);
    assert_int_equal(cuDeviceGetProperties(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceGetProperties(&properties, NO_DEVICE), CUDA_ERROR_INVALID_DEVICE);
}

static void test_arrays_are_neither_sparse_nor_mapped_nor_planar(void **state) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 8, .Height = 8, .Format = CU_AD_FORMAT_HALF, .NumChannels = 1};
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUarray array, plane, none = (CUarray)(uintptr_t)&none;
    CUmipmappedArray mipmap;

    (void)state;
    assert_ok(cuArray3DCreate_v2(&array, &shape));
    assert_ok(cuMipmappedArrayCreate(&mipmap, &shape, 2));
    assert_int_equal(cuArrayGetPlane(&plane, array, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuArrayGetPlane(&plane, none, 0), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuArrayGetMemoryRequirements(&requirements, array, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuArrayGetMemoryRequirements(&requirements, none, 0),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuArrayGetMemoryRequirements(&requirements, array, NO_DEVICE),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuMipmappedArrayGetMemoryRequirements(&requirements, mipmap, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuMipmappedArrayGetMemoryRequirements(&requirements, (CUmipmappedArray)none, 0),
        CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuArrayGetSparseProperties(&sparse, array), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuArrayGetSparseProperties(&sparse, none), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuMipmappedArrayGetSparseProperties(&sparse, mipmap),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMipmappedArrayGetSparseProperties(&sparse, (CUmipmappedArray)none),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuMipmappedArrayDestroy(mipmap));
    assert_ok(cuArrayDestroy(array));
    shape.Flags = CUDA_ARRAY3D_SPARSE;
    assert_int_equal(cuArray3DCreate_v2(&array, &shape), CUDA_ERROR_NOT_SUPPORTED);
    shape.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    assert_int_equal(cuArray3DCreate_v2(&array, &shape), CUDA_ERROR_NOT_SUPPORTED);
}

/* --- memory of graphs --- */

static cuuint64_t graph_memory(CUgraphMem_attribute which) {
    cuuint64_t value = 12345;

    assert_ok(cuDeviceGetGraphMemAttribute(0, which, &value));
    return value;
}

static void test_memory_of_graphs_is_counted_while_a_graph_has_it(void **state) {
    cuuint64_t zero = 0, one = 1;
    CUgraphExec executable;
    CUdeviceptr pointer;
    CUstream stream;
    CUgraph graph;

    (void)state;
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuMemAllocAsync(&pointer, 3 * MiB, stream));
    assert_ok(cuMemFreeAsync(pointer, stream));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 4 * MiB);
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4 * MiB);
    assert_ok(cuDeviceGraphMemTrim(0));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4 * MiB);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 4 * MiB);
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 4 * MiB);
    assert_ok(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0);
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 4 * MiB);
    assert_ok(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 0);

    assert_int_equal(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceGetGraphMemAttribute(0, (CUgraphMem_attribute)9, &zero),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuDeviceGetGraphMemAttribute(NO_DEVICE, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero),
        CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(
        cuDeviceSetGraphMemAttribute(NO_DEVICE, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero),
        CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuDeviceGraphMemTrim(NO_DEVICE), CUDA_ERROR_INVALID_DEVICE);
    assert_ok(cuStreamDestroy_v2(stream));
}

#if CUDA_VERSION >= 12090

static void CUDA_CB never_called(void *data, CUlogLevel level, char *message, size_t length) {
    (void)data;
    (void)level;
    (void)message;
    (void)length;
    fail();
}

static void test_the_log_is_empty(void **state) {
    char buffer[8] = "before", path[] = "/tmp/test_simcuda_XXXXXX";
    CUlogsCallbackHandle handle, other;
    size_t size = sizeof buffer;
    CUlogIterator iterator = 5;
    int file = mkstemp(path);

    (void)state;
    assert_true(file >= 0);
    assert_ok(cuLogsRegisterCallback(never_called, NULL, &handle));
    assert_ok(cuLogsRegisterCallback(never_called, NULL, &other));
    assert_ptr_not_equal(handle, other);
    assert_int_equal(cuMemFree_v2(12345), CUDA_ERROR_INVALID_VALUE); /* what a driver would log */
    assert_ok(cuLogsCurrent(&iterator, 0));
    assert_ok(cuLogsDumpToMemory(&iterator, buffer, &size, 0));
    assert_int_equal(size, 0);
    assert_string_equal(buffer, "");
    assert_ok(cuLogsDumpToFile(NULL, path, 0));
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    assert_ok(cuLogsUnregisterCallback(handle));
    assert_int_equal(cuLogsUnregisterCallback(handle), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLogsUnregisterCallback(other));
    assert_int_equal(cuLogsRegisterCallback(NULL, NULL, &handle), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsCurrent(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsCurrent(&iterator, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsDumpToMemory(NULL, NULL, &size, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsDumpToMemory(NULL, buffer, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsDumpToFile(NULL, "/no/such/folder/file", 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLogsDumpToFile(NULL, path, 1), CUDA_ERROR_INVALID_VALUE);
    close(file);
    unlink(path);
}
#endif

#if CUDA_VERSION >= 13000
static void test_nothing_is_atomic_between_devices(void **state) {
    CUatomicOperation operations[2] = {CU_ATOMIC_OPERATION_INTEGER_ADD,
                                       CU_ATOMIC_OPERATION_INTEGER_MAX};
    unsigned int capabilities[3] = {7, 7, 7};

    (void)state;
    assert_ok(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, 0, 1));
    assert_true(capabilities[0] == 0 && capabilities[1] == 0 && capabilities[2] == 7);
    capabilities[0] = 7;
    assert_ok(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 1, 0));
    assert_int_equal(capabilities[0], 0);
    operations[1] = CU_ATOMIC_OPERATION_MAX;
    assert_int_equal(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 2, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceGetHostAtomicCapabilities(NULL, operations, 1, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 1, NO_DEVICE),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 1, 0, 0),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuDeviceGetP2PAtomicCapabilities(capabilities, NULL, 1, 0, 1),
                     CUDA_ERROR_INVALID_VALUE);
}
#endif

#if CUDA_VERSION >= 12040
static void ignore(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle) {
    (void)info, (void)data, (void)handle;
}

static void test_notifications_are_registered_for_a_device(void **state) {
    CUasyncCallbackHandle first, second;

    (void)state;
    assert_ok(cuDeviceRegisterAsyncNotification(0, ignore, NULL, &first));
    assert_ok(cuDeviceRegisterAsyncNotification(1, ignore, NULL, &second));
    assert_ptr_not_equal(first, second);
    assert_int_equal(cuDeviceUnregisterAsyncNotification(1, first), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuDeviceUnregisterAsyncNotification(0, first));
    assert_int_equal(cuDeviceUnregisterAsyncNotification(0, first), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuDeviceUnregisterAsyncNotification(1, second));
    assert_int_equal(cuDeviceRegisterAsyncNotification(NO_DEVICE, ignore, NULL, &first),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuDeviceRegisterAsyncNotification(0, NULL, NULL, &first),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceRegisterAsyncNotification(0, ignore, NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceUnregisterAsyncNotification(NO_DEVICE, first),
                     CUDA_ERROR_INVALID_DEVICE);
}
#endif

static void test_a_profiler_may_be_switched_in_a_context(void **state) {
    CUcontext context;

    (void)state;
    assert_ok(cuProfilerStart());
    assert_ok(cuProfilerStop());
    assert_ok(cuCtxPopCurrent_v2(&context));
    assert_int_equal(cuProfilerStart(), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuProfilerStop(), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuCtxPushCurrent_v2(context));
}

static void never_at_a_dump(void *data, int process, CUdevice device) {
    (void)data;
    (void)process;
    (void)device;
    fail();
}

static void test_callbacks_of_dumps_are_registered(void **state) {
    CUcoredumpCallbackHandle first, second, end;

    (void)state;
    assert_ok(cuCoredumpRegisterStartCallback(never_at_a_dump, NULL, &first));
    assert_ok(cuCoredumpRegisterStartCallback(never_at_a_dump, NULL, &second)); /* one more */
    assert_ptr_not_equal(first, second);
    assert_ok(cuCoredumpRegisterCompleteCallback(never_at_a_dump, NULL, &end));
    assert_ok(cuCoredumpRegisterCompleteCallback(never_at_a_dump, NULL, NULL));
    assert_int_equal(cuCoredumpRegisterStartCallback(NULL, NULL, &end), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCoredumpDeregisterStartCallback(end), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCoredumpDeregisterCompleteCallback(first), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCoredumpDeregisterCompleteCallback(end));
    assert_ok(cuCoredumpDeregisterStartCallback(first));
    assert_int_equal(cuCoredumpDeregisterStartCallback(first), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCoredumpDeregisterStartCallback(second));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_profiler_may_be_switched_in_a_context),
        cmocka_unit_test(test_cooperative_launches_are_announced),
        cmocka_unit_test(test_a_context_is_made_with_parameters_that_ask_for_nothing),
        cmocka_unit_test(test_features_that_are_not_there_are_denied),
        cmocka_unit_test(test_calls_about_the_context_need_one),
        cmocka_unit_test(test_properties_are_the_attributes),
        cmocka_unit_test(test_arrays_are_neither_sparse_nor_mapped_nor_planar),
        cmocka_unit_test(test_memory_of_graphs_is_counted_while_a_graph_has_it),
        cmocka_unit_test(test_callbacks_of_dumps_are_registered),
#if CUDA_VERSION >= 12040
        cmocka_unit_test(test_notifications_are_registered_for_a_device),
#endif
#if CUDA_VERSION >= 12090
        cmocka_unit_test(test_the_log_is_empty),
#endif
#if CUDA_VERSION >= 13000
        cmocka_unit_test(test_nothing_is_atomic_between_devices),
#endif
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
