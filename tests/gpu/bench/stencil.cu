// Heat in a plate, step by step: differences to the right and downwards and the next state, each in
// a new array in every step.
#include "bench.cuh"

static uint64_t heat_once(int side, int steps, bool hash) {
    size_t count = (size_t)side * (size_t)side;
    Buffer<float> state(count);
    {
        float *s = state.data;
        each(count, [=] DEVICE(size_t i) { s[i] = (float)(mix(2, (uint32_t)i) % 1024); });
    }
    for (int step = 0; step < steps; step++) {
        const float *s = state.data;
        Buffer<float> right(count), down(count), next(count);
        float *r = right.data, *d = down.data, *n = next.data;
        each(count, [=] DEVICE(size_t i) {
            size_t x = i % (size_t)side, y = i / (size_t)side;
            r[i] = x + 1 < (size_t)side ? s[i + 1] - s[i] : 0;
            d[i] = y + 1 < (size_t)side ? s[i + (size_t)side] - s[i] : 0;
        });
        each(count, [=] DEVICE(size_t i) {
            size_t x = i % (size_t)side, y = i / (size_t)side;
            n[i] =
                s[i] + 0.25f * (r[i] - (x ? r[i - 1] : 0) + d[i] - (y ? d[i - (size_t)side] : 0));
        });
        state = std::move(next);
    }
    if (!hash)
        return 0;
    std::vector<float> end = download(state.data, count);
    double heat = 0;
    for (float value : end) {
        REQUIRE(value >= -1 && value <= 1025);
        heat += value;
    }
    REQUIRE(fabs(heat / (double)count - 511.5) < 16); // none is lost
    return hash_device(HASH_START, state.data, count * sizeof(float));
}

int main(int argc, char **argv) {
    int side = argc > 1 ? atoi(argv[1]) : 1024, runs = argc > 2 ? atoi(argv[2]) : 3;
    int steps = argc > 3 ? atoi(argv[3]) : 200;
    REQUIRE(side > 0 && side < 16384);
    measure("stencil-" + std::to_string(side), runs,
            [&](bool hash) { return heat_once(side, steps, hash); });
    return 0;
}
