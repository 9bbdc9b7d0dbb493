/* How many blocks of a kernel fit on a multiprocessor, on a device of compute capability 9.0. */
#include "test_sim.h"

#include <stdlib.h>
#include <string.h>

static const char text[] = ".version 8.0\n"
                           ".target sm_60\n"
                           ".visible .entry plain() { ret; }\n"
                           ".visible .entry shared() { .shared .b8 tile[20000]; ret; }\n"
                           ".visible .entry bounded() .maxntid 96 { ret; }\n"
                           ".visible .entry clustered() .reqnctapercluster 2,1,1 { ret; }\n";

static CUmodule module;

static int set_up(void **state) {
    set_up_context(state);
    assert_ok(cuModuleLoadData(&module, text));
    return 0;
}

static int tear_down(void **state) {
    assert_ok(cuModuleUnload(module));
    return tear_down_context(state);
}

static CUfunction function_named(const char *name) {
    CUfunction function;

    assert_ok(cuModuleGetFunction(&function, module, name));
    return function;
}

static int blocks(const char *name, int size, size_t dynamic) {
    int count = -1, again = -1;

    assert_ok(
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, function_named(name), size, dynamic));
    assert_ok(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &again, function_named(name), size, dynamic, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
    assert_int_equal(count, again);
    return count;
}

static void test_each_limit_of_a_multiprocessor_counts(void **state) {
    (void)state;
    assert_int_equal(blocks("plain", 1024, 0), 2);   /* threads */
    assert_int_equal(blocks("plain", 100, 0), 16);   /* whole warps */
    assert_int_equal(blocks("plain", 1, 0), 32);     /* blocks */
    assert_int_equal(blocks("plain", 32, 40960), 4); /* shared memory: 1024 bytes more each */
    assert_int_equal(blocks("shared", 32, 0), 7);
    assert_int_equal(blocks("plain", 1025, 0), 0);
    assert_int_equal(blocks("bounded", 97, 0), 0);
    assert_int_equal(blocks("plain", 32, 49153), 0);
    assert_ok(cuFuncSetAttribute(function_named("plain"),
                                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    assert_int_equal(blocks("plain", 32, 49153), 3);
    assert_ok(cuFuncSetAttribute(function_named("plain"),
                                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 49152));
}

static size_t half_a_kilobyte_each(int block_size) {
    int count;

    cuDeviceGetCount(&count); /* calls are allowed here */
    return (size_t)block_size * 512;
}

static void test_the_block_size_with_most_threads(void **state) {
    int grid, block;

    (void)state;
    assert_ok(cuOccupancyMaxPotentialBlockSize(&grid, &block, function_named("plain"), NULL, 0, 0));
    assert_int_equal(block, 1024);
    assert_int_equal(grid, 2 * 108);
    assert_ok(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function_named("plain"),
                                                        NULL, 0, 700, CU_OCCUPANCY_DEFAULT));
    assert_int_equal(block, 512); /* of several with as many threads the largest: not 256 */
    assert_int_equal(grid, 4 * 108);
    assert_ok(
        cuOccupancyMaxPotentialBlockSize(&grid, &block, function_named("plain"), NULL, 0, 50));
    assert_int_equal(block, 50); /* no whole warps */
    assert_ok(cuOccupancyMaxPotentialBlockSize(&grid, &block, function_named("plain"),
                                               half_a_kilobyte_each, 0, 0));
    assert_int_equal(block, 96); /* 48 KiB, three of them */
    assert_int_equal(grid, 3 * 108);
    assert_ok(
        cuOccupancyMaxPotentialBlockSize(&grid, &block, function_named("bounded"), NULL, 0, 0));
    assert_int_equal(block, 64); /* 32 blocks of two warps, where 21 of three fit */
    assert_int_equal(
        cuOccupancyMaxPotentialBlockSize(NULL, &block, function_named("plain"), NULL, 0, 0),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuOccupancyMaxPotentialBlockSizeWithFlags(
                         &grid, &block, function_named("plain"), NULL, 0, 0, 2),
                     CUDA_ERROR_INVALID_VALUE);
}

static void test_shared_memory_that_leaves_room_for_blocks(void **state) {
    CUfunction shared = function_named("shared");
    size_t dynamic;
    int count;

    (void)state;
    for (int wanted = 1; wanted <= 7; wanted++) {
        assert_ok(cuOccupancyAvailableDynamicSMemPerBlock(&dynamic, shared, wanted, 64));
        assert_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, shared, 64, dynamic));
        assert_true(count >= wanted);
    }
    assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(&dynamic, shared, 8, 64),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(&dynamic, shared, 0, 64),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(NULL, shared, 1, 64),
                     CUDA_ERROR_INVALID_VALUE);
}

static void test_kernels_of_a_library_are_measured_in_the_current_context(void **state) {
    CUlibrary library;
    CUcontext context;
    CUkernel kernel;
    int count;

    (void)state;
    assert_ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "bounded"));
    assert_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, (CUfunction)kernel, 96, 0));
    assert_int_equal(count, 21);
    assert_ok(cuCtxPopCurrent_v2(&context));
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, (CUfunction)kernel, 96, 0),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuCtxPushCurrent_v2(context));
    assert_ok(cuLibraryUnload(library));
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, (CUfunction)kernel, 96, 0),
                     CUDA_ERROR_INVALID_HANDLE);
}

static void test_what_is_no_question(void **state) {
    CUfunction plain = function_named("plain");
    int count;

    (void)state;
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, plain, 1, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, plain, 0, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&count, plain, 1, 0, 2),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, (CUfunction)&count, 1, 0),
                     CUDA_ERROR_INVALID_HANDLE);
}

static void test_clusters(void **state) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {4, 1, 1}};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1024,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = &attribute,
                             .numAttrs = 1};
    CUfunction plain = function_named("plain");
    int number;

    (void)state;
    assert_ok(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
    assert_int_equal(number, 1);
    assert_ok(cuOccupancyMaxPotentialClusterSize(&number, plain, &config));
    assert_int_equal(number, 8);
    assert_ok(cuOccupancyMaxPotentialClusterSize(&number, function_named("clustered"), &config));
    assert_int_equal(number, 2);
    assert_ok(cuOccupancyMaxActiveClusters(&number, plain, &config));
    assert_int_equal(number, 2 * 108 / 4);
    attribute.value.clusterDim.x = 16;
    assert_int_equal(cuOccupancyMaxActiveClusters(&number, plain, &config),
                     CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_ok(cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    assert_ok(cuOccupancyMaxActiveClusters(&number, plain, &config));
    assert_ok(cuOccupancyMaxPotentialClusterSize(&number, plain, &config));
    assert_int_equal(number, 16);
    assert_int_equal(cuOccupancyMaxActiveClusters(&number, function_named("clustered"), &config),
                     CUDA_ERROR_INVALID_CLUSTER_SIZE);
    config.numAttrs = 0;
    assert_ok(cuOccupancyMaxActiveClusters(&number, function_named("clustered"), &config));
    assert_int_equal(number, 108);
    assert_int_equal(cuOccupancyMaxActiveClusters(&number, plain, &config),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuOccupancyMaxPotentialClusterSize(&number, plain, NULL),
                     CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_limit_of_a_multiprocessor_counts),
        cmocka_unit_test(test_the_block_size_with_most_threads),
        cmocka_unit_test(test_shared_memory_that_leaves_room_for_blocks),
        cmocka_unit_test(test_kernels_of_a_library_are_measured_in_the_current_context),
        cmocka_unit_test(test_what_is_no_question),
        cmocka_unit_test(test_clusters),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
