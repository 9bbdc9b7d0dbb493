// Loops over Thrust, whose vectors and temporaries come from cudaMalloc: thrust_loops sort|reduce
// [COUNT [RUNS]].
#include "bench.cuh"

#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

static uint64_t sort_once(uint32_t count, bool hash) {
    thrust::device_vector<uint32_t> keys(count), values(count);
    uint32_t *k = thrust::raw_pointer_cast(keys.data());
    each(count, [=] DEVICE(size_t i) { k[i] = mix(1, (uint32_t)i); });
    thrust::sequence(values.begin(), values.end());
    thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
    if (!hash)
        return 0;
    REQUIRE((uint32_t)keys[0] <= (uint32_t)keys[count / 2] &&
            (uint32_t)keys[count / 2] <= (uint32_t)keys[count - 1]);
    return ((uint64_t)keys[count / 2] << 32) + (uint32_t)values[count / 2];
}

static uint64_t reduce_once(uint32_t count) {
    thrust::device_vector<uint64_t> values(count);
    thrust::sequence(values.begin(), values.end());
    uint64_t sum = thrust::reduce(values.begin(), values.end(), (uint64_t)0);
    REQUIRE(sum == (uint64_t)count * (count - 1) / 2);
    return sum;
}

int main(int argc, char **argv) {
    std::string what = argc > 1 ? argv[1] : "sort";
    uint32_t count = argc > 2 ? (uint32_t)atoi(argv[2]) : 1 << 20;
    int runs = argc > 3 ? atoi(argv[3]) : 300;
    REQUIRE((what == "sort" || what == "reduce") && count > 0);
    measure("thrust-" + what, runs, [&](bool hash) {
        return what == "sort" ? sort_once(count, hash) : reduce_once(count);
    });
    return 0;
}
