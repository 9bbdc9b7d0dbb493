// Makes a cuFFT plan, transforms forth and back, and destroys it, again and again: cufft_loops
// [LENGTH [RUNS]]. The data is the program's, the plan's work area the library's, which has a
// runtime of its own.
#include "bench.cuh"

#include <cufft.h>

#define CUFFT_OK(call) REQUIRE((call) == CUFFT_SUCCESS)

static uint64_t transform_once(int length, bool hash) {
    Buffer<cufftComplex> data((size_t)length);
    cufftComplex *d = data.data;
    each((size_t)length, [=] DEVICE(size_t i) {
        d[i].x = (float)(mix(1, (uint32_t)i) & 0xff);
        d[i].y = 0;
    });
    cufftHandle plan;
    CUFFT_OK(cufftPlan1d(&plan, length, CUFFT_C2C, 1));
    CUFFT_OK(cufftExecC2C(plan, d, d, CUFFT_FORWARD));
    CUFFT_OK(cufftExecC2C(plan, d, d, CUFFT_INVERSE));
    CUFFT_OK(cufftDestroy(plan));
    if (!hash)
        return 0;
    std::vector<cufftComplex> back = download(d, 64); // the data again, `length` times as large
    for (uint32_t i = 0; i < 64; i++)
        REQUIRE(fabs(back[i].x / (float)length - (float)(mix(1, i) & 0xff)) < 0.1);
    return hash_device(HASH_START, d, (size_t)length * sizeof *d);
}

int main(int argc, char **argv) {
    int length = argc > 1 ? atoi(argv[1]) : 3 * 65536, runs = argc > 2 ? atoi(argv[2]) : 100;
    REQUIRE(length >= 64);
    measure("cufft-" + std::to_string(length), runs,
            [&](bool hash) { return transform_once(length, hash); });
    return 0;
}
