/* What a program says about managed memory: advice, prefetches, attachment; and what it asks. */
#include "test_sim.h"

#include <unistd.h>

enum { UNKNOWN = 77, DEVICE = 1, HOST = 2, HOST_NODE = 3 }; /* CUmemLocationType */
enum { PREFERRED_TYPE = 5, PREFERRED_ID, PREFETCHED_TYPE, PREFETCHED_ID };

static size_t page;
static CUdeviceptr memory;

static int allocate(void **state) {
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    return cuMemAllocManaged(&memory, 4 * page, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS ? 0 : -1;
}

static int release(void **state) {
    (void)state;
    return cuMemFree_v2(memory) == CUDA_SUCCESS ? 0 : -1;
}

static int ask(int attribute, size_t first, size_t pages) {
    int value = UNKNOWN;
    assert_ok(cuMemRangeGetAttribute(&value, sizeof value, (CUmem_range_attribute)attribute,
                                     memory + first * page, pages * page));
    return value;
}

static CUmemLocation at(int type, int id) {
    return (CUmemLocation){.type = (CUmemLocationType)type, .id = id};
}

static void test_fresh_memory_has_no_advice(void **state) {
    int by[2];
    (void)state;
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 0, 4), 0);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 0, 4), CU_DEVICE_INVALID);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 0, 4), CU_DEVICE_INVALID);
    assert_int_equal(ask(PREFERRED_TYPE, 0, 4), 0);
    assert_int_equal(ask(PREFETCHED_TYPE, 0, 4), 0);
    assert_ok(cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, 1));
    assert_int_equal(by[0], CU_DEVICE_INVALID);
    assert_int_equal(by[1], CU_DEVICE_INVALID);
}

/* The range is rounded to pages, and the answer is about all pages of the question. */
static void test_advice_is_kept_by_pages(void **state) {
    (void)state;
    assert_ok(cuMemAdvise(memory + page + 1, page, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1, 2), 1);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 0, 2), 0);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1, 3), 0);
    assert_ok(cuMemAdvise(memory, 4 * page, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1, 1), 0);
}

static void test_a_preferred_location_is_a_device_or_a_host_node(void **state) {
    (void)state;
    assert_ok(cuMemAdvise(memory, 4 * page, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 0, 4), 1);
    assert_int_equal(ask(PREFERRED_TYPE, 0, 4), DEVICE);
    assert_int_equal(ask(PREFERRED_ID, 0, 4), 1);
    assert_ok(cuMemAdvise(memory, 1, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 0, 1), CU_DEVICE_CPU);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 0, 4), CU_DEVICE_INVALID);
    assert_ok(
        cuMemAdvise_v2(memory, 4 * page, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, at(HOST_NODE, 0)));
    assert_int_equal(ask(PREFERRED_TYPE, 0, 4), HOST_NODE);
    assert_ok(cuMemAdvise_v2(memory, 4 * page, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, at(9, 9)));
    assert_int_equal(ask(PREFERRED_TYPE, 0, 4), 0);
}

static void test_several_may_access_it(void **state) {
    int by[4];
    (void)state;
    assert_ok(cuMemAdvise(memory, 4 * page, CU_MEM_ADVISE_SET_ACCESSED_BY, 1));
    assert_ok(cuMemAdvise(memory, 4 * page, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
    assert_ok(cuMemAdvise(memory, page, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
    assert_ok(cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory,
                                     4 * page));
    assert_int_equal(by[0], 1);
    assert_int_equal(by[1], CU_DEVICE_CPU);
    assert_int_equal(by[2], CU_DEVICE_INVALID);
    assert_ok(cuMemAdvise(memory, 4 * page, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 1));
    assert_ok(cuMemRangeGetAttribute(by, sizeof *by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory,
                                     4 * page));
    assert_int_equal(by[0], CU_DEVICE_CPU);
}

/* The answer is about requests, which the stream need not have reached. */
static void test_a_prefetch_is_known_at_once_and_waits_for_its_stream(void **state) {
    struct gate gate = gate_close(NULL);
    (void)state;
    assert_ok(cuMemPrefetchAsync(memory, 4 * page, 0, NULL));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 0, 4), 0);
    assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuMemPrefetchAsync_v2(memory, page, at(HOST, 5), 0, NULL));
    assert_ok(cuStreamSynchronize(NULL));
    assert_int_equal(ask(PREFETCHED_TYPE, 0, 1), HOST);
    assert_int_equal(ask(PREFETCHED_TYPE, 0, 4), 0);
    assert_int_equal(ask(PREFETCHED_ID, 1, 3), 0);
    gate_remove(gate);
}

