/* Memory that the host cannot stand behind: meson.build gives the devices 256 GiB, and the host
 * ROOM bytes for them. */
#include "test_process.h"

#define ROOM  (256 * MiB)
#define LARGE (100 * 1024 * MiB)

static CUdeviceptr allocate(size_t size) {
    CUdeviceptr pointer;

    assert_ok(cuMemAlloc_v2(&pointer, size));
    return pointer;
}

static uint32_t word(CUdeviceptr pointer) {
    uint32_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, pointer, sizeof value));
    return value;
}

/* MiB of this process's memory that are in files in memory. */
static size_t shared_resident(void) {
    FILE *file = fopen("/proc/self/status", "r");
    unsigned long kilobytes = 0;
    char line[256];

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "RssShmem: %lu", &kilobytes) == 1)
            break;
    fclose(file);
    return kilobytes / 1024;
}

static void test_memory_that_is_never_written_needs_no_host(void **state) {
    CUdeviceptr first = allocate(LARGE), second = allocate(LARGE);

    (void)state;
    assert_ok(cuMemsetD8_v2(first + LARGE - 10, 1, 10));
    assert_int_equal(word(first + LARGE - 4), 0x01010101);
    assert_int_equal(word(second), 0);
    assert_ok(cuMemFree_v2(first));
    assert_ok(cuMemFree_v2(second));
}

