/* PTX's integer instructions, against the bit-by-bit semantics of the ISA. */
#include "arithmetic.h"
#include "test_ptx_reference.h"

enum { ROUNDS = 100000 };

/* Often a number of few bits, or next to a power of two. */
static uint64_t next_integer(void) {
    uint64_t bits = next_bits() >> (next_bits() % 64);

    switch (next_bits() % 8) {
    case 0:
        return (UINT64_C(1) << (bits % 64)) - 1;
    case 1:
        return UINT64_C(1) << (bits % 64);
    case 2:
        return ~bits;
    case 3:
        return bits << 32 | (uint32_t)bits;
    default:
        return bits;
    }
}

static ptx_s128 number(uint64_t bits, uint32_t width, bool is_signed) {
    ptx_s128 value = width == 64 ? (ptx_s128)bits : (ptx_s128)(bits & ((UINT64_C(1) << width) - 1));

    return is_signed && value >> (width - 1) & 1 ? value - ((ptx_s128)1 << width) : value;
}

#define CUT(value, width) ((uint##width##_t)(uint64_t)(value))
#define CHECK(width, name, expected, ...)                                                          \
    assert_bits(ptx_##name##width(__VA_ARGS__), CUT(expected, width), #name #width, a, b, c, 0)

#define TEST_WIDTH(width)                                                                          \
    static void test_arithmetic_of_##width##_bits(void **state) {                                  \
        (void)state;                                                                               \
        for (int i = 0; i < ROUNDS; i++) {                                                         \
            uint##width##_t a = (uint##width##_t)next_integer();                                   \
            uint##width##_t b = (uint##width##_t)next_integer();                                   \
            uint##width##_t c = (uint##width##_t)next_integer();                                   \
            ptx_s128 ua = number(a, width, false), ub = number(b, width, false);                   \
            ptx_s128 sa = number(a, width, true), sb = number(b, width, true);                     \
            uint32_t count = (uint32_t)(next_bits() % (i % 2 ? 300 : width));                      \
                                                                                                   \
            CHECK(width, add_u, ua + ub, a, b);                                                    \
            CHECK(width, sub_u, ua - ub, a, b);                                                    \
            CHECK(width, neg_u, -ua, a);                                                           \
            CHECK(width, abs_s, sa < 0 ? -sa : sa, a);                                             \
            CHECK(width, mul_lo_u, (ptx_u128)ua *(ptx_u128)ub, a, b);                              \
            CHECK(width, mul_hi_u, ((ptx_u128)ua * (ptx_u128)ub) >> width, a, b);                  \
            CHECK(width, mul_hi_s, (sa * sb) >> width, a, b);                                      \
            CHECK(width, mad_lo_u, (ptx_u128)ua *(ptx_u128)ub + c, a, b, c);                       \
            CHECK(width, mad_hi_u, (((ptx_u128)ua * (ptx_u128)ub) >> width) + c, a, b, c);         \
            CHECK(width, mad_hi_s, ((sa * sb) >> width) + c, a, b, c);                             \
            CHECK(width, min_u, ua < ub ? ua : ub, a, b);                                          \
            CHECK(width, max_u, ua < ub ? ub : ua, a, b);                                          \
            CHECK(width, min_s, sa < sb ? sa : sb, a, b);                                          \
            CHECK(width, max_s, sa < sb ? sb : sa, a, b);                                          \
            CHECK(width, sad_u, c + (ua < ub ? ub - ua : ua - ub), a, b, c);                       \
            CHECK(width, sad_s, c + (sa < sb ? sb - sa : sa - sb), a, b, c);                       \
            CHECK(width, div_u, ub ? ua / ub : -1, a, b);                                          \
            CHECK(width, rem_u, ub ? ua % ub : -1, a, b);                                          \
            CHECK(width, div_s, sb ? sa / sb : -1, a, b);                                          \
            CHECK(width, rem_s, sb ? sa % sb : -1, a, b);                                          \
            CHECK(width, shl_b, count < width ? (ptx_u128)ua << count : 0, a, count);              \
            CHECK(width, shr_u, count < width ? ua >> count : 0, a, count);                        \
            CHECK(width, shr_s, sa >> (count < width ? count : width - 1), a, count);              \
            CHECK(width, cnot_b, !a, a);                                                           \
            for (int compare = PTX_EQ; compare <= PTX_GE; compare++) {                             \
                bool us[] = {ua == ub, ua != ub, ua<ub, ua <= ub, ua> ub, ua >= ub};               \
                bool ss[] = {sa == sb, sa != sb, sa<sb, sa <= sb, sa> sb, sa >= sb};               \
                                                                                                   \
                assert_int_equal(ptx_compare_u##width(compare, a, b), us[compare]);                \
                assert_int_equal(ptx_compare_s##width(compare, a, b), ss[compare]);                \
            }                                                                                      \
        }                                                                                          \
    }

TEST_WIDTH(16)
TEST_WIDTH(32)
TEST_WIDTH(64)

static void test_wide_24_bit_and_saturated_arithmetic(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_integer(), b = (uint32_t)next_integer();
        uint32_t c = (uint32_t)next_integer();
        int64_t sa = (int32_t)a, sb = (int32_t)b, sum = sa + sb, difference = sa - sb;
        ptx_s128 u24 = number(a, 24, false) * number(b, 24, false);
        ptx_s128 s24 = number(a, 24, true) * number(b, 24, true);
        int64_t high = (int32_t)(sa * sb >> 32) + (int64_t)(int32_t)c;

        assert_true(ptx_mul_wide_u32(a, b) == (uint64_t)a * b);
        assert_true(ptx_mul_wide_s32(a, b) == (uint64_t)(sa * sb));
        assert_true(ptx_mad_wide_s32(a, b, c) == (uint64_t)(sa * sb) + c);
        assert_int_equal(ptx_mul_wide_u16((uint16_t)a, (uint16_t)b),
                         (uint32_t)(uint16_t)a * (uint16_t)b);
        assert_int_equal(ptx_mul_wide_s16((uint16_t)a, (uint16_t)b),
                         (uint32_t)((int16_t)a * (int16_t)b));
        assert_int_equal((int32_t)ptx_add_sat_s32(a, b), sum > INT32_MAX   ? INT32_MAX
                                                         : sum < INT32_MIN ? INT32_MIN
                                                                           : sum);
        assert_int_equal((int32_t)ptx_sub_sat_s32(a, b), difference > INT32_MAX   ? INT32_MAX
                                                         : difference < INT32_MIN ? INT32_MIN
                                                                                  : difference);
        assert_int_equal((int32_t)ptx_mad_hi_sat_s32(a, b, c), high > INT32_MAX   ? INT32_MAX
                                                               : high < INT32_MIN ? INT32_MIN
                                                                                  : high);
        assert_int_equal(ptx_mul24_lo_u32(a, b), (uint32_t)u24);
        assert_int_equal(ptx_mul24_hi_u32(a, b), (uint32_t)(u24 >> 16));
        assert_int_equal(ptx_mul24_lo_s32(a, b), (uint32_t)s24);
        assert_int_equal(ptx_mad24_hi_s32(a, b, c), (uint32_t)(s24 >> 16) + c);
        assert_int_equal((int32_t)ptx_min_relu_s32(a, b), sa < 0 || sb < 0 ? 0 : sa < sb ? sa : sb);
        assert_int_equal((int32_t)ptx_max_relu_s32(a, b), sa < 0 && sb < 0 ? 0 : sa > sb ? sa : sb);
    }
}

/* Numbers of two registers, by chains. */
static void test_carries_make_wider_numbers(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = next_integer(), b = next_integer(), c = next_integer(), d = next_integer();
        ptx_u128 x = (ptx_u128)a << 64 | b, y = (ptx_u128)c << 64 | d, result;
        bool flag = false;
        uint64_t low = ptx_addc_u64(b, d, &flag);

        result = (ptx_u128)ptx_addc_u64(a, c, &flag) << 64 | low;
        assert_true(result == x + y && flag == (x + y < x));
        flag = false;
        low = ptx_subc_u64(b, d, &flag);
        // NOLINTNEXTLINE(clang-analyzer-core.*): the shifted number is an unsigned one
        result = (ptx_u128)ptx_subc_u64(a, c, &flag) << 64 | low;
        assert_true(result == x - y && flag == (x < y));
        flag = false;
        low = ptx_madc_lo_u64(a, b, d, &flag);
        result = (ptx_u128)ptx_madc_hi_u64(a, b, c, &flag) << 64 | low;
        assert_true(result == (ptx_u128)a * b + y);
        flag = false;
        low = ptx_addc_u32((uint32_t)a, (uint32_t)b, &flag);
        low |= (uint64_t)ptx_addc_u32((uint32_t)(a >> 32), (uint32_t)(b >> 32), &flag) << 32;
        assert_true(low == a + b && flag == (a + b < a));
        flag = false;
        low = ptx_subc_u32((uint32_t)a, (uint32_t)b, &flag);
        // NOLINTNEXTLINE(clang-analyzer-core.*): the shifted number is an unsigned one
        low |= (uint64_t)ptx_subc_u32((uint32_t)(a >> 32), (uint32_t)(b >> 32), &flag) << 32;
        assert_true(low == a - b && flag == (a < b));
        flag = false;
        low = ptx_madc_lo_u32((uint32_t)a, (uint32_t)b, (uint32_t)c, &flag);
        low |= (uint64_t)ptx_madc_hi_s32((uint32_t)a, (uint32_t)b, (uint32_t)(c >> 32), &flag)
               << 32;
        assert_true(low == (uint64_t)((int64_t)(int32_t)a * (int32_t)b) + c);
    }
}

