// A client of CUDA through Thrust: algorithms whose temporary memory comes and goes, with results that the host checks.
#include "checked.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

static const int ROUNDS = 6, COUNT = 3000;

template <typename Device> static std::vector<int> to_host(const Device &device) {
    thrust::host_vector<int> host = device;
    return std::vector<int>(host.begin(), host.end());
}

static std::uint32_t sort() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round).some(COUNT + 50 * round, 100000);
        thrust::device_vector<int> device = numbers;
        thrust::sort(device.begin(), device.end());
        std::sort(numbers.begin(), numbers.end());
        expect(to_host(device) == numbers, "order");
        thrust::sort(device.begin(), device.end(), thrust::greater<int>());
        std::reverse(numbers.begin(), numbers.end());
        expect(to_host(device) == numbers, "order backwards");
        sum += sum_of(numbers);
    }
    return sum;
}

struct by_last_digit {
    __host__ __device__ bool operator()(int a, int b) const { return a % 10 < b % 10; }
};

static std::uint32_t stable_sort_by_key() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> keys = Numbers(round + 10).some(COUNT, 1000), order(COUNT);
        std::iota(order.begin(), order.end(), 0);
        thrust::device_vector<int> device_keys = keys, device_order = order;
        thrust::stable_sort_by_key(device_keys.begin(), device_keys.end(), device_order.begin(), by_last_digit());
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] % 10 < keys[b] % 10; });
        expect(to_host(device_order) == order, "order of equal keys");
        sum += sum_of(order);
    }
    return sum;
}

static std::uint32_t scan() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 20).some(COUNT * (round + 1), 100);
        thrust::device_vector<int> device = numbers, result(numbers.size());
        thrust::inclusive_scan(device.begin(), device.end(), result.begin());
        std::partial_sum(numbers.begin(), numbers.end(), numbers.begin());
        expect(to_host(result) == numbers, "sums that include");
        thrust::exclusive_scan(device.begin(), device.end(), device.begin(), 5);
        numbers.insert(numbers.begin(), 0);
        numbers.pop_back();
        for (int &number : numbers)
            number += 5;
        expect(to_host(device) == numbers, "sums that exclude");
        sum += sum_of(numbers);
    }
    return sum;
}

static std::uint32_t reduce_by_key() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> keys = Numbers(round + 30).some(COUNT, 20), values = Numbers(round + 31).some(COUNT, 1000);
        std::sort(keys.begin(), keys.end());
        thrust::device_vector<int> device_keys = keys, device_values = values, out_keys(COUNT), out_values(COUNT);
        auto ends = thrust::reduce_by_key(device_keys.begin(), device_keys.end(), device_values.begin(), out_keys.begin(), out_values.begin());
        std::map<int, int> wanted;
        for (int i = 0; i < COUNT; i++)
            wanted[keys[i]] += values[i];
        out_keys.resize(ends.first - out_keys.begin());
        out_values.resize(ends.second - out_values.begin());
        std::vector<int> sums = to_host(out_values), names = to_host(out_keys);
        expect(sums.size() == wanted.size() && names.size() == wanted.size(), "number of keys");
        for (std::size_t i = 0; i < names.size(); i++)
            expect(wanted[names[i]] == sums[i], "a key's sum");
        sum += sum_of(sums);
    }
    return sum;
}

static std::uint32_t unique() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 40).some(COUNT, 3);
        thrust::device_vector<int> device = numbers;
        device.erase(thrust::unique(device.begin(), device.end()), device.end());
        numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
        expect(to_host(device) == numbers, "numbers without those that repeat");
        sum += sum_of(numbers);
    }
    return sum;
}

static std::uint32_t histogram() {
    std::uint32_t sum = 0;
    const int bins = 16;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 50).some(COUNT, bins), counts(bins, 0);
        thrust::device_vector<int> device = numbers, edges(bins), counted(bins);
        thrust::sort(device.begin(), device.end());
        thrust::counting_iterator<int> first(0);
        thrust::upper_bound(device.begin(), device.end(), first, first + bins, edges.begin());
        thrust::adjacent_difference(edges.begin(), edges.end(), counted.begin());
        for (int number : numbers)
            counts[number]++;
        expect(to_host(counted) == counts, "counts");
        sum += sum_of(counts);
    }
    return sum;
}

