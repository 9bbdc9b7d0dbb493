/* What the sample programs share: error checks, kernels, a checksum, a clock. They are ordinary
 * CUDA programs: the runtime's API for memory, kernels from PTX text through the driver's. */
#ifndef SAMPLES_SAMPLE_H
#define SAMPLES_SAMPLE_H

#include "kernels.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ends the program, naming the call, if CUDA reports an error. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int check_result = (int)(call);                                                            \
        if (check_result != 0) {                                                                   \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, check_result);     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct kernels {
    CUfunction fill, add, sum, spin;
};

/* Loads the kernels into the current device's primary context. */
static inline struct kernels kernels_load(void) {
    struct kernels kernels;
    CUmodule module;
    CHECK(cudaFree(0)); /* makes the runtime create and set its context */
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&kernels.fill, module, "fill_u32"));
    CHECK(cuModuleGetFunction(&kernels.add, module, "add_u32"));
    CHECK(cuModuleGetFunction(&kernels.sum, module, "sum_u32"));
    CHECK(cuModuleGetFunction(&kernels.spin, module, "spin_ns"));
    return kernels;
}

static inline void launch(CUfunction function, void **arguments, cudaStream_t stream) {
    CHECK(cuLaunchKernel(function, 64, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
}

static inline void fill_u32(const struct kernels *kernels, void *to, uint64_t count, uint32_t value,
                            cudaStream_t stream) {
    void *arguments[] = {&to, &count, &value};
    launch(kernels->fill, arguments, stream);
}

static inline void add_u32(const struct kernels *kernels, void *to, void *a, void *b,
                           uint64_t count, cudaStream_t stream) {
    void *arguments[] = {&to, &a, &b, &count};
    launch(kernels->add, arguments, stream);
}

/* The sum of `count` words, waited for. `scratch` holds 8 bytes of device memory. */
static inline uint64_t sum_u32(const struct kernels *kernels, void *from, uint64_t count,
                               void *scratch, cudaStream_t stream) {
    uint64_t sum;
    void *arguments[] = {&from, &count, &scratch};
    CHECK(cudaMemsetAsync(scratch, 0, sizeof sum, stream));
    launch(kernels->sum, arguments, stream);
    CHECK(cudaMemcpyAsync(&sum, scratch, sizeof sum, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return sum;
}

static inline uint64_t mix(uint64_t checksum, uint64_t value) {
    return (checksum ^ value) * 0x100000001b3u;
}

static inline double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The time goes to standard error: it is the one thing in which two runs may differ. */
static inline void finish(const char *name, uint64_t checksum, double started) {
    printf("%s checksum %016llx\n", name, (unsigned long long)checksum);
    fprintf(stderr, "seconds %.6f\n", now_seconds() - started);
}

static inline int argument(int count, char **values, int index, int fallback) {
    return count > index ? atoi(values[index]) : fallback;
}

#endif
