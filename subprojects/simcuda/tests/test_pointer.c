/* Attributes that tie a pointer to its allocation, and what leaves the process with it: tokens,
 * dma-bufs. Kernels may touch all memory here: tests/unit/meson.build sets that. */
#include "test_sim.h"

#include <sys/stat.h>
#include <unistd.h>

static void test_tokens(void **state) {
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS first = {0}, inside = {0}, second = {0};
    CUdeviceptr pointer, again;
    void *host;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, 4096));
    assert_ok(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_P2P_TOKENS, pointer));
    assert_ok(cuPointerGetAttribute(&inside, CU_POINTER_ATTRIBUTE_P2P_TOKENS, pointer + 100));
    assert_int_equal(first.p2pToken, inside.p2pToken);
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuMemAlloc_v2(&again, 4096));
    assert_int_equal(again, pointer);
    assert_ok(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_P2P_TOKENS, again));
    assert_int_not_equal(first.p2pToken, second.p2pToken); /* they are the allocation's */
    assert_ok(cuMemFree_v2(again));
    assert_ok(cuMemHostAlloc(&host, 4096, 0));
    assert_int_equal(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_P2P_TOKENS,
                                           (CUdeviceptr)(uintptr_t)host),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFreeHost(host));
}

/* With SYNC_MEMOPS a copy within the device, which need not wait otherwise, waits. */
static void test_sync_memops(void **state) {
    uint64_t pause = 20000000;
    struct gate gate;
    CUdeviceptr pointer;
    CUevent event;
    int on = 1;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, 4096));
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    gate = gate_close(NULL);
    assert_ok(cuMemcpyDtoD_v2(pointer, pointer + 2048, 1)); /* would never return if it waited */
    assert_ok(cuMemsetD8_v2(pointer, 0, 1));
    gate_remove(gate);
    assert_ok(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
    for (int round = 0; round < 2; round++) {
        assert_ok(launch("spin_ns", NULL, (void *[]){&pause}));
        assert_ok(cuEventRecord(event, NULL));
        assert_ok(round == 0 ? cuMemcpyDtoD_v2(pointer, pointer + 2048, 1)
                             : cuMemsetD8_v2(pointer, 0, 1));
        assert_ok(cuEventQuery(event));
    }
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuMemFree_v2(pointer));
}

static CUresult export_range(int *file, CUdeviceptr pointer, size_t size) {
    return cuMemGetHandleForAddressRange(file, pointer, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                         0);
}

static void test_dma_buf(void **state) {
    CUdeviceptr pointer;
    int supported, file = -1;
    struct stat status;
    void *host;

    (void)state;
    assert_ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    assert_int_equal(supported, 1);
    assert_ok(cuMemAlloc_v2(&pointer, 4 * MiB));
    assert_ok(export_range(&file, pointer + 4096, 8192));
    assert_int_equal(fstat(file, &status), 0);
    assert_int_equal(status.st_size, 8192);
    assert_int_equal(close(file), 0);
    assert_int_equal(export_range(NULL, pointer, 4096), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(export_range(&file, pointer + 512, 4096), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(export_range(&file, pointer, 100), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(export_range(&file, pointer, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(export_range(&file, pointer, 6 * MiB), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(pointer));
    assert_int_equal(export_range(&file, pointer, 4096), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemHostAlloc(&host, 4096, 0));
    assert_int_equal(export_range(&file, (CUdeviceptr)(uintptr_t)host, 4096),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuMemFreeHost(host));
}

static void test_pageable_access(void **state) {
    uint32_t value = 0;
    CUdeviceptr freed;
    int can;

    (void)state;
    assert_ok(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
    assert_int_equal(can, 1);
    assert_ok(cuDeviceGetAttribute(
        &can, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0));
    assert_int_equal(can, 0);
    assert_ok(launch_fill(NULL, (CUdeviceptr)(uintptr_t)&value, 1, 5));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(value, 5);
    assert_ok(cuMemAlloc_v2(&freed, 4 * MiB));
    assert_ok(cuMemFree_v2(freed));
    assert_ok(launch_fill(NULL, freed, 1, 5)); /* but not device memory that is none */
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens), cmocka_unit_test(test_sync_memops),
        cmocka_unit_test(test_dma_buf),
        cmocka_unit_test(test_pageable_access), /* last: its error is sticky */
    };

    return cmocka_run_group_tests(tests, set_up_context, NULL);
}
