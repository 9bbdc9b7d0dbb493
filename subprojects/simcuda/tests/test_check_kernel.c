/* The kernel that checks memory for a client. */
#include "test_sim.h"

#include "check_kernel.h"

#include <string.h>

/* A cleared report. */
#define CHECK_FAILURE_CLEARED ((struct check_failure){CHECK_NO_FAILURE, UINT64_MAX, 0})

static const char check_kernel_ptx[] =
    ".version 7.0\n"
    ".visible .entry poolcuda_check(.param .u64 tasks, .param .u32 count, .param .u64 report)\n"
    "{ ret; }\n";

enum { BYTES = 4096, TASKS = 8, PATTERN = 0xa5 };

/* What every test starts with: memory of zeros, room for tasks, a cleared report. */
static CUmodule check_module;
static CUfunction check_kernel;
static CUdeviceptr memory;
static struct check_task *tasks;
static struct check_failure *report;

static void *pinned(size_t size) {
    void *host;

    assert_ok(cuMemHostAlloc(&host, size, CU_MEMHOSTALLOC_DEVICEMAP));
    return host;
}

static int set_up(void **state) {
    set_up_context(state);
    assert_ok(cuModuleLoadData(&check_module, check_kernel_ptx));
    assert_ok(cuModuleGetFunction(&check_kernel, check_module, CHECK_KERNEL_NAME));
    assert_ok(cuMemAlloc_v2(&memory, BYTES));
    assert_ok(cuMemsetD8_v2(memory, 0, BYTES));
    assert_ok(cuCtxSynchronize());
    tasks = pinned(TASKS * sizeof *tasks);
    report = pinned(sizeof *report);
    *report = CHECK_FAILURE_CLEARED;
    return 0;
}

static int tear_down(void **state) {
    assert_ok(cuMemFree_v2(memory));
    assert_ok(cuMemFreeHost(tasks));
    assert_ok(cuMemFreeHost(report));
    assert_ok(cuModuleUnload(check_module));
    return tear_down_context(state);
}

static CUresult launch_tasks(CUstream stream, uint32_t count) {
    CUdeviceptr list, told;

    assert_ok(cuMemHostGetDevicePointer_v2(&list, tasks, 0));
    assert_ok(cuMemHostGetDevicePointer_v2(&told, report, 0));
    return cuLaunchKernel(check_kernel, count == 0 ? 1 : count, 1, 1, 128, 1, 1, 0, stream,
                          (void *[]){&list, &count, &told}, NULL);
}

static void run_tasks(uint32_t count) {
    assert_ok(launch_tasks(NULL, count));
    assert_ok(cuCtxSynchronize());
}

static void run_one(enum check_op op, size_t offset, size_t bytes, uint64_t id) {
    tasks[0] = (struct check_task){memory + offset, bytes, id, op, PATTERN};
    run_tasks(1);
}

static void set_byte(size_t offset, unsigned char value) {
    assert_ok(cuMemcpyHtoD_v2(memory + offset, &value, 1));
}

static void assert_told(uint64_t id, uint64_t first, uint64_t last) {
    assert_int_equal(report->id, id);
    assert_int_equal(report->first, first);
    assert_int_equal(report->last, last);
}

static void assert_nothing_told(void) {
    assert_memory_equal(report, &CHECK_FAILURE_CLEARED, sizeof *report);
}

static void test_a_filled_range_verifies(void **state) {
    (void)state;
    run_one(CHECK_FILL, 0, BYTES, 1);
    assert_nothing_told();
    run_one(CHECK_VERIFY, 0, BYTES, 2);
    assert_nothing_told();
}

static void test_only_the_lowest_8_bits_of_the_pattern_count(void **state) {
    unsigned char byte;

    (void)state;
    tasks[0] = (struct check_task){memory, BYTES, 1, CHECK_FILL, 0xffffff00u | PATTERN};
    run_tasks(1);
    assert_ok(cuMemcpyDtoH_v2(&byte, memory + 7, 1));
    assert_int_equal(byte, PATTERN);
}

