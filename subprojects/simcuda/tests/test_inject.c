/* Calls of the simulated driver that fail on demand, seen from outside. */
#include "test_process.h"

/* Every call in turn: the exit code is the number of the first one that failed, 0 if none did. */
static int main_of_child(void) {
    CUdeviceptr pointer = 0;
    CUresult results[6];
    int failed = 0;

    results[0] = cuInit(0);
    results[1] = cuDevicePrimaryCtxRetain(&test_context, 0);
    results[2] = cuCtxSetCurrent(test_context);
    results[3] = cuMemAlloc_v2(&pointer, 4 * MiB);
    if (results[3] != CUDA_SUCCESS)
        assert_int_equal(pointer, 0); /* it did nothing */
    results[4] = cuMemAlloc_v2(&pointer, 4 * MiB);
    results[5] = cuMemFree_v2(pointer);
    for (int i = 5; i >= 0; i--)
        if (results[i] != CUDA_SUCCESS)
            failed = i + 1;
    if (failed != 0)
        fprintf(stderr, "%d", (int)results[failed - 1]);
    return failed;
}

static void test_off(void **state) {
    struct outcome outcome = run(NULL);

    (void)state;
    assert_int_equal(outcome.status, 0);
    assert_null(strstr(outcome.report, "calls_by_caller"));
    assert_null(strstr(outcome.report, "injected"));
}

static void test_count_only(void **state) {
    struct outcome outcome = run("SIMCUDA_FAIL_CALLER", "test_inject", NULL);

    (void)state;
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.report, "calls_by_caller 6\n"));
    assert_null(strstr(outcome.report, "injected"));
}

static void test_fails_once(void **state) {
    struct outcome outcome =
        run("SIMCUDA_FAIL_CALLER", "tests/test_inject", "SIMCUDA_FAIL_CALL", "4", NULL);

    (void)state;
    assert_int_equal(WEXITSTATUS(outcome.status), 4);
    assert_string_equal(outcome.messages, "999");
    assert_non_null(strstr(outcome.report, "calls_by_caller 6\n"));
    assert_non_null(strstr(outcome.report, "injected cuMemAlloc_v2\n"));
    assert_non_null(strstr(outcome.report, "calls.cuMemAlloc_v2 2\n"));
    assert_non_null(strstr(outcome.report, "peak_held_bytes 4194304\n")); /* of the second alone */
}

static void test_error_and_every_caller(void **state) {
    struct outcome outcome = run("SIMCUDA_FAIL_CALL", "6", "SIMCUDA_FAIL_ERROR", "2", NULL);

    (void)state;
    assert_int_equal(WEXITSTATUS(outcome.status), 6);
    assert_string_equal(outcome.messages, "2");
    assert_non_null(strstr(outcome.report, "injected cuMemFree_v2\n"));
}

static void test_other_callers(void **state) {
    struct outcome outcome =
        run("SIMCUDA_FAIL_CALLER", "libnothing.so", "SIMCUDA_FAIL_CALL", "1", NULL);

    (void)state;
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.report, "calls_by_caller 0\n"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),           cmocka_unit_test(test_count_only),
        cmocka_unit_test(test_fails_once),    cmocka_unit_test(test_error_and_every_caller),
        cmocka_unit_test(test_other_callers),
    };

    (void)argv;
    if (argc > 1)
        return main_of_child();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