static uint32_t find(uint64_t a, uint32_t width, bool is_signed) {
    if (is_signed && a >> (width - 1) & 1)
        a = ~a;
    for (int i = (int)width - 1; i >= 0; i--)
        if (a >> i & 1)
            return (uint32_t)i;
    return UINT32_MAX;
}

static void check_found(uint32_t got, uint32_t shift, uint32_t expected, uint32_t width) {
    assert_int_equal(got, expected);
    assert_int_equal(shift, expected == UINT32_MAX ? UINT32_MAX : width - 1 - expected);
}

static void test_bits_are_counted_found_and_reversed(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = next_integer(), reversed = 0;
        uint32_t low = (uint32_t)a, count = 0, low_count = 0, zeros;

        for (int bit = 0; bit < 64; bit++) {
            reversed |= (a >> bit & 1) << (63 - bit);
            count += a >> bit & 1;
            low_count += bit < 32 ? low >> (bit % 32) & 1 : 0;
        }
        assert_true(ptx_brev_b64(a) == reversed);
        assert_int_equal(ptx_brev_b32(low), (uint32_t)(reversed >> 32));
        assert_int_equal(ptx_popc_b64(a), count);
        assert_int_equal(ptx_popc_b32(low), low_count);
        zeros = find(a, 64, false);
        assert_int_equal(ptx_clz_b64(a), zeros == UINT32_MAX ? 64 : 63 - zeros);
        zeros = find(low, 32, false);
        assert_int_equal(ptx_clz_b32(low), zeros == UINT32_MAX ? 32 : 31 - zeros);
        check_found(ptx_bfind_u32(low, false), ptx_bfind_u32(low, true), find(low, 32, false), 32);
        check_found(ptx_bfind_s32(low, false), ptx_bfind_s32(low, true), find(low, 32, true), 32);
        check_found(ptx_bfind_u64(a, false), ptx_bfind_u64(a, true), find(a, 64, false), 64);
        check_found(ptx_bfind_s64(a, false), ptx_bfind_s64(a, true), find(a, 64, true), 64);
    }
}

