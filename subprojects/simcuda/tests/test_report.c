/* The simulated GPU's settings and its report at exit, seen from outside: this program runs itself
 * with other environments. */
#include "test_process.h"

#include <signal.h>

enum { COUNT = 1024 };

/* What the child does: a few calls, one hazard. */
static int main_of_child(void) {
    CUstream first, second;
    CUdeviceptr pointer;

    set_up_context(NULL);
    assert_ok(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    assert_ok(cuMemAlloc_v2(&pointer, 3 * MiB));
    simcuda_owner_begin(pointer, 3 * MiB, (uintptr_t)main_of_child);
    assert_ok(launch_fill(first, pointer, COUNT, 1));
    simcuda_owner_end(pointer, (uintptr_t)main_of_child + 1);
    simcuda_owner_begin(pointer, 3 * MiB, (uintptr_t)main_of_child + 2);
    assert_ok(launch_fill(second, pointer, COUNT, 2));
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuMemAlloc_v2(&pointer, 16));
    return 0;
}

static void test_report(void **state) {
    struct outcome outcome = run(NULL);

    (void)state;
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.report, "calls.cuMemAlloc_v2 2\n"));
    assert_non_null(strstr(outcome.report, "calls.cuMemFree_v2 1\n"));
    assert_null(strstr(outcome.report, "calls.cuMemAllocManaged"));
    assert_non_null(strstr(outcome.report, "held_bytes 2097152\n"));
    assert_non_null(strstr(outcome.report, "peak_held_bytes 4194304\n"));
    assert_non_null(strstr(outcome.report, "hazards 1\n"));
    assert_non_null(strstr(outcome.report, "hazard.0 reused: fill_u32"));
    assert_non_null(strstr(outcome.report, "test_report+0x")); /* sites: module and offset */
}

static void test_hazard_aborts(void **state) {
    struct outcome outcome = run("SIMCUDA_HAZARD", "abort", NULL);

    (void)state;
    assert_true(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT);
    assert_non_null(strstr(outcome.messages, "simcuda: hazard: reused"));
}

static void check_message(const char *name, const char *value, const char *message) {
    struct outcome outcome = run(name, value, NULL);

    assert_int_equal(outcome.status, 0); /* it goes on with the default */
    assert_true(strncmp(outcome.messages, message, strlen(message)) == 0);
}

static void test_bad_settings(void **state) {
    (void)state;
    check_message("SIMCUDA_DEVICES", "9",
                  "simcuda: SIMCUDA_DEVICES=\"9\": expected a whole number from 1 to 8, using 1\n");
    check_message("SIMCUDA_LAUNCH_NS", "1.5",
                  "simcuda: SIMCUDA_LAUNCH_NS=\"1.5\": expected a whole number from 0 to "
                  "1000000000, using 3000\n");
    check_message("SIMCUDA_MEMORY", "12q",
                  "simcuda: SIMCUDA_MEMORY=\"12q\": expected a size such as 8G from 2097152 to "
                  "4398046511104, using 85899345920\n");
    check_message("SIMCUDA_COPY_GBPS", "-1",
                  "simcuda: SIMCUDA_COPY_GBPS=\"-1\": expected a decimal number");
    check_message("SIMCUDA_HAZARD", "x",
                  "simcuda: SIMCUDA_HAZARD=\"x\": expected abort or report, using report\n");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_hazard_aborts),
        cmocka_unit_test(test_bad_settings),
    };

    (void)argv;
    if (argc > 1)
        return main_of_child();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
