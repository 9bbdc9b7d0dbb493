/* PTX's 16-bit formats and its conversions, against exact numbers. */
#include "arithmetic.h"
#include "test_ptx_reference.h"

#include <math.h>

enum { ROUNDS = 60000 };

static const struct reference_format e4m3_format = {3, 4, -6}, e5m2_format = {2, 5, -14};
static const struct ptx_half_form plain = {0};

/* As ptx_add_f16 and so on. */
struct operations {
    const char *name;
    struct reference_format format;
    uint16_t (*add)(uint16_t, uint16_t, struct ptx_half_form);
    uint16_t (*sub)(uint16_t, uint16_t, struct ptx_half_form);
    uint16_t (*mul)(uint16_t, uint16_t, struct ptx_half_form);
    uint16_t (*fma)(uint16_t, uint16_t, uint16_t, struct ptx_half_form);
};

static const struct operations both_formats[] = {
    {"f16", {10, 5, -14}, ptx_add_f16, ptx_sub_f16, ptx_mul_f16, ptx_fma_f16},
    {"bf16", {7, 8, -126}, ptx_add_bf16, ptx_sub_bf16, ptx_mul_bf16, ptx_fma_bf16},
};

static bool finite_number(uint64_t a, struct reference_format format) {
    return !reference_nan(a, format) && !reference_infinite(a, format);
}

static void check_operations(const struct operations *on, uint16_t a, uint16_t b, uint16_t c) {
    wide x = reference_value(a, on->format), y = reference_value(b, on->format);
    wide z = reference_value(c, on->format), product = x * y;

    if (exact_sum(x, y))
        assert_bits(on->add(a, b, plain), reference_sum(x, a >> 15, y, b >> 15, on->format, PTX_RN),
                    on->name, a, b, 0, 0);
    if (exact_sum(x, -y))
        assert_bits(on->sub(a, b, plain),
                    reference_sum(x, a >> 15, -y, !(b >> 15), on->format, PTX_RN), on->name, a, b,
                    0, 1);
    assert_bits(on->mul(a, b, plain), reference_encode(product, (a ^ b) >> 15, on->format, PTX_RN),
                on->name, a, b, 0, 2);
    if (exact_sum(product, z))
        assert_bits(on->fma(a, b, c, plain),
                    reference_sum(product, (a ^ b) >> 15, z, c >> 15, on->format, PTX_RN), on->name,
                    a, b, c, 3);
}

static void test_operations_are_rounded_once(void **state) {
    (void)state;
    for (size_t format = 0; format < 2; format++)
        for (int i = 0; i < ROUNDS; i++) {
            const struct operations *on = &both_formats[format];
            uint16_t a = (uint16_t)next_number(on->format), b = (uint16_t)next_number(on->format);
            uint16_t c = (uint16_t)next_number(on->format);

            if (i % 4 == 1) /* near the product */
                c = (uint16_t)(reference_encode(-reference_value(a, on->format) *
                                                    reference_value(b, on->format),
                                                true, on->format, PTX_RN) +
                               (uint64_t)(i % 3));
            if (finite_number(a, on->format) && finite_number(b, on->format) &&
                finite_number(c, on->format))
                check_operations(on, a, b, c);
        }
}

/* The product is the middle of two numbers, and what is added to it far below any double. */
static void test_a_fused_sum_sees_the_smallest_part(void **state) {
    const uint16_t middle_a = 0x3f81, middle_b = 0x3fc0; /* 1.0078125 * 1.5 = 1.51171875 */

    (void)state;
    assert_int_equal(ptx_fma_bf16(middle_a, middle_b, 0, plain), 0x3fc2);
    assert_int_equal(ptx_fma_bf16(middle_a, middle_b, 0x0001, plain), 0x3fc2);
    assert_int_equal(ptx_fma_bf16(middle_a, middle_b, 0x8001, plain), 0x3fc1);
}

