// Questions 6 and 8: what the driver says about blocks, what is in them, what they take, and the
// result of every wrong or unusual call.
#include "measure.h"

__global__ static void count_non_zero(const unsigned char *data, size_t bytes,
                                      unsigned long long *count) {
    unsigned long long mine = 0;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes; i += stride) {
        mine += data[i] != 0;
    }
    if (mine != 0) {
        atomicAdd(count, mine);
    }
}

void measure_ranges() {
    start_device();
    int number = 1;
    for (size_t bytes :
         {(size_t)1, (size_t)100, (size_t)512, (size_t)513, (size_t)65537, (size_t)(1 << 20),
          (size_t)((1 << 20) + 1), (size_t)((2 << 20) + 1), (size_t)(3 << 20), (size_t)100000000}) {
        CUdeviceptr block, base = 0, neighbour;
        size_t range = 0, attribute = 0;
        DRIVER_OK(cuMemAlloc(&block, bytes));
        DRIVER_OK(cuMemAlloc(&neighbour, bytes));
        DRIVER_OK(cuMemGetAddressRange(&base, &range, block + bytes - 1));
        CUresult code = cuPointerGetAttribute(&attribute, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block);
        std::string question = text("address range of a block of %zu bytes", bytes);
        answer(text("6.%d", number++).c_str(), question.c_str(),
               "cuMemGetAddressRange %zu, RANGE_SIZE %zu (code %d), base %s the pointer, pointer "
               "is a multiple of %llu, the next block is %lld bytes away",
               range, attribute, (int)code, base == block ? "is" : "IS NOT",
               (unsigned long long)(block & (~block + 1)), (long long)neighbour - (long long)block);
        DRIVER_OK(cuMemFree(block));
        DRIVER_OK(cuMemFree(neighbour));
    }
}

void measure_zeroing() {
    start_device();
    CUdeviceptr counter;
    DRIVER_OK(cuMemAlloc(&counter, 8));
    int number = 20;
    for (size_t bytes :
         {(size_t)256, (size_t)65536, (size_t)524288, (size_t)1 << 20, (size_t)2 << 20,
          (size_t)3 << 20, (size_t)16 << 20, (size_t)256 << 20, (size_t)1 << 30}) {
        std::string line;
        for (bool with_neighbour : {false, true}) {
            CUdeviceptr neighbour = 0, first, second;
            if (with_neighbour) {
                DRIVER_OK(cuMemAlloc(&neighbour, bytes));
            }
            DRIVER_OK(cuMemAlloc(&first, bytes));
            DRIVER_OK(cuMemsetD8(first, 0xab, bytes));
            DRIVER_OK(cuCtxSynchronize());
            DRIVER_OK(cuMemFree(first));
            DRIVER_OK(cuMemAlloc(&second, bytes));
            DRIVER_OK(cuMemsetD8(counter, 0, 8));
            count_non_zero<<<GRID, THREADS>>>((const unsigned char *)second, bytes,
                                              (unsigned long long *)counter);
            CUDA_OK(cudaGetLastError());
            unsigned long long non_zero;
            DRIVER_OK(cuMemcpyDtoH(&non_zero, counter, 8));
            line += text("%s%s%.1f%% non-zero, %s address", line.empty() ? "" : "; ",
                         with_neighbour ? "with a neighbour live " : "",
                         100.0 * (double)non_zero / (double)bytes,
                         first == second ? "same" : "another");
            DRIVER_OK(cuMemFree(second));
            DRIVER_OK(cuMemFree(neighbour));
        }
        std::string question =
            text("fresh block of %s after one full of 0xab was freed", size_name(bytes).c_str());
        answer(text("6.%d", number++).c_str(), question.c_str(), "%s", line.c_str());
    }
}

