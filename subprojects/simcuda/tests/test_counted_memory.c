/* Memory that is counted in bytes: SIMCUDA_COUNTED_MEMORY. */
#include "test_sim.h"

#include <stdlib.h>

static const size_t all = 5 * MiB / 2; /* of each device */
enum { MOST = 5120 };                  /* 512 bytes each */

static size_t available(void) {
    size_t left, total;

    assert_ok(cuMemGetInfo_v2(&left, &total));
    assert_int_equal(total, all);
    return left;
}

static void test_every_byte_of_the_device_serves_small_allocations(void **state) {
    static CUdeviceptr blocks[MOST];
    CUcontext context;
    CUdeviceptr more;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    for (size_t i = 0; i < MOST; i++)
        assert_ok(cuMemAlloc_v2(&blocks[i], 1));
    assert_int_equal(available(), 0);
    assert_int_equal(cuMemAlloc_v2(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < MOST; i += 2) /* all that is left lies between live blocks */
        assert_ok(cuMemFree_v2(blocks[i]));
    assert_int_equal(available(), all / 2);
    assert_int_equal(cuMemAlloc_v2(&more, all / 2 + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemAlloc_v2(&more, all / 2));
    assert_int_equal(available(), 0);
    assert_ok(cuCtxDestroy_v2(context));
}

static void test_from_a_page_on_allocations_take_whole_pages(void **state) {
    CUcontext context;
    CUdeviceptr small, large;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_int_equal(cuMemAlloc_v2(&large, 2 * MiB + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemAlloc_v2(&small, MiB / 2 + 1));
    assert_int_equal(cuMemAlloc_v2(&large, 2 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemFree_v2(small));
    assert_ok(cuMemAlloc_v2(&small, MiB / 2));
    assert_ok(cuMemAlloc_v2(&large, 2 * MiB));
    assert_int_equal(available(), 0);
    assert_ok(cuMemFree_v2(small));
    assert_ok(cuMemFree_v2(large));
    assert_int_equal(available(), all);
    assert_ok(cuCtxDestroy_v2(context));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_of_the_device_serves_small_allocations),
        cmocka_unit_test(test_from_a_page_on_allocations_take_whole_pages),
    };

    if (cuInit(0) != CUDA_SUCCESS)
        return EXIT_FAILURE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
