// Pitched allocations: the pitch is the driver's, and rows are where it says.
#include "gpu_program.cuh"

#include <cuda.h>

__global__ static void fill_rows(char *base, size_t pitch, size_t width, size_t height,
                                 uint32_t seed) {
    for (size_t row = blockIdx.x; row < height; row += gridDim.x) {
        for (size_t column = threadIdx.x; column < width; column += blockDim.x) {
            base[row * pitch + column] = (char)mix(seed, (uint32_t)(row * 8192 + column));
        }
    }
}

static uint64_t check_rows(char *base, size_t pitch, size_t width, size_t height, uint32_t seed) {
    fill_rows<<<GRID, THREADS>>>(base, pitch, width, height, seed);
    CUDA_OK(cudaGetLastError());
    std::vector<char> host(width * height);
    CUDA_OK(cudaMemcpy2D(host.data(), width, base, pitch, width, height, cudaMemcpyDeviceToHost));
    for (size_t row = 0; row < height; row++) {
        for (size_t column = 0; column < width; column++) {
            REQUIRE(host[row * width + column] == (char)mix(seed, (uint32_t)(row * 8192 + column)));
        }
    }
    return hash_bytes(HASH_START, host.data(), host.size());
}

static void rounds(int repetitions, bool print) {
    static const size_t widths[] = {1, 31, 64, 100, 511, 512, 513, 1000, 4096, 5000};
    for (int repetition = 0; repetition < repetitions; repetition++) {
        for (size_t width : widths) {
            size_t height = 40 + width % 7, pitch = 0;
            char *base;
            CUDA_OK(cudaMallocPitch(&base, &pitch, width, height));
            uint64_t hash = check_rows(base, pitch, width, height, (uint32_t)width);
            if (print) {
                result("pitch of %zu: %zu, aligned %s, %016llx", width, pitch,
                       (uintptr_t)base % 256 == 0 ? "yes" : "no", (unsigned long long)hash);
            }
            CUDA_OK(cudaFree(base));
        }
    }
}

int main() {
    CUDA_OK(cudaFree(nullptr));
    rounds(1, true);
    double start = seconds_now();
    rounds(20, false);
    time_line("loop", seconds_now() - start);
    rounds(1, true);
    for (unsigned element : {4u, 8u, 16u}) {
        for (size_t width : {(size_t)100, (size_t)1000}) {
            for (int repetition = 0; repetition < 3; repetition++) {
                CUdeviceptr base;
                size_t pitch = 0;
                CUresult code = cuMemAllocPitch(&base, &pitch, width, 33, element);
                result("driver pitch of %zu, elements of %u: code %d, pitch %zu", width, element,
                       (int)code, pitch);
                REQUIRE(code == CUDA_SUCCESS);
                check_rows((char *)base, pitch, width, 33, element);
                REQUIRE(cuMemFree(base) == CUDA_SUCCESS);
            }
        }
    }
    for (int repetition = 0; repetition < 5; repetition++) {
        cudaPitchedPtr volume;
        CUDA_OK(cudaMalloc3D(&volume, make_cudaExtent(300, 20, 5)));
        uint64_t hash = check_rows((char *)volume.ptr, volume.pitch, 300, 100, 9);
        result("volume pitch %zu, %zu x %zu, %016llx", volume.pitch, volume.xsize, volume.ysize,
               (unsigned long long)hash);
        CUDA_OK(cudaFree(volume.ptr));
    }
    return 0;
}
