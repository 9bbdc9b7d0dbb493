/* Attributes and settings of kernels: what the text says of them, and what the program sets. */
#include "test_sim.h"

#include <stdlib.h>
#include <string.h>

static const char text[] =
    ".version 8.0\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".const .align 4 .b8 table[200];\n"
    ".shared .align 4 .b8 common_tile[512];\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"
    ".visible .entry plain(.param .u64 to) { isspacep.shared %p1, %rd1; ret; }\n"
    ".visible .entry bounded(.param .u64 to)\n"
    ".maxntid 16, 8\n"
    ".minnctapersm 2\n"
    ".maxnreg 24\n"
    "{\n"
    " .local .align 8 .b8 __local_depot1[64];\n"
    " .shared .align 4 .f32 tile[32][2];\n"
    " { mov.u32 %r1, common_tile; mov.u32 %r1, dynamic; }\n"
    " ret;\n"
    "}\n"
    ".visible .entry clustered()\n"
    ".reqntid 64\n"
    ".reqnctapercluster 2, 2\n"
    "{ mov.u32 %r1, common_tile2; ret; }\n"
    ".visible .entry large()\n"
    "{ .shared .b8 tile[49160]; ret; }\n"
    ".func helper() { .shared .b8 own[4096]; .local .b8 depot[4096]; ret; }\n";

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

static int attribute(CUfunction function, CUfunction_attribute which) {
    int value = -2;

    assert_ok(cuFuncGetAttribute(&value, which, function));
    return value;
}

static CUresult launch_blocks(CUfunction function, unsigned int threads, unsigned int shared) {
    uint64_t parameter = 0;

    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared, NULL, (void *[]){&parameter},
                          NULL);
}