static void test_a_batch_has_a_place_for_each_run_of_ranges(void **state) {
    CUdeviceptr ranges[] = {memory, memory + page, memory + 3 * page};
    size_t sizes[] = {page, 2 * page, page}, first[] = {0, 1}, twice[] = {0, 0};
    CUmemLocation places[] = {at(DEVICE, 1), at(HOST, 0)};
    (void)state;
    assert_ok(cuMemPrefetchBatchAsync(ranges, sizes, 3, places, first, 2, 0, CU_STREAM_PER_THREAD));
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 0, 1), 1);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 1, 3), CU_DEVICE_CPU);
    assert_ok(cuMemDiscardBatchAsync_ptsz(ranges, sizes, 3, 0, NULL));
    assert_int_equal(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuMemPrefetchBatchAsync(ranges, sizes, 3, places, twice, 2, 0, CU_STREAM_PER_THREAD),
        CUDA_ERROR_INVALID_VALUE);
    sizes[2] = 2 * page; /* then nothing of it is done */
    places[1] = at(DEVICE, 0);
    assert_int_equal(cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, 3, places, first, 2, 0,
                                                       CU_STREAM_PER_THREAD),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 1, 3), CU_DEVICE_CPU);
}

static void test_attachment_comes_in_the_streams_order(void **state) {
    CUstream stream;
    (void)state;
    assert_int_equal(simcuda_association(memory), CU_MEM_ATTACH_GLOBAL);
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    struct gate gate = gate_close(stream);
    assert_ok(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_SINGLE));
    assert_int_equal(simcuda_association(memory), CU_MEM_ATTACH_GLOBAL);
    gate_remove(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(simcuda_association(memory), CU_MEM_ATTACH_SINGLE);
    assert_ok(cuStreamAttachMemAsync_ptsz(NULL, memory, 4 * page, CU_MEM_ATTACH_HOST));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_association(memory), CU_MEM_ATTACH_HOST);
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_it_ends_with_the_stream(void **state) {
    CUstream stream;
    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_SINGLE));
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_association(memory), CU_MEM_ATTACH_GLOBAL);
}

