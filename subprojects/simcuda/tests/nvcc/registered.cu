// What nvcc registers and calls: kernels, variables of the device, constants, managed ones,
// launches. The host checks all that comes back, and prints what was wrong.
#include <cooperative_groups.h>
#include <cstdio>

// Names that the runtime has inside, too: a program may have them.
extern "C" {
int driver, copy_row, state_enter;
}

namespace groups = cooperative_groups;

__device__ int counter = 5;
__constant__ int factors[4] = {1, 2, 3, 4};
__managed__ int shared_with_host = 40;

static int wrong;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::printf("line %d: not so: %s\n", __LINE__, #condition);                            \
            wrong++;                                                                               \
        }                                                                                          \
    } while (0)
#define OK(call) EXPECT((call) == cudaSuccess)

template <typename T> __global__ void scale(T *to, int count, T by) {
    int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < count)
        to[at] = static_cast<T>(at) * by * static_cast<T>(factors[1]);
}

__global__ void count_up() {
    atomicAdd(&counter, 1);
    atomicAdd(&shared_with_host, 2);
}

__global__ void reverse(int *numbers) {
    extern __shared__ int held[];
    held[threadIdx.x] = numbers[threadIdx.x];
    __syncthreads();
    numbers[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

/* The second half reads what other blocks wrote in the first. */
__global__ void over_the_grid(int *numbers, int *sums) {
    auto grid = groups::this_grid();
    numbers[grid.thread_rank()] = static_cast<int>(grid.thread_rank());
    grid.sync();
    int sum = 0;
    for (unsigned i = 0; i < grid.size(); i++)
        sum += numbers[i];
    sums[grid.thread_rank()] = sum;
}

static int launches_within_arguments(int *memory) {
    scale<int><<<1, 8>>>(memory, 8, 3);
    return 8;
}

int main() {
    enum { COUNT = 100 };
    int numbers[COUNT], *memory, *more;
    float reals[COUNT], *real_memory;
    OK(cudaMalloc(&memory, sizeof numbers));
    OK(cudaMalloc(&more, sizeof numbers));
    OK(cudaMalloc(&real_memory, sizeof reals));

    scale<int><<<4, 32>>>(memory, COUNT, 5);
    scale<float><<<4, 32>>>(real_memory, COUNT, 0.5f);
    OK(cudaGetLastError());
    OK(cudaMemcpy(numbers, memory, sizeof numbers, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(reals, real_memory, sizeof reals, cudaMemcpyDeviceToHost));
    EXPECT(numbers[99] == 99 * 10 && reals[99] == 99.0f);

    scale<int><<<1, 32>>>(more, launches_within_arguments(memory), 7);
    OK(cudaMemcpy(numbers, more, sizeof numbers, cudaMemcpyDeviceToHost));
    EXPECT(numbers[7] == 7 * 14);

    EXPECT(shared_with_host == 40);
    count_up<<<2, 16>>>();
    OK(cudaDeviceSynchronize());
    EXPECT(shared_with_host == 40 + 64);
    int value = 0, changed[2] = {20, 30};
    OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    EXPECT(value == 5 + 32);
    OK(cudaMemcpyToSymbol(factors, changed, sizeof changed, sizeof(int)));
    scale<int><<<1, 8>>>(memory, 8, 1);
    OK(cudaMemcpy(numbers, memory, 8 * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(numbers[3] == 60);

    reverse<<<1, 8, 8 * sizeof(int)>>>(memory);
    OK(cudaMemcpy(numbers, memory, 8 * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(numbers[0] == 140 && numbers[7] == 0);

    void *arguments[] = {&memory, &more};
    OK(cudaLaunchCooperativeKernel(over_the_grid, 3, 32, arguments, 0, nullptr));
    OK(cudaMemcpy(numbers, more, 96 * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(numbers[0] == 96 * 95 / 2 && numbers[95] == 96 * 95 / 2);

    reverse<<<1, 0>>>(memory);
    EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
    OK(cudaGetLastError());
    int smallest = 0, size = 0;
    OK(cudaOccupancyMaxPotentialBlockSize(&smallest, &size, scale<int>));
    EXPECT(smallest > 0 && size >= 32);
    std::printf(wrong ? "%d wrong\n" : "all right\n", wrong);
    return wrong != 0;
}
