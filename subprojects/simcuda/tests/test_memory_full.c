/* Calls other than allocations that run out of device memory: tests/unit/meson.build has every
 * object take OBJECT bytes, and a context's first launch LAUNCH bytes. */
#include "test_sim.h"

#define OBJECT (MiB / 2)
#define LAUNCH (4 * MiB)
#define PAGE   (2 * MiB)

static size_t available(void) {
    size_t free_bytes, total;

    assert_ok(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

/* Everything that is free, so that the device is full until it is released. Objects share pages, so
 * a fill leaves room for those that still fit into a page that is begun. */
static CUdeviceptr take_all(void) {
    CUdeviceptr all;

    assert_ok(cuMemAlloc_v2(&all, available()));
    assert_int_equal(available(), 0);
    return all;
}

enum { ROOM_MAX = (int)(PAGE / OBJECT) };

/* Makes the device so full that no object fits in. */
static CUdeviceptr fill(CUevent rest[ROOM_MAX], int *count) {
    CUdeviceptr all = take_all();
    CUevent event;

    for (*count = 0; cuEventCreate(&event, 0) == CUDA_SUCCESS; ++*count) {
        assert_true(*count < ROOM_MAX);
        rest[*count] = event;
    }
    return all;
}

static void release(CUdeviceptr all, CUevent rest[ROOM_MAX], int count) {
    for (int i = 0; i < count; i++)
        assert_ok(cuEventDestroy_v2(rest[i]));
    assert_ok(cuMemFree_v2(all));
}

static void test_host_memory_has_a_limit_of_its_own(void **state) {
    static char own[8 * MiB];
    void *first, *second;

    (void)state;
    assert_ok(cuMemHostAlloc(&first, 12 * MiB, 0));
    assert_int_equal(cuMemHostAlloc(&second, 8 * MiB, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemHostRegister_v2(own, sizeof own, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemFreeHost(first));
    assert_ok(cuMemHostRegister_v2(own, sizeof own, 0));
    assert_ok(cuMemHostAlloc(&second, 8 * MiB, 0));
    assert_ok(cuMemHostUnregister(own));
    assert_ok(cuMemFreeHost(second));
}

static CUresult make_stream(void) {
    CUstream stream;
    CUresult result = cuStreamCreate(&stream, 0);

    return result == CUDA_SUCCESS ? cuStreamDestroy_v2(stream) : result;
}

static CUresult make_event(void) {
    CUevent event;
    CUresult result = cuEventCreate(&event, 0);

    return result == CUDA_SUCCESS ? cuEventDestroy_v2(event) : result;
}

static CUresult make_module(void) {
    CUmodule module;
    CUresult result = cuModuleLoadData(&module, kernels_ptx);

    return result == CUDA_SUCCESS ? cuModuleUnload(module) : result;
}

static CUresult make_context(void) {
    CUcontext context;
    CUresult result = cuCtxCreate_v2(&context, 0, 0);

    return result == CUDA_SUCCESS ? cuCtxDestroy_v2(context) : result;
}

static CUresult make_pool(void) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUresult result = cuMemPoolCreate(&pool, &properties);

    return result == CUDA_SUCCESS ? cuMemPoolDestroy(pool) : result;
}

#if CUDA_VERSION >= 12040
static CUresult make_green_context(void) {
    CUdevResourceDesc description;
    CUdevResource whole;
    CUgreenCtx green;
    CUresult result;

    assert_ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_ok(cuDevResourceGenerateDesc(&description, &whole, 1));
    result = cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
    return result == CUDA_SUCCESS ? cuGreenCtxDestroy(green) : result;
}
#else
#define make_green_context make_context
#endif

static CUgraph graph;

static CUresult make_executable(void) {
    CUgraphExec executable;
    CUresult result = cuGraphInstantiateWithFlags(&executable, graph, 0);

    return result == CUDA_SUCCESS ? cuGraphExecDestroy(executable) : result;
}

static CUmemGenericAllocationHandle physical;
static CUdeviceptr reserved;

static CUresult map_memory(void) {
    CUresult result = cuMemMap(reserved, PAGE, 0, physical, 0);

    return result == CUDA_SUCCESS ? cuMemUnmap(reserved, PAGE) : result;
}

static void test_objects(void **state) {
    static CUresult (*const calls[])(void) = {make_stream,        make_event, make_module,
                                              make_context,       make_pool,  make_executable,
                                              make_green_context, map_memory};
    const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUcontext current;
    size_t before;

    (void)state;
    assert_ok(cuGraphCreate(&graph, 0));
    assert_ok(cuMemCreate(&physical, PAGE, &on_device, 0));
    assert_ok(cuMemAddressReserve(&reserved, PAGE, 0, 0, 0));
    before = available();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CUevent rest[ROOM_MAX];
        int count;
        CUdeviceptr all = fill(rest, &count);

        assert_int_equal(calls[i](), CUDA_ERROR_OUT_OF_MEMORY);
        assert_ok(cuCtxGetCurrent(&current));
        assert_ptr_equal(current, test_context); /* a context that was not made is not current */
        release(all, rest, count);
        assert_ok(calls[i]()); /* and no error stays */
        assert_int_equal(available(), before);
    }
    assert_ok(cuMemAddressFree(reserved, PAGE));
    assert_ok(cuMemRelease(physical));
    assert_ok(cuGraphDestroy(graph));
}

/* A primary context that cannot be had is not retained either. */
static void test_primary_context(void **state) {
    CUcontext other, context;
    CUdeviceptr all;
    unsigned int flags;
    int active;

    (void)state;
    assert_ok(cuCtxCreate_v2(&other, 0, 1));
    all = take_all();
    for (size_t i = 1; i < ROOM_MAX; i++) /* what `other` left of its page */
        assert_ok(cuEventCreate(&(CUevent){0}, 0));
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuMemFree_v2(all));
    assert_ok(cuDevicePrimaryCtxRetain(&context, 1));
    assert_ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 1);
    assert_ok(cuDevicePrimaryCtxRelease_v2(1));
    assert_ok(cuCtxDestroy_v2(other));
}