void measure_page_accounting() {
    start_device();
    int number = 1;
    struct {
        size_t bytes;
        int blocks;
    } cases[] = {{256, 4096},
                 {65536, 512},
                 {524288, 64},
                 {1 << 20, 64},
                 {(1 << 20) + 1, 64},
                 {1258291, 64},
                 {1572864, 64},
                 {2 << 20, 64},
                 {(2 << 20) + 1, 64},
                 {3 << 20, 64},
                 {5 << 20, 32},
                 {(size_t)33 << 20, 16},
                 {((size_t)64 << 20) + 1, 8}};
    for (const auto &one : cases) {
        std::vector<CUdeviceptr> blocks((size_t)one.blocks);
        size_t before, after, restored, total;
        DRIVER_OK(cuMemGetInfo(&before, &total));
        for (CUdeviceptr &block : blocks) {
            DRIVER_OK(cuMemAlloc(&block, one.bytes));
        }
        DRIVER_OK(cuMemGetInfo(&after, &total));
        for (CUdeviceptr block : blocks) {
            DRIVER_OK(cuMemFree(block));
        }
        DRIVER_OK(cuMemGetInfo(&restored, &total));
        double each = (double)(before - after) / one.blocks;
        std::string question = text("%d blocks of %zu bytes (%s)", one.blocks, one.bytes,
                                    size_name(one.bytes).c_str());
        answer(text("8.%d", number++).c_str(), question.c_str(),
               "%.0f bytes of cuMemGetInfo each (%.3f x 2 MiB, %.3f x the request); after freeing "
               "%lld bytes are missing",
               each, each / (double)(2 << 20), each / (double)one.bytes,
               (long long)before - (long long)restored);
    }
}

