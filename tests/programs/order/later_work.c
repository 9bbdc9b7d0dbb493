/* Free; a kernel that runs until a flag is set; one call, which natively returns at once; only then
 * is the flag set. Ten times. The kernel came after the free: no call has to wait for it, and a
 * question about it says that it runs. */
#include "order.h"

enum { ROUNDS_OF_CALLS = 10 };

static struct place place;
static CUevent event;
static CUmodule module;
static uint32_t *pinned;

static void round_with(void (*call)(void), CUdeviceptr flag, int *running) {
    CUdeviceptr freed;
    CHECK(cuMemsetD32_v2(flag, 0, 1));
    /* A stream has been destroyed: a free that comes just after waits. Not the one in question. */
    freed = allocate(BYTES);
    release(freed);
    freed = allocate(BYTES);
    fill(&place, freed, 3, NULL);
    release(freed);
    wait_for_flag(&place, flag, NULL);
    call();
    *running += cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY;
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
}

static void rounds_with(void (*call)(void)) {
    int running = 0;
    CUdeviceptr flag;
    place = primary_place(0);
    flag = device_flag();
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    for (int i = 0; i < ROUNDS_OF_CALLS; i++)
        round_with(call, flag, &running);
    printf("the kernel ran on behind %d calls of %d\n", running, ROUNDS_OF_CALLS);
}

/* The calls. */

static void ask_nothing(void) {
}

static void record_event(void) {
    CHECK(cuEventRecord(event, NULL));
}

static void record_and_query(void) {
    CHECK(cuEventRecord(event, NULL));
    REQUIRE(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
}

static void create_event(void) {
    CUevent created;
    CHECK(cuEventCreate(&created, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventDestroy_v2(created));
}

static void wait_for_event(void) {
    CHECK(cuStreamWaitEvent(NULL, event, 0));
}

static void copy_pageable(void) { /* little enough to be staged */
    static const uint32_t words[16];
    CHECK(cuMemcpyHtoDAsync_v2(place.kept, words, sizeof words, NULL));
}

static void copy_pinned(void) {
    CHECK(cuMemcpyHtoDAsync_v2(place.kept, pinned, BYTES, NULL));
}

static void copy_on_device(void) {
    CHECK(cuMemcpyDtoDAsync_v2(place.kept, place.kept + BYTES / 2, BYTES / 2, NULL));
}

static void memset_later(void) {
    CHECK(cuMemsetD32Async(place.kept, 1, WORDS, NULL));
}

static void get_function(void) {
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, module, "fill_u32"));
}

static void get_global(void) {
    CUdeviceptr pointer;
    size_t size;
    REQUIRE(cuModuleGetGlobal_v2(&pointer, &size, module, "none") == CUDA_ERROR_NOT_FOUND);
}

static void allocate_large(void) {
    (void)allocate(3 << 20); /* for which the driver has to be asked */
}

static void ask_for_memory(void) {
    size_t available, total;
    CHECK(cuMemGetInfo_v2(&available, &total));
}

static void ask_for_range(void) {
    CUdeviceptr base;
    size_t size;
    CHECK(cuMemGetAddressRange_v2(&base, &size, place.kept));
}

static volatile int called;
static void note_call(void *data) {
    (void)data;
    called++;
}

static void host_function(void) {
    CHECK(cuLaunchHostFunc(NULL, note_call, NULL));
}

static void per_thread_stream(void) { /* a blocking one: it waits on the device */
    CHECK(cuMemsetD32Async(place.kept, 1, WORDS, CU_STREAM_PER_THREAD));
}

static void query_only(void) {
    rounds_with(ask_nothing);
}
static void event_record(void) {
    rounds_with(record_event);
}
static void event_query(void) {
    rounds_with(record_and_query);
}
static void event_create(void) {
    rounds_with(create_event);
}
static void stream_wait_event(void) {
    rounds_with(wait_for_event);
}
static void pageable_copy(void) {
    rounds_with(copy_pageable);
}
static void device_copy(void) {
    rounds_with(copy_on_device);
}
static void asynchronous_memset(void) {
    rounds_with(memset_later);
}
static void module_get_function(void) {
    rounds_with(get_function);
}
static void module_get_global(void) {
    rounds_with(get_global);
}
static void allocation(void) {
    rounds_with(allocate_large);
}
static void memory_info(void) {
    rounds_with(ask_for_memory);
}
static void address_range(void) {
    rounds_with(ask_for_range);
}
static void function_of_the_host(void) {
    rounds_with(host_function);
}
static void per_thread_work(void) {
    rounds_with(per_thread_stream);
}

/* Pinned memory lets the host see without a call: the free waits, and the kernel comes later. */
static void pinned_copy(void) {
    place = primary_place(0);
    CHECK(cuMemAllocHost_v2((void **)&pinned, BYTES));
    memset(pinned, 0, BYTES);
    rounds_with(copy_pinned);
}

static const struct order_case cases[] = {
    {"query_only", query_only},
    {"event_record", event_record},
    {"event_query", event_query},
    {"event_create", event_create},
    {"stream_wait_event", stream_wait_event},
    {"pageable_copy", pageable_copy},
    {"pinned_copy", pinned_copy},
    {"device_copy", device_copy},
    {"asynchronous_memset", asynchronous_memset},
    {"module_get_function", module_get_function},
    {"module_get_global", module_get_global},
    {"allocation", allocation},
    {"memory_info", memory_info},
    {"address_range", address_range},
    {"function_of_the_host", function_of_the_host},
    {"per_thread_work", per_thread_work},
};

ORDER_MAIN(cases)