static void test_every_half_is_the_float_of_its_value_and_back(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t half = (uint16_t)bits;
        struct ptx_narrow_form form = {.rounding = PTX_RN};

        if (reference_nan(half, half_format))
            assert_int_equal(ptx_f32_from_f16(half, false, false), 0x7fffffff);
        else {
            assert_bits(ptx_f32_from_f16(half, false, false),
                        reference_encode(reference_value(half, half_format), half >> 15,
                                         float_format, PTX_RN),
                        "f32.f16", half, 0, 0, 0);
            assert_int_equal(ptx_f16_from_f32(ptx_f32_from_f16(half, false, false), form), half);
        }
        if (reference_nan(half, bfloat_format)) {
            assert_int_equal(ptx_f32_from_bf16(half, false, false), 0x7fffffff);
        } else {
            assert_int_equal(ptx_f32_from_bf16(half, false, false), bits << 16);
            assert_int_equal(ptx_bf16_from_f32(bits << 16, form), half);
        }
    }
}

static void check_narrowing(uint64_t a, uint64_t got, struct reference_format from,
                            struct reference_format to, enum ptx_rounding rounding,
                            const char *name) {
    uint64_t nan = to.fraction == 23 ? 0x7fffffff : 0x7fff;

    assert_bits(got,
                reference_nan(a, from)
                    ? nan
                    : reference_encode(reference_value(a, from),
                                       a >> (from.fraction + from.exponents) & 1, to, rounding),
                name, a, 0, 0, rounding);
}

static void test_narrowing_rounds_once_in_each_direction(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct ptx_narrow_form form = {.rounding = roundings[i % 4]};
        uint32_t a = (uint32_t)next_number(float_format);
        uint64_t b = next_number(double_format);

        if (i % 3 == 1) { /* where halves are, and near the middle of two */
            a = (a & 0x80000000) | ((uint32_t)(100 + next_bits() % 45) << 23) |
                ((uint32_t)next_bits() & 0x7fe000) | ((uint32_t)(next_bits() % 3 + 0xfff) & 0x1fff);
            b = ptx_f64_from_f32(a, false, false) + next_bits() % 3 - 1;
        }
        check_narrowing(a, ptx_f16_from_f32(a, form), float_format, half_format, form.rounding,
                        "f16.f32");
        check_narrowing(a, ptx_bf16_from_f32(a, form), float_format, bfloat_format, form.rounding,
                        "bf16.f32");
        check_narrowing(b, ptx_f16_from_f64(b, form), double_format, half_format, form.rounding,
                        "f16.f64");
        check_narrowing(b, ptx_bf16_from_f64(b, form), double_format, bfloat_format, form.rounding,
                        "bf16.f64");
        check_narrowing(b, ptx_f32_from_f64(b, form.rounding, false, false), double_format,
                        float_format, form.rounding, "f32.f64");
        check_narrowing((uint16_t)a, ptx_bf16_from_f16((uint16_t)a, form), half_format,
                        bfloat_format, form.rounding, "bf16.f16");
        check_narrowing((uint16_t)a, ptx_f16_from_bf16((uint16_t)a, form), bfloat_format,
                        half_format, form.rounding, "f16.bf16");
    }
}

static void test_tf32_is_a_float_of_fewer_bits(void **state) {
    const struct reference_format tf32_format = {10, 8, -126};
    const enum ptx_rounding ways[] = {PTX_RNA, PTX_RN, PTX_RZ};

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct ptx_narrow_form form = {.rounding = ways[i % 3]};
        uint32_t a = (uint32_t)next_number(float_format);

        if (i % 2)
            a = (a & 0xffffe000) | 0x1000;
        if (reference_nan(a, float_format))
            assert_int_equal(ptx_tf32_from_f32(a, form), 0x7fffffff);
        else
            assert_bits(ptx_tf32_from_f32(a, form),
                        reference_encode(reference_value(a, float_format), a >> 31, tf32_format,
                                         form.rounding)
                            << 13,
                        "tf32", a, 0, 0, form.rounding);
    }
}

/* e4m3 has no infinity, so the reference's numbers with the largest exponent are not its: all bytes
 * are held against a table made here. */
