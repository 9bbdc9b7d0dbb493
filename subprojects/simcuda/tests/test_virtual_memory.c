/* Virtual memory management on the simulated device. */
#include "test_ptx.h"

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static size_t available(void) {
    size_t free_bytes, total;

    assert_ok(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static CUdeviceptr reserve(size_t size) {
    CUdeviceptr address;

    assert_ok(cuMemAddressReserve(&address, size, 0, 0, 0));
    assert_int_equal(address % (2 * MiB), 0);
    return address;
}

static CUmemGenericAllocationHandle create(size_t size) {
    CUmemGenericAllocationHandle handle;

    assert_ok(cuMemCreate(&handle, size, &on_device, 0));
    return handle;
}

/* Accessible memory of `size` at a fresh reservation; its handle is released already. */
static CUdeviceptr map_new(size_t size) {
    CUmemGenericAllocationHandle handle = create(size);
    CUdeviceptr address = reserve(size);

    assert_ok(cuMemMap(address, size, 0, handle, 0));
    assert_ok(cuMemSetAccess(address, size, &read_write, 1));
    assert_ok(cuMemRelease(handle));
    return address;
}

static void remove_all(CUdeviceptr address, size_t size) {
    assert_ok(cuMemUnmap(address, size));
    assert_ok(cuMemAddressFree(address, size));
}

static void test_memory_goes_with_its_last_user(void **state) {
    size_t before = available();
    CUmemGenericAllocationHandle handle = create(4 * MiB), again;
    CUdeviceptr address = reserve(8 * MiB);
    CUmemAllocationProp properties;

    (void)state;
    assert_int_equal(available(), before - 4 * MiB);
    assert_ok(cuMemMap(address, 4 * MiB, 0, handle, 0));
    assert_ok(cuMemRelease(handle)); /* the mapping keeps it */
    assert_int_equal(available(), before - 4 * MiB);
    assert_ok(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + 100)));
    assert_int_equal(again, handle);
    assert_ok(cuMemGetAllocationPropertiesFromHandle(&properties, again));
    assert_int_equal(properties.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    assert_ok(cuMemUnmap(address, 4 * MiB)); /* the handle keeps it */
    assert_int_equal(available(), before - 4 * MiB);
    assert_ok(cuMemRelease(again));
    assert_int_equal(available(), before);
    assert_int_equal(cuMemRelease(again), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemAddressFree(address, 8 * MiB));
}

/* Memory keeps its contents from address to address, and two addresses may name it at once. */
static void test_contents(void **state) {
    CUmemGenericAllocationHandle handle = create(2 * MiB);
    CUdeviceptr first = reserve(2 * MiB), second = reserve(2 * MiB);
    unsigned long long flags = 9;
    uint32_t value = 9;

    (void)state;
    assert_ok(cuMemMap(first, 2 * MiB, 0, handle, 0));
    assert_ok(cuMemGetAccess(&flags, &read_write.location, first));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    assert_int_equal(cuMemcpyDtoH_v2(&value, first, 4), CUDA_ERROR_INVALID_VALUE); /* no access */
    assert_ok(cuMemSetAccess(first, 2 * MiB, &read_write, 1));
    assert_ok(cuMemGetAccess(&flags, &read_write.location, first + MiB));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    assert_ok(cuMemcpyDtoH_v2(&value, first, 4));
    assert_int_equal(value, 0);
    assert_ok(launch_fill(NULL, first, 1024, 5));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemMap(second, 2 * MiB, 0, handle, 0));
    assert_ok(cuMemSetAccess(second, 2 * MiB, &read_write, 1));
    assert_ok(cuMemcpyDtoH_v2(&value, second + 4092, 4));
    assert_int_equal(value, 5);
    assert_ok(cuMemRelease(handle));
    assert_ok(cuMemUnmap(first, 2 * MiB));
    assert_int_equal(cuMemcpyDtoH_v2(&value, first, 4), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemAddressFree(first, 2 * MiB));
    assert_ok(cuMemcpyDtoH_v2(&value, second, 4));
    remove_all(second, 2 * MiB);
}

