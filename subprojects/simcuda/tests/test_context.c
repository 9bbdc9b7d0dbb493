/* Contexts of the simulated device: life, identity, what they take with them, the process's exit.
 */
#include "test_sim.h"

#include "simcuda.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs first: nothing has initialised the driver yet. */
static void test_before_initialisation(void **state) {
    CUdeviceptr pointer;
    int version, count;

    (void)state;
    assert_int_equal(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(cuMemAlloc_v2(&pointer, 1), CUDA_ERROR_NOT_INITIALIZED);
    assert_ok(cuDriverGetVersion(&version));
    assert_int_equal(version, 13000);
    assert_int_equal(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuInit(0));
    assert_ok(cuDeviceGetCount(&count));
    assert_int_equal(count, 2);
}

static void test_without_a_context(void **state) {
    CUcontext context = (CUcontext)&context;
    CUdeviceptr pointer;
    size_t size;

    (void)state;
    assert_ok(cuCtxGetCurrent(&context));
    assert_null(context);
    assert_int_equal(cuMemAlloc_v2(&pointer, 1), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuMemFree_v2(4096), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuMemGetInfo_v2(&size, &size), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxPopCurrent_v2(&context), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxPushCurrent_v2((CUcontext)&pointer), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_stack(void **state) {
    CUcontext first, second, current;
    CUdevice device;

    (void)state;
    assert_ok(cuCtxCreate_v2(&first, 0, 0));
    assert_ok(cuCtxCreate_v2(&second, 0, 1));
    assert_ok(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    assert_ok(cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, second);
    assert_ok(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, first);
    assert_ok(cuCtxSetCurrent(second)); /* replaces the top */
    assert_ok(cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, second);
    assert_ok(cuCtxGetCurrent(&current));
    assert_null(current);
    assert_ok(cuCtxDestroy_v2(first));
    assert_ok(cuCtxDestroy_v2(second));
    assert_int_equal(cuCtxDestroy_v2(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void test_destroyed_context(void **state) {
    CUcontext context, current;
    CUdeviceptr pointer;
    unsigned long long id, next_id;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuCtxGetId(context, &id));
    assert_ok(cuMemAlloc_v2(&pointer, 4096));
    assert_ok(cuCtxCreate_v2(&current, 0, 0)); /* on top of it */
    assert_ok(cuCtxGetId(current, &next_id));
    assert_int_not_equal(id, next_id);
    assert_ok(cuCtxDestroy_v2(context));
    assert_int_equal(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE); /* it went with it */
    assert_ok(cuCtxDestroy_v2(current));
    assert_ok(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, context); /* stays where it is not on top */
    assert_int_equal(cuMemFree_v2(pointer), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuMemAlloc_v2(&pointer, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_ok(cuCtxPopCurrent_v2(NULL));
}

static void test_primary_context(void **state) {
    CUcontext context, again;
    unsigned int flags;
    int active;

    (void)state;
    assert_ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuDevicePrimaryCtxRetain(&context, 0));
    assert_ok(cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(context, again);
    assert_int_equal(cuCtxDestroy_v2(context), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuDevicePrimaryCtxRelease(0)); /* the unsuffixed form counts as well */
    assert_ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 1);
    assert_ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
}

static void test_reset(void **state) {
    CUresult (*const resets[])(CUdevice) = {cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2};
    size_t before, after, total;

    (void)state;
    for (int i = 0; i < 2; i++) {
        unsigned long long id, next_id;
        CUdeviceptr pointer;
        CUcontext context, again;

        assert_ok(cuDevicePrimaryCtxRetain(&context, 0));
        assert_ok(cuCtxSetCurrent(context));
        assert_ok(cuMemGetInfo_v2(&before, &total));
        assert_ok(cuCtxGetId(context, &id));
        assert_ok(cuMemAlloc_v2(&pointer, 4 * MiB));
        assert_ok(resets[i](0));
        assert_ok(cuMemGetInfo_v2(&after, &total));
        assert_int_equal(before, after); /* its memory is gone */
        assert_int_equal(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
        assert_ok(cuDevicePrimaryCtxRetain(&again, 0));
        assert_ptr_equal(context, again); /* the same handle ... */
        assert_ok(cuCtxGetId(context, &next_id));
        assert_int_not_equal(id, next_id); /* ... of another context */
        assert_ok(cuDevicePrimaryCtxRelease_v2(0));
        assert_ok(cuDevicePrimaryCtxRelease_v2(0));
        assert_int_equal(cuMemAlloc_v2(&pointer, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        assert_ok(cuCtxSetCurrent(NULL));
    }
}

static void test_peers(void **state) {
    CUcontext first, second;
    int can;

    (void)state;
    assert_ok(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    assert_ok(cuCtxCreate_v2(&second, 0, 1));
    assert_ok(cuCtxCreate_v2(&first, 0, 0));
    assert_ok(cuCtxEnablePeerAccess(second, 0));
    assert_int_equal(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    assert_ok(cuCtxDisablePeerAccess(second));
    assert_int_equal(cuCtxDisablePeerAccess(second), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    assert_ok(cuCtxDestroy_v2(first));
    assert_ok(cuCtxDestroy_v2(second));
}

static void test_properties(void **state) {
    CUuuid first, second;
    CUcontext context;
    size_t bytes, value;
    char name[64];
    int major, least, greatest;

    (void)state;
    assert_ok(cuDeviceGetName(name, sizeof name, 0));
    assert_string_equal(name, "Simulated GPU");
    assert_ok(cuDeviceTotalMem_v2(&bytes, 1));
    assert_int_equal(bytes, 64 * MiB);
    assert_int_equal(cuDeviceTotalMem_v2(&bytes, 2), CUDA_ERROR_INVALID_DEVICE);
    assert_ok(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_int_equal(major, 7);
    assert_ok(cuDeviceGetUuid_v2(&first, 0));
    assert_ok(cuDeviceGetUuid(&second, 1));
    assert_memory_not_equal(&first, &second, sizeof first);
    assert_ok(cuCtxCreate_v2(&context, CU_CTX_SCHED_YIELD, 0));
    assert_ok(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 12345));
    assert_ok(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    assert_int_equal(value, 12345);
    assert_ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_true(least == 0 && greatest < 0);
    assert_ok(cuCtxDestroy_v2(context));
}

static CUresult late_result = CUDA_SUCCESS;

/* Runs after the driver's own exit handler, which was registered later. */
static void call_late(void) {
    CUdeviceptr pointer;

    late_result = cuMemAlloc_v2(&pointer, 1);
    _exit(late_result == CUDA_ERROR_DEINITIALIZED ? 0 : 1);
}

/* This program again, as a process of its own. */
static int run_again(const char *mode) {
    pid_t child = fork();
    int status;

    if (child == 0) {
        execl("/proc/self/exe", "test_context", mode, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_late_calls(void **state) {
    (void)state;
    assert_int_equal(run_again("late"), 0);
}

/* Work that never ends does not keep the process from ending. */
static void test_exit_with_work_pending(void **state) {
    (void)state;
    assert_int_equal(run_again("pending"), 5);
}

static void test_child_of_fork(void **state) {
    CUcontext context;
    pid_t child;
    int status;

    (void)state;
    assert_ok(cuDevicePrimaryCtxRetain(&context, 0));
    child = fork();
    if (child == 0) {
        CUdeviceptr pointer;

        _exit(cuMemAlloc_v2(&pointer, 1) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(cuDevicePrimaryCtxRelease_v2(0));
}

/* cuCtxCreate, cuCtxSetFlags and their kin: INVALID_VALUE for what is no flag, and for two ways of
 * waiting at once. */
static void test_flags_are_checked(void **state) {
    const unsigned int spin_and_yield = CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, unknown = 0x8000;
    CUcontext context;

    (void)state;
    assert_int_equal(cuCtxCreate_v2(&context, unknown, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxCreate_v2(&context, spin_and_yield, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDevicePrimaryCtxSetFlags_v2(0, unknown), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxCreate_v2(&context, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST, 0));
    assert_int_equal(cuCtxSetFlags(unknown), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxSetFlags(spin_and_yield), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxSetFlags(CU_CTX_SCHED_YIELD));
    assert_int_equal(cuCtxSetCacheConfig((CUfunc_cache)77), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_EQUAL));
    assert_int_equal(cuCtxSetSharedMemConfig((CUsharedconfig)77), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
    assert_ok(cuCtxDestroy_v2(context));
}

static void *open_late(void *flag) {
    while (simcuda_waits() == 0)
        sched_yield();
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* CU_CTX_SYNC_MEMOPS: "synchronous memory operations initiated on this context will always
 * synchronize". */
static void test_a_context_can_wait_for_all_of_its_synchronous_calls(void **state) {
    const unsigned int sync_memops = 0x80; /* older headers lack the name */
    CUdeviceptr memory;
    pthread_t opener;
    CUmodule module;
    CUfunction wait;
    CUcontext context;
    void *flag;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, sync_memops, 0));
    assert_ok(cuModuleLoadData(&module, kernels_ptx));
    assert_ok(cuModuleGetFunction(&wait, module, "wait_flag"));
    assert_ok(cuMemAlloc_v2(&memory, 4096));
    assert_ok(cuMemAllocHost_v2(&flag, sizeof(uint32_t)));
    for (int i = 0; i < 2; i++) {
        *(uint32_t *)flag = 0;
        assert_ok(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&flag}, NULL));
        assert_int_equal(pthread_create(&opener, NULL, open_late, flag), 0);
        assert_ok(i == 0 ? cuMemcpyDtoD_v2(memory, memory + 64, 64) : cuMemsetD8_v2(memory, 0, 64));
        assert_ok(cuStreamQuery(NULL));
        assert_int_equal(pthread_join(opener, NULL), 0);
    }
    assert_ok(cuCtxDestroy_v2(context));
}

static atomic_bool forks_are_done;

static void *keep_locking(void *context) {
    CUdeviceptr memory;

    assert_ok(cuCtxSetCurrent(context));
    while (!forks_are_done) {
        assert_ok(cuMemAlloc_v2(&memory, 64));
        assert_ok(cuMemFree_v2(memory));
    }
    return NULL;
}

static void end_process(void *unused) {
    (void)unused;
    _exit(0); /* no handlers, which would look for the parent's other threads */
}

/* Its children end only the thread that forked, as fork leaves no other. */
static void *fork_often(void *context) {
    enum { FORKS = 100, HANG_GUARD = 60 };
    CUdeviceptr memory;
    pthread_key_t last;
    int status;

    assert_ok(cuCtxSetCurrent(context));
    assert_ok(cuMemAlloc_v2(&memory, 64));
    assert_ok(cuMemsetD8_v2_ptds(memory, 1, 64)); /* it has a default stream of its own */
    assert_int_equal(pthread_key_create(&last, end_process), 0); /* destroyed after older ones */
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();

        if (child == 0) {
            alarm(HANG_GUARD);
            pthread_setspecific(last, &last);
            pthread_exit(NULL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_ok(cuMemFree_v2(memory));
    return NULL;
}

/* Another thread of the parent's may have been in the midst of a call. */
static void test_a_forked_thread_ends(void **state) {
    pthread_t others[2], forking;
    CUcontext context;

    (void)state;
    assert_ok(cuDevicePrimaryCtxRetain(&context, 0));
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&others[i], NULL, keep_locking, context), 0);
    assert_int_equal(pthread_create(&forking, NULL, fork_often, context), 0);
    assert_int_equal(pthread_join(forking, NULL), 0);
    forks_are_done = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(others[i], NULL), 0);
    assert_ok(cuDevicePrimaryCtxRelease_v2(0));
}

static int main_of_child(const char *mode) {
    if (strcmp(mode, "late") == 0)
        atexit(call_late);
    set_up_context(NULL);
    if (strcmp(mode, "pending") == 0)
        gate_close(NULL);
    return 5;
}

/* A thread that ends has its keys' destructors run in no order that it could count on: one of them
 * may use the driver when the driver's own has already run. */
struct at_end {
    CUcontext context;
    CUresult made_current, allocated, freed;
};

static void use_at_end(void *state) {
    struct at_end *end = state;
    CUdeviceptr pointer = 0;
    end->made_current = cuCtxSetCurrent(end->context);
    end->allocated = cuMemAlloc_v2(&pointer, 1);
    end->freed = cuMemFree_v2(pointer);
}

static pthread_key_t at_end_key;

static void *end_with_a_key(void *state) {
    struct at_end *end = state;
    assert_ok(cuCtxSetCurrent(end->context));
    assert_int_equal(pthread_setspecific(at_end_key, end), 0);
    return NULL;
}

static void test_a_thread_that_ends(void **state) {
    struct at_end end = {.made_current = CUDA_ERROR_UNKNOWN};
    pthread_t thread;

    (void)state;
    assert_ok(cuDevicePrimaryCtxRetain(&end.context, 0));
    assert_ok(cuCtxSetCurrent(end.context)); /* so the driver's key is older */
    assert_int_equal(pthread_key_create(&at_end_key, use_at_end), 0);
    assert_int_equal(pthread_create(&thread, NULL, end_with_a_key, &end), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(end.made_current);
    assert_ok(end.allocated);
    assert_ok(end.freed);
    pthread_key_delete(at_end_key);
    assert_ok(cuCtxSetCurrent(NULL));
    assert_ok(cuDevicePrimaryCtxRelease_v2(0));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_initialisation),
        cmocka_unit_test(test_without_a_context),
        cmocka_unit_test(test_stack),
        cmocka_unit_test(test_a_thread_that_ends),
        cmocka_unit_test(test_destroyed_context),
        cmocka_unit_test(test_primary_context),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_flags_are_checked),
        cmocka_unit_test(test_a_context_can_wait_for_all_of_its_synchronous_calls),
        cmocka_unit_test(test_late_calls),
        cmocka_unit_test(test_exit_with_work_pending),
        cmocka_unit_test(test_child_of_fork),
        cmocka_unit_test(test_a_forked_thread_ends),
    };

    if (argc > 1)
        return main_of_child(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
