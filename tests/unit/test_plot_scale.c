/* The scales of the drawing of `poolcuda tune`. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "cli/plot_scale.h"

enum { STEPS = 6 };

static void steps_are_round_and_fit(void **state) {
    (void)state;
    double most = 1;
    for (int i = 0; i < 600; i++, most *= 1.07) { /* to 10^17 */
        struct plot_scale scale = plot_scale(most, STEPS);
        double digit = scale.step;
        while (digit >= 9.99)
            digit /= 10;
        while (digit < 0.99)
            digit *= 10;
        assert_true((digit > 0.99 && digit < 1.01) || (digit > 1.99 && digit < 2.01) ||
                    (digit > 4.99 && digit < 5.01));
        assert_true(plot_scale_bytes(&scale, STEPS) >= most);
        assert_true(plot_scale_bytes(&scale, 1) <= most); /* there is one beside 0 */
    }
}

static void their_texts_are_short_and_of_one_unit(void **state) {
    (void)state;
    static const struct {
        double most;
        const char *texts[4];
    } cases[] = {
        {7, {"0 B", "2 B", "4 B", "6 B"}},
        {1024, {"0 KiB", "0.2 KiB", "0.4 KiB", "0.6 KiB"}},
        {2.15 * (1 << 20), {"0 MiB", "0.5 MiB", "1 MiB", "1.5 MiB"}},
        {266.7 * (1 << 20), {"0 MiB", "50 MiB", "100 MiB", "150 MiB"}},
        {1000.0 * (1 << 20), {"0 MiB", "200 MiB", "400 MiB", "600 MiB"}},
        {4.2 * (1 << 30), {"0 GiB", "1 GiB", "2 GiB", "3 GiB"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plot_scale scale = plot_scale(cases[i].most, STEPS);
        for (unsigned step = 0; step < 4; step++)
            assert_string_equal(plot_scale_text(&scale, step).text, cases[i].texts[step]);
    }
}

static void calls_go_by_powers_of_ten_or_finer_where_there_are_few(void **state) {
    (void)state;
    static const uint64_t many[] = {0, 1, 10, 100, 1000, 10000}, few[] = {0, 1, 2, 5, 10, 20, 50};
    for (size_t i = 0; i + 1 < sizeof many / sizeof many[0]; i++)
        assert_int_equal(plot_next_calls(many[i], 12345), many[i + 1]);
    for (size_t i = 0; i + 1 < sizeof few / sizeof few[0]; i++)
        assert_int_equal(plot_next_calls(few[i], 60), few[i + 1]);
}

static void thousands_are_told_apart(void **state) {
    (void)state;
    assert_string_equal(plot_count(0).text, "0");
    assert_string_equal(plot_count(999).text, "999");
    assert_string_equal(plot_count(12868).text, "12,868");
    assert_string_equal(plot_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_round_and_fit),
        cmocka_unit_test(their_texts_are_short_and_of_one_unit),
        cmocka_unit_test(calls_go_by_powers_of_ten_or_finer_where_there_are_few),
        cmocka_unit_test(thousands_are_told_apart),
    };
    return cmocka_run_group_tests_name("plot_scale", tests, NULL, NULL);
}
