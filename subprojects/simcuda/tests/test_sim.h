/* What the tests of the simulated GPU share. They run without its costs and with two small devices:
 * meson.build sets the environment. */
#ifndef SIMCUDA_TEST_H
#define SIMCUDA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_symbols.h"
#include "test_kernels.h"

#define MiB ((size_t)1 << 20)

#define assert_ok(call) assert_int_equal((call), CUDA_SUCCESS)

/* A current primary context of device 0, and the module of all kernels in the current context. */
static CUcontext test_context;
static CUmodule test_module;

static inline int set_up_context(void **state) {
    (void)state;
    assert_ok(cuInit(0));
    assert_ok(cuDevicePrimaryCtxRetain(&test_context, 0));
    assert_ok(cuCtxSetCurrent(test_context));
    assert_ok(cuModuleLoadData(&test_module, kernels_ptx));
    return 0;
}

static inline int tear_down_context(void **state) {
    (void)state;
    assert_ok(cuModuleUnload(test_module));
    assert_ok(cuCtxSetCurrent(NULL));
    assert_ok(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

static inline CUfunction test_kernel(const char *name) {
    CUfunction function;

    assert_ok(cuModuleGetFunction(&function, test_module, name));
    return function;
}

static inline CUresult launch(const char *name, CUstream stream, void **parameters) {
    return cuLaunchKernel(test_kernel(name), 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

static inline CUresult launch_fill(CUstream stream, CUdeviceptr to, uint64_t count,
                                   uint32_t value) {
    return launch("fill_u32", stream, (void *[]){&to, &count, &value});
}

/* Returns when the stream has done all its work. The driver knows nothing of it: to it, later work
 * is not ordered after this one. What the kernels have accessed is known then. */
static inline void let_run(CUstream stream) {
    void *memory;
    volatile uint32_t *done;

    assert_ok(cuMemHostAlloc(&memory, sizeof *done, CU_MEMHOSTALLOC_DEVICEMAP)); /* it stays */
    done = memory;
    assert_ok(launch_fill(stream, (CUdeviceptr)(uintptr_t)memory, 1, 1));
    while (__atomic_load_n(done, __ATOMIC_ACQUIRE) == 0)
        continue;
}

/* A stream that stands still until the test lets it go. */
struct gate {
    volatile uint32_t *flag; /* mapped host memory */
};

static inline struct gate gate_close(CUstream stream) {
    struct gate gate;
    void *memory;
    CUdeviceptr flag;

    assert_ok(cuMemHostAlloc(&memory, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
    assert_ok(cuMemHostGetDevicePointer_v2(&flag, memory, 0));
    gate.flag = memory;
    assert_ok(launch("wait_flag", stream, (void *[]){&flag}));
    return gate;
}

static inline void gate_open(struct gate gate) {
    __atomic_store_n(gate.flag, 1, __ATOMIC_RELEASE);
}

static inline void gate_remove(struct gate gate) {
    gate_open(gate);
    assert_ok(cuMemFreeHost((void *)(uintptr_t)gate.flag)); /* waits */
}

#endif