static uint32_t nth_set(uint32_t mask, int base, int64_t offset) {
    int64_t count = (offset < 0 ? -offset : offset) - 1;

    if (!offset)
        return mask >> base & 1 ? (uint32_t)base : UINT32_MAX;
    for (int at = base; at >= 0 && at<32; at += offset> 0 ? 1 : -1)
        if (mask >> at & 1) {
            if (!count)
                return (uint32_t)at;
            count--;
        }
    return UINT32_MAX;
}

static void test_the_nth_set_bit_is_found(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t mask = (uint32_t)next_integer(), base = (uint32_t)(next_bits() % 32);
        int32_t offset = (int32_t)(next_bits() % 21) - 10;

        assert_int_equal(ptx_fns_b32(mask, base, (uint32_t)offset),
                         nth_set(mask, (int)base, offset));
    }
    assert_int_equal(ptx_fns_b32(1, 0, 0x80000000), UINT32_MAX);
    assert_int_equal(ptx_fns_b32(1, 32, 0), UINT32_MAX);
}

static uint64_t extracted(uint64_t a, uint32_t position, uint32_t length, uint32_t width,
                          bool is_signed) {
    uint32_t from = position & 0xff, count = length & 0xff, last = from + count - 1;
    uint64_t sign, result = 0;

    last = last < width - 1 ? last : width - 1;
    sign = is_signed && count ? a >> last & 1 : 0;
    for (uint32_t i = 0; i < width; i++)
        result |= (i < count && from + i < width ? a >> (from + i) & 1 : sign) << i;
    return result;
}

