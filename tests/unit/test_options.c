/* The option parser: values, messages, unknown names. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "options/options.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static struct options options;
static char said[4096];
static int lines;

static void say(const char *line) {
    assert_null(strchr(line, '\n'));
    lines++;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

static void parse(const char *one, const char *two) {
    char *environment[] = {(char *)"PATH=/bin", (char *)one, (char *)two, NULL};
    memset(&options, 0xff, sizeof options);
    said[0] = '\0';
    lines = 0;
    options_parse(&options, environment, say);
}

static void defaults_hold_without_any_option(void **state) {
    (void)state;
    parse("HOME=/", NULL);
    assert_int_equal(lines, 0);
    assert_false(options.disable);
    assert_true(options.reuse_ratio == 2.0);
    assert_int_equal(options.site_keep, 0);
    assert_true(options.steal);
    assert_int_equal(options.site_depth, 1);
    assert_int_equal(options.max_waste.kind, LIMIT_AUTO);
    assert_int_equal(options.max_idle.kind, LIMIT_AUTO);
    assert_string_equal(options.stats_file, "");
}

static void a_bad_value_is_told_with_what_was_expected_and_what_is_used(void **state) {
    (void)state;
    static const struct {
        const char *entry, *line;
    } cases[] = {
        {"POOLCUDA_REUSE_RATIO=x",
         "poolcuda: POOLCUDA_REUSE_RATIO=\"x\": expected a number from 1 to 16, using 2.0\n"},
        {"POOLCUDA_REUSE_RATIO=16.5",
         "poolcuda: POOLCUDA_REUSE_RATIO=\"16.5\": expected a number from 1 to 16, using 2.0\n"},
        {"POOLCUDA_REUSE_RATIO=0.99",
         "poolcuda: POOLCUDA_REUSE_RATIO=\"0.99\": expected a number from 1 to 16, using 2.0\n"},
        {"POOLCUDA_REUSE_RATIO=-2",
         "poolcuda: POOLCUDA_REUSE_RATIO=\"-2\": expected a number from 1 to 16, using 2.0\n"},
        {"POOLCUDA_REUSE_RATIO=nan",
         "poolcuda: POOLCUDA_REUSE_RATIO=\"nan\": expected a number from 1 to 16, using 2.0\n"},
        {"POOLCUDA_REUSE_RATIO=2,5",
         "poolcuda: POOLCUDA_REUSE_RATIO=\"2,5\": expected a number from 1 to 16, using 2.0\n"},
        {"POOLCUDA_REUSE_RATIO=2 ",
         "poolcuda: POOLCUDA_REUSE_RATIO=\"2 \": expected a number from 1 to 16, using 2.0\n"},
        {"POOLCUDA_SITE_DEPTH=1.5",
         "poolcuda: POOLCUDA_SITE_DEPTH=\"1.5\": expected a whole number from 1 to 4, using 1\n"},
        {"POOLCUDA_SITE_DEPTH=5",
         "poolcuda: POOLCUDA_SITE_DEPTH=\"5\": expected a whole number from 1 to 4, using 1\n"},
        {"POOLCUDA_SITE_KEEP=99999999999999999999999999999999",
         "poolcuda: POOLCUDA_SITE_KEEP=\"99999999999999999999999999999999\": expected a whole "
         "number "
         "from 0 to 1000000, using 0\n"},
        {"POOLCUDA_STEAL=maybe", "poolcuda: POOLCUDA_STEAL=\"maybe\": expected 0 or 1, using 1\n"},
        {"POOLCUDA_MAX_IDLE=12q",
         "poolcuda: POOLCUDA_MAX_IDLE=\"12q\": expected auto, a size such as "
         "64M or a share such as 5%, using auto\n"},
        {"POOLCUDA_MAX_IDLE=101%",
         "poolcuda: POOLCUDA_MAX_IDLE=\"101%\": expected auto, a size such "
         "as 64M or a share such as 5%, using auto\n"},
        {"POOLCUDA_MAX_IDLE=99999999999T", "poolcuda: POOLCUDA_MAX_IDLE=\"99999999999T\": expected "
                                           "auto, a size such as 64M or a share such as 5%, using "
                                           "auto\n"},
        {"POOLCUDA_MAX_IDLE=64Mi",
         "poolcuda: POOLCUDA_MAX_IDLE=\"64Mi\": expected auto, a size such "
         "as 64M or a share such as 5%, using auto\n"},
        {"POOLCUDA_MAX_IDLE=64iB",
         "poolcuda: POOLCUDA_MAX_IDLE=\"64iB\": expected auto, a size such "
         "as 64M or a share such as 5%, using auto\n"},
        {"POOLCUDA_MAX_IDLE=64MBB",
         "poolcuda: POOLCUDA_MAX_IDLE=\"64MBB\": expected auto, a size such "
         "as 64M or a share such as 5%, using auto\n"},
        {"POOLCUDA_MAX_IDLE=\033[31m\"", "poolcuda: POOLCUDA_MAX_IDLE=\"?[31m?\": expected auto, a "
                                         "size such as 64M or a share such as "
                                         "5%, using auto\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse(cases[i].entry, NULL);
        assert_string_equal(said, cases[i].line);
        assert_true(options.reuse_ratio == 2.0);
        assert_int_equal(options.site_depth, 1);
        assert_int_equal(options.max_idle.kind, LIMIT_AUTO);
    }
}

static uint64_t limit_bytes(const char *entry) {
    parse(entry, NULL);
    assert_string_equal(said, "");
    assert_int_equal(options.max_idle.kind, LIMIT_BYTES);
    return options.max_idle.bytes;
}

static void sizes_take_units_of_1024(void **state) {
    (void)state;
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=0"), 0);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=123"), 123);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=64k"), 64 << 10);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=64M"), 64 << 20);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=64MB"), 64 << 20);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=64MiB"), 64 << 20);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=64mib"), 64 << 20);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=64B"), 64);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=1.5G"), 1610612736);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=0.015625G"), 16 << 20);
    assert_int_equal(limit_bytes("POOLCUDA_MAX_IDLE=2T"), (uint64_t)2 << 40);
}

static void shares_and_words_are_understood(void **state) {
    (void)state;
    parse("POOLCUDA_MAX_IDLE=50%", "POOLCUDA_MAX_WASTE=AUTO");
    assert_int_equal(options.max_idle.kind, LIMIT_PERCENT);
    assert_true(options.max_idle.percent == 50);
    assert_int_equal(options.max_waste.kind, LIMIT_AUTO);
    parse("POOLCUDA_STATS=Yes", "POOLCUDA_STEAL=off");
    assert_true(options.stats);
    assert_false(options.steal);
    parse("POOLCUDA_FREE=DEFER", "POOLCUDA_PRESET=Vmm");
    assert_int_equal(options.free_mode, 2);
    assert_string_equal(preset_table[options.preset].name, "vmm");
    parse("POOLCUDA_STATS=JSON", "POOLCUDA_CHECK=TRUE");
    assert_int_equal(options.stats, 2);
    assert_int_equal(options.check, 1);
    assert_int_equal(lines, 0);
}

static void an_empty_value_is_as_good_as_none(void **state) {
    (void)state;
    parse("POOLCUDA_REUSE_RATIO=", "POOLCUDA_STATS_FILE=");
    assert_int_equal(lines, 0);
    assert_true(options.reuse_ratio == 2.0);
}

static void the_first_of_two_entries_counts(void **state) {
    (void)state;
    parse("POOLCUDA_REUSE_RATIO=3", "POOLCUDA_REUSE_RATIO=4");
    assert_true(options.reuse_ratio == 3.0);
    assert_int_equal(lines, 0);
}

static void an_unknown_name_is_told_with_its_nearest(void **state) {
    (void)state;
    parse("POOLCUDA_REUSE_RATO=3", NULL);
    assert_string_equal(said, "poolcuda: POOLCUDA_REUSE_RATO: unknown option, did you mean "
                              "POOLCUDA_REUSE_RATIO? Ignored\n");
    parse("POOLCUDA_QUITE_DIFFERENT=3", NULL);
    assert_string_equal(said, "poolcuda: POOLCUDA_QUITE_DIFFERENT: unknown option, `poolcuda "
                              "options` lists them all; ignored\n");
    parse("POOLCUDA_REUSE_RATIO_AND_MUCH_MORE_OF_A_NAME_THAT_DOES_NOT_WANT_TO_END_AT_ALL=3", NULL);
    assert_int_equal(lines, 1);
}

static void a_list_of_names_names_something(void **state) {
    (void)state;
    static const char *const bad[] = {"!", ",,", ",", "a!", "a,b!", "!,a", "a!,b"};
    static const char *const good[] = {"", "a", "a,", ",a,,b", "a!b", "!b", "a!operator!", "*"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char entry[64], line[160];
        snprintf(entry, sizeof entry, "POOLCUDA_SITE_SKIP=%s", bad[i]);
        snprintf(line, sizeof line,
                 "poolcuda: POOLCUDA_SITE_SKIP=\"%s\": expected MODULE, MODULE!FUNCTION or "
                 "!FUNCTION, ... in less than 4096 bytes, using none\n",
                 bad[i]);
        parse(entry, NULL);
        assert_string_equal(said, line);
        assert_string_equal(options.site_skip, "");
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char entry[64];
        snprintf(entry, sizeof entry, "POOLCUDA_SITE_SKIP=%s", good[i]);
        parse(entry, NULL);
        assert_string_equal(said, "");
        assert_string_equal(options.site_skip, good[i]);
    }
}

static void every_bad_value_is_told_and_the_good_ones_hold(void **state) {
    (void)state;
    parse("POOLCUDA_REUSE_RATIO=x", "POOLCUDA_SITE_DEPTH=3");
    assert_int_equal(lines, 1);
    assert_int_equal(options.site_depth, 3);
}

static void a_locale_with_a_decimal_comma_changes_nothing(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "C"))
        fail();
    parse("POOLCUDA_REUSE_RATIO=1.5", NULL);
    assert_true(options.reuse_ratio == 1.5);
    assert_int_equal(lines, 0);
    setlocale(LC_ALL, "C");
}

static void every_default_is_a_value_its_own_row_accepts(void **state) {
    (void)state;
    for (size_t i = 0; i < option_count; i++) {
        char entry[256];
        snprintf(entry, sizeof entry, "%s=%s", option_table[i].name, option_table[i].fallback);
        parse(entry, NULL);
        assert_string_equal(said, "");
    }
}

static void a_running_program_takes_only_what_is_live_and_good(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"POOLCUDA_POLICY=vmm", "POOLCUDA_POLICY: read when a program starts"},
        {"POOLCUDA_TRACE=/etc/passwd", "POOLCUDA_TRACE: read when a program starts"},
        {"POOLCUDA_STEAL", "expected POOLCUDA_STEAL=VALUE"},
        {"POOLCUDA_STEAL=", "POOLCUDA_STEAL=\"\": expected 0 or 1, nothing is changed"},
        {"POOLCUDA_STEAL=\033", "POOLCUDA_STEAL=\"?\": expected 0 or 1"},
        {"POOLCUDA_STEEL=1", "did you mean POOLCUDA_STEAL?"},
        {"POOLCUDA_FOO=1", "POOLCUDA_FOO: unknown option, `poolcuda options` lists them all"},
        {"", "unknown option"},
        {"=", "unknown option"},
    };
    char error[320];
    size_t row;
    parse(NULL, NULL);
    struct options before = options;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(options_set_live(&options, bad[i][0], &row, error, sizeof error));
        assert_non_null(strstr(error, bad[i][1]));
        assert_memory_equal(&options, &before, sizeof options);
    }
    assert_true(options_set_live(&options, "POOLCUDA_STEAL=off", &row, error, sizeof error));
    assert_true(options_set_live(&options, "POOLCUDA_MAX_IDLE=3G", &row, error, sizeof error));
    assert_string_equal(option_table[row].name, "POOLCUDA_MAX_IDLE");
    assert_false(options.steal);
    assert_true(options.max_idle.bytes == 3ull << 30);
}

/* A path points into the text of the setting, which does not stay. */
static void no_option_with_a_path_is_live(void **state) {
    (void)state;
    for (size_t i = 0; i < option_count; i++)
        assert_false(option_table[i].live && strcmp(option_table[i].type, "PATH") == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold_without_any_option),
        cmocka_unit_test(a_bad_value_is_told_with_what_was_expected_and_what_is_used),
        cmocka_unit_test(sizes_take_units_of_1024),
        cmocka_unit_test(shares_and_words_are_understood),
        cmocka_unit_test(an_empty_value_is_as_good_as_none),
        cmocka_unit_test(the_first_of_two_entries_counts),
        cmocka_unit_test(an_unknown_name_is_told_with_its_nearest),
        cmocka_unit_test(a_list_of_names_names_something),
        cmocka_unit_test(every_bad_value_is_told_and_the_good_ones_hold),
        cmocka_unit_test(a_locale_with_a_decimal_comma_changes_nothing),
        cmocka_unit_test(every_default_is_a_value_its_own_row_accepts),
        cmocka_unit_test(a_running_program_takes_only_what_is_live_and_good),
        cmocka_unit_test(no_option_with_a_path_is_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
