/* PTX's single and double precision, against exact numbers. */
#include "arithmetic.h"
#include "test_ptx_reference.h"

#include <math.h>

enum { ROUNDS = 100000 };

static bool finite_number(uint64_t a, struct reference_format format) {
    return !reference_nan(a, format) && !reference_infinite(a, format);
}

static void test_float_sums_and_products_are_rounded_once_in_each_direction(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_number(float_format), b = (uint32_t)next_number(float_format);
        enum ptx_rounding rounding = roundings[i % 4];
        wide x, y;

        if (i % 16 == 5)
            b = a ^ 0x80000000;
        if (!finite_number(a, float_format) || !finite_number(b, float_format))
            continue;
        x = reference_value(a, float_format);
        y = reference_value(b, float_format);
        if (exact_sum(x, y))
            assert_bits(ptx_add_f32(a, b, rounding, false, false),
                        reference_sum(x, a >> 31, y, b >> 31, float_format, rounding), "add", a, b,
                        0, rounding);
        if (exact_sum(x, -y))
            assert_bits(ptx_sub_f32(a, b, rounding, false, false),
                        reference_sum(x, a >> 31, -y, !(b >> 31), float_format, rounding), "sub", a,
                        b, 0, rounding);
        assert_bits(ptx_mul_f32(a, b, rounding, false, false),
                    reference_encode(x * y, (a ^ b) >> 31, float_format, rounding), "mul", a, b, 0,
                    rounding);
    }
}

static void test_a_fused_float_product_and_sum_is_rounded_once(void **state) {
    int tried = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_number(float_format), b = (uint32_t)next_number(float_format);
        uint32_t c = (uint32_t)next_number(float_format);
        enum ptx_rounding rounding = roundings[i % 4];
        wide product = reference_value(a, float_format) * reference_value(b, float_format);

        if (i % 4 == 1) /* near the product, so that they cancel */
            c = (uint32_t)reference_encode(-product, true, float_format, PTX_RN) + i % 3;
        if (!finite_number(a, float_format) || !finite_number(b, float_format) ||
            !finite_number(c, float_format) ||
            !exact_sum(product, reference_value(c, float_format)))
            continue;
        tried++;
        assert_bits(ptx_fma_f32(a, b, c, rounding, false, false),
                    reference_sum(product, (a ^ b) >> 31, reference_value(c, float_format), c >> 31,
                                  float_format, rounding),
                    "fma", a, b, c, rounding);
    }
    assert_true(tried > ROUNDS / 4);
}

static void test_float_quotients_and_roots_are_rounded_once(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_number(float_format), b = (uint32_t)next_number(float_format);
        enum ptx_rounding rounding = roundings[i / 2 % 4];
        wide x = reference_value(a, float_format), y = reference_value(b, float_format);

        if (!finite_number(a, float_format) || !finite_number(b, float_format) || y == 0)
            continue;
        assert_bits(ptx_div_f32(a, b, rounding, false),
                    reference_encode(x / y, (a ^ b) >> 31, float_format, rounding), "div", a, b, 0,
                    rounding);
        assert_bits(ptx_rcp_f32(b, rounding, false),
                    reference_encode(1 / y, b >> 31, float_format, rounding), "rcp", b, 0, 0,
                    rounding);
        if (x > 0) { /* the root's neighbours are on the right sides of it */
            uint32_t root = ptx_sqrt_f32(a, rounding, false);
            wide at = reference_value(root, float_format);
            wide above = reference_value(root + 1, float_format);
            wide below = reference_value(root - 1, float_format);

            if (rounding == PTX_RP)
                assert_true(below * below < x && x <= at * at);
            else if (rounding == PTX_RN)
                assert_true((below + at) * (below + at) < 4 * x &&
                            4 * x < (above + at) * (above + at));
            else
                assert_true(at * at <= x && x < above * above);
        }
    }
}

