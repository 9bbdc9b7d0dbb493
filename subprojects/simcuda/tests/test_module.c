/* Modules and libraries of the simulated device: variables, kernels, whose they are. */
#include "test_sim.h"

#include <string.h>

static const char text[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".global .align 4 .u32 counter;\n"
    ".visible .global .align 8 .b64 table[3] = {1, 0x20, 300};\n"
    ".const .align 4 .u32 limits[2] = {5, 6};\n"
    ".visible .global .attribute(.managed) .align 4 .u32 shared[4] = {7};\n" FILL_PTX
    ".global .align 4 .f32 floats[2] = {0f3FC00000, 0fC0000000};\n"
    ".global .align 8 .f64 grid[2][1] = {{0d4016000000000000}, {0d3FF0000000000000}};\n"
    ".global .align 1 .b8 letters[] = {104, 105, 0};\n"
    ".global .texref texture;\n"
    ".visible .entry own_kernel() { ret; }\n";

static size_t available(void) {
    size_t free_bytes, total;

    assert_ok(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static void test_variables(void **state) {
    CUdeviceptr counter, table, limits, shared;
    unsigned long long values[3];
    size_t before = available(), size;
    CUmodule module;

    (void)state;
    assert_ok(cuModuleLoadData(&module, text));
    assert_ok(cuModuleGetGlobal_v2(&counter, &size, module, "counter"));
    assert_int_equal(size, 4);
    values[0] = 1;
    assert_ok(cuMemcpyDtoH_v2(values, counter, size));
    assert_int_equal(values[0], 0);
    assert_ok(cuModuleGetGlobal_v2(&table, &size, module, "table"));
    assert_int_equal(size, 24);
    assert_ok(cuMemcpyDtoH_v2(values, table, size));
    assert_true(values[0] == 1 && values[1] == 0x20 && values[2] == 300);
    assert_ok(cuModuleGetGlobal_v2(&limits, &size, module, "limits"));
    assert_int_equal(size, 8);
    assert_ok(cuMemcpyDtoH_v2(values, limits, size));
    assert_int_equal(values[0], 5 | 6ull << 32);
    assert_ok(cuModuleGetGlobal_v2(&shared, NULL, module, "shared"));
    assert_int_equal(*(uint32_t *)(uintptr_t)shared, 7); /* the host may touch it */
    assert_ok(launch_fill(NULL, shared, 4, 9));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(((uint32_t *)(uintptr_t)shared)[3], 9);
    assert_int_equal(cuModuleGetGlobal_v2(&table, NULL, module, "fill_u32"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetGlobal_v2(NULL, NULL, module, "table"), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuModuleUnload(module));
    assert_int_equal(cuModuleGetGlobal_v2(&table, NULL, module, "table"),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuMemGetAddressRange_v2(NULL, NULL, table), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(available(), before);
}

static void test_variables_of_floats_and_of_open_size(void **state) {
    CUdeviceptr address;
    CUmodule module;
    double grid[2];
    float floats[2];
    char letters[4];
    size_t size;

    (void)state;
    assert_ok(cuModuleLoadData(&module, text));
    assert_ok(cuModuleGetGlobal_v2(&address, &size, module, "floats"));
    assert_int_equal(size, sizeof floats);
    assert_ok(cuMemcpyDtoH_v2(floats, address, size));
    assert_true(floats[0] == 1.5f && floats[1] == -2.0f);
    assert_ok(cuModuleGetGlobal_v2(&address, &size, module, "grid"));
    assert_int_equal(size, sizeof grid);
    assert_ok(cuMemcpyDtoH_v2(grid, address, size));
    assert_true(grid[0] == 5.5 && grid[1] == 1.0);
    assert_ok(cuModuleGetGlobal_v2(&address, &size, module, "letters"));
    assert_int_equal(size, 3);
    assert_ok(cuMemcpyDtoH_v2(letters, address, size));
    assert_string_equal(letters, "hi");
    assert_int_equal(cuModuleGetGlobal_v2(&address, &size, module, "texture"),
                     CUDA_ERROR_NOT_FOUND);
    assert_ok(cuModuleUnload(module));
}

/* Programs divide by these, and compare them with the device's. */
static void test_attributes_of_a_kernel(void **state) {
    static const struct {
        CUfunction_attribute attribute;
        int value;
    } expected[] = {
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, 75},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, 52},
        {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 8},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, 32},
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 0},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 48 * 1024},
    };
    CUfunction function;
    CUmodule module;
    int value;

    (void)state;
    assert_ok(cuModuleLoadData(&module, text));
    assert_ok(cuModuleGetFunction(&function, module, "fill_u32"));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_ok(cuFuncGetAttribute(&value, expected[i].attribute, function));
        assert_int_equal(value, expected[i].value);
    }
    assert_int_equal(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuModuleUnload(module));
}

/* A variable is device memory, but no allocation of the program's. */
static void test_variables_are_not_freed(void **state) {
    CUdeviceptr table, shared;
    CUipcMemHandle handle;
    unsigned int type;
    CUmodule module;

    (void)state;
    assert_ok(cuModuleLoadData(&module, text));
    assert_ok(cuModuleGetGlobal_v2(&table, NULL, module, "table"));
    assert_ok(cuModuleGetGlobal_v2(&shared, NULL, module, "shared"));
    assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, table));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(cuMemFree_v2(table), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(shared), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFreeAsync(table, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuIpcGetMemHandle(&handle, table), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuModuleUnload(module));
}