/* Thousands of events fill pages together, and give them back. */
static void test_objects_share_pages(void **state) {
    enum { EVENTS = 20 };
    CUevent events[EVENTS];
    size_t before = available();

    (void)state;
    for (int i = 0; i < EVENTS; i++)
        assert_ok(cuEventCreate(&events[i], 0));
    assert_true(before - available() >= EVENTS * OBJECT - PAGE);
    assert_true(before - available() <= EVENTS * OBJECT + PAGE);
    for (int i = 0; i < EVENTS; i++)
        assert_ok(cuEventDestroy_v2(events[i]));
    assert_int_equal(available(), before);
}

static void test_end_of_a_context_gives_everything_back(void **state) {
    size_t before = available();
    CUcontext context;
    CUstream stream;
    CUmodule module;
    CUevent event;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuStreamCreate(&stream, 0));
    assert_ok(cuEventCreate(&event, 0));
    assert_ok(cuModuleLoadData(&module, kernels_ptx));
    assert_true(available() < before);
    assert_ok(cuCtxDestroy_v2(context));
    assert_int_equal(available(), before);
}

static void test_first_launch(void **state) {
    CUdeviceptr block, all;
    size_t before;

    (void)state;
    assert_ok(cuMemAlloc_v2(&block, 4096));
    before = available();
    all = take_all();
    assert_int_equal(launch_fill(NULL, block, 1, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(launch_fill(NULL, block, 1, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuCtxSynchronize()); /* it is not sticky */
    assert_ok(cuMemFree_v2(all));
    assert_ok(launch_fill(NULL, block, 1, 1));
    assert_int_equal(available(), before - LAUNCH);
    all = take_all();
    assert_ok(launch_fill(NULL, block, 1, 1)); /* only the first one needs it */
    assert_ok(cuMemFree_v2(all));
    assert_ok(cuMemFree_v2(block));
}

/* A library takes its memory when a kernel of it is first launched in a context. */
static void test_lazy_loading(void **state) {
    CUevent rest[ROOM_MAX];
    CUdeviceptr block, all;
    CUlibrary library;
    CUkernel kernel;
    uint64_t count = 1;
    uint32_t value = 1;
    int filled;

    (void)state;
    assert_ok(cuMemAlloc_v2(&block, 4096));
    all = fill(rest, &filled);
    assert_ok(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
                                        (void *[]){&block, &count, &value}, NULL),
                         round == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        if (round == 0)
            release(all, rest, filled);
    }
    assert_ok(cuLibraryUnload(library));
    assert_ok(cuMemFree_v2(block));
}

static void test_graph_launch(void **state) {
    CUevent rest[ROOM_MAX];
    CUgraphExec executable;
    CUdeviceptr all;
    CUstream stream;
    int count;

    (void)state;
    assert_ok(cuStreamCreate(&stream, 0));
    assert_ok(cuGraphCreate(&graph, 0));
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    all = fill(rest, &count);
    assert_int_equal(cuGraphUpload(executable, stream), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuGraphLaunch(executable, stream), CUDA_ERROR_OUT_OF_MEMORY);
    release(all, rest, count);
    assert_ok(cuGraphUpload(executable, stream));
    all = fill(rest, &count);
    assert_ok(cuGraphLaunch(executable, stream));
    release(all, rest, count);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuStreamDestroy_v2(stream));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_memory_has_a_limit_of_its_own),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_primary_context),
        cmocka_unit_test(test_objects_share_pages),
        cmocka_unit_test(test_end_of_a_context_gives_everything_back),
        cmocka_unit_test(test_first_launch),
        cmocka_unit_test(test_lazy_loading),
        cmocka_unit_test(test_graph_launch),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