static void test_double_operations_are_rounded_once_in_each_direction(void **state) {
    int tried = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = next_number(double_format), b = next_number(double_format), c;
        enum ptx_rounding rounding = roundings[i / 4 % 4];
        wide x, y;

        /* Mostly of like size, so that 113 bits hold their sums. */
        if (i % 4)
            b = (b & UINT64_C(0x800fffffffffffff)) | ((a >> 52 & 0x7ff) - (a >> 52 & 0x7ff ? 1 : 0))
                                                         << 52;
        c = (b & UINT64_C(0x800fffffffffffff)) | UINT64_C(0x3fe) << 52;
        if (!finite_number(a, double_format) || !finite_number(b, double_format))
            continue;
        x = reference_value(a, double_format);
        y = reference_value(b, double_format);
        if (exact_sum(x, y) && exact_sum(x, -y)) {
            tried++;
            assert_bits(ptx_add_f64(a, b, rounding),
                        reference_sum(x, a >> 63, y, b >> 63, double_format, rounding), "add", a, b,
                        0, rounding);
            assert_bits(ptx_sub_f64(a, b, rounding),
                        reference_sum(x, a >> 63, -y, !(b >> 63), double_format, rounding), "sub",
                        a, b, 0, rounding);
        }
        assert_bits(ptx_mul_f64(a, b, rounding),
                    reference_encode(x * y, (a ^ b) >> 63, double_format, rounding), "mul", a, b, 0,
                    rounding);
        if (exact_sum(x * reference_value(c, double_format), y))
            assert_bits(ptx_fma_f64(a, c, b, rounding),
                        reference_sum(x * reference_value(c, double_format), (a ^ c) >> 63, y,
                                      b >> 63, double_format, rounding),
                        "fma", a, c, b, rounding);
        if (y != 0)
            assert_bits(ptx_div_f64(a, b, rounding),
                        reference_encode(x / y, (a ^ b) >> 63, double_format, rounding), "div", a,
                        b, 0, rounding);
        if (x > 0) {
            uint64_t root = ptx_sqrt_f64(a, rounding);
            wide at = reference_value(root, double_format);
            wide above = reference_value(root + 1, double_format);
            wide below = reference_value(root - 1, double_format);

            if (rounding == PTX_RP)
                assert_true(below * below < x && x <= at * at);
            else if (rounding == PTX_RN)
                assert_true((below + at) * (below + at) <= 4 * x &&
                            4 * x <= (above + at) * (above + at));
            else
                assert_true(at * at <= x && x < above * above);
        }
    }
    assert_true(tried > ROUNDS / 4);
}

static void test_the_hosts_rounding_is_what_it_was(void **state) {
    volatile double third = 3;

    (void)state;
    ptx_div_f64(ptx_double_bits(1), ptx_double_bits(3), PTX_RP);
    assert_bits(ptx_double_bits(1 / third), UINT64_C(0x3fd5555555555555), "1 / 3", 0, 0, 0, 0);
}

static void test_a_computed_nan_is_the_canonical_one(void **state) {
    const uint32_t infinity = 0x7f800000, nan = 0xff812345;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ptx_add_f32(infinity, infinity ^ 0x80000000, roundings[i], false, false),
                         0x7fffffff);
        assert_int_equal(ptx_mul_f32(infinity, 0, roundings[i], false, false), 0x7fffffff);
        assert_int_equal(ptx_fma_f32(1, nan, 1, roundings[i], false, false), 0x7fffffff);
        assert_int_equal(ptx_div_f32(0, 0x80000000, roundings[i], false), 0x7fffffff);
        assert_int_equal(ptx_sqrt_f32(0xbf800000, roundings[i], false), 0x7fffffff);
        assert_true(ptx_mul_f64(PTX_INF_F64, 0, roundings[i]) == UINT64_C(0xfff8000000000000));
        assert_true(ptx_add_f64(UINT64_C(0x7ff0000000001234), 0, roundings[i]) ==
                    UINT64_C(0x7ff8000000001234));
        assert_true(ptx_fma_f64(0, 1, UINT64_C(0xfff8000000001234), roundings[i]) ==
                    UINT64_C(0xfff8000000001234));
    }
}

