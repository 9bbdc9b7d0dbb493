// Edge detection as far as the selection of strong edges: grey, two passes of a Gaussian, gradient,
// suppression of what is no maximum, a scan and a compaction. Every stage's result is an array of
// its own, as in code that a compiler generates from a functional program. Images have the sizes of
// futhark-benchmarks' lena256 and lena512, with made-up contents.
#include "bench.cuh"

static DEVICE inline int clamp(int value, int most) {
    return value < 0 ? 0 : value > most ? most : value;
}

static uint64_t canny_once(const uint32_t *image, int side, bool hash) {
    const float low = 50, high = 100;
    size_t count = (size_t)side * (size_t)side;
    int last = side - 1;
    Buffer<float> grey(count);
    float *g = grey.data;
    each(count, [=] DEVICE(size_t i) {
        uint32_t p = image[i];
        g[i] = 0.3f * (float)(p >> 16 & 255) + 0.59f * (float)(p >> 8 & 255) +
               0.11f * (float)(p & 255);
    });
    Buffer<float> across(count);
    float *ax = across.data;
    each(count, [=] DEVICE(size_t i) {
        int y = (int)i / side, x = (int)i % side;
        const float *row = g + y * side;
        ax[i] = (row[clamp(x - 2, last)] + 4 * row[clamp(x - 1, last)] + 6 * row[x] +
                 4 * row[clamp(x + 1, last)] + row[clamp(x + 2, last)]) /
                16;
    });
    Buffer<float> smooth(count);
    float *s = smooth.data;
    each(count, [=] DEVICE(size_t i) {
        int y = (int)i / side, x = (int)i % side;
        s[i] =
            (ax[clamp(y - 2, last) * side + x] + 4 * ax[clamp(y - 1, last) * side + x] + 6 * ax[i] +
             4 * ax[clamp(y + 1, last) * side + x] + ax[clamp(y + 2, last) * side + x]) /
            16;
    });
    Buffer<float> magnitude(count);
    Buffer<int> direction(count);
    float *m = magnitude.data;
    int *d = direction.data;
    each(count, [=] DEVICE(size_t i) {
        int y = (int)i / side, x = (int)i % side;
        const float *up = s + clamp(y - 1, last) * side, *here = s + y * side;
        const float *down = s + clamp(y + 1, last) * side;
        int l = clamp(x - 1, last), r = clamp(x + 1, last);
        float dx = up[r] + 2 * here[r] + down[r] - up[l] - 2 * here[l] - down[l];
        float dy = up[l] + 2 * up[x] + up[r] - down[l] - 2 * down[x] - down[r];
        m[i] = dx * dx + dy * dy;
        // The octant by comparisons alone: exact on every device.
        float adx = dx < 0 ? -dx : dx, ady = dy < 0 ? -dy : dy;
        d[i] = adx <= low && ady <= low ? -1
               : ady * 12 < adx * 5     ? 0
               : adx * 12 < ady * 5     ? 2
               : (dx < 0) == (dy < 0)   ? 1
                                        : 3;
    });
    Buffer<uint32_t> strong(count);
    uint32_t *st = strong.data;
    each(count, [=] DEVICE(size_t i) {
        int y = (int)i / side, x = (int)i % side;
        int ox = d[i] == 2 ? 0 : d[i] == 3 ? -1 : 1, oy = d[i] == 0 ? 0 : -1;
        float ahead = m[clamp(y + oy, last) * side + clamp(x + ox, last)];
        float behind = m[clamp(y - oy, last) * side + clamp(x - ox, last)];
        st[i] = d[i] >= 0 && m[i] >= high * high && m[i] >= ahead && m[i] >= behind;
    });
    Buffer<uint32_t> places(count);
    uint32_t *p = places.data;
    scan(st, p, count);
    uint32_t found = download(p + count - 1, 1)[0];
    REQUIRE(found > count / 1000 && found < count / 4); // the outlines of discs and bars
    Buffer<uint32_t> edges(found);
    uint32_t *e = edges.data;
    each(count, [=] DEVICE(size_t i) {
        if (st[i])
            e[p[i] - 1] = (uint32_t)i;
    });
    return !hash ? 0 : hash_device(HASH_START + found, e, found * sizeof *e);
}

int main(int argc, char **argv) {
    int side = argc > 1 ? atoi(argv[1]) : 512, runs = argc > 2 ? atoi(argv[2]) : 500;
    REQUIRE(side > 0 && side < 16384);
    std::vector<uint32_t> picture((size_t)side * (size_t)side);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) { // discs and bars in some noise
            int cx = x % 128 - 64, cy = y % 128 - 64;
            uint32_t v = cx * cx + cy * cy < 1600 ? 200 : (x + y) / 48 % 2 ? 90 : 20;
            v += mix(1, (uint32_t)(y * side + x)) % 8;
            picture[(size_t)y * (size_t)side + (size_t)x] = v << 16 | v << 8 | v;
        }
    Buffer<uint32_t> image(picture.size());
    upload(image.data, picture);
    measure("canny-" + std::to_string(side), runs,
            [&](bool hash) { return canny_once(image.data, side, hash); });
    return 0;
}
