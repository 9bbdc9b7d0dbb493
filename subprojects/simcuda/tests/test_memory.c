/* The simulated device's memory: contents, accounting, addresses, error codes. */
#include "test_sim.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t available(void) {
    size_t free_bytes, total;

    assert_ok(cuMemGetInfo_v2(&free_bytes, &total));
    assert_int_equal(total, 64 * MiB);
    return free_bytes;
}

static CUdeviceptr allocate(size_t size) {
    CUdeviceptr pointer = 0;

    assert_ok(cuMemAlloc_v2(&pointer, size));
    assert_int_equal(pointer % 512, 0);
    return pointer;
}

static void test_fresh_memory_is_zero(void **state) {
    static const size_t sizes[] = {1, 700, 4096, 100000, MiB, MiB + 1, 5 * MiB};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *host = malloc(sizes[i]);

        for (int round = 0; round < 2; round++) {
            CUdeviceptr pointer = allocate(sizes[i]);

            memset(host, 1, sizes[i]);
            assert_ok(cuMemcpyDtoH_v2(host, pointer, sizes[i]));
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(host[j], 0);
            assert_ok(cuMemsetD8_v2(pointer, 0xab, sizes[i]));
            assert_ok(cuMemFree_v2(pointer));
        }
        free(host);
    }
}

static void test_accounting_in_pages(void **state) {
    size_t before = available();
    CUdeviceptr small[3], large;

    (void)state;
    large = allocate(3 * MiB);
    assert_int_equal(available(), before - 4 * MiB);
    assert_ok(cuMemFree_v2(large));
    large = allocate(MiB + 1);
    assert_int_equal(available(), before - 2 * MiB);
    assert_ok(cuMemFree_v2(large));
    for (int i = 0; i < 3; i++)
        small[i] = allocate(512 << 10); /* together less than one page */
    assert_int_equal(available(), before - 2 * MiB);
    for (int i = 0; i < 3; i++)
        assert_ok(cuMemFree_v2(small[i]));
    assert_int_equal(available(), before);
}