/* Several mappings side by side are given access and are unmapped as one range, whole ones only. */
static void test_ranges(void **state) {
    CUdeviceptr address = reserve(8 * MiB);
    CUmemGenericAllocationHandle handles[2] = {create(2 * MiB), create(4 * MiB)};

    (void)state;
    assert_ok(cuMemMap(address, 2 * MiB, 0, handles[0], 0));
    assert_ok(cuMemMap(address + 2 * MiB, 4 * MiB, 0, handles[1], 0));
    assert_int_equal(cuMemMap(address + 4 * MiB, 4 * MiB, 0, handles[1], 0),
                     CUDA_ERROR_INVALID_VALUE); /* is mapped */
    assert_int_equal(cuMemSetAccess(address, 8 * MiB, &read_write, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemSetAccess(address, 6 * MiB, &read_write, 1));
    assert_int_equal(cuMemUnmap(address, 4 * MiB), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAddressFree(address, 8 * MiB), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemUnmap(address, 6 * MiB));
    assert_int_equal(cuMemUnmap(address, 6 * MiB), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAddressFree(address, 4 * MiB), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemAddressFree(address, 8 * MiB));
    for (int i = 0; i < 2; i++)
        assert_ok(cuMemRelease(handles[i]));
}

static void test_error_codes(void **state) {
    CUmemAllocationProp elsewhere = on_device, shared = on_device;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    size_t granularity, before = available();

    (void)state;
    elsewhere.location.id = 2;
    shared.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
    assert_ok(
        cuMemGetAllocationGranularity(&granularity, &on_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(granularity, 2 * MiB);
    assert_int_equal(cuMemCreate(&handle, MiB, &on_device, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemCreate(&handle, before + 2 * MiB, &on_device, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemCreate(&handle, 2 * MiB, &elsewhere, 0), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuMemCreate(&handle, 2 * MiB, &shared, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemAddressReserve(&address, 100, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAddressReserve(&address, 2 * MiB, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemMap(4096, 2 * MiB, 0, 12345, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemAddressReserve(&address, 2 * MiB, 16 * MiB, 0, 0));
    assert_int_equal(address % (16 * MiB), 0);
    assert_ok(cuMemAddressFree(address, 2 * MiB));
    assert_int_equal(available(), before);
}

/* Neither cuMemFree nor the end of a context takes it. */
static void test_it_is_no_allocation(void **state) {
    CUcontext context;
    CUdeviceptr address;
    CUipcMemHandle handle;
    uint32_t value;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    address = map_new(2 * MiB);
    assert_int_equal(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFreeAsync(address, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuIpcGetMemHandle(&handle, address), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxDestroy_v2(context));
    assert_ok(cuMemcpyDtoH_v2(&value, address, 4));
    remove_all(address, 2 * MiB);
}

/* Unmapping does not wait: what is still queued must be ordered before it by the program. */
static void test_unmapping_too_early(void **state) {
    CUdeviceptr address = map_new(2 * MiB);
    uint64_t before = simcuda_hazards();
    CUstream stream;
    struct gate gate;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(launch_fill(stream, address, 1, 1));
    assert_ok(cuStreamSynchronize(stream));
    remove_all(address, 2 * MiB); /* ordered */
    assert_int_equal(simcuda_hazards(), before);

    address = map_new(2 * MiB);
    gate = gate_close(stream);
    assert_ok(launch_fill(stream, address, 1, 1));
    remove_all(address, 2 * MiB); /* not ordered, and does not wait for the gate */
    gate_open(gate);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(simcuda_hazards(), before + 1);
}

/* Neither unmapping nor giving the addresses back waits for work [vllm#43020]: a kernel that still
 * uses them faults, which costs its context and nothing else. */
static void test_memory_that_goes_while_a_kernel_runs_costs_the_context(void **state) {
    static const char text[] =
        PTX_HEAD PTX_KERNEL("k", ".reg .u32 %r<2>; .reg .pred %p<2>;\n",
                            "wait: ld.volatile.global.u32 %r1, [%base]; setp.ne.u32 %p1, %r1, 1;\n"
                            "@%p1 bra wait;\n");
    CUcontext context;
    CUstream stream;
    CUmodule module;
    CUfunction function;
    CUdeviceptr address;

    (void)state;
#ifdef __SANITIZE_THREAD__ /* sees the race that the program has, and ends it */
    skip();
#endif
    for (int round = 0; round < 20; round++) {
        assert_ok(cuCtxCreate_v2(&context, 0, 0));
        module = load_ptx(text);
        assert_ok(cuModuleGetFunction(&function, module, "k"));
        assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        address = map_new(2 * MiB);
        assert_ok(cuMemsetD8_v2(address, 0, 4));
        assert_ok(cuCtxSynchronize());
        assert_ok(
            cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, (void *[]){&address}, NULL));
        for (int i = 0; i < round * 100; i++)
            assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        remove_all(address, 2 * MiB);
        assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_ok(cuCtxDestroy_v2(context));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_goes_with_its_last_user),
        cmocka_unit_test(test_contents),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_error_codes),
        cmocka_unit_test(test_it_is_no_allocation),
        cmocka_unit_test(test_unmapping_too_early), /* last: its error is sticky */
        cmocka_unit_test(test_memory_that_goes_while_a_kernel_runs_costs_the_context),
    };

    return cmocka_run_group_tests(tests, set_up_context, NULL);
}
