/* What the programs of this folder share. Each makes the mistake that its first comment tells, or,
 * compiled with -DCORRECT, does the same without it. What POOLCUDA_CHECK is to report is in
 * NAME.expected, where
 *
 *   {A+8}     is the address that the program has printed as A, and 8
 *   [{free}]  is the offset of the call in the line that is marked so: site: free
 *   {program} is the executable's name
 *
 * A first comment may end with lines "Run with: VARIABLE=VALUE ..." and "Natively: the same.",
 * which is said where the program without the library has the same output and exit code. */
#ifndef TESTS_PROGRAMS_CHECK_H
#define TESTS_PROGRAMS_CHECK_H

#include "../../../samples/kernels.h"
#include "../program.h"
#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef CORRECT
static const bool faulty = false;
#else
static const bool faulty = true;
#endif

#define OK(call) REQUIRE((call) == CUDA_SUCCESS)

/* The kernels of the context that loaded them last. */
static CUfunction fill_kernel;

/* Loads them into the current context. */
static inline void load_kernels(void) {
    CUmodule module;
    OK(cuModuleLoadData(&module, sample_kernels_ptx));
    OK(cuModuleGetFunction(&fill_kernel, module, "fill_u32"));
}

/* Makes device 0's primary context current. */
static inline void start(void) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    load_kernels();
}

/* A kernel that writes `count` words. */
static inline void fill(CUdeviceptr to, uint64_t count, CUstream stream) {
    uint32_t value = 7;
    void *parameters[] = {&to, &count, &value};
    OK(cuLaunchKernel(fill_kernel, 4, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
}

static inline void tell(const char *name, CUdeviceptr pointer) {
    printf("%s 0x%llx\n", name, (unsigned long long)pointer);
}

#endif
