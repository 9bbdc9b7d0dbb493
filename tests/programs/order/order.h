/* What the programs about order share: one case a process, named by the argument, judged by what
 * it prints and by its coming to an end. "Ends natively" is what a wait for too much spoils: work
 * here runs until a flag is set that is only set behind the calls in question. */
#ifndef TESTS_PROGRAMS_ORDER_H
#define TESTS_PROGRAMS_ORDER_H

#include "../program.h"
#include "driver/cuda_api.h"

#include "../../../samples/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 4096, WORDS = BYTES / 4, DEVICES_MAX = 2 };

/* As cuMemAlloc and cuMemFree, telling the simulated device who owns what. */
static inline CUdeviceptr allocate(size_t size) {
    void (*begin)(CUdeviceptr, size_t, uintptr_t);
    CUdeviceptr pointer;
    *(void **)&begin = dlsym(RTLD_DEFAULT, "simcuda_owner_begin");
    CHECK(cuMemAlloc_v2(&pointer, size));
    REQUIRE(begin != NULL);
    begin(pointer, size, (uintptr_t)__builtin_return_address(0));
    return pointer;
}

static inline void release(CUdeviceptr pointer) {
    void (*end)(CUdeviceptr, uintptr_t);
    *(void **)&end = dlsym(RTLD_DEFAULT, "simcuda_owner_end");
    REQUIRE(end != NULL);
    end(pointer, (uintptr_t)__builtin_return_address(0));
    CHECK(cuMemFree_v2(pointer));
}

/* A context with its kernels, and a block that keeps any other from being its last. */
struct place {
    CUcontext context;
    CUfunction wait_flag, fill, spin;
    CUdeviceptr kept;
};

static inline void place_fill_in(struct place *place) {
    CUmodule module;
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&place->wait_flag, module, "wait_flag"));
    CHECK(cuModuleGetFunction(&place->fill, module, "fill_u32"));
    CHECK(cuModuleGetFunction(&place->spin, module, "spin_ns"));
    place->kept = allocate(BYTES);
}

/* The primary context of a device, current from now on. */
static inline struct place primary_place(CUdevice device) {
    struct place place;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&place.context, device));
    CHECK(cuCtxSetCurrent(place.context));
    place_fill_in(&place);
    return place;
}

/* A context of its own on device 0, current from now on. */
static inline struct place created_place(void) {
    CUresult (*create)(CUcontext *, unsigned, CUdevice) = cuCtxCreate_v2;
    struct place place;
    CHECK(create(&place.context, 0, 0));
    place_fill_in(&place);
    return place;
}

static inline void launch(CUfunction function, void **arguments, CUstream stream) {
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

/* Work that goes on until the word at `flag` is set. */
static inline void wait_for_flag(const struct place *place, CUdeviceptr flag, CUstream stream) {
    launch(place->wait_flag, (void *[]){&flag}, stream);
}

static inline void fill(const struct place *place, CUdeviceptr to, uint32_t value,
                        CUstream stream) {
    uint64_t count = WORDS;
    launch(place->fill, (void *[]){&to, &count, &value}, stream);
}

static inline void keep_busy(const struct place *place, uint64_t ns, CUstream stream) {
    launch(place->spin, (void *[]){&ns}, stream);
}

static inline CUstream new_stream(unsigned flags) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, flags));
    return stream;
}

/* A flag in device memory: 0. The host sets it through another stream. */
static inline CUdeviceptr device_flag(void) {
    CUdeviceptr flag = allocate(BYTES);
    CHECK(cuMemsetD32_v2(flag, 0, 1));
    CHECK(cuCtxSynchronize());
    return flag;
}

/* A flag in memory of the host's that all devices reach: 0. */
static inline volatile uint32_t *host_flag(CUdeviceptr *device) {
    void *host;
    CHECK(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemHostGetDevicePointer_v2(device, host, 0));
    *(volatile uint32_t *)host = 0;
    return host;
}

static inline void set_flag(volatile uint32_t *flag) {
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

/* Sets a flag in device memory by a stream that waits for no other. */
static inline void set_device_flag(CUdeviceptr flag) {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuMemsetD32Async(flag, 1, 1, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy_v2(stream));
}

/* How many threads wait in the driver, as the simulated one says. */
static inline unsigned waiting_threads(void) {
    unsigned (*count)(void);
    *(void **)&count = dlsym(RTLD_DEFAULT, "simcuda_waits");
    REQUIRE(count != NULL);
    return count();
}

struct order_case {
    const char *name;
    void (*run)(void);
};

static inline int run_case(const struct order_case *cases, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(cases[i].name, name) != 0)
            continue;
        cases[i].run();
        return 0;
    }
    REQUIRE(!"a case of that name");
}

#define ORDER_MAIN(cases)                                                                          \
    int main(int argc, char **argv) {                                                              \
        REQUIRE(argc == 2);                                                                        \
        return run_case(cases, sizeof(cases) / sizeof(cases)[0], argv[1]);                         \
    }

#endif
