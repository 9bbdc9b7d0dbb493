// Breadth-first search through random graphs, level by level: the nodes that a level finds are written to memory
// that is allocated for that level. The host searches the same graphs and compares.
//
// An ordinary CUDA program: nvcc search.cu -o search.
#include "sample.h"

#include <vector>

enum { DEGREE = 6, THREADS = 128, NOT_FOUND = -1 };

struct graph {
    int nodes;
    std::vector<int> neighbours; // DEGREE of each
};

static graph make_graph(int nodes, uint32_t seed) {
    graph made{nodes, std::vector<int>(nodes * DEGREE)};
    uint32_t state = seed * 2654435761u + 1;
    for (int &neighbour : made.neighbours) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        neighbour = (int)(state % (uint32_t)nodes);
    }
    return made;
}

// Each thread looks at the neighbours of one node of the frontier; who sets a node's level first puts it on the next
// one, behind those that its block found before.
__global__ void expand(const int *neighbours, int *levels, int level, const int *frontier, int frontier_size, int *next, int *next_size) {
    __shared__ int found[THREADS * DEGREE], count, start;
    int at = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (threadIdx.x == 0)
        count = 0;
    __syncthreads();
    if (at < frontier_size)
        for (int i = 0; i < DEGREE; i++) {
            int neighbour = neighbours[frontier[at] * DEGREE + i];
            if (atomicCAS(&levels[neighbour], NOT_FOUND, level) == NOT_FOUND)
                found[atomicAdd(&count, 1)] = neighbour;
        }
    __syncthreads();
    if (threadIdx.x == 0)
        start = atomicAdd(next_size, count);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
        next[start + i] = found[i];
}

// The sum of all levels: of each warp by shuffles, then one addition for each warp.
__global__ void add_levels(const int *levels, int nodes, unsigned long long *sum) {
    int at = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    unsigned long long mine = at < nodes && levels[at] > 0 ? (unsigned long long)levels[at] : 0;
    for (int lanes = 16; lanes > 0; lanes /= 2)
        mine += __shfl_down_sync(0xffffffff, mine, lanes);
    if (threadIdx.x % 32 == 0 && mine)
        atomicAdd(sum, mine);
}

template <typename T> static T *allocate(size_t count) {
    void *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    return (T *)memory;
}

static unsigned blocks_for(int threads) {
    return (unsigned)(threads + THREADS - 1) / THREADS;
}

static std::vector<int> search(const graph &graph, unsigned long long *sum) {
    std::vector<int> levels(graph.nodes, NOT_FOUND);
    int *neighbours = allocate<int>(graph.neighbours.size()), *device_levels = allocate<int>(graph.nodes), *frontier = allocate<int>(1);
    int size = 1;
    levels[0] = 0;
    CHECK(cudaMemcpy(neighbours, graph.neighbours.data(), graph.neighbours.size() * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_levels, levels.data(), levels.size() * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(frontier, 0, sizeof(int)));
    for (int level = 1; size > 0; level++) {
        int *next = allocate<int>((size_t)size * DEGREE), *next_size = allocate<int>(1);
        CHECK(cudaMemset(next_size, 0, sizeof(int)));
        expand<<<blocks_for(size), THREADS>>>(neighbours, device_levels, level, frontier, size, next, next_size);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&size, next_size, sizeof size, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(next_size));
        CHECK(cudaFree(frontier));
        frontier = next;
    }
    unsigned long long *device_sum = allocate<unsigned long long>(1);
    CHECK(cudaMemset(device_sum, 0, sizeof *device_sum));
    add_levels<<<blocks_for(graph.nodes), THREADS>>>(device_levels, graph.nodes, device_sum);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sum, device_sum, sizeof *sum, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(levels.data(), device_levels, levels.size() * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_sum));
    CHECK(cudaFree(frontier));
    CHECK(cudaFree(device_levels));
    CHECK(cudaFree(neighbours));
    return levels;
}

static std::vector<int> search_on_host(const graph &graph) {
    std::vector<int> levels(graph.nodes, NOT_FOUND), frontier{0};
    levels[0] = 0;
    for (int level = 1; !frontier.empty(); level++) {
        std::vector<int> next;
        for (int node : frontier)
            for (int i = 0; i < DEGREE; i++) {
                int neighbour = graph.neighbours[node * DEGREE + i];
                if (levels[neighbour] == NOT_FOUND) {
                    levels[neighbour] = level;
                    next.push_back(neighbour);
                }
            }
        frontier = next;
    }
    return levels;
}

int main(int argc, char **argv) {
    int graphs = argument(argc, argv, 1, 30), nodes = argument(argc, argv, 2, 4000);
    uint64_t checksum = 0;
    double started = now_seconds();
    for (int i = 0; i < graphs; i++) {
        graph graph = make_graph(nodes, (uint32_t)i);
        unsigned long long sum = 0, wanted = 0;
        std::vector<int> levels = search(graph, &sum);
        if (levels != search_on_host(graph)) {
            fprintf(stderr, "search: graph %d: the device found other levels than the host\n", i);
            return 1;
        }
        for (int level : levels)
            wanted += level > 0 ? (unsigned long long)level : 0;
        if (sum != wanted) {
            fprintf(stderr, "search: graph %d: the device added its levels to %llu, the host to %llu\n", i, sum, wanted);
            return 1;
        }
        checksum = mix(checksum, sum);
    }
    finish("search", checksum, started);
    return 0;
}
