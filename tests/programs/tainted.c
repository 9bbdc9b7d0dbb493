/* Ties state to a block in every way that there is, and in ways that tie none; then frees it. With
 * the argument "beside" there is another block all the while. */
#include "driver/cuda_api.h"
#include "program.h"

#include <string.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 2 << 20 };

static void by_ipc(CUdeviceptr block) {
    CUipcMemHandle handle;
    int capable = 0;
    CHECK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, block));
    CUresult result = cuIpcGetMemHandle(&handle, block);
    if (capable != (result == CUDA_SUCCESS)) {
        fprintf(stderr, "whether there can be a handle is told wrongly: %d\n", capable);
        exit(3);
    }
    CHECK(result);
}

static void by_dma_buf(CUdeviceptr block) {
    int file = -1;
    CHECK(
        cuMemGetHandleForAddressRange(&file, block, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    REQUIRE(close(file) == 0);
}

static void by_tokens(CUdeviceptr block) {
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
    CHECK(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, block));
}

static void by_identity(CUdeviceptr block) {
    unsigned long long identity;
    void *data[] = {&identity};
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    CHECK(cuPointerGetAttributes(1, &wanted, data, block + 5)); /* an interior pointer */
}

static void by_synchronous_copies(CUdeviceptr block) {
    unsigned on = 1;
    CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
}

static void by_nothing(CUdeviceptr block) {
    unsigned type, on;
    size_t size;
    CUcontext context;
    CUdeviceptr base;
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
    CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    CHECK(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    CHECK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block));
    CHECK(cuMemGetAddressRange_v2(&base, &size, block));
}

static void (*const ways[])(CUdeviceptr) = {
    by_ipc, by_dma_buf, by_tokens, by_identity, by_synchronous_copies, by_nothing};

int main(int argc, char **argv) {
    CUcontext context;
    CUdeviceptr beside = 0;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    if (argc > 1 && strcmp(argv[1], "beside") == 0)
        CHECK(cuMemAlloc_v2(&beside, BYTES / 4));
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        CUdeviceptr block;
        CHECK(cuMemAlloc_v2(&block, BYTES));
        ways[i](block);
        CHECK(cuMemFree_v2(block));
    }
    if (beside)
        CHECK(cuMemFree_v2(beside));
    puts("done");
    return 0;
}