/* Every start within a 16-byte word with every length over two of them. */
static void test_a_fill_writes_its_bytes_and_no_others(void **state) {
    unsigned char expected[96], found[96];

    (void)state;
    for (size_t begin = 0; begin < 16; begin++) {
        for (size_t bytes = 0; bytes <= 64; bytes++) {
            assert_ok(cuMemsetD8_v2(memory, 0, sizeof found));
            run_one(CHECK_FILL, begin, bytes, 1);
            memset(expected, 0, sizeof expected);
            memset(expected + begin, PATTERN, bytes);
            assert_ok(cuMemcpyDtoH_v2(found, memory, sizeof found));
            assert_memory_equal(found, expected, sizeof found);
        }
    }
    assert_nothing_told();
}

static void test_one_wrong_byte_is_told_wherever_it_is(void **state) {
    static const size_t begins[] = {0, 1, 15, 16, 17};

    (void)state;
    run_one(CHECK_FILL, 0, BYTES, 1);
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        for (size_t wrong = 0; wrong < 67; wrong++) {
            set_byte(begins[i] + wrong, PATTERN ^ 0x80);
            run_one(CHECK_VERIFY, begins[i], 67, 40 + wrong);
            assert_told(40 + wrong, wrong, wrong);
            set_byte(begins[i] + wrong, PATTERN);
            *report = CHECK_FAILURE_CLEARED;
        }
    }
}

static void test_wrong_bytes_beside_a_range_are_not_its_own(void **state) {
    (void)state;
    run_one(CHECK_FILL, 101, 1000, 1);
    run_one(CHECK_VERIFY, 101, 1000, 2); /* the bytes around are 0 */
    assert_nothing_told();
    run_one(CHECK_VERIFY, 100, 1000, 3);
    assert_told(3, 0, 0);
    *report = CHECK_FAILURE_CLEARED;
    run_one(CHECK_VERIFY, 101, 1001, 4);
    assert_told(4, 1000, 1000);
}

static void test_the_lowest_and_the_highest_of_several_wrong_bytes_are_told(void **state) {
    (void)state;
    run_one(CHECK_FILL, 0, BYTES, 1);
    set_byte(300, 0);
    set_byte(2000, 0);
    set_byte(3999, 0);
    run_one(CHECK_VERIFY, 3, 4000, 5);
    assert_told(5, 297, 3996);
}

static void test_one_of_several_failing_tasks_is_told(void **state) {
    (void)state;
    run_one(CHECK_FILL, 0, BYTES, 1);
    for (uint32_t i = 0; i < 4; i++) {
        tasks[i] =
            (struct check_task){memory + (uint64_t)i * 512, 512, 10 + i, CHECK_VERIFY, PATTERN};
        if (i != 0)
            set_byte((size_t)i * 512 + i, 0);
    }
    run_tasks(4);
    assert_in_range(report->id, 11, 13);
    assert_told(report->id, report->id - 10, report->id - 10);
}

static void test_the_first_failure_stays_until_the_report_is_cleared(void **state) {
    (void)state;
    run_one(CHECK_FILL, 0, BYTES, 1);
    set_byte(8, 0);
    set_byte(520, 0);
    run_one(CHECK_VERIFY, 0, 512, 2);
    run_one(CHECK_VERIFY, 512, 512, 3);
    assert_told(2, 8, 8);
    *report = CHECK_FAILURE_CLEARED;
    run_one(CHECK_VERIFY, 512, 512, 3);
    assert_told(3, 8, 8);
}

static void test_one_launch_verifies_and_fills_apart(void **state) {
    (void)state;
    run_one(CHECK_FILL, 0, 512, 1);
    tasks[0] = (struct check_task){memory, 512, 2, CHECK_VERIFY, PATTERN};
    tasks[1] = (struct check_task){memory + 512, 1024, 3, CHECK_FILL, 0xdb};
    run_tasks(2);
    assert_nothing_told();
    tasks[0] = (struct check_task){memory + 512, 1024, 4, CHECK_VERIFY, 0xdb};
    run_tasks(1);
    assert_nothing_told();
}