static double byte_value(uint8_t byte, struct reference_format format) {
    int exponent = byte >> format.fraction & ((1 << format.exponents) - 1);
    int fraction = byte & ((1 << format.fraction) - 1);
    double value = ldexp(exponent ? fraction | 1 << format.fraction : fraction,
                         format.least - format.fraction + (exponent ? exponent - 1 : 0));

    return byte & 0x80 ? -value : value;
}

static void check_bytes(struct ptx_format format, struct reference_format reference, uint8_t most,
                        uint8_t infinity) {
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_number(float_format);
        uint8_t got, other;
        double value, distance;

        if (i % 4)
            a = (a & 0x80ffffff) | (0x37000000 + (uint32_t)(next_bits() % 17 << 23));
        got = (uint8_t)(ptx_f8x2_from_f32(a, 0, format, false) >> 8);
        if (reference_nan(a, float_format)) {
            assert_int_equal(got, 0x7f);
            continue;
        }
        value = ptx_float(a);
        assert_int_equal(got >> 7, a >> 31);
        assert_true((got & 0x7f) <= most);
        if (fabs(value) >= byte_value(most, reference)) {
            assert_int_equal(got & 0x7f, most);
            continue;
        }
        distance = fabs(value - byte_value(got, reference));
        for (int step = -1; step <= 1; step += 2) {
            other = (uint8_t)(got + step);
            if ((other ^ got) & 0x80 || (other & 0x7f) > most)
                continue;
            assert_true(distance <= fabs(value - byte_value(other, reference)));
            if (distance == fabs(value - byte_value(other, reference)))
                assert_int_equal(got & 1, 0);
        }
    }
    for (uint32_t byte = 0; byte < 0x100; byte++) {
        uint16_t half = (uint16_t)ptx_f16x2_from_f8x2((uint16_t)(byte | 0x0100), format, false);

        if ((byte & 0x7f) <= most)
            assert_true(ptx_half(half) == byte_value((uint8_t)byte, reference));
        else
            assert_int_equal(half,
                             (byte & 0x7f) == infinity ? (byte & 0x80) << 8 | 0x7c00 : 0x7fff);
    }
}

static void test_bytes_are_the_nearest_and_never_infinite(void **state) {
    (void)state;
    check_bytes(PTX_FORMAT_E4M3, e4m3_format, 0x7e, 0xff);
    check_bytes(PTX_FORMAT_E5M2, e5m2_format, 0x7b, 0x7c);
}