static uint64_t inserted(uint64_t a, uint64_t b, uint32_t position, uint32_t length,
                         uint32_t width) {
    uint32_t from = position & 0xff, count = length & 0xff;

    for (uint32_t i = 0; i < count && from + i < width; i++)
        b = (b & ~(UINT64_C(1) << (from + i))) | (a >> i & 1) << (from + i);
    return b;
}

static void test_bit_fields(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = next_integer(), b = next_integer();
        uint32_t low = (uint32_t)a, position = (uint32_t)(next_bits() % (i % 2 ? 40 : 600));
        uint32_t length = (uint32_t)(next_bits() % (i % 3 ? 40 : 600));

        assert_int_equal(ptx_bfe_u32(low, position, length),
                         extracted(low, position, length, 32, false));
        assert_int_equal(ptx_bfe_s32(low, position, length),
                         extracted(low, position, length, 32, true));
        assert_true(ptx_bfe_u64(a, position, length) == extracted(a, position, length, 64, false));
        assert_true(ptx_bfe_s64(a, position, length) == extracted(a, position, length, 64, true));
        assert_int_equal(ptx_bfi_b32(low, (uint32_t)b, position, length),
                         inserted(low, (uint32_t)b, position, length, 32));
        assert_true(ptx_bfi_b64(a, b, position, length) == inserted(a, b, position, length, 64));
    }
}

static void test_masks_and_extensions_of_any_width(void **state) {
    (void)state;
    for (uint32_t a = 0; a < 70; a++)
        for (uint32_t b = 0; b < 70; b++) {
            uint32_t value = (uint32_t)next_bits(), clamped = 0, wrapped = 0;
            uint32_t bits = b % 32;

            for (uint32_t i = 0; i < 32; i++) {
                clamped |= (uint32_t)(a < 32 && i >= a && i < a + b) << i;
                wrapped |= (uint32_t)(i >= a % 32 && i < a % 32 + b % 32) << i;
            }
            assert_int_equal(ptx_bmsk_b32(a, b, true), clamped);
            assert_int_equal(ptx_bmsk_b32(a, b, false), wrapped);
            assert_int_equal(ptx_szext(value, b, false, false),
                             bits ? (uint32_t)number(value, bits, false) : 0);
            assert_int_equal(ptx_szext(value, b, false, true),
                             bits ? (uint32_t)number(value, bits, true) : 0);
            assert_int_equal(ptx_szext(value, b, true, true),
                             b >= 32 ? value
                             : bits  ? (uint32_t)number(value, bits, true)
                                     : 0);
        }
}

static void test_funnel_shifts_clamp_or_wrap(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_bits(), b = (uint32_t)next_bits();
        uint32_t count = (uint32_t)(next_bits() % 100);
        ptx_u128 both = (ptx_u128)b << 32 | a;

        assert_int_equal(ptx_shf_l(a, b, count, false), (uint32_t)(both << (count % 32) >> 32));
        assert_int_equal(ptx_shf_r(a, b, count, false), (uint32_t)(both >> (count % 32)));
        count = count < 32 ? count : 32;
        assert_int_equal(ptx_shf_l(a, b, count + 0, true), (uint32_t)(both << count >> 32));
        assert_int_equal(ptx_shf_r(a, b, count + 0, true), (uint32_t)(both >> count));
        assert_int_equal(ptx_shf_l(a, b, 33, true), a);
        assert_int_equal(ptx_shf_r(a, b, UINT32_MAX, true), b);
    }
}

