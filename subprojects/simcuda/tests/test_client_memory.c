/* What one process may take of a device that has more: SIMCUDA_CLIENT_MEMORY. */
#include "test_sim.h"

#include <stdlib.h>

static const size_t most = 16 * MiB;

static void test_more_than_a_client_may_take_is_out_of_memory_on_each_device(void **state) {
    CUcontext contexts[2];
    CUdeviceptr first, second;

    (void)state;
    for (CUdevice device = 0; device < 2; device++) {
        assert_ok(cuCtxCreate_v2(&contexts[device], 0, device));
        assert_ok(cuMemAlloc_v2(&first, most - 4 * MiB));
        assert_int_equal(cuMemAlloc_v2(&second, 4 * MiB + 1), CUDA_ERROR_OUT_OF_MEMORY);
        assert_ok(cuMemAlloc_v2(&second, 4 * MiB));
        assert_ok(cuMemFree_v2(first));
        assert_ok(cuMemAlloc_v2(&first, most - 4 * MiB));
    }
    for (CUdevice device = 0; device < 2; device++)
        assert_ok(cuCtxDestroy_v2(contexts[device]));
}

static void test_physical_memory_and_memory_pools_count_as_well(void **state) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUcontext context;
    CUdeviceptr block;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuMemCreate(&handle, most - 2 * MiB, &kind, 0));
    assert_int_equal(cuMemAllocAsync(&block, 4 * MiB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemRelease(handle));
    assert_ok(cuMemAllocAsync(&block, 4 * MiB, NULL));
    assert_int_equal(cuMemCreate(&handle, most - 2 * MiB, &kind, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemFreeAsync(block, NULL));
    assert_ok(cuCtxDestroy_v2(context));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_a_client_may_take_is_out_of_memory_on_each_device),
        cmocka_unit_test(test_physical_memory_and_memory_pools_count_as_well),
    };

    if (cuInit(0) != CUDA_SUCCESS)
        return EXIT_FAILURE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