static void test_modifiers_of_halves(void **state) {
    const struct ptx_half_form sat = {.sat = true}, relu = {.relu = true}, ftz = {.ftz = true};
    const struct ptx_narrow_form finite = {.rounding = PTX_RN, .satfinite = true};
    const struct ptx_narrow_form no_negative = {.rounding = PTX_RN, .relu = true};

    (void)state;
    assert_int_equal(ptx_add_f16(0x4000, 0, sat), 0x3c00);
    assert_int_equal(ptx_add_f16(0xc000, 0, sat), 0);
    assert_int_equal(ptx_add_f16(0x7e00, 0, sat), 0);
    assert_int_equal(ptx_fma_f16(0x3c00, 0xbc00, 0, relu), 0);
    assert_int_equal(ptx_fma_bf16(0x3f80, 0xbf80, 0, relu), 0);
    assert_int_equal(ptx_fma_f16(0x7c00, 0, 0, relu), 0x7fff);
    assert_int_equal(ptx_add_f16(0x83ff, 0, ftz), 0);
    assert_int_equal(ptx_mul_f16(0x83ff, 0x3c00, ftz), 0x8000);
    assert_int_equal(ptx_mul_f16(0x0400, 0xb800, ftz), 0x8000);
    assert_int_equal(ptx_mul_f16(0x0400, 0xb800, plain), 0x8200);
    assert_int_equal(ptx_fma_f16x2(0x40003c00, 0x42004200, 0x3c003c00, plain), 0x47004400);
    assert_int_equal(ptx_add_bf16x2(0x3f804000, 0x3f804000, plain), 0x40004080);
    assert_int_equal(ptx_neg_f16x2(0x3c00bc00, false), 0xbc003c00);
    assert_int_equal(ptx_abs_bf16(0xbf80, false), 0x3f80);
    assert_int_equal(ptx_f16_from_f32(0x477fefff, no_negative), 0x7bff); /* below 65520 */
    assert_int_equal(ptx_f16_from_f32(0x477ff000, no_negative), 0x7c00);
    assert_int_equal(ptx_f16_from_f32(0x7f800000, finite), 0x7bff);
    assert_int_equal(ptx_f16_from_f32(0xff7fffff, finite), 0xfbff);
    assert_int_equal(ptx_bf16_from_f32(0x7fc00000, finite), 0x7fff);
    assert_int_equal(ptx_f16_from_f32(0xbf800000, no_negative), 0);
    assert_int_equal(ptx_f16x2_from_f32(0x3f800000, 0x40000000, no_negative), 0x3c004000);
    assert_int_equal(ptx_min_f16(0x0000, 0x8000, (struct ptx_extreme){0}), 0x8000);
    assert_int_equal(ptx_max_bf16(0x7fc0, 0x3f80, (struct ptx_extreme){0}), 0x3f80);
    assert_int_equal(ptx_max_bf16(0x7fc0, 0x3f80, (struct ptx_extreme){.nan = true}), 0x7fff);
    assert_true(ptx_compare_f16(PTX_LT, 0x8001, 0, false));
    assert_false(ptx_compare_f16(PTX_LT, 0x8001, 0, true));
}

/* The ISA's bounds: 2^-9.9 and 2^-7 relative for ex2, 2^-10.987 and 2^-8 absolute for tanh. */
static void test_approximations_of_every_half_are_within_the_bounds(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t a = (uint16_t)bits;
        double x = ptx_half(a), y = ptx_bfloat(a), got;

        if (finite_number(a, half_format)) {
            got = ptx_half(ptx_ex2_approx_f16(a));
            if (x > -14 && x < 15.99)
                assert_true(fabs(got - exp2(x)) <= exp2(x) * 0x1p-10);
            assert_true(fabs(ptx_half(ptx_tanh_approx_f16(a)) - tanh(x)) <= 0x1p-11);
        }
        if (finite_number(a, bfloat_format)) {
            got = ptx_bfloat(ptx_ex2_approx_ftz_bf16(a));
            if (y > -126 && y < 127.9)
                assert_true(fabs(got - exp2(y)) <= exp2(y) * 0x1p-8);
            assert_true(fabs(ptx_bfloat(ptx_tanh_approx_bf16(a)) - tanh(y)) <= 0x1p-8);
        }
    }
    assert_int_equal(ptx_ex2_approx_f16x2(0xfc007c00), 0x7c00);
    assert_int_equal(ptx_tanh_approx_f16x2(0xfc007c00), 0xbc003c00);
}

static void check_to_integer(double value, struct ptx_integer to, enum ptx_rounding rounding,
                             uint64_t got) {
    wide exact = value, low = to.is_signed ? -power(to.width - 1) : 0;
    wide high = power(to.is_signed ? to.width - 1 : to.width) - 1, whole;
    uint64_t expected;

    if (exact > power(70))
        exact = power(70);
    if (exact < -power(70))
        exact = -power(70);
    whole = (wide)(ptx_s128)exact;
    if (rounding == PTX_RM && whole > exact)
        whole -= 1;
    else if (rounding == PTX_RP && whole < exact)
        whole += 1;
    else if (rounding == PTX_RN) {
        wide rest = exact - whole, by = rest < 0 ? -1 : 1;

        if (rest * by * 2 > 1 || (rest * by * 2 == 1 && ((ptx_s128)whole & 1)))
            whole += by;
    }
    whole = whole < low ? low : whole > high ? high : whole;
    expected = (uint64_t)(ptx_s128)whole;
    assert_bits(got, expected, "to an integer", ptx_double_bits(value), to.width, to.is_signed,
                rounding);
}

