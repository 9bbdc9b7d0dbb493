// A client of CUDA through CUB: algorithms with temporary memory that the program allocates for each call, and checked results.
#include "checked.h"

#include <algorithm>
#include <cub/cub.cuh>
#include <functional>
#include <map>
#include <numeric>

static const int ROUNDS = 6, COUNT = 3000;

static void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error));
}

/* Device memory of the program's own. */
template <typename T> class Memory {
    T *memory = nullptr;
    std::size_t count;

public:
    explicit Memory(std::size_t wanted) : count(wanted) { check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc"); }
    explicit Memory(const std::vector<T> &from) : Memory(from.size()) {
        check(cudaMemcpy(memory, from.data(), count * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    ~Memory() { cudaFree(memory); }
    T *get() const { return memory; }
    std::vector<T> host(std::size_t first = SIZE_MAX) const {
        std::vector<T> to(std::min(first, count));
        check(cudaMemcpy(to.data(), memory, to.size() * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
        return to;
    }
};

/* Calls one of CUB's functions twice: for the size of its temporary memory, and with it. */
template <typename Function, typename... Arguments> static void with_memory(Function function, Arguments... arguments) {
    std::size_t bytes = 0;
    check(function(nullptr, bytes, arguments...), "the size");
    Memory<unsigned char> temporary(bytes);
    check(function(temporary.get(), bytes, arguments...), "the call");
}

#define CUB(function) [](void *memory, std::size_t &bytes, auto... arguments) { return cub::function(memory, bytes, arguments...); }

static std::uint32_t radix_sort() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> keys = Numbers(round).some(COUNT * (round + 1), 60000), order(keys.size());
        std::iota(order.begin(), order.end(), 0);
        Memory<int> in(keys), out(keys.size()), values(order), sorted(order.size());
        with_memory(CUB(DeviceRadixSort::SortPairs), in.get(), out.get(), values.get(), sorted.get(), static_cast<int>(keys.size()));
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
        expect(sorted.host() == order, "values behind their keys");
        with_memory(CUB(DeviceRadixSort::SortKeysDescending), in.get(), out.get(), static_cast<int>(keys.size()));
        std::sort(keys.begin(), keys.end(), std::greater<int>());
        expect(out.host() == keys, "keys backwards");
        sum += sum_of(order) + sum_of(keys);
    }
    return sum;
}

struct less {
    __host__ __device__ bool operator()(int a, int b) const { return a < b; }
};

static std::uint32_t merge_sort() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> keys = Numbers(round + 10).some(COUNT, 1 << 20);
        Memory<int> memory(keys);
        with_memory(CUB(DeviceMergeSort::SortKeys), memory.get(), COUNT, less());
        std::sort(keys.begin(), keys.end());
        expect(memory.host() == keys, "order");
        sum += sum_of(keys);
    }
    return sum;
}

static std::uint32_t scan() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 20).some(COUNT * (round * 3 + 1), 50);
        int count = static_cast<int>(numbers.size());
        Memory<int> in(numbers), out(numbers.size());
        with_memory(CUB(DeviceScan::InclusiveSum), in.get(), out.get(), count);
        std::vector<int> wanted(numbers.size());
        std::partial_sum(numbers.begin(), numbers.end(), wanted.begin());
        expect(out.host() == wanted, "sums that include");
        with_memory(CUB(DeviceScan::ExclusiveSum), in.get(), out.get(), count);
        wanted.insert(wanted.begin(), 0);
        wanted.pop_back();
        expect(out.host() == wanted, "sums that exclude");
        sum += sum_of(wanted);
    }
    return sum;
}

static std::uint32_t reduce() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 30).some(COUNT * 4, 100000);
        Memory<int> in(numbers), out(1);
        int count = static_cast<int>(numbers.size());
        with_memory(CUB(DeviceReduce::Sum), in.get(), out.get(), count);
        expect(out.host()[0] == std::accumulate(numbers.begin(), numbers.end(), 0), "the sum");
        with_memory(CUB(DeviceReduce::Max), in.get(), out.get(), count);
        expect(out.host()[0] == *std::max_element(numbers.begin(), numbers.end()), "the greatest");
        sum = sum * 31 + static_cast<std::uint32_t>(out.host()[0]);
    }
    return sum;
}

struct plus {
    __host__ __device__ int operator()(int a, int b) const { return a + b; }
};

static std::uint32_t reduce_by_key() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> keys = Numbers(round + 40).some(COUNT, 25), values = Numbers(round + 41).some(COUNT, 1000);
        std::sort(keys.begin(), keys.end());
        Memory<int> in(keys), what(values), names(COUNT), sums(COUNT), runs(1);
        with_memory(CUB(DeviceReduce::ReduceByKey), in.get(), names.get(), what.get(), sums.get(), runs.get(), plus(), COUNT);
        std::map<int, int> wanted;
        for (int i = 0; i < COUNT; i++)
            wanted[keys[i]] += values[i];
        std::vector<int> found = names.host(runs.host()[0]), found_sums = sums.host(runs.host()[0]);
        expect(found.size() == wanted.size(), "number of keys");
        for (std::size_t i = 0; i < found.size(); i++)
            expect(wanted[found[i]] == found_sums[i], "a key's sum");
        sum += sum_of(found_sums);
    }
    return sum;
}