static void test_out_of_memory(void **state) {
    size_t before = available();
    CUdeviceptr all, more = 1;

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&more, before + 1), CUDA_ERROR_OUT_OF_MEMORY);
    all = allocate(before);
    assert_int_equal(available(), 0);
    assert_int_equal(cuMemAlloc_v2(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(more, 1);
    assert_ok(cuMemFree_v2(all));
    assert_int_equal(available(), before);
}

/* One block of nearly everything fits after freeing, however the frees were spread. */
static void test_no_fragmentation_of_pages(void **state) {
    enum { BLOCKS = 16 };
    CUdeviceptr blocks[BLOCKS], all;

    (void)state;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = allocate(2 * MiB);
    for (int i = 0; i < BLOCKS; i += 2)
        assert_ok(cuMemFree_v2(blocks[i]));
    all = allocate(64 * MiB - (64 * MiB - available()));
    assert_ok(cuMemFree_v2(all));
    for (int i = 1; i < BLOCKS; i += 2)
        assert_ok(cuMemFree_v2(blocks[i]));
}

static void test_addresses_come_back(void **state) {
    CUdeviceptr large = allocate(4 * MiB), small = allocate(1000);

    (void)state;
    assert_ok(cuMemFree_v2(large));
    assert_int_equal(allocate(4 * MiB), large);
    assert_ok(cuMemFree_v2(small));
    assert_int_equal(allocate(1000), small);
    assert_ok(cuMemFree_v2(small));
    assert_ok(cuMemFree_v2(large));
}

static void test_error_codes(void **state) {
    CUdeviceptr pointer = allocate(4096), base = 0;
    size_t size = 0;

    (void)state;
    assert_int_equal(cuMemAlloc_v2(&base, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAlloc_v2(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(0));
    assert_int_equal(cuMemFree_v2(pointer + 512), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(12345), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemGetAddressRange_v2(&base, &size, pointer + 100));
    assert_int_equal(base, pointer);
    assert_int_equal(size, 4096);
    assert_int_equal(cuMemGetAddressRange_v2(&base, &size, pointer + 4096), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuMemFree_v2(pointer));
    assert_int_equal(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemGetAddressRange_v2(&base, &size, pointer), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuMemAlloc(NULL, 1), CUDA_ERROR_NOT_SUPPORTED); /* the interface of CUDA 2 */
    assert_int_equal(cuMemFree(1), CUDA_ERROR_NOT_SUPPORTED);
}

static void test_pitch(void **state) {
    CUdeviceptr pointer;
    unsigned char rows[3][10], back[3][10];
    size_t pitch;

    (void)state;
    assert_ok(cuMemAllocPitch_v2(&pointer, &pitch, 1000, 7, 4));
    assert_int_equal(pitch, 1024);
    for (int row = 0; row < 3; row++)
        memset(rows[row], row + 1, sizeof rows[row]);
    assert_ok(cuMemcpy2D_v2(&(CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                                             .srcHost = rows,
                                             .srcPitch = sizeof rows[0],
                                             .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                             .dstDevice = pointer,
                                             .dstPitch = pitch,
                                             .dstXInBytes = 5,
                                             .dstY = 2,
                                             .WidthInBytes = 10,
                                             .Height = 3}));
    for (int row = 0; row < 3; row++)
        assert_ok(cuMemcpyDtoH_v2(back[row], pointer + (size_t)(row + 2) * pitch + 5, 10));
    assert_memory_equal(rows, back, sizeof rows);
    assert_ok(cuMemFree_v2(pointer));
    assert_int_equal(cuMemAllocPitch_v2(&pointer, &pitch, 1000, 7, 3), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAllocPitch_v2(&pointer, &pitch, 0, 7, 4), CUDA_ERROR_INVALID_VALUE);
}

static void test_copies_stay_in_bounds(void **state) {
    CUdeviceptr pointer = allocate(1000);
    char host[2000] = {0};

    (void)state;
    assert_int_equal(cuMemcpyHtoD_v2(pointer, host, 1001), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoH_v2(host, pointer + 500, 501), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8_v2(pointer, 0, 1001), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD32_v2(pointer + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(pointer));
    assert_int_equal(cuMemcpyHtoD_v2(pointer, host, 1), CUDA_ERROR_INVALID_VALUE);
}

/* The CPU may not touch device memory. */
static void test_host_access_faults(void **state) {
    CUdeviceptr pointer = allocate(4096);
    pid_t child = fork();
    int status;

    (void)state;
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile char *)(uintptr_t)pointer);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_host_memory(void **state) {
    CUdeviceptr device, seen;
    uint32_t *host, value = 0;
    unsigned int flags;
    void *memory;

    (void)state;
    assert_ok(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE));
    host = memory;
    assert_ok(cuMemHostGetDevicePointer_v2(&device, host, 0));
    assert_ok(launch_fill(NULL, device, 1024, 77));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(host[1023], 77);
    assert_ok(cuMemHostGetFlags(&flags, host));
    assert_true((flags & CU_MEMHOSTALLOC_PORTABLE) != 0);
    assert_int_equal(cuMemFree_v2(device), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFreeHost(host));
    assert_int_equal(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFreeHost(NULL));

    assert_ok(cuMemHostRegister_v2(&value, sizeof value, 0));
    assert_int_equal(cuMemHostRegister_v2(&value, sizeof value, 0),
                     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_ok(cuMemHostGetDevicePointer_v2(&seen, &value, 0));
    assert_ok(launch_fill(NULL, seen, 1, 5));
    assert_ok(cuMemHostUnregister(&value)); /* waits */
    assert_int_equal(value, 5);
    assert_int_equal(cuMemHostUnregister(&value), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static void test_host_memory_that_cannot_be(void **state) {
    char *memory = mmap(NULL, 2 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const unsigned int unknown = 0x100;
    CUdeviceptr managed;
    void *host;

    (void)state;
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(munmap(memory + MiB, MiB), 0);
    assert_int_equal(cuMemHostRegister_v2(memory, SIZE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemHostRegister_v2(memory, 2 * MiB, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemHostRegister_v2(memory, MiB, unknown), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemHostRegister_v2(memory + 1, MiB - 1, 0));
    assert_ok(cuMemHostUnregister(memory + 1));
    munmap(memory, MiB);
    assert_int_equal(cuMemHostAlloc(&host, SIZE_MAX, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAllocManaged(&managed, SIZE_MAX, CU_MEM_ATTACH_GLOBAL),
                     CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_managed_memory(void **state) {
    CUdeviceptr pointer;
    int managed;

    (void)state;
    assert_ok(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
    *(uint32_t *)(uintptr_t)pointer = 1;
    assert_ok(launch_fill(NULL, pointer + 4, 1, 2));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(((uint32_t *)(uintptr_t)pointer)[1], 2);
    assert_ok(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
    assert_int_equal(managed, 1);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_pointer_attributes(void **state) {
    CUdeviceptr pointer = allocate(5000), start;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    unsigned long long first_id, second_id;
    unsigned int type;
    int device = 9, sync = 1;
    size_t size;
    CUcontext owner;

    (void)state;
    assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 1));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_ok(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer));
    assert_int_equal(size, 5000);
    assert_ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
    assert_ptr_equal(owner, test_context);
    assert_ok(cuPointerGetAttribute(&first_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
    assert_ok(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
    assert_ok(cuPointerGetAttributes(2, names, (void *[]){&device, &start}, pointer + 7));
    assert_int_equal(device, 0);
    assert_int_equal(start, pointer);
    assert_ok(cuMemFree_v2(pointer));
    assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuPointerGetAttributes(2, names, (void *[]){&device, &start}, pointer));
    assert_int_equal(device, -2);
    assert_int_equal(start, 0);
    assert_int_equal(allocate(5000), pointer); /* the same address, another allocation */
    assert_ok(cuPointerGetAttribute(&second_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
    assert_int_not_equal(first_id, second_id);
    assert_ok(cuPointerGetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
    assert_int_equal(sync, 0);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_stream_ordered_allocation(void **state) {
    size_t before = available();
    CUdeviceptr pointer;
    CUmemoryPool pool;
    cuuint64_t used;
    CUstream stream;
    struct gate gate;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuDeviceGetDefaultMemPool(&pool, 0));
    gate = gate_close(stream);
    assert_ok(cuMemAllocAsync(&pointer, 4 * MiB, stream));
    assert_ok(launch_fill(stream, pointer, MiB, 3));
    assert_ok(cuMemFreeAsync(pointer, stream));
    assert_int_equal(cuMemFreeAsync(pointer, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(available(), before - 4 * MiB); /* the stream has not got there yet */
    assert_ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 4 * MiB);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(available(), before);
    gate_remove(gate);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_int_equal(simcuda_hazards(), 0);
}

static void test_devices_share_one_address_space(void **state) {
    CUcontext other;
    CUdeviceptr here = allocate(4096), there;
    uint32_t value = 0;
    int device = -1;

    (void)state;
    assert_ok(cuDevicePrimaryCtxRetain(&other, 1));
    assert_ok(cuCtxPushCurrent_v2(other));
    there = allocate(4096);
    assert_int_equal(launch_fill(NULL, there, 1024, 9), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuMemsetD32_v2(there, 9, 1024));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuCtxPopCurrent_v2(&other));
    assert_int_not_equal(here, there);
    assert_ok(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
    assert_int_equal(device, 1);
    assert_ok(cuMemcpyPeer(here, test_context, there, other, 4096));
    assert_ok(cuMemcpyDtoH_v2(&value, here + 4092, 4));
    assert_int_equal(value, 9);
    assert_ok(cuMemFree_v2(there));
    assert_ok(cuMemFree_v2(here));
    assert_ok(cuDevicePrimaryCtxRelease_v2(1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh_memory_is_zero),
        cmocka_unit_test(test_accounting_in_pages),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_no_fragmentation_of_pages),
        cmocka_unit_test(test_addresses_come_back),
        cmocka_unit_test(test_error_codes),
        cmocka_unit_test(test_pitch),
        cmocka_unit_test(test_copies_stay_in_bounds),
        cmocka_unit_test(test_host_access_faults),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_host_memory_that_cannot_be),
        cmocka_unit_test(test_managed_memory),
        cmocka_unit_test(test_pointer_attributes),
        cmocka_unit_test(test_stream_ordered_allocation),
        cmocka_unit_test(test_devices_share_one_address_space),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