static void test_ftz_flushes_operands_and_results_and_keeps_signs(void **state) {
    const uint32_t subnormal = 0x807fffff, least = 0x00800000;

    (void)state;
    assert_int_equal(ptx_add_f32(subnormal, subnormal, PTX_RN, true, false), 0x80000000);
    assert_int_equal(ptx_add_f32(subnormal, subnormal, PTX_RN, false, false), 0x80fffffe);
    assert_int_equal(ptx_mul_f32(least, 0xbf000000, PTX_RN, true, false), 0x80000000);
    assert_int_equal(ptx_mul_f32(least, 0xbf000000, PTX_RN, false, false), 0x80400000);
    assert_int_equal(ptx_sqrt_f32(subnormal, PTX_RN, true), 0x80000000);
    assert_int_equal(ptx_abs_f32(subnormal, true), 0);
    assert_int_equal(ptx_neg_f32(subnormal, false), 0x007fffff);
    assert_true(ptx_compare_f32(PTX_EQ, subnormal, 0, true));
    assert_false(ptx_compare_f32(PTX_EQ, subnormal, 0, false));
}

static void test_saturation_is_to_0_and_1_and_of_a_nan_0(void **state) {
    (void)state;
    assert_int_equal(ptx_add_f32(0x40000000, 0, PTX_RN, false, true), 0x3f800000);
    assert_int_equal(ptx_add_f32(0x3e800000, 0, PTX_RN, false, true), 0x3e800000);
    assert_int_equal(ptx_add_f32(0xbe800000, 0, PTX_RN, false, true), 0);
    assert_int_equal(ptx_add_f32(0x7fc00000, 0, PTX_RN, false, true), 0);
    assert_int_equal(ptx_mul_f32(0x80000000, 0x3f800000, PTX_RN, false, true), 0);
}

static void test_extremes_order_zeros_and_pass_over_a_nan(void **state) {
    const uint32_t nan = 0x7fc00001, one = 0x3f800000, minus = 0x80000000;
    struct ptx_extreme plain = {0}, nans = {.nan = true}, signs = {.xorsign_abs = true};

    (void)state;
    assert_int_equal(ptx_min_f32(0, minus, plain), minus);
    assert_int_equal(ptx_min_f32(minus, 0, plain), minus);
    assert_int_equal(ptx_max_f32(0, minus, plain), 0);
    assert_int_equal(ptx_max_f32(minus, 0, plain), 0);
    assert_int_equal(ptx_min_f32(nan, one, plain), one);
    assert_int_equal(ptx_max_f32(one, nan, plain), one);
    assert_int_equal(ptx_max_f32(nan, nan, plain), 0x7fffffff);
    assert_int_equal(ptx_min_f32(nan, one, nans), 0x7fffffff);
    assert_int_equal(ptx_min_f32(one | minus, 0x40000000, signs), one | minus);
    assert_int_equal(ptx_max_f32(one | minus, 0xc0000000, signs), 0x40000000);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_number(float_format), b = (uint32_t)next_number(float_format);
        uint64_t c = next_number(double_format), d = next_number(double_format);

        if (!reference_nan(a, float_format) && !reference_nan(b, float_format)) {
            bool less = reference_value(a, float_format) < reference_value(b, float_format);

            if (reference_value(a, float_format) != reference_value(b, float_format)) {
                assert_int_equal(ptx_min_f32(a, b, plain), less ? a : b);
                assert_int_equal(ptx_max_f32(a, b, plain), less ? b : a);
            }
        }
        if (!reference_nan(c, double_format) && !reference_nan(d, double_format) &&
            reference_value(c, double_format) != reference_value(d, double_format)) {
            bool less = reference_value(c, double_format) < reference_value(d, double_format);

            assert_true(ptx_min_f64(c, d) == (less ? c : d));
            assert_true(ptx_max_f64(c, d) == (less ? d : c));
        }
    }
}

