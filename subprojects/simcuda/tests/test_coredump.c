/* The attributes of dumps. */
#include "test_process.h"

static CUresult set_bool(bool here, int attribute, bool value) {
    size_t size = sizeof value;

    return here ? cuCoredumpSetAttribute((CUcoredumpSettings)attribute, &value, &size)
                : cuCoredumpSetAttributeGlobal((CUcoredumpSettings)attribute, &value, &size);
}

static bool get_bool(bool here, int attribute) {
    size_t size = sizeof(bool);
    bool value;

    assert_ok(here ? cuCoredumpGetAttribute((CUcoredumpSettings)attribute, &value, &size)
                   : cuCoredumpGetAttributeGlobal((CUcoredumpSettings)attribute, &value, &size));
    return value;
}

static void assert_name(bool here, int attribute, const char *expected) {
    char value[1024];
    size_t size = sizeof value;

    assert_ok(here ? cuCoredumpGetAttribute((CUcoredumpSettings)attribute, value, &size)
                   : cuCoredumpGetAttributeGlobal((CUcoredumpSettings)attribute, value, &size));
    assert_string_equal(value, expected);
}

static CUresult set_name(bool here, int attribute, const char *value, size_t size) {
    void *data = (void *)(uintptr_t)value;

    return here ? cuCoredumpSetAttribute((CUcoredumpSettings)attribute, data, &size)
                : cuCoredumpSetAttributeGlobal((CUcoredumpSettings)attribute, data, &size);
}

/* Before anything of it is set. */
static void test_the_defaults(void **state) {
    char host[256] = "", name[512];

    (void)state;
    gethostname(host, sizeof host - 1);
    for (int here = 0; here <= 1; here++) {
        assert_false(get_bool(here, CU_COREDUMP_ENABLE_ON_EXCEPTION));
        assert_true(get_bool(here, CU_COREDUMP_TRIGGER_HOST));
        assert_false(get_bool(here, CU_COREDUMP_LIGHTWEIGHT));
        assert_false(get_bool(here, CU_COREDUMP_ENABLE_USER_TRIGGER));
        snprintf(name, sizeof name, "core.cuda.%s.%ld", host, (long)getpid());
        assert_name(here, CU_COREDUMP_FILE, name);
        snprintf(name, sizeof name, "corepipe.cuda.%s.%ld", host, (long)getpid());
        assert_name(here, CU_COREDUMP_PIPE, name);
    }
}

static void test_null_asks_for_the_size(void **state) {
    size_t size = 0;

    (void)state;
    assert_ok(cuCoredumpGetAttribute(CU_COREDUMP_TRIGGER_HOST, NULL, &size));
    assert_int_equal(size, sizeof(bool));
    assert_ok(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, NULL, &size));
    assert_int_equal(size, 1024);
    assert_ok(cuCoredumpSetAttribute(CU_COREDUMP_LIGHTWEIGHT, NULL, &size));
    assert_int_equal(size, sizeof(bool));
    assert_ok(cuCoredumpSetAttributeGlobal((CUcoredumpSettings)7, NULL, &size)); /* flags */
    assert_int_equal(size, sizeof(unsigned int));
}

static void test_a_context_has_its_own_or_the_global_value(void **state) {
    CUcontext other;

    (void)state;
    assert_ok(set_bool(false, CU_COREDUMP_ENABLE_ON_EXCEPTION, true));
    assert_true(get_bool(true, CU_COREDUMP_ENABLE_ON_EXCEPTION));
    assert_ok(set_bool(true, CU_COREDUMP_ENABLE_ON_EXCEPTION, false));
    assert_ok(set_name(true, CU_COREDUMP_FILE, "/tmp/own", 9));
    assert_false(get_bool(true, CU_COREDUMP_ENABLE_ON_EXCEPTION));
    assert_true(get_bool(false, CU_COREDUMP_ENABLE_ON_EXCEPTION));
    assert_name(true, CU_COREDUMP_FILE, "/tmp/own");
    assert_ok(set_name(false, CU_COREDUMP_FILE, "/tmp/all...", 8)); /* so many bytes of it */
    assert_name(false, CU_COREDUMP_FILE, "/tmp/all");
    assert_name(true, CU_COREDUMP_FILE, "/tmp/own");
    assert_ok(cuCtxCreate_v2(&other, 0, 0));
    assert_true(get_bool(true, CU_COREDUMP_ENABLE_ON_EXCEPTION));
    assert_name(true, CU_COREDUMP_FILE, "/tmp/all");
    assert_ok(cuCtxDestroy_v2(other));
    assert_ok(cuCtxSetCurrent(test_context));
    assert_ok(set_bool(false, CU_COREDUMP_ENABLE_ON_EXCEPTION, false));
}

static void test_a_reset_context_has_the_global_values_again(void **state) {
    CUcontext context;

    (void)state;
    assert_ok(cuDevicePrimaryCtxRetain(&context, 1));
    assert_ok(cuCtxSetCurrent(context));
    assert_ok(set_bool(true, CU_COREDUMP_LIGHTWEIGHT, true));
    assert_true(get_bool(true, CU_COREDUMP_LIGHTWEIGHT));
    assert_ok(cuDevicePrimaryCtxReset_v2(1));
    assert_ok(cuDevicePrimaryCtxRetain(&context, 1));
    assert_ok(cuCtxSetCurrent(context));
    assert_false(get_bool(true, CU_COREDUMP_LIGHTWEIGHT));
    assert_ok(cuDevicePrimaryCtxRelease_v2(1));
    assert_ok(cuCtxSetCurrent(test_context));
}

