/* What the tests of the simulated runtime share. They register kernels as the code does that nvcc
 * writes into programs: crt/host_runtime.h of CUDA's headers. */
#ifndef SIMCUDA_TEST_RUNTIME_H
#define SIMCUDA_TEST_RUNTIME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

#define assert_ok(call)           assert_int_equal((call), cudaSuccess)
#define assert_fails(error, call) assert_int_equal((call), (error))

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, uint3 *thread, uint3 *block, dim3 *block_size,
                            dim3 *grid_size, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                              int external, size_t bytes, int constant, int global);
char __cudaInitModule(void **handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

struct fatbin_wrapper {
    int magic;
    int version;
    const void *image;
    void *parts;
};

static const char runtime_ptx[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".global .align 4 .u32 counter;\n"
    ".const .align 4 .u32 limits[2] = {5, 6};\n"
    ".visible .global .attribute(.managed) .align 4 .u32 shared[4] = {7};\n"
    ".visible .entry fill_u32(.param .u64 to, .param .u64 count, .param .u32 value) {\n"
    "  .reg .pred %p; .reg .u32 %v; .reg .u64 %a, %n;\n"
    "  ld.param.u64 %a, [to]; ld.param.u64 %n, [count]; ld.param.u32 %v, [value];\n"
    "more:\n"
    "  setp.eq.u64 %p, %n, 0;\n"
    "  @%p ret;\n"
    "  st.global.u32 [%a], %v; add.u64 %a, %a, 4; sub.u64 %n, %n, 1;\n"
    "  bra more;\n"
    "}\n"
    ".visible .entry store(.param .u64 to) {\n"
    "  .reg .u64 %a; ld.param.u64 %a, [to]; st.global.u32 [%a], 8; ret;\n"
    "}\n"
    ".visible .entry fault() {\n"
    "  .reg .u64 %a; mov.u64 %a, 16; st.global.u32 [%a], 1; ret;\n"
    "}\n";

/* The addresses by which the host knows what it registers. */
static char fill_host, store_host, fault_host, missing_host, counter_host, limits_host;
static uint32_t *shared_host;

static struct fatbin_wrapper runtime_wrapper = {0x466243b1, 1, runtime_ptx, NULL};
static void **runtime_image;

static inline int register_image(void **state) {
    static const struct {
        char *host;
        const char *name;
    } kernels[] = {{&fill_host, "fill_u32"},
                   {&store_host, "store"},
                   {&fault_host, "fault"},
                   {&missing_host, "missing"}};

    (void)state;
    runtime_image = __cudaRegisterFatBinary(&runtime_wrapper);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        __cudaRegisterFunction(runtime_image, kernels[i].host, kernels[i].host, kernels[i].name, -1,
                               NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(runtime_image, &counter_host, &counter_host, "counter", 0, 4, 0, 0);
    __cudaRegisterVar(runtime_image, &limits_host, &limits_host, "limits", 0, 8, 1, 0);
    __cudaRegisterManagedVar(runtime_image, (void **)&shared_host, (char *)&shared_host, "shared",
                             0, 16, 0, 0);
    __cudaRegisterFatBinaryEnd(runtime_image);
    return 0;
}

static inline int unregister_image(void **state) {
    (void)state;
    __cudaUnregisterFatBinary(runtime_image);
    return 0;
}

static inline cudaError_t fill(void *to, uint64_t count, uint32_t value, cudaStream_t stream) {
    void *arguments[] = {&to, &count, &value};

    return cudaLaunchKernel(&fill_host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, stream);
}

static inline uint32_t word_at(const void *device) {
    uint32_t word = 0;

    assert_ok(cudaMemcpy(&word, device, sizeof word, cudaMemcpyDefault));
    return word;
}

#endif