/* The ISA's table: the six ordered ones, of which no NaN holds, and what holds for a NaN. */
static void test_comparisons_know_nans(void **state) {
    const uint32_t nan = 0x7fc00000, values[] = {0xbf800000, 0x80000000, 0, 0x3f800000};

    (void)state;
    for (int compare = PTX_EQ; compare <= PTX_NAN; compare++) {
        bool unordered = compare >= PTX_EQU && compare != PTX_NUM;

        assert_int_equal(ptx_compare_f32(compare, nan, 0, false), unordered);
        assert_int_equal(ptx_compare_f32(compare, 0, nan, false), unordered);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                int x = (int)reference_value(values[i], float_format);
                int y = (int)reference_value(values[j], float_format);
                int which = compare < PTX_EQU ? compare : compare - PTX_EQU;
                bool results[] = {x == y, x != y, x<y, x <= y, x> y, x >= y, true, true};
                bool expected = compare == PTX_NUM   ? true
                                : compare == PTX_NAN ? false
                                                     : results[which];

                assert_int_equal(ptx_compare_f32(compare, values[i], values[j], false), expected);
            }
    }
}

static void test_testp_tells_kinds_apart(void **state) {
    const uint32_t values[] = {0, 0x80000001, 0x00800000, 0x7f7fffff, 0xff800000, 0x7f800001};
    const bool expected[6][6] = {
        [PTX_TESTP_FINITE] = {1, 1, 1, 1, 0, 0}, [PTX_TESTP_INFINITE] = {0, 0, 0, 0, 1, 0},
        [PTX_TESTP_NUMBER] = {1, 1, 1, 1, 1, 0}, [PTX_TESTP_NOTANUMBER] = {0, 0, 0, 0, 0, 1},
        [PTX_TESTP_NORMAL] = {1, 0, 1, 1, 0, 0}, [PTX_TESTP_SUBNORMAL] = {0, 1, 0, 0, 0, 0},
    };

    (void)state;
    for (int test = 0; test < 6; test++)
        for (int i = 0; i < 6; i++) {
            uint64_t wider = i == 1 ? PTX_SIGN_F64 | 1 : ptx_f64_from_f32(values[i], false, false);

            assert_int_equal(ptx_testp_f32(test, values[i]), expected[test][i]);
            assert_int_equal(ptx_testp_f64(test, wider), expected[test][i]);
        }
}

static double ulp(float value) {
    return nextafterf(fabsf(value), INFINITY) - (double)fabsf(value);
}

/* The bounds are the ISA's, in units of the last place or absolute. */
static void test_approximations_are_within_the_bounds_of_the_isa(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_number(float_format), b = (uint32_t)next_number(float_format);
        float x = ptx_float(a), y = ptx_float(b), got;
        float angle = (float)(next_bits() % 2000000) / 1e6f * 3.1f - 3.1f;

        if (isnan(x) || isinf(x) || isnan(y) || isinf(y) || x == 0 || y == 0)
            continue;
        got = ptx_float(ptx_ex2_approx_f32(ptx_float_bits(angle), false));
        assert_true(fabs(got - exp2((double)angle)) <= 2 * ulp(got));
        got = ptx_float(ptx_sin_approx_f32(ptx_float_bits(angle), false));
        assert_true(fabs(got - sin((double)angle)) <= 0x1p-20);
        got = ptx_float(ptx_cos_approx_f32(ptx_float_bits(angle), false));
        assert_true(fabs(got - cos((double)angle)) <= 0x1p-20);
        got = ptx_float(ptx_tanh_approx_f32(ptx_float_bits(angle)));
        assert_true(fabs(got - tanh((double)angle)) <= 0x1p-11 * fabs(tanh((double)angle)));
        got = ptx_float(ptx_rcp_approx_f32(a, false));
        if (isfinite(got))
            assert_true(fabs(got - 1 / (double)x) <= ulp(got));
        if (x > 0) {
            got = ptx_float(ptx_rsqrt_approx_f32(a, false));
            assert_true(fabs(got * sqrt((double)x) - 1) <= 0x1p-22);
            got = ptx_float(ptx_lg2_approx_f32(a, false));
            assert_true(fabs(got - log2((double)x)) <= 0x1p-22 * fmax(1, fabs(log2((double)x))));
            got = ptx_float(ptx_sqrt_approx_f32(a, false));
            assert_true(fabs(got - sqrt((double)x)) <= 0x1p-23 * sqrt((double)x));
        }
        got = ptx_float(ptx_div_full_f32(a, b, false));
        if (isfinite(got))
            assert_true(fabs(got - (double)x / y) <= 2 * ulp(got));
        if (fabsf(y) > 0x1p126f)
            assert_int_equal(ptx_div_approx_f32(a, b, false), (a ^ b) & 0x80000000);
    }
}

