/* Ten times: free; a kernel of 100 ms; one call, which natively returns at once; 100 ms of work of
 * the host's; a wait. The kernel and the host work at the same time. Prints how many milliseconds
 * that takes in virtual time (SIMCUDA_COST=3). */
#include "order.h"

enum { TIMES = 10, WORK_NS = 100 * 1000 * 1000 };

static struct place place;
static CUevent event;
static CUmodule module;

static uint64_t host_ns(void) {
    uint64_t (*ask)(void);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "simcuda_host_ns");
    REQUIRE(ask != NULL);
    return ask();
}

static void work_by_host(uint64_t ns) {
    void (*work)(uint64_t);
    *(void **)&work = dlsym(RTLD_DEFAULT, "simcuda_host_works");
    REQUIRE(work != NULL);
    work(ns);
}

static void time_with(void (*call)(void)) {
    uint64_t began;
    place = primary_place(0);
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    began = host_ns();
    for (int i = 0; i < TIMES; i++) {
        CUdeviceptr freed = allocate(BYTES);
        fill(&place, freed, 3, NULL);
        release(freed);
        keep_busy(&place, WORK_NS, NULL);
        call();
        work_by_host(WORK_NS);
        CHECK(cuCtxSynchronize());
    }
    printf("%lu ms\n", (unsigned long)((host_ns() - began) / 1000000));
}

static void record_event(void) {
    CHECK(cuEventRecord(event, NULL));
}

static void copy(void) { /* of pageable memory, which is little enough to be staged */
    static const uint32_t words[16];
    CHECK(cuMemcpyHtoDAsync_v2(place.kept, words, sizeof words, NULL));
}

static void get_function(void) {
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, module, "fill_u32"));
}

static void poll(void) { /* until the kernel is done, which is no other wait than the last one */
    int questions = 0;
    while (cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY && questions++ < 3)
        work_by_host(1000);
    REQUIRE(questions == 4);
}

static void event_record(void) {
    time_with(record_event);
}
static void pageable_copy(void) {
    time_with(copy);
}
static void module_get_function(void) {
    time_with(get_function);
}
static void stream_query(void) {
    time_with(poll);
}

static const struct order_case cases[] = {
    {"event_record", event_record},
    {"pageable_copy", pageable_copy},
    {"module_get_function", module_get_function},
    {"stream_query", stream_query},
};

ORDER_MAIN(cases)
