/* Launches whose block and parameters were set for the function before. */
#include "test_sim.h"

#include <string.h>

static const char text[] = ".version 7.0\n"
                           ".target sm_60\n"
                           ".visible .global .texref texture;\n"
                           ".visible .entry fill_u32(.param .u64 to, .param .u64 count,\n"
                           " .param .u32 value) .maxntid 64 {\n" FILL_BODY SCALE_PTX;

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

static void test_parameters_are_laid_out_by_offset(void **state) {
    CUfunction fill = function_named("fill_u32"), scale = function_named("scale_f32");
    uint64_t count = 4;
    CUdeviceptr memory;
    CUstream stream;
    float back[4];

    (void)state;
    assert_ok(cuMemAlloc_v2(&memory, sizeof back));
    assert_ok(cuStreamCreate(&stream, 0));
    assert_int_equal(cuLaunch(fill), CUDA_ERROR_INVALID_VALUE); /* nothing is set */
    assert_ok(cuFuncSetBlockShape(fill, 32, 2, 1));
    assert_ok(cuFuncSetSharedSize(fill, 1024));
    assert_ok(cuParamSetv(fill, 0, &memory, sizeof memory));
    assert_ok(cuParamSetv(fill, 8, &count, sizeof count));
    assert_ok(cuParamSeti(fill, 16, 0x40400000)); /* 3.0 */
    assert_ok(cuParamSetSize(fill, 20));
    assert_ok(cuLaunchGridAsync(fill, 4, 2, stream));
    assert_ok(cuFuncSetBlockShape(scale, 1, 1, 1));
    assert_ok(cuParamSetv(scale, 0, &memory, sizeof memory));
    assert_ok(cuParamSetv(scale, 8, &count, sizeof count));
    assert_ok(cuParamSetf(scale, 16, 2.0f));
    assert_ok(cuParamSetSize(scale, 20));
    assert_ok(cuLaunchGrid(scale, 1, 1));
    assert_ok(cuLaunch(scale)); /* what was set stays */
    assert_ok(cuMemcpyDtoH_v2(back, memory, sizeof back));
    assert_true(back[0] == 12.0f && back[3] == 12.0f);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuMemFree_v2(memory));
}

static void test_what_cannot_be_set(void **state) {
    CUfunction fill = function_named("fill_u32");
    CUtexref texture, other;
    uint64_t value = 0;

    (void)state;
    assert_int_equal(cuFuncSetBlockShape(fill, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuParamSetSize(fill, 4097), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuParamSetv(fill, -1, &value, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuParamSetv(fill, 4089, &value, 8), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuParamSetv(fill, 4088, &value, 8));
    assert_int_equal(cuParamSetv(fill, 0, NULL, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuParamSeti((CUfunction)&value, 0, 1), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncSetBlockShape((CUfunction)&value, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLaunchGrid((CUfunction)&value, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLaunchGrid(fill, 0, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuModuleGetTexRef(&texture, module, "texture"));
    assert_ok(cuTexRefCreate(&other));
    assert_ok(cuParamSetTexRef(fill, CU_PARAM_TR_DEFAULT, texture));
    assert_int_equal(cuParamSetTexRef(fill, 0, texture), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuParamSetTexRef(fill, CU_PARAM_TR_DEFAULT, other), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexRefDestroy(other));
}

static void test_a_launch_keeps_to_what_the_kernel_allows(void **state) {
    CUfunction fill = function_named("fill_u32");
    CUdeviceptr memory;

    (void)state;
    assert_ok(cuMemAlloc_v2(&memory, 4));
    assert_ok(cuParamSetv(fill, 0, &memory, sizeof memory));
    assert_ok(cuParamSetv(fill, 8, &(uint64_t){1}, 8));
    assert_ok(cuParamSetSize(fill, 20));
    assert_ok(cuFuncSetSharedSize(fill, 0));
    assert_ok(cuFuncSetBlockShape(fill, 65, 1, 1));
    assert_int_equal(cuLaunch(fill), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuFuncSetBlockShape(fill, 64, 1, 1));
    assert_ok(cuFuncSetSharedSize(fill, 49153));
    assert_int_equal(cuLaunch(fill), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuFuncSetSharedSize(fill, 49152));
    assert_ok(cuLaunch(fill));
    assert_ok(cuParamSetSize(fill, 16)); /* a parameter is missing */
    assert_int_equal(cuLaunch(fill), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemFree_v2(memory));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_are_laid_out_by_offset),
        cmocka_unit_test(test_what_cannot_be_set),
        cmocka_unit_test(test_a_launch_keeps_to_what_the_kernel_allows),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
