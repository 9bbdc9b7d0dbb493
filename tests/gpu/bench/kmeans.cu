// Clusters points, Lloyd's way: nearest centre, sums for each chunk of points, new centres, how
// many points have moved; all of it in new arrays in every iteration. Sizes are those of Rodinia's
// data sets 204800 and kdd_cup (494020 points), 34 features, 5 clusters; the points are made up.
#include "bench.cuh"

enum { FEATURES = 34, CLUSTERS = 5, CHUNK = 256, ITERATIONS = 20 };

// Every centre is the mean of its points.
static void require_means(const float *points, const std::vector<uint32_t> &membership,
                          const std::vector<float> &centres) {
    std::vector<float> all = download(points, membership.size() * FEATURES);
    for (uint32_t k = 0; k < CLUSTERS; k++)
        for (uint32_t f = 0; f < FEATURES; f++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < membership.size(); i++) {
                sum += membership[i] == k ? all[i * FEATURES + f] : 0;
                size += membership[i] == k;
            }
            REQUIRE(fabs(sum / (size > 0 ? size : 1) - centres[k * FEATURES + f]) < 0.01);
        }
}

static uint64_t kmeans_once(const float *points, uint32_t count, bool hash) {
    Buffer<float> centres(CLUSTERS * FEATURES);
    Buffer<uint32_t> membership(count);
    {
        float *c = centres.data;
        uint32_t *m = membership.data;
        each(CLUSTERS * FEATURES, [=] DEVICE(size_t i) { c[i] = points[i]; });
        each(count, [=] DEVICE(size_t i) { m[i] = (uint32_t)i % CLUSTERS; });
    }
    uint32_t moved = count, iterations = 0;
    while (moved > count / 1000 && iterations < ITERATIONS) {
        Buffer<uint32_t> nearest(count);
        uint32_t *n = nearest.data, *before = membership.data;
        const float *c = centres.data;
        each(count, [=] DEVICE(size_t i) {
            float best = 3e38f;
            for (uint32_t k = 0; k < CLUSTERS; k++) {
                float distance = 0;
                for (int f = 0; f < FEATURES; f++) {
                    float d = points[i * FEATURES + (size_t)f] - c[k * FEATURES + (uint32_t)f];
                    distance += d * d;
                }
                if (distance < best) {
                    best = distance;
                    n[i] = k;
                }
            }
        });
        size_t chunks = (count + CHUNK - 1) / CHUNK;
        Buffer<float> sums(chunks * CLUSTERS * FEATURES);
        Buffer<uint32_t> sizes(chunks * CLUSTERS), changes(chunks);
        float *s = sums.data;
        uint32_t *z = sizes.data, *ch = changes.data;
        each(chunks * CLUSTERS * FEATURES, [=] DEVICE(size_t i) {
            size_t chunk = i / (CLUSTERS * FEATURES), f = i % FEATURES;
            uint32_t k = (uint32_t)(i / FEATURES % CLUSTERS), size = 0, changed = 0;
            float sum = 0;
            for (size_t p = chunk * CHUNK; p < (chunk + 1) * CHUNK && p < count; p++) {
                sum += n[p] == k ? points[p * FEATURES + f] : 0;
                size += n[p] == k;
                changed += n[p] != before[p];
            }
            s[i] = sum;
            if (f == 0)
                z[chunk * CLUSTERS + k] = size;
            if (f == 0 && k == 0)
                ch[chunk] = changed;
        });
        Buffer<float> moved_to(CLUSTERS * FEATURES);
        Buffer<uint32_t> total(1);
        float *to = moved_to.data;
        uint32_t *t = total.data;
        each(CLUSTERS * FEATURES, [=] DEVICE(size_t i) {
            float sum = 0;
            uint32_t size = 0, changed = 0;
            for (size_t chunk = 0; chunk < chunks; chunk++) {
                sum += s[chunk * CLUSTERS * FEATURES + i];
                size += z[chunk * CLUSTERS + i / FEATURES];
                changed += ch[chunk];
            }
            to[i] = sum / (float)(size ? size : 1);
            if (i == 0)
                *t = changed;
        });
        moved = download(t, 1)[0];
        membership = std::move(nearest);
        centres = std::move(moved_to);
        iterations++;
    }
    if (!hash)
        return 0;
    require_means(points, download(membership.data, count),
                  download(centres.data, CLUSTERS * FEATURES));
    return hash_device(hash_device(HASH_START + iterations, membership.data, count * 4),
                       centres.data, CLUSTERS * FEATURES * 4);
}

int main(int argc, char **argv) {
    uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 494020;
    int runs = argc > 2 ? atoi(argv[2]) : 20;
    REQUIRE(count >= CLUSTERS);
    Buffer<float> points((size_t)count * FEATURES);
    float *p = points.data;
    // Around five places, far from each other in some features.
    each((size_t)count * FEATURES, [=] DEVICE(size_t i) {
        uint32_t place = mix(7, (uint32_t)(i / FEATURES)) % 5, f = (uint32_t)(i % FEATURES);
        p[i] = (float)(mix(place + 1, f) % 64) + (float)(mix(9, (uint32_t)i) % 4096) / 64.0f;
    });
    measure("kmeans-" + std::to_string(count), runs,
            [&](bool hash) { return kmeans_once(p, count, hash); });
    return 0;
}
