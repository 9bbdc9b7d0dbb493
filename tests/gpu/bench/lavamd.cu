// Forces between the particles of a box and of the boxes around it, in the manner of Rodinia's
// LavaMD: boxes in a cube, 100 particles in each; 3 and 10 boxes a side are its data sets. Four
// arrays of results and three of temporaries a run.
#include "bench.cuh"

enum { PARTICLES = 100 };

static uint64_t forces_once(const float4 *positions, const float *charges, int side, bool hashed) {
    size_t boxes = (size_t)side * (size_t)side * (size_t)side, count = boxes * PARTICLES;
    Buffer<int> near(boxes * 27), near_count(boxes);
    Buffer<float4> scaled(count);
    int *nb = near.data, *nc = near_count.data;
    float4 *s = scaled.data;
    each(boxes, [=] DEVICE(size_t i) {
        int x = (int)i % side, y = (int)i / side % side, z = (int)i / side / side, found = 0;
        for (int k = 0; k < 27; k++) {
            int nx = x + k % 3 - 1, ny = y + k / 3 % 3 - 1, nz = z + k / 9 - 1;
            if (nx >= 0 && ny >= 0 && nz >= 0 && nx < side && ny < side && nz < side)
                nb[i * 27 + (size_t)found++] = (nz * side + ny) * side + nx;
        }
        nc[i] = found;
    });
    each(count, [=] DEVICE(size_t i) {
        float4 p = positions[i];
        p.w = (p.x * p.x + p.y * p.y + p.z * p.z) / 2; // |a-b|^2/2 = wa + wb - a.b
        s[i] = p;
    });
    Buffer<float> energy(count), fx(count), fy(count), fz(count);
    float *e = energy.data, *x = fx.data, *y = fy.data, *z = fz.data;
    each(count, [=] DEVICE(size_t i) {
        float4 a = s[i];
        float v = 0, ax = 0, ay = 0, az = 0;
        size_t box = i / PARTICLES;
        for (int k = 0; k < nc[box]; k++)
            for (size_t j = 0; j < PARTICLES; j++) {
                size_t other = (size_t)nb[box * 27 + (size_t)k] * PARTICLES + j;
                float4 b = s[other];
                float r2 = a.w + b.w - (a.x * b.x + a.y * b.y + a.z * b.z);
                float vij = charges[other] * expf(-0.5f * r2);
                v += vij;
                ax += 2 * vij * (a.x - b.x);
                ay += 2 * vij * (a.y - b.y);
                az += 2 * vij * (a.z - b.z);
            }
        e[i] = v;
        x[i] = ax;
        y[i] = ay;
        z[i] = az;
    });
    if (!hashed)
        return 0;
    uint64_t hash = hash_device(HASH_START, e, count * sizeof *e);
    // For equal charges all forces together are nothing.
    std::vector<float> pull = download(x, count);
    double sum = 0, size = 0;
    for (float f : pull) {
        sum += f;
        size += f < 0 ? -f : f;
    }
    REQUIRE(size > 0 && fabs(sum) < 1e-3 * size);
    hash = hash_device(hash, y, count * sizeof *y);
    return hash_device(hash, z, count * sizeof *z);
}

int main(int argc, char **argv) {
    int side = argc > 1 ? atoi(argv[1]) : 10, runs = argc > 2 ? atoi(argv[2]) : 50;
    REQUIRE(side > 0 && side <= 64);
    size_t count = (size_t)side * (size_t)side * (size_t)side * PARTICLES;
    Buffer<float4> positions(count);
    Buffer<float> charges(count);
    float4 *p = positions.data;
    float *q = charges.data;
    each(count, [=] DEVICE(size_t i) {
        size_t box = i / PARTICLES;
        uint32_t n = (uint32_t)i * 4;
        p[i].x = (float)(box % (size_t)side) + (float)(mix(1, n) % 1024) / 1024.0f;
        p[i].y =
            (float)(box / (size_t)side % (size_t)side) + (float)(mix(1, n + 1) % 1024) / 1024.0f;
        p[i].z =
            (float)(box / (size_t)side / (size_t)side) + (float)(mix(1, n + 2) % 1024) / 1024.0f;
        p[i].w = 0;
        q[i] = 0.5f;
    });
    measure("lavamd-" + std::to_string(side), runs,
            [&](bool hash) { return forces_once(p, q, side, hash); });
    return 0;
}