static void test_a_fill_beyond_the_host_is_refused_and_does_nothing(void **state) {
    CUdeviceptr pointer = allocate(LARGE);

    (void)state;
    assert_int_equal(cuMemsetD8_v2(pointer, 1, ROOM + MiB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemsetD8Async(pointer, 1, LARGE, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemsetD2D32_v2(pointer, ROOM / 64, 1, 4, 65), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuCtxSynchronize()); /* the context is as good as before */
    assert_int_equal(word(pointer), 0);
    assert_ok(cuMemsetD8_v2(pointer, 1, ROOM - MiB));
    assert_ok(cuMemsetD8_v2(pointer, 2, ROOM - MiB)); /* what is there already is not asked for */
    assert_int_equal(word(pointer + ROOM - MiB - 4), 0x02020202);
    assert_int_equal(cuMemsetD8_v2(pointer + ROOM, 1, 2 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_a_free_gives_the_host_its_memory_back(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        CUdeviceptr large = allocate(ROOM - 2 * MiB), small = allocate(4096), other;

        assert_ok(cuMemsetD8_v2(large, 1, ROOM - 2 * MiB));
        assert_ok(cuMemsetD8_v2(small, 1, 4096));
        assert_ok(cuMemAlloc_v2(&other, 4 * MiB));
        assert_int_equal(cuMemsetD8_v2(other, 1, 4 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
        assert_ok(cuMemFree_v2(other));
        assert_ok(cuMemFree_v2(small));
        assert_ok(cuMemFree_v2(large));
    }
}

static void test_large_zero_fills_take_nothing_and_give_back(void **state) {
    CUdeviceptr pointer = allocate(LARGE);

    (void)state;
    assert_ok(cuMemsetD8_v2(pointer, 0, LARGE));
    assert_ok(cuMemsetD32_v2(pointer + 100, 7, ROOM / 8));
    assert_ok(cuCtxSynchronize());
    assert_true(shared_resident() >= 128);
    assert_ok(cuMemsetD8_v2(pointer + 101, 0, LARGE - 101));
    assert_ok(cuCtxSynchronize());
    assert_true(shared_resident() < 100);
    assert_int_equal(word(pointer + 100), 7 & 0xff); /* to the byte */
    assert_int_equal(word(pointer + 104), 0);
    assert_int_equal(word(pointer + 50 * MiB), 0);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_copies_from_fresh_memory_take_nothing(void **state) {
    CUdeviceptr pointer = allocate(LARGE);
    size_t before = shared_resident(), size = 16 * MiB;
    unsigned char *bytes = malloc(size);

    (void)state;
    assert_non_null(bytes);
    assert_ok(cuMemsetD8_v2(pointer + size / 2 + 5, 9, 3));
    for (size_t i = 0; i < 2 * ROOM / size; i++) {
        memset(bytes, 1, size);
        assert_ok(cuMemcpyDtoH_v2(bytes, pointer + i * size, size));
        for (size_t j = 0; j < size; j++)
            if (bytes[j] != (i == 0 && j - size / 2 - 5 < 3 ? 9 : 0))
                fail();
    }
    assert_true(shared_resident() < before + 16);
    free(bytes);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_copies_to_memory_are_refused(void **state) {
    CUdeviceptr pointer = allocate(LARGE);

    (void)state;
    assert_int_equal(cuMemcpyDtoD_v2(pointer, pointer + LARGE / 2, ROOM + MiB),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(launch_fill(NULL, pointer, MiB, 3)); /* of a kernel nobody knows what it will touch */
    assert_ok(cuCtxSynchronize());
    assert_int_equal(word(pointer + 4 * MiB - 4), 3);
    assert_ok(cuMemFree_v2(pointer));
}

static void test_a_graph_is_refused_as_a_whole_and_can_be_launched_later(void **state) {
    CUdeviceptr pointer = allocate(ROOM), other = allocate(ROOM / 2);
    CUgraphExec executable;
    CUstream stream;
    CUgraph graph;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuMemsetD8Async(pointer, 1, ROOM / 4, stream));
    assert_ok(cuMemsetD8Async(pointer + ROOM / 4, 1, ROOM / 2, stream));
    assert_ok(cuStreamEndCapture(stream, &graph)); /* a capture promises nothing */
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuMemsetD8_v2(other, 1, ROOM / 2));
    assert_int_equal(cuGraphLaunch(executable, stream), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(pointer), 0);
    assert_ok(cuMemFree_v2(other));
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word(pointer + ROOM / 2), 0x01010101);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuMemFree_v2(pointer));
}

static void test_mapped_memory_counts_once_however_often_it_is_mapped(void **state) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = properties.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle half, large;
    CUdeviceptr at;

    (void)state;
    assert_ok(cuMemCreate(&half, ROOM / 2, &properties, 0));
    assert_ok(cuMemCreate(&large, LARGE, &properties, 0));
    assert_ok(cuMemAddressReserve(&at, LARGE + ROOM, 0, 0, 0));
    assert_ok(cuMemMap(at, ROOM / 2, 0, half, 0));
    assert_ok(cuMemMap(at + ROOM / 2, ROOM / 2, 0, half, 0));
    assert_ok(cuMemMap(at + ROOM, LARGE, 0, large, 0));
    assert_ok(cuMemSetAccess(at, LARGE + ROOM, &access, 1));
    assert_int_equal(cuMemsetD8_v2(at + ROOM, 1, LARGE), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemsetD8_v2(at, 1, ROOM / 2));
    assert_ok(cuMemsetD8_v2(at + ROOM / 2, 2, ROOM / 2));
    assert_ok(cuMemsetD8_v2(at + ROOM, 3, ROOM / 4));
    assert_ok(cuMemsetD8_v2(at + ROOM, 0, LARGE));
    assert_int_equal(word(at), 0x02020202);
    assert_int_equal(word(at + ROOM), 0);
    assert_ok(cuMemUnmap(at, LARGE + ROOM));
    assert_ok(cuMemAddressFree(at, LARGE + ROOM));
    assert_ok(cuMemRelease(half));
    assert_ok(cuMemRelease(large));
}

/* It lies in a file of its own, and counts all the same. */
static void test_memory_that_can_be_shared_is_refused_as_other_memory_is(void **state) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = properties.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    (void)state;
    for (int i = 0; i < 3; i++) { /* what is released can be had again */
        CUmemGenericAllocationHandle handle;
        CUdeviceptr at;

        assert_ok(cuMemCreate(&handle, 2 * ROOM, &properties, 0));
        assert_ok(cuMemAddressReserve(&at, 2 * ROOM, 0, 0, 0));
        assert_ok(cuMemMap(at, 2 * ROOM, 0, handle, 0));
        assert_ok(cuMemSetAccess(at, 2 * ROOM, &access, 1));
        assert_int_equal(cuMemsetD8_v2(at, 1, ROOM + MiB), CUDA_ERROR_OUT_OF_MEMORY);
        assert_ok(cuMemsetD8_v2(at, 1, ROOM - MiB));
        assert_ok(cuCtxSynchronize());
        assert_int_equal(word(at + ROOM - 2 * MiB), 0x01010101);
        assert_ok(cuMemUnmap(at, 2 * ROOM));
        assert_ok(cuMemAddressFree(at, 2 * ROOM));
        assert_ok(cuMemRelease(handle));
    }
}

static void test_what_the_host_writes_itself_is_decided_at_the_allocation(void **state) {
    CUdeviceptr managed, pointer = allocate(ROOM);
    void *pinned;

    (void)state;
    assert_int_equal(cuMemAllocManaged(&managed, ROOM + MiB, CU_MEM_ATTACH_GLOBAL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemHostAlloc(&pinned, ROOM + MiB, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemAllocManaged(&managed, ROOM / 2, CU_MEM_ATTACH_GLOBAL));
    assert_int_equal(cuMemHostAlloc(&pinned, ROOM / 2 + MiB, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemsetD8_v2(pointer, 1, ROOM / 2 + MiB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemFree_v2(managed));
    assert_ok(cuMemHostAlloc(&pinned, ROOM / 2 + MiB, 0));
    assert_ok(cuMemFreeHost(pinned));
    assert_ok(cuMemFree_v2(pointer));
}

/* A child that asks for twice what this host has, and says what it gets. */
static int main_of_child(void) {
    size_t size = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) * 2;
    CUdeviceptr pointer;

    set_up_context(NULL);
    pointer = allocate(size);
    assert_int_equal(cuMemsetD8_v2(pointer, 1, size), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemsetD8_v2(pointer, 1, size), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAllocManaged(&pointer, size, CU_MEM_ATTACH_GLOBAL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    return 0;
}

static void test_this_host_is_asked_and_the_report_says_what_it_lacked(void **state) {
    struct outcome outcome = run("SIMCUDA_HOST_ROOM", "0", "SIMCUDA_MEMORY", "4T", (char *)NULL);
    unsigned long asked, there, times;
    const char *line = strstr(outcome.report, "unserved.0 cuMemsetD8_v2 ");

    (void)state;
    assert_int_equal(outcome.status, 0);
    assert_non_null(line);
    assert_int_equal(sscanf(line,
                            "unserved.0 cuMemsetD8_v2 %lu MiB of host memory, which has %lu MiB "
                            "left to give %lu",
                            &asked, &there, &times),
                     3);
    assert_true(there < asked && times == 2);
    assert_non_null(strstr(outcome.report, "unserved.1 cuMemAllocManaged "));
    assert_null(strstr(outcome.report, "unserved.2"));
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_that_is_never_written_needs_no_host),
        cmocka_unit_test(test_a_fill_beyond_the_host_is_refused_and_does_nothing),
        cmocka_unit_test(test_a_free_gives_the_host_its_memory_back),
        cmocka_unit_test(test_large_zero_fills_take_nothing_and_give_back),
        cmocka_unit_test(test_copies_from_fresh_memory_take_nothing),
        cmocka_unit_test(test_copies_to_memory_are_refused),
        cmocka_unit_test(test_a_graph_is_refused_as_a_whole_and_can_be_launched_later),
        cmocka_unit_test(test_mapped_memory_counts_once_however_often_it_is_mapped),
        cmocka_unit_test(test_memory_that_can_be_shared_is_refused_as_other_memory_is),
        cmocka_unit_test(test_what_the_host_writes_itself_is_decided_at_the_allocation),
        cmocka_unit_test(test_this_host_is_asked_and_the_report_says_what_it_lacked),
    };

    if (count == 2 && strcmp(arguments[1], "child") == 0)
        return main_of_child();
    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
