// Breadth-first search, level by level: degrees of the frontier, a scan, flags of the nodes
// reached, a scan, the next frontier; all of it in new arrays at every level. Random graphs with as
// many nodes as Rodinia's graph4096, graph65536 and graph1MW_6, six edges a node on average.
#include "bench.cuh"

static uint64_t bfs_once(const uint32_t *first, const uint32_t *targets, uint32_t nodes,
                         bool hash) {
    Buffer<int> cost(nodes);
    Buffer<uint32_t> frontier(1);
    int *c = cost.data;
    {
        uint32_t *f = frontier.data;
        each(nodes, [=] DEVICE(size_t i) {
            c[i] = i == 0 ? 0 : -1;
            if (i == 0)
                f[0] = 0;
        });
    }
    uint32_t size = 1;
    for (int level = 1; size > 0; level++) {
        const uint32_t *f = frontier.data;
        Buffer<uint32_t> degrees(size), ends(size);
        uint32_t *d = degrees.data, *e = ends.data, now = size;
        each(size, [=] DEVICE(size_t i) { d[i] = first[f[i] + 1] - first[f[i]]; });
        scan(d, e, size);
        uint32_t edges = download(e + size - 1, 1)[0];
        Buffer<uint32_t> flags(nodes), places(nodes);
        uint32_t *r = flags.data, *p = places.data;
        each(nodes, [=] DEVICE(size_t i) { r[i] = 0; });
        each(edges,
             [=] DEVICE(size_t i) { // edge i is of the first frontier node that ends behind it
                 uint32_t low = 0, high = now - 1;
                 while (low < high) {
                     uint32_t middle = (low + high) / 2;
                     if (e[middle] > i)
                         high = middle;
                     else
                         low = middle + 1;
                 }
                 uint32_t node = f[low],
                          target = targets[first[node] + ((uint32_t)i - (e[low] - d[low]))];
                 if (c[target] < 0)
                     r[target] = 1;
             });
        scan(r, p, nodes);
        size = download(p + nodes - 1, 1)[0];
        Buffer<uint32_t> next(size);
        uint32_t *n = next.data;
        each(nodes, [=] DEVICE(size_t i) {
            if (r[i]) {
                n[p[i] - 1] = (uint32_t)i;
                c[i] = level;
            }
        });
        frontier = std::move(next);
    }
    return !hash ? 0 : hash_device(HASH_START, c, nodes * sizeof *c);
}

int main(int argc, char **argv) {
    uint32_t nodes = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000000;
    int runs = argc > 2 ? atoi(argv[2]) : 50;
    REQUIRE(nodes > 0);
    std::vector<uint32_t> first(nodes + 1), targets;
    for (uint32_t i = 0; i < nodes; i++) {
        first[i] = (uint32_t)targets.size();
        for (uint32_t j = 0; j < 1 + mix(3, i) % 11; j++)
            targets.push_back(mix(4, i * 16 + j) % nodes);
    }
    first[nodes] = (uint32_t)targets.size();
    Buffer<uint32_t> on_device(nodes + 1), targets_on_device(targets.size());
    upload(on_device.data, first);
    upload(targets_on_device.data, targets);
    measure("bfs-" + std::to_string(nodes), runs, [&](bool hash) {
        return bfs_once(on_device.data, targets_on_device.data, nodes, hash);
    });
    // The same on the host, once.
    std::vector<int> cost(nodes, -1);
    std::vector<uint32_t> queue{0};
    cost[0] = 0;
    for (size_t head = 0; head < queue.size(); head++)
        for (uint32_t e = first[queue[head]]; e < first[queue[head] + 1]; e++)
            if (cost[targets[e]] < 0) {
                cost[targets[e]] = cost[queue[head]] + 1;
                queue.push_back(targets[e]);
            }
    Buffer<int> expected(nodes);
    upload(expected.data, cost);
    REQUIRE(bfs_once(on_device.data, targets_on_device.data, nodes, true) ==
            hash_device(HASH_START, expected.data, nodes * sizeof(int)));
    return 0;
}