static const struct ptx_integer integers[] = {{8, false},  {8, true},  {16, false}, {16, true},
                                              {32, false}, {32, true}, {64, false}, {64, true}};

static void test_floats_become_integers_within_their_range(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct ptx_integer to = integers[next_bits() % 8];
        enum ptx_rounding rounding = roundings[i % 4];
        uint64_t a = next_number(double_format);
        uint32_t b = (uint32_t)next_number(float_format);
        uint16_t c = (uint16_t)next_number(half_format);

        if (i % 3) {
            a = (a & UINT64_C(0x800fffffffffffff)) | (1020 + next_bits() % 70) << 52;
            b = (b & 0x807fffff) | (uint32_t)(124 + next_bits() % 70) << 23;
            if (i % 3 == 2) {
                a &= ~UINT64_C(0) << (next_bits() % 52);
                b &= ~UINT32_C(0) << (next_bits() % 23);
            }
        }
        if (finite_number(a, double_format))
            check_to_integer(ptx_double(a), to, rounding, ptx_int_from_f64(a, rounding, to));
        if (finite_number(b, float_format))
            check_to_integer(ptx_float(b), to, rounding, ptx_int_from_f32(b, rounding, to, false));
        if (finite_number(c, half_format))
            check_to_integer(ptx_half(c), to, rounding, ptx_int_from_f16(c, rounding, to));
        if (finite_number(c, bfloat_format))
            check_to_integer(ptx_bfloat(c), to, rounding, ptx_int_from_bf16(c, rounding, to));
    }
}

/* PTX ISA, cvt: zero but for .f64 and 64-bit integers, else the highest bit. */
static void test_a_nan_becomes_the_integer_that_the_isa_names(void **state) {
    const struct ptx_integer s32 = {32, true}, u32 = {32, false}, s64 = {64, true}, u8 = {8, false};
    const uint64_t nan = UINT64_C(0x7ff8000000000000);

    (void)state;
    assert_true(ptx_int_from_f32(0x7fc00000, PTX_RZ, s32, false) == 0);
    assert_true(ptx_int_from_f32(0x7fc00000, PTX_RN, s64, false) == UINT64_C(1) << 63);
    assert_true(ptx_int_from_f64(nan, PTX_RZ, s32) == UINT64_C(0xffffffff80000000));
    assert_true(ptx_int_from_f64(nan, PTX_RZ, u32) == UINT64_C(0x80000000));
    assert_true(ptx_int_from_f64(nan, PTX_RZ, u8) == 0x80);
    assert_true(ptx_int_from_f16(0x7e00, PTX_RZ, s64) == UINT64_C(1) << 63);
    assert_true(ptx_int_from_bf16(0x7fc0, PTX_RZ, u32) == 0);
    assert_true(ptx_int_from_f32(1, PTX_RP, s32, true) == 0);
    assert_true(ptx_int_from_f32(1, PTX_RP, s32, false) == 1);
}

static void test_integers_become_floats_rounded_once(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct ptx_integer from = integers[next_bits() % 8];
        enum ptx_rounding rounding = roundings[i % 4];
        uint64_t a = next_bits() >> (next_bits() % 64);
        wide value;

        if (i % 5 == 0)
            a = (UINT64_C(1) << (next_bits() % 64)) + next_bits() % 3 - 1;
        value = from.is_signed ? (wide)ptx_extend(a, from.width) : (wide)(a & ptx_ones(from.width));
        assert_bits(ptx_f64_from_int(a, from, rounding, false),
                    reference_encode(value, false, double_format, rounding), "f64", a, from.width,
                    from.is_signed, rounding);
        assert_bits(ptx_f32_from_int(a, from, rounding, false),
                    reference_encode(value, false, float_format, rounding), "f32", a, from.width,
                    from.is_signed, rounding);
        assert_bits(ptx_f16_from_int(a, from, rounding, false),
                    reference_encode(value, false, half_format, rounding), "f16", a, from.width,
                    from.is_signed, rounding);
        assert_bits(ptx_bf16_from_int(a, from, rounding),
                    reference_encode(value, false, bfloat_format, rounding), "bf16", a, from.width,
                    from.is_signed, rounding);
    }
}

