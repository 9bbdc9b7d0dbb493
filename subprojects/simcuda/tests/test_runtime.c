/* The simulated runtime: what nvcc's host code registers, launches and asks for. */
#include "test_runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static void test_a_registered_kernel_is_launched_by_every_function_that_launches(void **state) {
    uint32_t *memory, value;
    uint64_t count = 2;
    cudaKernel_t of_driver = NULL;

    (void)state;
    assert_ok(cudaMalloc((void **)&memory, 64));
    assert_ok(fill(memory, 2, 1, NULL));
    assert_int_equal(word_at(memory + 1), 1);
    value = 2;
    void *arguments[] = {&memory, &count, &value};
    cudaLaunchConfig_t configuration = {.gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}};
    assert_ok(cudaLaunchKernelExC(&configuration, &fill_host, arguments));
    assert_int_equal(word_at(memory), 2);
    value = 3;
    assert_ok(cudaLaunchCooperativeKernel(&fill_host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments,
                                          0, NULL));
    assert_int_equal(word_at(memory), 3);
    value = 4;
#if CUDART_VERSION >= 12010
    assert_ok(cudaGetKernel(&of_driver, &fill_host));
    assert_ok(cudaLaunchKernel(of_driver, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, NULL));
    assert_int_equal(word_at(memory), 4);
#else
    (void)of_driver;
#endif
    assert_ok(cudaFree(memory));
}

static void test_what_is_no_kernel_is_not_launched(void **state) {
    dim3 one = {1, 1, 1};

    (void)state;
    assert_fails(cudaErrorInvalidDeviceFunction,
                 cudaLaunchKernel(&missing_host, one, one, NULL, 0, NULL));
    assert_fails(cudaErrorInvalidDeviceFunction,
                 cudaLaunchKernel(&counter_host, one, one, NULL, 0, NULL));
    assert_fails(cudaErrorInvalidDeviceFunction, cudaGetLastError());
    assert_ok(cudaGetLastError());
}

static void test_sizes_that_no_kernel_can_have_are_an_invalid_configuration(void **state) {
    dim3 one = {1, 1, 1}, none = {1, 0, 1}, wide = {2048, 1, 1};

    (void)state;
    assert_fails(cudaErrorInvalidConfiguration,
                 cudaLaunchKernel(&fault_host, none, one, NULL, 0, NULL));
    assert_fails(cudaErrorInvalidConfiguration,
                 cudaLaunchKernel(&fault_host, one, wide, NULL, 0, NULL));
    assert_fails(cudaErrorInvalidValue,
                 cudaLaunchKernel(&fault_host, one, one, NULL, (size_t)1 << 40, NULL));
    assert_fails(cudaErrorInvalidValue, cudaGetLastError());
}

