/* Kernels of PTX that the tests run. */
#ifndef SIMCUDA_TEST_PTX_H
#define SIMCUDA_TEST_PTX_H

#include "test_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PTX_HEAD ".version 8.3\n.target sm_90\n.address_size 64\n"

/* A kernel whose one parameter is where its threads write: %out is each thread's own 8 bytes, %t
 * its number. */
#define PTX_KERNEL(name, registers, body)                                                          \
    ".visible .entry " name "(.param .u64 to)\n{\n"                                                \
    ".reg .u64 %base, %out, %offset;\n.reg .u32 %t, %b, %n;\n" registers                           \
    "mov.u32 %t, %tid.x;\nmov.u32 %b, %ctaid.x;\nmov.u32 %n, %ntid.x;\n"                           \
    "mad.lo.u32 %t, %b, %n, %t;\n"                                                                 \
    "ld.param.u64 %base, [to];\nmul.wide.u32 %offset, %t, 8;\n"                                    \
    "add.u64 %out, %base, %offset;\n" body "ret;\n}\n"

static inline CUmodule load_ptx(const char *text) {
    char log[1024] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    CUmodule module;
    CUresult result = cuModuleLoadDataEx(&module, text, 2, options, values);

    if (result != CUDA_SUCCESS)
        fail_msg("%s", log);
    return module;
}

/* Runs the module's kernel `k` with one argument and waits. */
static inline CUresult run_kernel(CUmodule module, const char *name, unsigned int blocks,
                                  unsigned int threads, unsigned int shared, CUdeviceptr to) {
    CUfunction function;

    assert_ok(cuModuleGetFunction(&function, module, name));
    assert_ok(
        cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, NULL, (void *[]){&to}, NULL));
    return cuCtxSynchronize();
}

/* What the threads of a text's kernel `k` have written; the caller's. */
static inline uint64_t *results_of(const char *text, unsigned int blocks, unsigned int threads,
                                   unsigned int shared) {
    size_t size = (size_t)blocks * threads * sizeof(uint64_t);
    uint64_t *results = calloc(1, size);
    CUmodule module = load_ptx(text);
    CUdeviceptr to;

    assert_ok(cuMemAlloc_v2(&to, size));
    assert_ok(cuMemsetD8_v2(to, 0, size));
    assert_ok(run_kernel(module, "k", blocks, threads, shared, to));
    assert_ok(cuMemcpyDtoH_v2(results, to, size));
    assert_ok(cuMemFree_v2(to));
    assert_ok(cuModuleUnload(module));
    return results;
}

#endif