static void test_integers_become_integers(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct ptx_integer from = integers[next_bits() % 8], to = integers[next_bits() % 8];
        uint64_t a = next_bits() >> (next_bits() % 64);
        ptx_s128 value = from.is_signed ? (ptx_s128)ptx_extend(a, from.width)
                                        : (ptx_s128)(a & ptx_ones(from.width));
        ptx_s128 most = (ptx_s128)ptx_ones(to.is_signed ? to.width - 1 : to.width);
        ptx_s128 least = to.is_signed ? -most - 1 : 0;
        ptx_s128 near = value < least ? least : value > most ? most : value;
        ptx_s128 cut = value & (ptx_s128)ptx_ones(to.width);

        // NOLINTNEXTLINE(clang-analyzer-core.*): no width is 0
        if (to.is_signed && cut >> (to.width - 1) & 1)
            cut -= (ptx_s128)ptx_ones(to.width) + 1;
        assert_bits(ptx_int_from_int(a, from, to, true), (uint64_t)near, "cvt.sat", a, from.width,
                    to.width, to.is_signed);
        assert_bits(ptx_int_from_int(a, from, to, false), (uint64_t)cut, "cvt", a, from.width,
                    to.width, to.is_signed);
    }
}

static void test_rounding_to_integral_numbers_keeps_the_type(void **state) {
    (void)state;
    assert_int_equal(ptx_f32_from_f32(ptx_float_bits(2.5f), true, PTX_RN, false, false),
                     ptx_float_bits(2));
    assert_int_equal(ptx_f32_from_f32(ptx_float_bits(-0.5f), true, PTX_RP, false, false),
                     0x80000000);
    assert_int_equal(ptx_f32_from_f32(1, true, PTX_RP, true, false), 0);
    assert_int_equal(ptx_f32_from_f32(1, true, PTX_RP, false, false), 0x3f800000);
    assert_int_equal(ptx_f32_from_f32(0x80000001, false, PTX_RN, true, false), 0x80000000);
    assert_true(ptx_f64_from_f64(ptx_double_bits(-2.5), true, PTX_RM, false) ==
                ptx_double_bits(-3));
    assert_int_equal(ptx_f16_from_f16(0x4100, true, PTX_RZ, false), 0x4000);
    assert_int_equal(ptx_bf16_from_bf16(0x4020, true, PTX_RP), 0x4040);
    assert_true(ptx_f64_from_f32(0xffc00001, false, false) == UINT64_C(0xfff8000020000000));
    assert_true(ptx_f64_from_f32(1, false, false) == ptx_double_bits(0x1p-149));
    assert_true(ptx_f64_from_f32(1, true, false) == 0);
    assert_true(ptx_f64_from_f16(0x0001, false) == ptx_double_bits(0x1p-24));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations_are_rounded_once),
        cmocka_unit_test(test_a_fused_sum_sees_the_smallest_part),
        cmocka_unit_test(test_every_half_is_the_float_of_its_value_and_back),
        cmocka_unit_test(test_narrowing_rounds_once_in_each_direction),
        cmocka_unit_test(test_tf32_is_a_float_of_fewer_bits),
        cmocka_unit_test(test_bytes_are_the_nearest_and_never_infinite),
        cmocka_unit_test(test_modifiers_of_halves),
        cmocka_unit_test(test_approximations_of_every_half_are_within_the_bounds),
        cmocka_unit_test(test_floats_become_integers_within_their_range),
        cmocka_unit_test(test_a_nan_becomes_the_integer_that_the_isa_names),
        cmocka_unit_test(test_integers_become_floats_rounded_once),
        cmocka_unit_test(test_integers_become_integers),
        cmocka_unit_test(test_rounding_to_integral_numbers_keeps_the_type),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