static void test_configurations_of_calls_within_calls_come_back_in_turn(void **state) {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;

    (void)state;
    for (unsigned int i = 1; i <= 3; i++)
        assert_int_equal(__cudaPushCallConfiguration((dim3){i, 1, 1}, (dim3){1, i, 1}, i, NULL), 0);
    for (unsigned int i = 3; i >= 1; i--) {
        assert_ok(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
        assert_true(grid.x == i && block.y == i && shared == i && stream == NULL);
    }
    assert_fails(cudaErrorMissingConfiguration,
                 __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    assert_fails(cudaErrorMissingConfiguration, cudaGetLastError());
}

static void test_variables_are_found_by_those_of_the_host(void **state) {
    uint32_t words[2] = {0, 0};
    size_t size;
    void *address;

    (void)state;
    assert_ok(cudaGetSymbolSize(&size, &limits_host));
    assert_int_equal(size, 8);
    assert_ok(cudaMemcpyFromSymbol(words, &limits_host, 8, 0, cudaMemcpyDeviceToHost));
    assert_true(words[0] == 5 && words[1] == 6);
    words[0] = 9;
    assert_ok(cudaMemcpyToSymbolAsync(&limits_host, words, 4, 4, cudaMemcpyHostToDevice, NULL));
    assert_ok(cudaMemcpyFromSymbol(words, &limits_host, 4, 4, cudaMemcpyDefault));
    assert_int_equal(words[0], 9);
    assert_ok(cudaGetSymbolAddress(&address, &counter_host));
    assert_ok(fill(address, 1, 77, NULL));
    assert_ok(cudaMemcpyFromSymbol(words, &counter_host, 4, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(words[0], 77);
    assert_fails(cudaErrorInvalidValue,
                 cudaMemcpyToSymbol(&limits_host, words, 4, 5, cudaMemcpyHostToDevice));
    assert_fails(cudaErrorInvalidValue,
                 cudaMemcpyToSymbol(&limits_host, words, 4, SIZE_MAX, cudaMemcpyHostToDevice));
    assert_fails(cudaErrorInvalidMemcpyDirection,
                 cudaMemcpyToSymbol(&limits_host, words, 4, 0, cudaMemcpyDeviceToHost));
    assert_fails(cudaErrorInvalidSymbol, cudaGetSymbolSize(&size, &fill_host));
    assert_fails(cudaErrorInvalidSymbol, cudaGetLastError());
}

static void test_a_managed_variable_is_the_hosts_too(void **state) {
    void *address;
    uint32_t word;

    (void)state;
    assert_true(__cudaInitModule(runtime_image));
    assert_int_equal(shared_host[0], 7);
    assert_ok(cudaGetSymbolAddress(&address, shared_host));
    assert_ptr_equal(address, shared_host);
    assert_ok(fill(shared_host, 4, 8, NULL));
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(shared_host[3], 8);
    assert_ok(cudaMemcpyFromSymbol(&word, shared_host, 4, 12, cudaMemcpyDefault));
    assert_int_equal(word, 8);
}

static void test_what_was_unregistered_is_unknown(void **state) {
    static char host;
    struct fatbin_wrapper wrapper = {0x466243b1, 1, runtime_ptx, NULL};
    void **image = __cudaRegisterFatBinary(&wrapper);
    struct cudaFuncAttributes attributes;

    (void)state;
    __cudaRegisterFunction(image, &host, &host, "fill_u32", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(image);
    assert_ok(cudaFuncGetAttributes(&attributes, &host));
    __cudaUnregisterFatBinary(image);
    assert_fails(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&attributes, &host));
    assert_fails(cudaErrorInvalidDeviceFunction, cudaGetLastError());
}

static void test_an_image_that_cannot_be_loaded_is_an_error_of_its_use(void **state) {
    static char host;
    struct fatbin_wrapper wrapper = {0x466243b1, 1, ".version 7.0\nnonsense", NULL};
    void **image = __cudaRegisterFatBinary(&wrapper);

    (void)state;
    __cudaRegisterFunction(image, &host, &host, "fill_u32", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(image);
    assert_ok(cudaGetLastError());
    assert_fails(cudaErrorInvalidPtx,
                 cudaLaunchKernel(&host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
    assert_fails(cudaErrorInvalidPtx, cudaGetLastError());
    __cudaUnregisterFatBinary(image);
}

static void test_a_kernel_tells_its_needs_and_how_often_it_fits(void **state) {
    struct cudaFuncAttributes attributes;
    int blocks = 0, threads = 0;
    size_t shared = 0;

    (void)state;
    assert_ok(cudaFuncGetAttributes(&attributes, &fill_host));
    assert_int_equal(attributes.maxThreadsPerBlock, 1024);
    assert_int_equal(attributes.ptxVersion, 52);
    assert_ok(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
    assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &fill_host, 1024, 0));
    assert_int_equal(blocks, threads / 1024);
    assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &fill_host, 512, 0));
    assert_int_equal(blocks, threads / 512);
    assert_ok(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, &fill_host, 1, 128));
    assert_true(shared > 0);
    assert_ok(cudaFuncSetAttribute(&fill_host, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096));
    assert_ok(cudaFuncGetAttributes(&attributes, &fill_host));
    assert_int_equal(attributes.maxDynamicSharedSizeBytes, 4096);
    assert_ok(cudaFuncSetCacheConfig(&fill_host, cudaFuncCachePreferL1));
    assert_fails(cudaErrorInvalidDeviceFunction,
                 cudaFuncSetCacheConfig(&counter_host, cudaFuncCachePreferL1));
    assert_fails(cudaErrorInvalidDeviceFunction, cudaGetLastError());
}

/* Accesses are known by sectors of 32 bytes: the rest of the sector is nobody's. */
static void test_memory_that_ends_within_a_sector_is_used_without_a_hazard(void **state) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *memory;
    uint64_t (*hazards)(void);

    (void)state;
    *(void **)&hazards = dlsym(driver, "simcuda_hazards");
    assert_ok(cudaMalloc(&memory, 24));
    for (int i = 0; i < 3; i++) {
        void *arguments[] = {&memory};
        assert_ok(
            cudaLaunchKernel(&store_host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, NULL));
        assert_int_equal(word_at(memory), 8);
    }
    assert_int_equal(hazards(), 0);
    assert_ok(cudaFree(memory));
    dlclose(driver);
}

static void *last_error_of_a_thread(void *seen) {
    *(cudaError_t *)seen = cudaPeekAtLastError();
    return NULL;
}

static void test_each_thread_has_a_last_error_of_its_own(void **state) {
    cudaError_t of_other = cudaErrorUnknown;
    pthread_t other;

    (void)state;
    assert_fails(cudaErrorInvalidDevice, cudaSetDevice(99));
    assert_int_equal(pthread_create(&other, NULL, last_error_of_a_thread, &of_other), 0);
    pthread_join(other, NULL);
    assert_ok(of_other);
    assert_fails(cudaErrorInvalidDevice, cudaPeekAtLastError());
    assert_fails(cudaErrorInvalidDevice, cudaGetLastError());
    assert_ok(cudaPeekAtLastError());
}

static void test_an_error_that_costs_the_context_stays_until_the_device_is_reset(void **state) {
    dim3 one = {1, 1, 1};
    void *memory;

    (void)state;
    assert_ok(cudaLaunchKernel(&fault_host, one, one, NULL, 0, NULL));
    assert_fails(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    assert_fails(cudaErrorIllegalAddress, cudaGetLastError());
    assert_fails(cudaErrorIllegalAddress, cudaGetLastError());
    assert_fails(cudaErrorIllegalAddress, cudaMalloc(&memory, 4));
    assert_ok(cudaDeviceReset());
    assert_ok(cudaGetLastError());
    assert_ok(cudaMalloc(&memory, 4));
    assert_ok(fill(memory, 1, 5, NULL)); /* the image is loaded anew */
    assert_int_equal(word_at(memory), 5);
    assert_ok(cudaFree(memory));
}

static void test_a_kernel_serves_both_devices(void **state) {
    void *memory[2];

    (void)state;
    for (int device = 0; device < 2; device++) {
        assert_ok(cudaSetDevice(device));
        assert_ok(cudaMalloc(&memory[device], 4));
        assert_ok(fill(memory[device], 1, (uint32_t)device + 20, NULL));
        assert_int_equal(word_at(memory[device]), device + 20);
        assert_ok(cudaFree(memory[device]));
    }
    assert_ok(cudaSetDevice(0));
}

static void test_errors_have_the_names_that_the_headers_have(void **state) {
    static const struct {
        cudaError_t error;
        const char *name;
    } some[] = {
#define NAMED(name) {name, #name}
        NAMED(cudaSuccess),           NAMED(cudaErrorMemoryAllocation),
        NAMED(cudaErrorInvalidPtx),   NAMED(cudaErrorInvalidConfiguration),
        NAMED(cudaErrorNotSupported), NAMED(cudaErrorStreamCaptureWrongThread),
        NAMED(cudaErrorUnknown),      NAMED(cudaErrorCooperativeLaunchTooLarge)};

    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        assert_string_equal(cudaGetErrorName(some[i].error), some[i].name);
        assert_true(strlen(cudaGetErrorString(some[i].error)) > 0);
    }
    assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_registered_kernel_is_launched_by_every_function_that_launches),
        cmocka_unit_test(test_what_is_no_kernel_is_not_launched),
        cmocka_unit_test(test_sizes_that_no_kernel_can_have_are_an_invalid_configuration),
        cmocka_unit_test(test_configurations_of_calls_within_calls_come_back_in_turn),
        cmocka_unit_test(test_variables_are_found_by_those_of_the_host),
        cmocka_unit_test(test_a_managed_variable_is_the_hosts_too),
        cmocka_unit_test(test_what_was_unregistered_is_unknown),
        cmocka_unit_test(test_an_image_that_cannot_be_loaded_is_an_error_of_its_use),
        cmocka_unit_test(test_a_kernel_tells_its_needs_and_how_often_it_fits),
        cmocka_unit_test(test_memory_that_ends_within_a_sector_is_used_without_a_hazard),
        cmocka_unit_test(test_each_thread_has_a_last_error_of_its_own),
        cmocka_unit_test(test_an_error_that_costs_the_context_stays_until_the_device_is_reset),
        cmocka_unit_test(test_a_kernel_serves_both_devices),
        cmocka_unit_test(test_errors_have_the_names_that_the_headers_have),
    };
    return cmocka_run_group_tests(tests, register_image, unregister_image);
}