static void test_nothing_to_do_is_no_fault(void **state) {
    (void)state;
    run_tasks(0);
    tasks[0] =
        (struct check_task){0x1000, 0, 1, CHECK_VERIFY, PATTERN}; /* no allocation's address */
    run_tasks(1);
    assert_nothing_told();
}

static void fault_with(struct check_task task) {
    tasks[0] = task;
    assert_ok(launch_tasks(NULL, 1));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* A context of its own: it is lost. What the test's other tasks are in is left as it was. */
static void in_a_context_to_lose(void (*test)(void)) {
    CUcontext context;

    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuModuleLoadData(&check_module, check_kernel_ptx));
    assert_ok(cuModuleGetFunction(&check_kernel, check_module, CHECK_KERNEL_NAME));
    test();
    cuCtxDestroy_v2(context);
}

static void fill_no_allocation(void) {
    fault_with((struct check_task){0x1000, 16, 1, CHECK_FILL, PATTERN});
}

static void verify_beyond_an_allocation(void) {
    CUdeviceptr own;

    assert_ok(cuMemAlloc_v2(&own, 1000));
    fault_with((struct check_task){own, 1001, 1, CHECK_VERIFY, PATTERN});
}

static void test_a_range_that_is_no_allocation_loses_the_context(void **state) {
    CUmodule module = check_module;

    (void)state;
    in_a_context_to_lose(fill_no_allocation);
    in_a_context_to_lose(verify_beyond_an_allocation);
    check_module = module;
    assert_nothing_told();
}

/* Hands a range that `op` touches, in a stream of its own, on to a new owner who writes to it.
 * Returns how many hazards that made. */
static uint64_t hazards_of(enum check_op op, bool waits) {
    uint64_t before = simcuda_hazards();
    CUstream checks, program;

    assert_ok(cuStreamCreate(&checks, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamCreate(&program, CU_STREAM_NON_BLOCKING));
    simcuda_owner_begin(memory, BYTES, 0x1000);
    for (uint32_t i = 0; i < TASKS; i++) /* the last one is the one that matters */
        tasks[i] = (struct check_task){memory + (uint64_t)i * 256, 256, i, op, 0};
    assert_ok(launch_tasks(checks, TASKS));
    simcuda_owner_end(memory, 0x1001);
    if (waits)
        assert_ok(cuStreamSynchronize(checks));
    simcuda_owner_begin(memory + 7 * 256, 256, 0x2000);
    assert_ok(cuMemsetD8Async(memory + 7 * 256, 1, 256, program));
    simcuda_owner_end(memory + 7 * 256, 0x2001);
    assert_ok(cuCtxSynchronize());
    assert_ok(cuStreamDestroy_v2(checks));
    assert_ok(cuStreamDestroy_v2(program));
    return simcuda_hazards() - before;
}

static void test_memory_that_is_still_being_checked_is_not_to_be_handed_on(void **state) {
    (void)state;
    assert_int_equal(hazards_of(CHECK_VERIFY, false), 1);
    assert_int_equal(hazards_of(CHECK_FILL, false), 1);
    assert_int_equal(hazards_of(CHECK_VERIFY, true), 0);
    assert_int_equal(hazards_of(CHECK_FILL, true), 0);
}

#define CHECK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(test_a_filled_range_verifies),
        CHECK_TEST(test_only_the_lowest_8_bits_of_the_pattern_count),
        CHECK_TEST(test_a_fill_writes_its_bytes_and_no_others),
        CHECK_TEST(test_one_wrong_byte_is_told_wherever_it_is),
        CHECK_TEST(test_wrong_bytes_beside_a_range_are_not_its_own),
        CHECK_TEST(test_the_lowest_and_the_highest_of_several_wrong_bytes_are_told),
        CHECK_TEST(test_one_of_several_failing_tasks_is_told),
        CHECK_TEST(test_the_first_failure_stays_until_the_report_is_cleared),
        CHECK_TEST(test_one_launch_verifies_and_fills_apart),
        CHECK_TEST(test_nothing_to_do_is_no_fault),
        CHECK_TEST(test_a_range_that_is_no_allocation_loses_the_context),
        CHECK_TEST(test_memory_that_is_still_being_checked_is_not_to_be_handed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
