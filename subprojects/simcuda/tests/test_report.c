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

/* What another child asks for: functions, a look-up, an attribute that are not there, and a kernel
 * that is.
 */
static int main_of_asking_child(void) {
    static const char ptx[] = ".version 7.0\n.visible .entry own_kernel() { ret; }\n";
    CUmodule module;
    CUfunction function;
    CUdeviceptr pointer;
    CUuuid id = {{1}};
    const void *table;
    int value;
    void *found;

    set_up_context(NULL);
    assert_int_equal(cuGraphicsUnregisterResource(NULL), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuGraphicsUnregisterResource(NULL), CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuGetProcAddress_v2("cuNoSuchThing", &found, 13000, 0, NULL));
    assert_ok(cuGetProcAddress_v2("", &found, 0, 0, NULL)); /* a probe that asks for nothing */
    assert_ok(cuGetProcAddress_v2("cuGraphicsUnregisterResource", &found, 13000, 0,
                                  NULL)); /* is not called */
    assert_int_equal(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuMemAlloc_v2(&pointer, 1));
    assert_int_equal(cuPointerGetAttribute(&value, (CUpointer_attribute)999, pointer),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuModuleLoadData(&module, ptx));
    assert_ok(cuModuleGetFunction(&function, module, "own_kernel"));
    assert_int_equal(cuModuleGetFunction(&function, module, "none"), CUDA_ERROR_NOT_FOUND);
    return 0;
}

static void test_what_was_not_served_is_listed(void **state) {
    struct outcome outcome = run("SIMCUDA_TEST_ASKS", "1", NULL);

    (void)state;
    assert_int_equal(outcome.status, 0);
    assert_string_equal(strstr(outcome.report, "unserved.0"),
                        "unserved.0 cuGraphicsUnregisterResource 2\n"
                        "unserved.1 cuGetProcAddress_v2 cuNoSuchThing 1\n"
                        "unserved.2 cuGetExportTable 01000000000000000000000000000000 1\n"
                        "unserved.3 cuPointerGetAttribute attribute 999 1\n");
}

static void test_the_list_alone_goes_to_standard_error(void **state) {
    struct outcome outcome = run("SIMCUDA_TEST_ASKS", "1", "SIMCUDA_REPORT", "1", NULL);

    (void)state;
    assert_int_equal(outcome.status, 0);
    assert_string_equal(
        outcome.messages,
        "simcuda: not served: cuGraphicsUnregisterResource: 2 times\n"
        "simcuda: not served: cuGetProcAddress_v2: cuNoSuchThing: 1 times\n"
        "simcuda: not served: cuGetExportTable: 01000000000000000000000000000000: 1 times\n"
        "simcuda: not served: cuPointerGetAttribute: attribute 999: 1 times\n");
    outcome = run("SIMCUDA_REPORT", "1", NULL);
    assert_non_null(strstr(outcome.messages, "simcuda: all that was asked for was served\n"));
    assert_string_equal(outcome.report, "");
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
        cmocka_unit_test(test_what_was_not_served_is_listed),
        cmocka_unit_test(test_the_list_alone_goes_to_standard_error),
        cmocka_unit_test(test_hazard_aborts),
        cmocka_unit_test(test_bad_settings),
    };

    (void)argv;
    if (argc > 1)
        return getenv("SIMCUDA_TEST_ASKS") != NULL ? main_of_asking_child() : main_of_child();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
