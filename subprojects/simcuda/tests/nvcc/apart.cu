// Two sources of one program that are compiled apart (apart_other.cu): a kernel calls a function of the other, which
// uses a variable there.
#include <cstdio>

extern __device__ int of_the_other(int number);
extern __device__ int variable_of_the_other;
extern int variable_set_by_the_other();

__global__ void call(int *number) {
    *number = of_the_other(*number) + variable_of_the_other;
}

int main() {
    int number = 4, *memory = nullptr;
    cudaMalloc(&memory, sizeof number);
    cudaMemcpy(memory, &number, sizeof number, cudaMemcpyHostToDevice);
    int set = variable_set_by_the_other();
    call<<<1, 1>>>(memory);
    cudaMemcpy(&number, memory, sizeof number, cudaMemcpyDeviceToHost);
    std::printf("%s\n", number == (4 + set) * 2 + set ? "all right" : cudaGetErrorName(cudaPeekAtLastError()));
    return 0;
}