static std::uint32_t unique_and_runs() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 50).some(COUNT, 4), once = numbers;
        Memory<int> in(numbers), out(COUNT), lengths(COUNT), runs(1);
        with_memory(CUB(DeviceSelect::Unique), in.get(), out.get(), runs.get(), COUNT);
        once.erase(std::unique(once.begin(), once.end()), once.end());
        expect(out.host(runs.host()[0]) == once, "numbers without those that repeat");
        with_memory(CUB(DeviceRunLengthEncode::Encode), in.get(), out.get(), lengths.get(), runs.get(), COUNT);
        std::vector<int> counts = lengths.host(runs.host()[0]);
        expect(out.host(runs.host()[0]) == once && std::accumulate(counts.begin(), counts.end(), 0) == COUNT, "runs");
        sum += sum_of(once) + sum_of(counts);
    }
    return sum;
}

struct is_odd {
    __host__ __device__ bool operator()(int number) const { return number % 2 != 0; }
};

static std::uint32_t select_and_partition() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 60).some(COUNT, 1000), odd;
        Memory<int> in(numbers), out(COUNT), selected(1);
        with_memory(CUB(DeviceSelect::If), in.get(), out.get(), selected.get(), COUNT, is_odd());
        std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(odd), is_odd());
        expect(out.host(selected.host()[0]) == odd, "what was selected");
        with_memory(CUB(DevicePartition::If), in.get(), out.get(), selected.get(), COUNT, is_odd());
        expect(out.host(selected.host()[0]) == odd, "the first part");
        sum += sum_of(odd);
    }
    return sum;
}

static std::uint32_t histogram() {
    std::uint32_t sum = 0;
    const int bins = 20;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 70).some(COUNT * 2, 100), wanted(bins, 0);
        Memory<int> in(numbers), counts(bins);
        with_memory(CUB(DeviceHistogram::HistogramEven), in.get(), counts.get(), bins + 1, 0, 100, static_cast<int>(numbers.size()));
        for (int number : numbers)
            wanted[number / 5]++;
        expect(counts.host() == wanted, "counts");
        sum += sum_of(wanted);
    }
    return sum;
}

static std::uint32_t segments() {
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 80).some(COUNT, 1000), offsets, wanted;
        for (int at = 0; at < COUNT; at += 17 + round)
            offsets.push_back(at);
        offsets.push_back(COUNT);
        int count = static_cast<int>(offsets.size()) - 1;
        Memory<int> in(numbers), where(offsets), sums(count);
        with_memory(CUB(DeviceSegmentedReduce::Sum), in.get(), sums.get(), count, where.get(), where.get() + 1);
        for (int i = 0; i < count; i++)
            wanted.push_back(std::accumulate(numbers.begin() + offsets[i], numbers.begin() + offsets[i + 1], 0));
        expect(sums.host() == wanted, "sums of segments");
        sum += sum_of(wanted);
    }
    return sum;
}

/* Memory is taken until there is none; a call fails, and succeeds once half of it is given back. */
static std::uint32_t out_of_memory() {
    const std::size_t block = 4 << 20;
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::vector<int> numbers = Numbers(round + 90).some(COUNT, 1000);
        Memory<int> in(numbers), out(COUNT);
        std::vector<void *> taken;
        void *fresh = nullptr;
        cudaError_t error;
        while ((error = cudaMalloc(&fresh, block)) == cudaSuccess)
            taken.push_back(fresh);
        expect(error == cudaErrorMemoryAllocation && cudaGetLastError() == error, "the error of no memory");
        expect(cudaGetLastError() == cudaSuccess, "that the error is gone");
        for (std::size_t i = 0; i < taken.size(); i += 2)
            check(cudaFree(taken[i]), "cudaFree");
        with_memory(CUB(DeviceRadixSort::SortKeys), in.get(), out.get(), COUNT);
        for (std::size_t i = 1; i < taken.size(); i += 2)
            check(cudaFree(taken[i]), "cudaFree");
        std::sort(numbers.begin(), numbers.end());
        expect(out.host() == numbers, "order");
        sum += sum_of(numbers);
    }
    return sum;
}

/* CUB's own pool above the driver's. */
static std::uint32_t caching_allocator() {
    cub::CachingDeviceAllocator allocator(2, 6, 20);
    std::uint32_t sum = 0;
    for (int round = 0; round < ROUNDS * 4; round++) {
        std::vector<int> numbers = Numbers(round + 100).some(COUNT + round * 20, 1000);
        int count = static_cast<int>(numbers.size());
        std::size_t bytes = 0;
        void *temporary = nullptr, *total = nullptr;
        Memory<int> in(numbers);
        check(cub::DeviceReduce::Sum(nullptr, bytes, in.get(), static_cast<int *>(nullptr), count), "the size");
        check(allocator.DeviceAllocate(&temporary, bytes), "temporary memory");
        check(allocator.DeviceAllocate(&total, sizeof(int)), "memory for the sum");
        check(cub::DeviceReduce::Sum(temporary, bytes, in.get(), static_cast<int *>(total), count), "the call");
        int result = 0;
        check(cudaMemcpy(&result, total, sizeof result, cudaMemcpyDeviceToHost), "cudaMemcpy");
        expect(result == std::accumulate(numbers.begin(), numbers.end(), 0), "the sum");
        check(allocator.DeviceFree(temporary), "DeviceFree");
        check(allocator.DeviceFree(total), "DeviceFree");
        sum = sum * 31 + static_cast<std::uint32_t>(result);
    }
    return sum;
}

int main() {
    RUN(radix_sort);
    RUN(merge_sort);
    RUN(scan);
    RUN(reduce);
    RUN(reduce_by_key);
    RUN(unique_and_runs);
    RUN(select_and_partition);
    RUN(histogram);
    RUN(segments);
    RUN(out_of_memory);
    RUN(caching_allocator);
    return 0;
}
