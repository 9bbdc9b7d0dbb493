/* Versions of NVIDIA's driver and runtime, from text and from names of files. */
#include "cli/doctor/versions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void of_proc(void **state) {
    static const struct {
        const char *line, *version;
    } cases[] = {
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC "
         "2023\n",
         "535.129.03"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n",
         "570.86.15"},
        {"NVRM version: NVIDIA UNIX aarch64 Kernel Module  580.65.06", "580.65.06"},
        {"GCC version 12\n", NULL},
        {"", NULL},
        {"x 1.2x3 y", NULL},
    };
    char version[32];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(version_from_proc(cases[i].line, version, sizeof version),
                         cases[i].version != NULL);
        if (cases[i].version)
            assert_string_equal(version, cases[i].version);
    }
    assert_false(version_from_proc("a 535.129.03 b", version, 4));
}

static void of_names(void **state) {
    char version[32];
    (void)state;
    assert_true(version_from_name("libcuda.so.535.129.03", version, sizeof version));
    assert_string_equal(version, "535.129.03");
    assert_true(version_from_name("libcudart.so.13", version, sizeof version));
    assert_string_equal(version, "13");
    assert_false(version_from_name("libcuda.so", version, sizeof version));
    assert_false(version_from_name("libcuda.so.1-beta", version, sizeof version));
    assert_false(version_from_name("libcuda.so.535.129.03", version, 5));
}

static void what_a_driver_serves(void **state) {
    static const struct {
        const char *driver;
        int cuda;
    } cases[] = {{"580.65.06", 13},  {"610.1", 13},     {"575.57", 12}, {"525.60.13", 12},
                 {"515.105.01", 11}, {"450.80.02", 11}, {"390.1", 0},   {"", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(version_cuda_of_driver(cases[i].driver), cases[i].cuda);
    assert_int_equal(version_major("12.4.127"), 12);
    assert_int_equal(version_major("x"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_proc),
        cmocka_unit_test(of_names),
        cmocka_unit_test(what_a_driver_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
