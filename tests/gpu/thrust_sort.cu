// Sorts vectors of changing length in a loop: Thrust allocates its vectors and its temporary
// storage with cudaMalloc each time.
#include "gpu_program.cuh"

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

static uint64_t sort_once(uint32_t round) {
    size_t count = 50000 + 700 * (size_t)(round % 37);
    thrust::device_vector<uint32_t> keys(count), values(count);
    fill<<<GRID, THREADS>>>(thrust::raw_pointer_cast(keys.data()), count, round % 37);
    CUDA_OK(cudaGetLastError());
    thrust::sequence(values.begin(), values.end());
    if (round % 2 == 0) {
        thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
    } else {
        thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin(),
                                   thrust::greater<uint32_t>());
    }
    uint64_t hash = hash_device(HASH_START, thrust::raw_pointer_cast(keys.data()), count * 4);
    return hash_device(hash, thrust::raw_pointer_cast(values.data()), count * 4);
}

int main() {
    sort_once(0);
    sort_once(1);
    double start = seconds_now();
    for (uint32_t round = 0; round < 300; round++) {
        uint64_t hash = sort_once(round);
        if (round % 10 == 0) {
            result("sort %u %016llx", round, (unsigned long long)hash);
        }
    }
    time_line("loop", seconds_now() - start);
    return 0;
}