static std::uint32_t sets_and_partitions() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> a = Numbers(round + 60).some(COUNT, 2000), b = Numbers(round + 61).some(COUNT, 2000), both;
        std::sort(a.begin(), a.end());
        std::sort(b.begin(), b.end());
        thrust::device_vector<int> device_a = a, device_b = b, out(COUNT);
        out.erase(thrust::set_intersection(device_a.begin(), device_a.end(), device_b.begin(), device_b.end(), out.begin()), out.end());
        std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
        expect(to_host(out) == both, "numbers that both have");
        auto middle = thrust::stable_partition(device_a.begin(), device_a.end(), [] __host__ __device__(int number) { return number % 3 == 0; });
        auto wanted = std::stable_partition(a.begin(), a.end(), [](int number) { return number % 3 == 0; });
        expect(middle - device_a.begin() == wanted - a.begin() && to_host(device_a) == a, "parts");
        sum += sum_of(both) + sum_of(a);
    }
    return sum;
}

/* Each stream sorts what is its own. */
static std::uint32_t streams() {
    std::uint32_t sum = 0;
    cudaStream_t streams[3];
    for (cudaStream_t &stream : streams)
        expect(cudaStreamCreate(&stream) == cudaSuccess, "a stream");
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<thrust::device_vector<int>> devices;
        std::vector<std::vector<int>> hosts;
        for (int i = 0; i < 3; i++) {
            hosts.push_back(Numbers(round * 3 + i + 70).some(COUNT, 5000));
            devices.emplace_back(hosts[i]);
        }
        for (int i = 0; i < 3; i++)
            thrust::sort(thrust::cuda::par_nosync.on(streams[i]), devices[i].begin(), devices[i].end());
        for (int i = 0; i < 3; i++) {
            expect(cudaStreamSynchronize(streams[i]) == cudaSuccess, "a stream's end");
            std::sort(hosts[i].begin(), hosts[i].end());
            expect(to_host(devices[i]) == hosts[i], "a stream's order");
            sum += sum_of(hosts[i]);
        }
    }
    for (cudaStream_t stream : streams)
        cudaStreamDestroy(stream);
    return sum;
}

/* What cannot be had is refused; when others let go, it is there. */
static std::uint32_t out_of_memory() {
    std::uint32_t refusals = 0;
    std::size_t available, total;
    expect(cudaMemGetInfo(&available, &total) == cudaSuccess, "memory's size");
    for (int round = 0; round < ROUNDS; round++) {
        thrust::device_vector<int> kept = Numbers(round + 80).some(COUNT, 1000);
        try {
            thrust::device_vector<char> too_much(total + (1 << 20));
        } catch (const std::bad_alloc &) {
            refusals++;
        }
        std::vector<int> wanted = to_host(kept);
        std::sort(wanted.begin(), wanted.end());
        thrust::sort(kept.begin(), kept.end());
        expect(to_host(kept) == wanted, "order after a refusal");
    }
    return refusals;
}

/* A loop in which every step takes and gives back temporary memory. */
static std::uint32_t steps() {
    std::vector<int> wanted(COUNT);
    thrust::device_vector<int> field(COUNT);
    thrust::sequence(field.begin(), field.end());
    std::iota(wanted.begin(), wanted.end(), 0);
    for (int step = 1; step <= 20; step++) {
        thrust::device_vector<int> next(COUNT);
        thrust::transform(field.begin(), field.end(), next.begin(), [step] __host__ __device__(int x) { return (x * 7 + step) % 1009; });
        for (int &x : wanted)
            x = (x * 7 + step) % 1009;
        expect(thrust::reduce(next.begin(), next.end()) == std::accumulate(wanted.begin(), wanted.end(), 0), "a step's sum");
        field.swap(next);
    }
    expect(to_host(field) == wanted, "the last step");
    return sum_of(wanted);
}

int main() {
    RUN(sort);
    RUN(stable_sort_by_key);
    RUN(scan);
    RUN(reduce_by_key);
    RUN(unique);
    RUN(histogram);
    RUN(sets_and_partitions);
    RUN(streams);
    RUN(out_of_memory);
    RUN(steps);
    return 0;
}