void measure_codes() {
    CUcontext own = start_device();
    CUdevice device;
    DRIVER_OK(cuDeviceGet(&device, 0));
    CUdeviceptr block = 1;
    answer("6.40", "cuMemAlloc(0)", "%s", code_name(cuMemAlloc(&block, 0)).c_str());
    void *pointer = (void *)1;
    cudaError_t code = cudaMalloc(&pointer, 0);
    answer("6.41", "cudaMalloc(0)", "%s, pointer %s", cudaGetErrorName(code),
           pointer == nullptr ? "null" : (pointer == (void *)1 ? "unchanged" : "set"));
    answer("6.42", "cuMemFree(0), cudaFree(0), cudaFreeHost(0)", "%s, %s, %s",
           code_name(cuMemFree(0)).c_str(), cudaGetErrorName(cudaFree(nullptr)),
           cudaGetErrorName(cudaFreeHost(nullptr)));
    for (size_t bytes : {(size_t)4096, (size_t)8 << 20}) {
        DRIVER_OK(cuMemAlloc(&block, bytes));
        CUresult interior = cuMemFree(block + 256);
        CUresult first = cuMemFree(block), second = cuMemFree(block);
        CUdeviceptr base;
        size_t range;
        CUresult lookup = cuMemGetAddressRange(&base, &range, block);
        answer(bytes == 4096 ? "6.43" : "6.44",
               "free of an interior pointer, first, second free, "
               "cuMemGetAddressRange afterwards",
               "%s: %s, %s, %s, %s", size_name(bytes).c_str(), code_name(interior).c_str(),
               code_name(first).c_str(), code_name(second).c_str(), code_name(lookup).c_str());
    }
    int on_stack;
    answer("6.45", "free of a host pointer, of 0x1234500", "%s, %s",
           code_name(cuMemFree((CUdeviceptr)&on_stack)).c_str(),
           code_name(cuMemFree(0x1234500)).c_str());
    size_t free_bytes, total;
    DRIVER_OK(cuMemGetInfo(&free_bytes, &total));
    CUresult too_much = cuMemAlloc(&block, 2 * total);
    code = cudaMalloc(&pointer, 2 * total);
    answer("6.46", "more than the device has", "cuMemAlloc %s, cudaMalloc %s, last error %s",
           code_name(too_much).c_str(), cudaGetErrorName(code),
           cudaGetErrorName(cudaGetLastError()));
    // How near to everything can one block come?
    DRIVER_OK(cuMemGetInfo(&free_bytes, &total));
    std::string line;
    for (size_t left_mib : {(size_t)0, (size_t)2, (size_t)16, (size_t)64, (size_t)256}) {
        size_t bytes = free_bytes - (left_mib << 20);
        double start = now_us();
        CUresult tried = cuMemAlloc(&block, bytes);
        line += text("%sless %zu MiB: %s %.0f us", line.empty() ? "" : "; ", left_mib,
                     tried == CUDA_SUCCESS ? "yes" : "no", now_us() - start);
        if (tried == CUDA_SUCCESS) {
            DRIVER_OK(cuMemFree(block));
        }
    }
    answer("6.47", "one block of all that cuMemGetInfo calls free", "%s", line.c_str());

    CUcontext other = another_context();
    DRIVER_OK(cuCtxSetCurrent(other));
    DRIVER_OK(cuMemAlloc(&block, 1 << 20));
    DRIVER_OK(cuCtxSetCurrent(own));
    DRIVER_OK(cuCtxDestroy(other));
    answer("6.48", "free of a block of a destroyed context", "%s",
           code_name(cuMemFree(block)).c_str());
    // Setting a destroyed context current is itself refused; another thread can hold it current.
    other = another_context();
    DRIVER_OK(cuCtxSetCurrent(other));
    DRIVER_OK(cuMemAlloc(&block, 1 << 20));
    DRIVER_OK(cuCtxDestroy(other)); // current to this thread
    CUcontext current = nullptr;
    CUresult asked = cuCtxGetCurrent(&current);
    // The free comes first: a new block might be given the old one's address.
    CUdeviceptr fresh = 0;
    CUresult freed = cuMemFree(block);
    CUresult allocated = cuMemAlloc(&fresh, 4096);
    answer("6.49", "after cuCtxDestroy of the current context",
           "cuCtxGetCurrent %s and %s; free of its block %s; cuMemAlloc %s",
           code_name(asked).c_str(),
           current == other     ? "still the destroyed one"
           : current == nullptr ? "none"
                                : "another",
           code_name(freed).c_str(), code_name(allocated).c_str());
    DRIVER_OK(cuCtxSetCurrent(own));
    DRIVER_OK(cuMemAlloc(&block, 1 << 20));
    unsigned long long id_before = 0, id_after = 0;
    typedef CUresult get_id_function(CUcontext, unsigned long long *);
    auto *get_id = (get_id_function *)driver_symbol("cuCtxGetId");
    if (get_id != nullptr) {
        get_id(own, &id_before);
    }
    fresh = 0;
    CUresult reset = cuDevicePrimaryCtxReset(device);
    freed = cuMemFree(block);
    allocated = cuMemAlloc(&fresh, 4096);
    CUDA_OK(cudaSetDevice(0));
    code = cudaFree(nullptr);
    CUcontext renewed = nullptr;
    cuCtxGetCurrent(&renewed);
    if (get_id != nullptr && renewed != nullptr) {
        get_id(renewed, &id_after);
    }
    answer(
        "6.50", "after cuDevicePrimaryCtxReset",
        "reset %s; free of an earlier block %s; cuMemAlloc %s; then cudaSetDevice and cudaFree(0) "
        "%s; context handle %s, id %s",
        code_name(reset).c_str(), code_name(freed).c_str(), code_name(allocated).c_str(),
        cudaGetErrorName(code), renewed == own ? "the same" : "another",
        id_before == id_after ? "the same" : "another");
    if (fresh == block) {
        answer("6.51", "free of an earlier block once the context is renewed",
               "not asked: a new block has its address");
    } else {
        answer("6.51", "free of an earlier block once the context is renewed", "%s",
               code_name(cuMemFree(block)).c_str());
    }
}