static void test_every_table_of_three_inputs(void **state) {
    (void)state;
    for (uint32_t table = 0; table < 256; table++) {
        uint32_t a = (uint32_t)next_bits(), b = (uint32_t)next_bits(), c = (uint32_t)next_bits();
        uint32_t expected = 0;

        for (int i = 0; i < 32; i++)
            expected |= (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
        assert_int_equal(ptx_lop3_b32(a, b, c, table), expected);
    }
    assert_int_equal(ptx_lop3_b32(0xf0, 0xcc, 0xaa, 0x1a), 0x1a);
}

/* The table of the ISA: for each mode and selector the four bytes from the upper one on. */
static void test_every_mode_of_prmt(void **state) {
    static const uint8_t table[][4][4] = {
        [PTX_PRMT_F4E] = {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}},
        [PTX_PRMT_B4E] = {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}},
        [PTX_PRMT_RC8] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}},
        [PTX_PRMT_ECL] = {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}},
        [PTX_PRMT_ECR] = {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}},
        [PTX_PRMT_RC16] = {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}},
    };
    const uint32_t a = 0x83020100, b = 0x87060504;
    const uint8_t bytes[] = {0x00, 0x01, 0x02, 0x83, 0x04, 0x05, 0x06, 0x87};

    (void)state;
    for (int mode = PTX_PRMT_F4E; mode <= PTX_PRMT_RC16; mode++)
        for (uint32_t selector = 0; selector < 4; selector++) {
            const uint8_t *row = table[mode][selector];
            uint32_t expected = (uint32_t)bytes[row[0]] << 24 | (uint32_t)bytes[row[1]] << 16 |
                                (uint32_t)bytes[row[2]] << 8 | bytes[row[3]];

            assert_int_equal(ptx_prmt_b32(a, b, selector | 0xfc, mode), expected);
        }
    assert_int_equal(ptx_prmt_b32(a, b, 0x7b35, PTX_PRMT_DEFAULT), 0x87ff8305);
    assert_int_equal(ptx_prmt_b32(a, b, 0xf8c4, PTX_PRMT_DEFAULT), 0xff000004);
}

static void test_dot_products_of_bytes(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = (uint32_t)next_bits(), b = (uint32_t)next_bits(), c = (uint32_t)next_bits();
        bool sa = i & 1, sb = i & 2;
        int64_t four = c, low = c, high = c;

        for (uint32_t j = 0; j < 4; j++)
            four += (int64_t)(number(a >> (8 * j), 8, sa) * number(b >> (8 * j), 8, sb));
        for (uint32_t j = 0; j < 2; j++) {
            low += (int64_t)(number(a >> (16 * j), 16, sa) * number(b >> (8 * j), 8, sb));
            high += (int64_t)(number(a >> (16 * j), 16, sa) * number(b >> (8 * j + 16), 8, sb));
        }
        assert_int_equal(ptx_dp4a(a, b, c, sa, sb), (uint32_t)four);
        assert_int_equal(ptx_dp2a(a, b, c, sa, sb, false), (uint32_t)low);
        assert_int_equal(ptx_dp2a(a, b, c, sa, sb, true), (uint32_t)high);
    }
}

static void test_two_numbers_in_a_register_do_not_touch(void **state) {
    (void)state;
    assert_int_equal(ptx_add_u16x2(0x0001ffff, 0x00010001), 0x00020000);
    assert_int_equal(ptx_sub_u16x2(0x00010000, 0x00010001), 0x0000ffff);
    assert_int_equal(ptx_min_s16x2(0x8000ffff, 0x00010001), 0x8000ffff);
    assert_int_equal(ptx_min_u16x2(0x8000ffff, 0x00010001), 0x00010001);
    assert_int_equal(ptx_max_s16x2(0x8000ffff, 0x00010001), 0x00010001);
    assert_int_equal(ptx_max_u16x2(0x8000ffff, 0x00010001), 0x8000ffff);
    assert_int_equal(ptx_max_relu_s16x2(0x8000ffff, 0xffff0001), 0x00000001);
    assert_int_equal(ptx_cvt_pack(70000, 0xffffffff, 0, true, 16, false), 0xffff0000);
    assert_int_equal(ptx_cvt_pack(70000, 0xffffff00, 0x1234, true, 8, true), 0x12347f80);
    assert_int_equal(ptx_cvt_pack(7, 0xfffffff8, 0x1234, true, 4, true), 0x00123478);
}

