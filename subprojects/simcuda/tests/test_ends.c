/* Objects that end while other threads wait for work that uses them: cuda.h leaves it to programs
 * that nobody uses a context any more when it is destroyed, but for the primary context, which
 * counts its users. A program that is late gets an error and loses no more than the object. */
#include "test_sim.h"

#include "simcuda.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A call of another thread, in the context that is current here. */
struct late_call {
    CUresult (*call)(void *argument);
    void *argument;
    CUcontext context;
    CUresult result;
    pthread_t thread;
};

static void *make_late_call(void *argument) {
    struct late_call *late = argument;

    assert_ok(cuCtxSetCurrent(late->context));
    late->result = late->call(late->argument);
    return NULL;
}

/* Returns once the call waits, `waits` of them with it. */
static void begin(struct late_call *late, CUresult (*call)(void *), void *argument,
                  unsigned int waits) {
    late->call = call;
    late->argument = argument;
    assert_ok(cuCtxGetCurrent(&late->context));
    assert_int_equal(pthread_create(&late->thread, NULL, make_late_call, late), 0);
    while (simcuda_waits() < waits)
        sched_yield();
}

static CUresult end(struct late_call *late) {
    assert_int_equal(pthread_join(late->thread, NULL), 0);
    return late->result;
}

/* A flag in memory of the process, which goes with no context. */
static CUdeviceptr make_flag(void) {
    void *flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(flag, MAP_FAILED);
    assert_ok(cuMemHostRegister_v2(flag, 4096, CU_MEMHOSTREGISTER_PORTABLE));
    return (CUdeviceptr)(uintptr_t)flag;
}

static void open_flag(CUdeviceptr flag) {
    __atomic_store_n((uint32_t *)(uintptr_t)flag, 1, __ATOMIC_RELEASE);
}

static void remove_flag(CUdeviceptr flag) {
    void *memory = (void *)(uintptr_t)flag;

    assert_ok(cuMemHostUnregister(memory));
    munmap(memory, 4096);
}

/* A context of its own, current, in which a kernel waits for the flag. */
static CUcontext busy_context(CUdeviceptr flag, CUmodule *module) {
    CUfunction wait;
    CUcontext context;

    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuModuleLoadData(module, kernels_ptx));
    assert_ok(cuModuleGetFunction(&wait, *module, "wait_flag"));
    assert_ok(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&flag}, NULL));
    return context;
}

static CUresult destroy_context(void *context) {
    return cuCtxDestroy_v2(context);
}

static CUresult unregister(void *memory) {
    return cuMemHostUnregister(memory);
}

static CUresult unload(void *module) {
    return cuModuleUnload(module);
}

/* Either thread may be the first to go on. */
static void test_host_memory_whose_context_is_being_destroyed(void **state) {
    enum { ROUNDS = 30 };
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr flag = make_flag();
        struct late_call destroys, unregisters;
        CUmodule module;
        CUcontext context = busy_context(flag, &module), popped;

        assert_ok(cuMemHostRegister_v2(memory, 4096, 0));
        begin(&destroys, destroy_context, context, 1);
        begin(&unregisters, unregister, memory, 2);
        open_flag(flag);
        assert_ok(end(&destroys));
        assert_ok(end(&unregisters));
        assert_int_equal(unregister(memory), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        assert_ok(cuCtxPopCurrent_v2(&popped));
        remove_flag(flag);
    }
    munmap(memory, 4096);
}

static void test_a_module_is_unloaded_once(void **state) {
    CUdeviceptr flag = make_flag();
    struct late_call first, second;
    CUmodule module;
    CUcontext context = busy_context(flag, &module);

    (void)state;
    begin(&first, unload, module, 1);
    begin(&second, unload, module, 2);
    open_flag(flag);
    assert_int_equal((end(&first) == CUDA_SUCCESS) + (end(&second) == CUDA_SUCCESS), 1);
    assert_ok(cuCtxDestroy_v2(context));
    remove_flag(flag);
}