static void test_end_of_a_context(void **state) {
    CUfunction function;
    CUdeviceptr table;
    CUcontext context;
    CUmodule module;
    uint64_t count = 1;
    uint32_t value = 1;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuModuleLoadData(&module, text));
    assert_ok(cuModuleGetFunction(&function, module, "fill_u32"));
    assert_ok(cuModuleGetGlobal_v2(&table, NULL, module, "table"));
    assert_ok(cuCtxDestroy_v2(context));
    assert_int_equal(cuModuleGetFunction(&function, module, "fill_u32"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
                                    (void *[]){&table, &count, &value}, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuModuleUnload(module));
    assert_int_equal(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
}

static void test_attributes_of_a_kernel_of_a_library(void **state) {
    CUlibrary library;
    CUkernel kernel;
    int value = 0;

    (void)state;
    assert_ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    assert_ok(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0));
    assert_int_equal(value, 32);
    assert_int_equal(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX, kernel, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuKernelGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 2),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_ok(cuLibraryUnload(library));
    assert_int_equal(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0),
                     CUDA_ERROR_INVALID_HANDLE);
}

static void test_name_of_a_function(void **state) {
    const char *name = NULL;

    (void)state;
    assert_ok(cuFuncGetName(&name, test_kernel("fill_u32")));
    assert_string_equal(name, "fill_u32");
    assert_int_equal(cuFuncGetName(NULL, test_kernel("fill_u32")), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncGetName(&name, (CUfunction)&name), CUDA_ERROR_INVALID_HANDLE);
}

static void test_bad_text(void **state) {
    static const char *const texts[] = {
        ".version 7.0\n.global .u32 ;\n", ".version 7.0\n.global .u33 x\n",
        ".version 7.0\n.global .u32 x[0];\n", ".version 7.0\n.entry (\n"};
    CUmodule module;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(cuModuleLoadData(&module, texts[i]), CUDA_ERROR_INVALID_PTX);
    assert_int_equal(cuModuleLoadData(&module, "text"), CUDA_ERROR_INVALID_IMAGE);
}

static void fill_by_kernel(CUkernel kernel, CUdeviceptr to, uint32_t value) {
    uint64_t count = 1;
    uint32_t back;

    assert_ok(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
                             (void *[]){&to, &count, &value}, NULL));
    assert_ok(cuMemcpyDtoH_v2(&back, to, sizeof back));
    assert_int_equal(back, value);
}

/* A library is loaded into each context that uses it, with variables of its own in each. */
static void test_library(void **state) {
    CUdeviceptr here, there, managed;
    CUmodule module, again;
    CUfunction function;
    CUlibrary library;
    CUcontext context;
    CUkernel kernel, same;
    size_t size;

    (void)state;
    assert_ok(cuCtxPopCurrent_v2(&context));
    assert_ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "fill_u32")); /* it takes no context */
    assert_int_equal(cuLibraryGetKernel(&same, library, "no_such"), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuLibraryGetKernel(&same, library, "own_kernel"));
    assert_int_equal(cuLibraryGetModule(&module, library), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuCtxPushCurrent_v2(context));
    assert_ok(cuLibraryGetKernel(&same, library, "fill_u32"));
    assert_ptr_equal(kernel, same);
    assert_ok(cuLibraryGetGlobal(&here, &size, library, "table"));
    assert_int_equal(size, 24);
    assert_int_equal(cuLibraryGetManaged(&managed, NULL, library, "table"), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuLibraryGetManaged(&managed, NULL, library, "shared"));
    fill_by_kernel(kernel, here, 11);
    assert_ok(cuLibraryGetModule(&module, library));
    assert_ok(cuLibraryGetModule(&again, library));
    assert_ptr_equal(module, again);
    assert_int_equal(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
    assert_ok(cuKernelGetFunction(&function, kernel));

    assert_ok(cuCtxCreate_v2(&context, 0, 1));
    assert_ok(cuLibraryGetGlobal(&there, NULL, library, "table"));
    assert_int_not_equal(here, there);
    fill_by_kernel(kernel, there, 12);
    assert_ok(cuCtxDestroy_v2(context));

    assert_ok(cuLibraryUnload(library));
    assert_int_equal(cuLibraryUnload(library), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLibraryGetKernel(&kernel, library, "fill_u32"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuKernelGetFunction(&function, same), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuMemGetAddressRange_v2(NULL, NULL, here), CUDA_ERROR_NOT_FOUND);
}

/* A reset takes a library's module along; the next use loads it again. */
static void test_library_after_reset(void **state) {
    CUlibrary library;
    CUdeviceptr block;
    CUkernel kernel;
    CUcontext context;

    (void)state;
    assert_ok(cuDevicePrimaryCtxRetain(&context, 1));
    assert_ok(cuCtxPushCurrent_v2(context));
    assert_ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    for (int round = 0; round < 2; round++) {
        assert_ok(cuMemAlloc_v2(&block, 4));
        fill_by_kernel(kernel, block, 1);
        assert_ok(cuDevicePrimaryCtxReset_v2(1));
    }
    assert_ok(cuLibraryUnload(library));
    assert_ok(cuCtxPopCurrent_v2(&context));
    assert_ok(cuDevicePrimaryCtxRelease_v2(1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes_of_a_kernel),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_variables_of_floats_and_of_open_size),
        cmocka_unit_test(test_variables_are_not_freed),
        cmocka_unit_test(test_end_of_a_context),
        cmocka_unit_test(test_attributes_of_a_kernel_of_a_library),
        cmocka_unit_test(test_name_of_a_function),
        cmocka_unit_test(test_end_of_a_context),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_library_after_reset),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