static void test_video_instructions_take_parts(void **state) {
    struct ptx_video_form form = {.operation = PTX_VADD,
                                  .to_signed = true,
                                  .a_signed = true,
                                  .a_part = PTX_B3,
                                  .b_part = PTX_H1,
                                  .to = PTX_WORD};
    struct ptx_vmad_form mad = {.a_part = PTX_WORD, .b_part = PTX_WORD};

    (void)state;
    assert_int_equal(ptx_video(form, 0x80000000, 0xffff0000, 0), 0xffff - 0x80);
    form.saturate = true;
    form.to = PTX_B1;
    assert_int_equal(ptx_video(form, 0x80000000, 0xffff0000, 0x11223344), 0x11227f44);
    form = (struct ptx_video_form){.operation = PTX_VABSDIFF,
                                   .a_part = PTX_WORD,
                                   .b_part = PTX_WORD,
                                   .to = PTX_WORD,
                                   .second = PTX_VIDEO_ADD};
    assert_int_equal(ptx_video(form, 3, 0xffffffff, 10), 0xfffffffc + 10);
    form.operation = PTX_VSHL_CLAMP;
    assert_int_equal(ptx_video(form, 1, 40, 10), 10);
    form.operation = PTX_VSHL_WRAP;
    assert_int_equal(ptx_video(form, 1, 40, 10), 256 + 10);
    form.operation = PTX_VSET;
    form.compare = PTX_LT;
    assert_int_equal(ptx_video(form, 1, 40, 10), 11);
    assert_int_equal(ptx_vmad(mad, 0xffffffff, 0xffffffff, 1), 2);
    mad.saturate = true;
    assert_int_equal(ptx_vmad(mad, 0xffffffff, 0xffffffff, 1), 0xffffffff);
    mad.negate_product = true;
    assert_int_equal(ptx_vmad(mad, 0xffffffff, 0xffffffff, 1), 0x80000000);
    mad = (struct ptx_vmad_form){
        .a_part = PTX_WORD, .b_part = PTX_WORD, .scale = 7, .plus_one = true};
    assert_int_equal(ptx_vmad(mad, 1000, 1000, 27), (1000 * 1000 + 28) >> 7);
    mad = (struct ptx_vmad_form){.a_part = PTX_WORD, .b_part = PTX_WORD, .negate_c = true};
    assert_int_equal((int32_t)ptx_vmad(mad, 2, 3, 10), -4);
}

static void test_video_instructions_of_vectors(void **state) {
    struct ptx_simd_video_form form = {
        .operation = PTX_VADD, .width = 8, .mask = 0xf, .a_selector = 0x3210, .b_selector = 0x7654};

    (void)state;
    assert_int_equal(ptx_simd_video(form, 0x01ff7f80, 0x01010180, 0), 0x02008000);
    form.saturate = true;
    assert_int_equal(ptx_simd_video(form, 0x01ff7f80, 0x01010180, 0), 0x02ff80ff);
    form.mask = 0x5;
    assert_int_equal(ptx_simd_video(form, 0x01ff7f80, 0x01010180, 0x11223344), 0x11ff33ff);
    form = (struct ptx_simd_video_form){.operation = PTX_VABSDIFF,
                                        .width = 16,
                                        .mask = 3,
                                        .accumulate = true,
                                        .a_selector = 0x10,
                                        .b_selector = 0x32};
    assert_int_equal(ptx_simd_video(form, 0x00050001, 0x00020003, 100), 105);
    form.a_selector = 0x01;
    assert_int_equal(ptx_simd_video(form, 0x00050001, 0x00020003, 100), 103);
    form = (struct ptx_simd_video_form){.operation = PTX_VAVRG,
                                        .width = 8,
                                        .mask = 0xf,
                                        .to_signed = true,
                                        .a_signed = true,
                                        .b_signed = true,
                                        .a_selector = 0x3210,
                                        .b_selector = 0x7654};
    assert_int_equal(ptx_simd_video(form, 0x00fd0102, 0x0100fe04, 0), 0x01feff03);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic_of_16_bits),
        cmocka_unit_test(test_arithmetic_of_32_bits),
        cmocka_unit_test(test_arithmetic_of_64_bits),
        cmocka_unit_test(test_wide_24_bit_and_saturated_arithmetic),
        cmocka_unit_test(test_carries_make_wider_numbers),
        cmocka_unit_test(test_bits_are_counted_found_and_reversed),
        cmocka_unit_test(test_the_nth_set_bit_is_found),
        cmocka_unit_test(test_bit_fields),
        cmocka_unit_test(test_masks_and_extensions_of_any_width),
        cmocka_unit_test(test_funnel_shifts_clamp_or_wrap),
        cmocka_unit_test(test_every_table_of_three_inputs),
        cmocka_unit_test(test_every_mode_of_prmt),
        cmocka_unit_test(test_dot_products_of_bytes),
        cmocka_unit_test(test_two_numbers_in_a_register_do_not_touch),
        cmocka_unit_test(test_video_instructions_take_parts),
        cmocka_unit_test(test_video_instructions_of_vectors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