static void test_generation_flags_are_those_that_there_are(void **state) {
    const CUcoredumpSettings attribute = (CUcoredumpSettings)7;
    unsigned int flags = 0x13, told = 0;
    size_t size = sizeof flags;

    (void)state;
    assert_ok(cuCoredumpSetAttribute(attribute, &flags, &size));
    assert_ok(cuCoredumpGetAttribute(attribute, &told, &size));
    assert_int_equal(told, 0x13);
    assert_ok(cuCoredumpGetAttributeGlobal(attribute, &told, &size));
    assert_int_equal(told, 0);
    flags = 0x40;
    assert_int_equal(cuCoredumpSetAttribute(attribute, &flags, &size), CUDA_ERROR_INVALID_VALUE);
}

static void test_what_there_is_not_is_refused(void **state) {
    char name[1025];
    size_t size = 2;
    bool value = true;

    (void)state;
    assert_int_equal(cuCoredumpGetAttribute((CUcoredumpSettings)0, &value, &size),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCoredumpSetAttributeGlobal((CUcoredumpSettings)8, &value, &size),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &value, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCoredumpSetAttribute(CU_COREDUMP_LIGHTWEIGHT, &value, &size),
                     CUDA_ERROR_INVALID_VALUE); /* of two bytes */
    size = 3;
    assert_int_equal(cuCoredumpGetAttribute(CU_COREDUMP_FILE, name, &size),
                     CUDA_ERROR_INVALID_VALUE); /* too long */
    memset(name, 'x', sizeof name);
    assert_int_equal(set_name(true, CU_COREDUMP_FILE, name, 1024), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(set_name(true, CU_COREDUMP_FILE, "", 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(set_name(true, CU_COREDUMP_FILE, name, 1023));
    assert_ok(cuCtxSetCurrent(NULL));
    size = 1;
    assert_int_equal(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &value, &size),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuCtxSetCurrent(test_context));
}

static void test_the_pipe_is_global_and_stays_once_it_is_used(void **state) {
    (void)state;
    assert_int_equal(set_bool(true, CU_COREDUMP_ENABLE_USER_TRIGGER, true),
                     CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(set_name(true, CU_COREDUMP_PIPE, "pipe", 5), CUDA_ERROR_NOT_PERMITTED);
    assert_ok(set_name(false, CU_COREDUMP_PIPE, "pipe", 5));
    assert_ok(set_bool(false, CU_COREDUMP_ENABLE_USER_TRIGGER, true));
    assert_int_equal(set_name(false, CU_COREDUMP_PIPE, "other", 6), CUDA_ERROR_NOT_PERMITTED);
    assert_name(true, CU_COREDUMP_PIPE, "pipe");
    assert_true(get_bool(true, CU_COREDUMP_ENABLE_USER_TRIGGER));
}

static void test_a_flag_of_a_context_enables_its_dump(void **state) {
    CUcontext context;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, CU_CTX_COREDUMP_ENABLE, 0));
    assert_true(get_bool(true, CU_COREDUMP_ENABLE_ON_EXCEPTION));
    assert_ok(set_bool(true, CU_COREDUMP_ENABLE_ON_EXCEPTION, false));
    assert_false(get_bool(true, CU_COREDUMP_ENABLE_ON_EXCEPTION));
    assert_ok(cuCtxDestroy_v2(context));
    assert_ok(cuCtxSetCurrent(test_context));
}

/* In a process whose environment says so. */
static int main_of_child(void) {
    if (get_bool(false, CU_COREDUMP_TRIGGER_HOST) || !get_bool(false, CU_COREDUMP_LIGHTWEIGHT))
        return 1;
    assert_name(false, CU_COREDUMP_FILE, "/tmp/given");
    if (set_up_context(NULL) != 0)
        return 2;
    assert_name(true, CU_COREDUMP_FILE, "/tmp/given");
    return set_name(true, CU_COREDUMP_FILE, "other", 6) == CUDA_ERROR_NOT_PERMITTED &&
                   set_bool(false, CU_COREDUMP_TRIGGER_HOST, true) == CUDA_ERROR_NOT_PERMITTED &&
                   set_bool(false, CU_COREDUMP_ENABLE_ON_EXCEPTION, true) == CUDA_SUCCESS
               ? 0
               : 3;
}

static void test_the_environment_takes_precedence(void **state) {
    struct outcome outcome =
        run("CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", "0", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "1",
            "CUDA_COREDUMP_FILE", "/tmp/given", NULL);

    (void)state;
    assert_int_equal(outcome.status, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_defaults),
        cmocka_unit_test(test_null_asks_for_the_size),
        cmocka_unit_test(test_a_context_has_its_own_or_the_global_value),
        cmocka_unit_test(test_a_reset_context_has_the_global_values_again),
        cmocka_unit_test(test_generation_flags_are_those_that_there_are),
        cmocka_unit_test(test_what_there_is_not_is_refused),
        cmocka_unit_test(test_the_pipe_is_global_and_stays_once_it_is_used),
        cmocka_unit_test(test_a_flag_of_a_context_enables_its_dump),
        cmocka_unit_test(test_the_environment_takes_precedence),
    };

    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return main_of_child();
    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