/* The second must not end what is made after the first: cuCtxDestroy's documentation. */
static void test_a_context_is_destroyed_once(void **state) {
    CUdeviceptr flag = make_flag();
    struct late_call first, second;
    CUmodule module;
    CUcontext context = busy_context(flag, &module), popped;

    (void)state;
    begin(&first, destroy_context, context, 1);
    begin(&second, destroy_context, context, 2);
    open_flag(flag);
    assert_int_equal((end(&first) == CUDA_SUCCESS) + (end(&second) == CUDA_SUCCESS), 1);
    assert_true(first.result == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
                second.result == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_ok(cuCtxPopCurrent_v2(&popped));
    remove_flag(flag);
}

static CUresult release_primary(void *unused) {
    (void)unused;
    return cuDevicePrimaryCtxRelease_v2(1);
}

/* "Retains the primary context on the GPU": who has retained it keeps what it allocates, even if
 * another thread was just releasing the last reference. */
static void test_a_context_that_is_retained_while_it_is_released(void **state) {
    CUdeviceptr flag = make_flag(), memory;
    struct late_call releases;
    CUcontext primary, popped;
    unsigned char byte = 0;
    CUmodule module;
    CUfunction wait;

    (void)state;
    assert_ok(cuDevicePrimaryCtxRetain(&primary, 1));
    assert_ok(cuCtxPushCurrent_v2(primary));
    assert_ok(cuModuleLoadData(&module, kernels_ptx));
    assert_ok(cuModuleGetFunction(&wait, module, "wait_flag"));
    assert_ok(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&flag}, NULL));
    begin(&releases, release_primary, NULL, 1);
    assert_ok(cuDevicePrimaryCtxRetain(&primary, 1));
    assert_ok(cuMemAlloc_v2(&memory, 4096));
    open_flag(flag);
    assert_ok(end(&releases));
    assert_ok(cuMemsetD8_v2(memory, 7, 4096));
    assert_ok(cuMemcpyDtoH_v2(&byte, memory, 1));
    assert_int_equal(byte, 7);
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuCtxPopCurrent_v2(&popped));
    assert_ok(cuDevicePrimaryCtxRelease_v2(1));
    remove_flag(flag);
}

/* --- a pool that goes while an allocation waits for memory --- */

static CUresult allocate_all(void *pool) {
    CUdeviceptr memory;

    return cuMemAllocFromPoolAsync(&memory, 60 * MiB, pool, NULL);
}

static void test_a_pool_that_goes_while_an_allocation_waits(void **state) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUdeviceptr flag = make_flag(), taken;
    struct late_call allocates;
    CUmemoryPool pool;

    (void)state;
    assert_ok(cuMemPoolCreate(&pool, &properties));
    assert_ok(cuMemAlloc_v2(&taken, 8 * MiB));
    assert_ok(launch("wait_flag", NULL, (void *[]){&flag}));
    begin(&allocates, allocate_all, pool, 1);
    assert_ok(cuMemPoolDestroy(pool));
    open_flag(flag);
    assert_int_equal(end(&allocates), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(taken));
    remove_flag(flag);
}

/* --- handles --- */

static CUresult unload_library(void *library) {
    return cuLibraryUnload(library);
}

/* What is unloaded has its kernels as long as work may run its code. */
static void test_a_function_of_a_library_that_is_being_unloaded(void **state) {
    CUdeviceptr flag = make_flag();
    struct late_call unloads;
    CUfunction function;
    CUlibrary library;
    CUkernel kernel;
    int threads;

    (void)state;
    assert_ok(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    assert_ok(cuKernelGetFunction(&function, kernel));
    assert_ok(launch("wait_flag", NULL, (void *[]){&flag}));
    begin(&unloads, unload_library, library, 1);
    assert_ok(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    assert_true(threads > 0);
    open_flag(flag);
    assert_ok(end(&unloads));
    remove_flag(flag);
}

static void test_a_function_of_an_unloaded_module_has_no_module(void **state) {
    CUmodule module, found;
    CUfunction function;

    (void)state;
    assert_ok(cuModuleLoadData(&module, kernels_ptx));
    assert_ok(cuModuleGetFunction(&function, module, "fill_u32"));
    assert_ok(cuFuncGetModule(&found, function));
    assert_ptr_equal(found, module);
    assert_ok(cuModuleUnload(module));
    assert_int_equal(cuFuncGetModule(&found, function), CUDA_ERROR_INVALID_HANDLE);
}

/* A program that keeps the handle of a stream which is gone may hit any address: what the driver
 * needs itself must not be found there, or destroying it takes the context's default stream. */
static void test_only_what_the_program_made_is_a_stream_to_it(void **state) {
    unsigned int flags, found = 0;
    uintptr_t at;
    CUstream stream;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    for (at = (uintptr_t)stream - MiB; at < (uintptr_t)stream + MiB; at += 16)
        found += cuStreamGetFlags((CUstream)at, &flags) != CUDA_ERROR_INVALID_HANDLE;
    assert_int_equal(found, 1);
    assert_ok(cuStreamDestroy_v2(stream));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_the_program_made_is_a_stream_to_it),
        cmocka_unit_test(test_host_memory_whose_context_is_being_destroyed),
        cmocka_unit_test(test_a_module_is_unloaded_once),
        cmocka_unit_test(test_a_context_is_destroyed_once),
        cmocka_unit_test(test_a_context_that_is_retained_while_it_is_released),
        cmocka_unit_test(test_a_pool_that_goes_while_an_allocation_waits),
        cmocka_unit_test(test_a_function_of_a_library_that_is_being_unloaded),
        cmocka_unit_test(test_a_function_of_an_unloaded_module_has_no_module),
    };

    return cmocka_run_group_tests_name("ends", tests, set_up_context, tear_down_context);
}