static void test_the_text_says_what_a_kernel_needs(void **state) {
    CUfunction plain = function_named("plain"), bounded = function_named("bounded"),
               clustered = function_named("clustered");

    (void)state;
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_NUM_REGS), 32);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 0);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES), 200);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_PTX_VERSION), 60);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 75);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), 0);

    assert_int_equal(attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
    assert_int_equal(attribute(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS), 24);
    assert_int_equal(attribute(bounded, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 256 + 512);
    assert_int_equal(attribute(bounded, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 64);
    assert_int_equal(attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
                     48 * 1024 - 768);

    assert_int_equal(attribute(clustered, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
    assert_int_equal(attribute(clustered, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 0);
    assert_int_equal(attribute(clustered, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET), 1);
    assert_int_equal(attribute(clustered, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT), 2);
    assert_int_equal(attribute(clustered, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH), 1);

    assert_int_equal(
        attribute(function_named("large"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 0);
}

static void test_a_launch_keeps_to_what_the_kernel_allows(void **state) {
    CUfunction bounded = function_named("bounded");

    (void)state;
    assert_ok(launch_blocks(bounded, 128, 0));
    assert_int_equal(launch_blocks(bounded, 129, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(launch_blocks(bounded, 1, 48 * 1024 - 768));
    assert_int_equal(launch_blocks(bounded, 1, 48 * 1024), CUDA_ERROR_INVALID_VALUE);
    assert_ok(
        cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 * 1024));
    assert_ok(launch_blocks(bounded, 1, 64 * 1024));
    assert_int_equal(launch_blocks(bounded, 1, 64 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxSynchronize());
}

static void test_what_can_be_set_is_read_again(void **state) {
    static const struct {
        CUfunction_attribute attribute;
        int good, bad;
    } settable[] = {
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 166912, 166913},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100, 101},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1, -2},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4, -1},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, 2},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
         CU_CLUSTER_SCHEDULING_POLICY_SPREAD, 3},
    };
    CUfunction plain = function_named("plain");

    (void)state;
    for (size_t i = 0; i < sizeof settable / sizeof *settable; i++) {
        assert_ok(cuFuncSetAttribute(plain, settable[i].attribute, settable[i].good));
        assert_int_equal(attribute(plain, settable[i].attribute), settable[i].good);
        assert_int_equal(cuFuncSetAttribute(plain, settable[i].attribute, settable[i].bad),
                         CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(attribute(plain, settable[i].attribute), settable[i].good);
    }
    for (int which = 0; which < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES; which++)
        assert_int_equal(cuFuncSetAttribute(plain, (CUfunction_attribute)which, 1),
                         CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_MAX, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncSetAttribute(function_named("clustered"),
                                        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 1),
                     CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(cuFuncSetAttribute((CUfunction)&module,
                                        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 1),
                     CUDA_ERROR_INVALID_HANDLE);
}

static void test_a_functions_setting_comes_before_its_librarys(void **state) {
    const CUfunction_attribute which = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUfunction function;
    CUlibrary library;
    CUkernel kernel;
    int value;

    (void)state;
    assert_ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "plain"));
    assert_ok(cuKernelGetFunction(&function, kernel));
    assert_ok(cuKernelSetAttribute(which, 60000, kernel, 0));
    assert_int_equal(attribute(function, which), 60000);
    assert_ok(cuKernelGetAttribute(&value, which, kernel, 1)); /* each device has its own */
    assert_int_equal(value, 48 * 1024);
    assert_ok(cuFuncSetAttribute(function, which, 50000));
    assert_ok(cuKernelSetAttribute(which, 70000, kernel, 0));
    assert_int_equal(attribute(function, which), 50000);
    assert_ok(cuKernelGetAttribute(&value, which, kernel, 0));
    assert_int_equal(value, 70000);
    assert_int_equal(cuKernelSetAttribute(which, 1, kernel, 2), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuKernelSetAttribute(which, -1, kernel, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLibraryUnload(library));
    assert_int_equal(cuKernelSetAttribute(which, 1, kernel, 0), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncGetAttribute(&value, which, function), CUDA_ERROR_INVALID_HANDLE);
}

static void test_hints_are_taken_if_they_are_valid(void **state) {
    CUfunction plain = function_named("plain");
    CUlibrary library;
    CUkernel kernel;

    (void)state;
    assert_ok(cuFuncSetCacheConfig(plain, CU_FUNC_CACHE_PREFER_EQUAL));
    assert_int_equal(cuFuncSetCacheConfig(plain, (CUfunc_cache)4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncSetCacheConfig((CUfunction)&module, CU_FUNC_CACHE_PREFER_L1),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuFuncSetSharedMemConfig(plain, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
    assert_int_equal(cuFuncSetSharedMemConfig(plain, (CUsharedconfig)3), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "plain"));
    assert_ok(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 1));
    assert_int_equal(cuKernelSetCacheConfig(kernel, (CUfunc_cache)-1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 2),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_ok(cuLibraryUnload(library));
    assert_int_equal(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 0),
                     CUDA_ERROR_INVALID_HANDLE);
}

static void test_kernels_of_a_library_are_listed(void **state) {
    CUlibrary library, owner;
    CUkernel kernels[8] = {NULL}, plain;
    const char *name, *first;
    unsigned int count;
    void *function;

    (void)state;
    assert_ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernelCount(&count, library));
    assert_int_equal(count, 4);
    assert_ok(cuLibraryEnumerateKernels(kernels, 8, library));
    assert_non_null(kernels[3]);
    assert_null(kernels[4]);
    assert_ok(cuKernelGetName(&first, kernels[0]));
    assert_ok(cuLibraryGetKernel(&plain, library, first));
    assert_ptr_equal(plain, kernels[0]);
    assert_ok(cuKernelGetName(&name, kernels[1]));
    assert_string_not_equal(name, first);
    assert_ok(cuKernelGetLibrary(&owner, kernels[2]));
    assert_ptr_equal(owner, library);
    kernels[1] = NULL;
    assert_ok(cuLibraryEnumerateKernels(kernels, 1, library));
    assert_null(kernels[1]);
    assert_int_equal(cuLibraryGetUnifiedFunction(&function, library, "plain"),
                     CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuLibraryGetUnifiedFunction(NULL, library, "plain"), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLibraryGetKernelCount(NULL, library), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLibraryEnumerateKernels(NULL, 1, library), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuKernelGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLibraryUnload(library));
    assert_int_equal(cuLibraryGetKernelCount(&count, library), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLibraryEnumerateKernels(kernels, 1, library), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuKernelGetLibrary(&owner, kernels[0]), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuKernelGetName(&name, kernels[0]), CUDA_ERROR_INVALID_HANDLE);
}

static void test_functions_are_loaded_when_they_are_first_used(void **state) {
    CUfunction functions[4] = {NULL};
    CUfunctionLoadingState loaded;
    CUmoduleLoadingMode mode;
    unsigned int count;
    CUmodule lazy;

    (void)state;
    assert_ok(cuModuleGetLoadingMode(&mode));
    assert_int_equal(mode, CU_MODULE_LAZY_LOADING);
    assert_ok(cuModuleLoadData(&lazy, text));
    assert_ok(cuModuleGetFunctionCount(&count, lazy));
    assert_int_equal(count, 4);
    assert_ok(cuModuleEnumerateFunctions(functions, 4, lazy));
    for (size_t i = 0; i < 4; i++) {
        assert_ok(cuFuncIsLoaded(&loaded, functions[i]));
        assert_int_equal(loaded, CU_FUNCTION_LOADING_STATE_UNLOADED);
    }
    assert_ok(cuFuncLoad(functions[0]));
    assert_ok(cuFuncIsLoaded(&loaded, functions[0]));
    assert_int_equal(loaded, CU_FUNCTION_LOADING_STATE_LOADED);
    assert_ok(launch_blocks(functions[1], 1, 0));
    assert_ok(cuFuncIsLoaded(&loaded, functions[1]));
    assert_int_equal(loaded, CU_FUNCTION_LOADING_STATE_LOADED);
    assert_int_equal(cuModuleGetFunctionCount(NULL, lazy), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuModuleEnumerateFunctions(NULL, 1, lazy), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncIsLoaded(NULL, functions[0]), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuModuleUnload(lazy));
    assert_int_equal(cuFuncLoad(functions[0]), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuModuleGetFunctionCount(&count, lazy), CUDA_ERROR_INVALID_HANDLE);

    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    assert_ok(cuModuleGetLoadingMode(&mode));
    assert_int_equal(mode, CU_MODULE_EAGER_LOADING);
    assert_ok(cuModuleLoadData(&lazy, text));
    assert_ok(cuModuleEnumerateFunctions(functions, 1, lazy));
    assert_ok(cuFuncIsLoaded(&loaded, functions[0]));
    assert_int_equal(loaded, CU_FUNCTION_LOADING_STATE_LOADED);
    assert_ok(cuModuleUnload(lazy));
    unsetenv("CUDA_MODULE_LOADING");
    assert_int_equal(cuModuleGetLoadingMode(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void test_what_is_no_text_is_refused(void **state) {
    static const char *const texts[] = {
        ".version 7.0\n.entry f() { { ret; }\n", ".version 7.0\nvoid f() { }\n",
        ".version 7.0\n.entry f() { ret; } ret;\n", ".version 7.0\n.entry f() } { ret; }\n"};
    CUmodule loaded;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(cuModuleLoadData(&loaded, texts[i]), CUDA_ERROR_INVALID_PTX);
}

static void test_comments_and_strings_are_passed_over(void **state) {
    static const char commented[] = "// made by hand: { .shared all\n"
                                    ".version 7.0 /* { .entry none */\n"
                                    ".target sm_60\n"
                                    ".file 1 \"no // comment } \"\n"
                                    "@@DWARF .byte 1\n"
                                    ".section .debug_str\n"
                                    "{\n"
                                    "info: .b8 1\n"
                                    "}\n"
                                    ".visible .entry plain() // {\n"
                                    "{ .pragma \"nounroll\"; /* } */ ret; }\n"
                                    ".visible .global .u32 numbers[2] = {1, 2}; // the end";
    unsigned int count;
    CUmodule loaded;

    (void)state;
    assert_ok(cuModuleLoadData(&loaded, commented));
    assert_ok(cuModuleGetFunctionCount(&count, loaded));
    assert_int_equal(count, 1);
    assert_ok(cuModuleUnload(loaded));
}

static void test_a_kernel_that_is_only_declared_is_none(void **state) {
    static const char declared[] = ".version 7.0\n.target sm_60\n"
                                   ".entry plain (.param .u64 %first);\n"
                                   ".entry absent (.param .u64 %first);\n"
                                   ".entry plain (.param .u64 %first)\n"
                                   ".maxntid 96\n"
                                   "{ .shared .align 4 .b8 tile[40]; ret; }\n";
    static const char damaged[] = ".version 7.0\n.entry plain (.param .u64 %);\n";
    CUfunction function;
    unsigned int count;
    CUmodule loaded;

    (void)state;
    assert_ok(cuModuleLoadData(&loaded, declared));
    assert_ok(cuModuleGetFunctionCount(&count, loaded));
    assert_int_equal(count, 1);
    assert_int_equal(cuModuleGetFunction(&function, loaded, "absent"), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuModuleGetFunction(&function, loaded, "plain"));
    assert_int_equal(attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 96);
    assert_int_equal(attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 40);
    assert_ok(cuModuleUnload(loaded));
    assert_int_equal(cuModuleLoadData(&loaded, damaged), CUDA_ERROR_INVALID_PTX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_text_says_what_a_kernel_needs),
        cmocka_unit_test(test_a_launch_keeps_to_what_the_kernel_allows),
        cmocka_unit_test(test_what_can_be_set_is_read_again),
        cmocka_unit_test(test_a_functions_setting_comes_before_its_librarys),
        cmocka_unit_test(test_hints_are_taken_if_they_are_valid),
        cmocka_unit_test(test_kernels_of_a_library_are_listed),
        cmocka_unit_test(test_functions_are_loaded_when_they_are_first_used),
        cmocka_unit_test(test_what_is_no_text_is_refused),
        cmocka_unit_test(test_comments_and_strings_are_passed_over),
        cmocka_unit_test(test_a_kernel_that_is_only_declared_is_none),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