static void test_only_whole_managed_allocations_are_attached(void **state) {
    CUdeviceptr device;
    CUstream stream;
    (void)state;
    assert_ok(cuMemAlloc_v2(&device, page));
    assert_ok(cuStreamCreate(&stream, 0));
    assert_int_equal(cuStreamAttachMemAsync(stream, device, 0, CU_MEM_ATTACH_GLOBAL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamAttachMemAsync(stream, memory, page, CU_MEM_ATTACH_GLOBAL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamAttachMemAsync(stream, memory, 0, 3), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamAttachMemAsync(NULL, memory, 0, CU_MEM_ATTACH_SINGLE),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuMemFree_v2(device));
}

static void test_what_is_refused(void **state) {
    CUdeviceptr device;
    int value;
    (void)state;
    assert_ok(cuMemAlloc_v2(&device, page));
    assert_int_equal(cuMemAdvise(device, page, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAdvise(memory, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAdvise(memory, 5 * page, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAdvise(memory, page, (CUmem_advise)7, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAdvise(memory, page, CU_MEM_ADVISE_SET_ACCESSED_BY, 2),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuMemAdvise_v2(memory, page, CU_MEM_ADVISE_SET_ACCESSED_BY, at(HOST_NODE, 0)),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPrefetchAsync(memory, page, 2, NULL), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuMemPrefetchAsync(device, page, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPrefetchAsync_v2(memory, page, at(DEVICE, 0), 1, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuMemRangeGetAttribute(&value, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, page),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemRangeGetAttribute(&value, sizeof value,
                                            CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, device, page),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(device));
}

static void test_a_capture_has_no_place_for_it(void **state) {
    CUstream stream;
    CUgraph graph;
    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(cuMemPrefetchAsync(memory, page, 0, stream),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_several_questions_at_once(void **state) {
    int mostly = UNKNOWN, prefetched = UNKNOWN;
    void *data[] = {&mostly, &prefetched};
    size_t sizes[] = {sizeof mostly, sizeof prefetched};
    CUmem_range_attribute wanted[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                      CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
    (void)state;
    assert_ok(cuMemPrefetchAsync(memory, 4 * page, 1, NULL));
    assert_ok(cuMemRangeGetAttributes(data, sizes, wanted, 2, memory, 4 * page));
    assert_int_equal(mostly, 0);
    assert_int_equal(prefetched, 1);
    assert_int_equal(cuMemRangeGetAttributes(data, sizes, wanted, 0, memory, page),
                     CUDA_ERROR_INVALID_VALUE);
}

static void test_each_region_is_where_most_of_it_was_prefetched_to(void **state) {
    CUmemLocation places[4];

    (void)state;
    assert_ok(cuMemPrefetchAsync(memory, page, 1, NULL));
    assert_ok(cuMemPrefetchAsync(memory + 2 * page, page, 0, NULL));
    assert_ok(cuMemPrefetchAsync(memory + 3 * page, page, CU_DEVICE_CPU, NULL));
    assert_ok(cuMemGetLocationInfo(memory, 4 * page, page, 0, places));
    assert_int_equal(places[0].type, DEVICE);
    assert_int_equal(places[0].id, 1);
    assert_int_equal(places[1].type, 0); /* nowhere */
    assert_int_equal(places[2].type, DEVICE);
    assert_int_equal(places[2].id, 0);
    assert_int_equal(places[3].type, HOST);
    assert_ok(cuMemPrefetchAsync(memory + page, page, CU_DEVICE_CPU, NULL));
    places[1] = at(UNKNOWN, UNKNOWN);
    assert_ok(cuMemGetLocationInfo(memory, 4 * page, 4 * page, page, places));
    assert_int_equal(places[0].type, HOST); /* two of four */
    assert_int_equal(places[1].type, UNKNOWN);
    assert_ok(cuMemGetLocationInfo(memory, 4 * page, 4 * page, 2 * page, places));
    assert_int_equal(places[0].type, DEVICE); /* of the two that are looked at, the first */
    assert_int_equal(places[0].id, 1);
    assert_ok(cuMemGetLocationInfo(memory, 4 * page, 3 * page, page, places));
    assert_int_equal(places[1].type, HOST); /* what is left is a region, too */
    assert_int_equal(cuMemGetLocationInfo(memory, page, 2 * page, 0, places),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemGetLocationInfo(memory, 4 * page, page, 2 * page, places),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemGetLocationInfo(memory, 4 * page, 0, 0, places),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemGetLocationInfo(memory, 4 * page, page, 0, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemGetLocationInfo(memory, 5 * page, page, 0, places),
                     CUDA_ERROR_INVALID_VALUE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, allocate, release)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_fresh_memory_has_no_advice),
        TEST(test_advice_is_kept_by_pages),
        TEST(test_a_preferred_location_is_a_device_or_a_host_node),
        TEST(test_several_may_access_it),
        TEST(test_a_prefetch_is_known_at_once_and_waits_for_its_stream),
        TEST(test_a_batch_has_a_place_for_each_run_of_ranges),
        TEST(test_attachment_comes_in_the_streams_order),
        TEST(test_it_ends_with_the_stream),
        TEST(test_only_whole_managed_allocations_are_attached),
        TEST(test_what_is_refused),
        TEST(test_a_capture_has_no_place_for_it),
        TEST(test_several_questions_at_once),
        TEST(test_each_region_is_where_most_of_it_was_prefetched_to),
    };
    return cmocka_run_group_tests_name("managed", tests, set_up_context, tear_down_context);
}
