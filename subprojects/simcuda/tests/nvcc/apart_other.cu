// The other one of apart.cu.
__device__ int variable_of_the_other;

__device__ int of_the_other(int number) {
    return (number + variable_of_the_other) * 2;
}

int variable_set_by_the_other() {
    int value = 11;
    cudaMemcpyToSymbol(variable_of_the_other, &value, sizeof value);
    return value;
}