static void test_approximations_of_special_values_are_the_tables_of_the_isa(void **state) {
    const uint32_t infinity = 0x7f800000, minus = 0x80000000, nan = 0x7fffffff, one = 0x3f800000;

    (void)state;
    assert_int_equal(ptx_rcp_approx_f32(minus, false), infinity | minus);
    assert_int_equal(ptx_rcp_approx_f32(infinity | minus, false), minus);
    assert_int_equal(ptx_rsqrt_approx_f32(minus, false), infinity | minus);
    assert_int_equal(ptx_rsqrt_approx_f32(one | minus, false), nan);
    assert_int_equal(ptx_rsqrt_approx_f32(1, true), infinity);
    assert_int_equal(ptx_sqrt_approx_f32(minus, false), minus);
    assert_int_equal(ptx_sin_approx_f32(infinity, false), nan);
    assert_int_equal(ptx_sin_approx_f32(minus, false), minus);
    assert_int_equal(ptx_cos_approx_f32(minus, false), one);
    assert_int_equal(ptx_lg2_approx_f32(0, false), infinity | minus);
    assert_int_equal(ptx_lg2_approx_f32(one | minus, false), nan);
    assert_int_equal(ptx_ex2_approx_f32(infinity | minus, false), 0);
    assert_int_equal(ptx_tanh_approx_f32(infinity | minus), one | minus);
    assert_int_equal(ptx_div_approx_f32(infinity, 0x7f000000, false), nan);
    assert_true(ptx_rcp_approx_ftz_f64(1) == PTX_INF_F64);
    assert_true(ptx_rcp_approx_ftz_f64(PTX_INF_F64 | 1) == UINT64_C(0x7fffffff00000000));
    assert_true(ptx_rcp_approx_ftz_f64(UINT64_C(0x4000000012345678)) ==
                UINT64_C(0x3fe0000000000000));
    assert_true(ptx_rsqrt_approx_ftz_f64(PTX_SIGN_F64 | 1) == (PTX_INF_F64 | PTX_SIGN_F64));
    assert_true(ptx_rsqrt_approx_ftz_f64(PTX_INF_F64) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_sums_and_products_are_rounded_once_in_each_direction),
        cmocka_unit_test(test_a_fused_float_product_and_sum_is_rounded_once),
        cmocka_unit_test(test_float_quotients_and_roots_are_rounded_once),
        cmocka_unit_test(test_double_operations_are_rounded_once_in_each_direction),
        cmocka_unit_test(test_the_hosts_rounding_is_what_it_was),
        cmocka_unit_test(test_a_computed_nan_is_the_canonical_one),
        cmocka_unit_test(test_ftz_flushes_operands_and_results_and_keeps_signs),
        cmocka_unit_test(test_saturation_is_to_0_and_1_and_of_a_nan_0),
        cmocka_unit_test(test_extremes_order_zeros_and_pass_over_a_nan),
        cmocka_unit_test(test_comparisons_know_nans),
        cmocka_unit_test(test_testp_tells_kinds_apart),
        cmocka_unit_test(test_approximations_are_within_the_bounds_of_the_isa),
        cmocka_unit_test(test_approximations_of_special_values_are_the_tables_of_the_isa),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
