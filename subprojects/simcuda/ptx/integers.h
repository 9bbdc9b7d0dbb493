/* Integers: arithmetic, carries, shifts, bits. PTX ISA, "Integer Arithmetic Instructions",
 * "Extended-Precision Integer Arithmetic Instructions", "Logic and Shift Instructions", prmt.
 *
 * Where an operation does the same for signed and unsigned numbers, the name ends in _u16, _u32 or
 * _u64 and serves both. */
#ifndef SIMCUDA_PTX_INTEGERS_H
#define SIMCUDA_PTX_INTEGERS_H

#include "bits.h"

__extension__ typedef unsigned __int128 ptx_u128;
__extension__ typedef __int128 ptx_s128;

/* The functions of one width: uint16_t and so on, and the types of twice the width. */
#define PTX_INTEGERS(width, twice_unsigned, twice_signed)                                          \
    static inline uint##width##_t ptx_add_u##width(uint##width##_t a, uint##width##_t b) {         \
        return (uint##width##_t)(a + b);                                                           \
    }                                                                                              \
    static inline uint##width##_t ptx_sub_u##width(uint##width##_t a, uint##width##_t b) {         \
        return (uint##width##_t)(a - b);                                                           \
    }                                                                                              \
    static inline uint##width##_t ptx_neg_u##width(uint##width##_t a) {                            \
        return (uint##width##_t)(0 - a);                                                           \
    }                                                                                              \
    static inline uint##width##_t ptx_abs_s##width(uint##width##_t a) {                            \
        return (int##width##_t)a < 0 ? ptx_neg_u##width(a) : a;                                    \
    }                                                                                              \
    /* The product's lower half, the same of signed numbers. */                                    \
    static inline uint##width##_t ptx_mul_lo_u##width(uint##width##_t a, uint##width##_t b) {      \
        return (uint##width##_t)(UINT64_C(1) * a * b);                                             \
    }                                                                                              \
    static inline uint##width##_t ptx_mul_hi_u##width(uint##width##_t a, uint##width##_t b) {      \
        return (uint##width##_t)((twice_unsigned)a * b >> width);                                  \
    }                                                                                              \
    static inline uint##width##_t ptx_mul_hi_s##width(uint##width##_t a, uint##width##_t b) {      \
        return (uint##width##_t)((twice_signed)(int##width##_t)a * (int##width##_t)b >> width);    \
    }                                                                                              \
    static inline uint##width##_t ptx_mad_lo_u##width(uint##width##_t a, uint##width##_t b,        \
                                                      uint##width##_t c) {                         \
        return (uint##width##_t)(ptx_mul_lo_u##width(a, b) + c);                                   \
    }                                                                                              \
    static inline uint##width##_t ptx_mad_hi_u##width(uint##width##_t a, uint##width##_t b,        \
                                                      uint##width##_t c) {                         \
        return (uint##width##_t)(ptx_mul_hi_u##width(a, b) + c);                                   \
    }                                                                                              \
    static inline uint##width##_t ptx_mad_hi_s##width(uint##width##_t a, uint##width##_t b,        \
                                                      uint##width##_t c) {                         \
        return (uint##width##_t)(ptx_mul_hi_s##width(a, b) + c);                                   \
    }                                                                                              \
    static inline uint##width##_t ptx_min_u##width(uint##width##_t a, uint##width##_t b) {         \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    static inline uint##width##_t ptx_max_u##width(uint##width##_t a, uint##width##_t b) {         \
        return a > b ? a : b;                                                                      \
    }                                                                                              \
    static inline uint##width##_t ptx_min_s##width(uint##width##_t a, uint##width##_t b) {         \
        return (int##width##_t)a < (int##width##_t)b ? a : b;                                      \
    }                                                                                              \
    static inline uint##width##_t ptx_max_s##width(uint##width##_t a, uint##width##_t b) {         \
        return (int##width##_t)a > (int##width##_t)b ? a : b;                                      \
    }                                                                                              \
    static inline uint##width##_t ptx_sad_u##width(uint##width##_t a, uint##width##_t b,           \
                                                   uint##width##_t c) {                            \
        return (uint##width##_t)(c + (a < b ? b - a : a - b));                                     \
    }                                                                                              \
    static inline uint##width##_t ptx_sad_s##width(uint##width##_t a, uint##width##_t b,           \
                                                   uint##width##_t c) {                            \
        return (uint##width##_t)(c + ((int##width##_t)a < (int##width##_t)b                        \
                                          ? (uint##width##_t)(b - a)                               \
                                          : (uint##width##_t)(a - b)));                            \
    }                                                                                              \
    /* By zero the ISA leaves it undefined: GPUs give all ones. */                                 \
    static inline uint##width##_t ptx_div_u##width(uint##width##_t a, uint##width##_t b) {         \
        return b ? (uint##width##_t)(a / b) : (uint##width##_t) ~UINT64_C(0);                      \
    }                                                                                              \
    static inline uint##width##_t ptx_rem_u##width(uint##width##_t a, uint##width##_t b) {         \
        return b ? (uint##width##_t)(a % b) : (uint##width##_t) ~UINT64_C(0);                      \
    }                                                                                              \
    /* A divisor of -1 is not divided by: the least number has no quotient in C. */                \
    static inline uint##width##_t ptx_div_s##width(uint##width##_t a, uint##width##_t b) {         \
        if (b == (uint##width##_t) ~UINT64_C(0))                                                   \
            return ptx_neg_u##width(a);                                                            \
        return b ? (uint##width##_t)((int##width##_t)a / (int##width##_t)b)                        \
                 : (uint##width##_t) ~UINT64_C(0);                                                 \
    }                                                                                              \
    static inline uint##width##_t ptx_rem_s##width(uint##width##_t a, uint##width##_t b) {         \
        if (b == (uint##width##_t) ~UINT64_C(0))                                                   \
            return 0;                                                                              \
        return b ? (uint##width##_t)((int##width##_t)a % (int##width##_t)b)                        \
                 : (uint##width##_t) ~UINT64_C(0);                                                 \
    }                                                                                              \
    /* Shifts by the width or more shift everything out. */                                        \
    static inline uint##width##_t ptx_shl_b##width(uint##width##_t a, uint32_t count) {            \
        return count < width ? (uint##width##_t)(UINT64_C(1) * a << (count % width)) : 0;          \
    }                                                                                              \
    static inline uint##width##_t ptx_shr_u##width(uint##width##_t a, uint32_t count) {            \
        return count < width ? (uint##width##_t)(a >> (count % width)) : 0;                        \
    }                                                                                              \
    static inline uint##width##_t ptx_shr_s##width(uint##width##_t a, uint32_t count) {            \
        return (uint##width##_t)((int##width##_t)a >> (count < width ? count : width - 1));        \
    }                                                                                              \
    static inline uint##width##_t ptx_cnot_b##width(uint##width##_t a) {                           \
        return a == 0;                                                                             \
    }                                                                                              \
    static inline bool ptx_compare_u##width(enum ptx_compare compare, uint##width##_t a,           \
                                            uint##width##_t b) {                                   \
        switch (compare) {                                                                         \
        case PTX_EQ:                                                                               \
            return a == b;                                                                         \
        case PTX_NE:                                                                               \
            return a != b;                                                                         \
        case PTX_LT:                                                                               \
            return a < b;                                                                          \
        case PTX_LE:                                                                               \
            return a <= b;                                                                         \
        case PTX_GT:                                                                               \
            return a > b;                                                                          \
        default:                                                                                   \
            return a >= b;                                                                         \
        }                                                                                          \
    }                                                                                              \
    static inline bool ptx_compare_s##width(enum ptx_compare compare, uint##width##_t a,           \
                                            uint##width##_t b) {                                   \
        uint##width##_t sign = (uint##width##_t)(UINT64_C(1) << (width - 1));                      \
                                                                                                   \
        return ptx_compare_u##width(compare, a ^ sign, b ^ sign);                                  \
    }

PTX_INTEGERS(16, uint32_t, int32_t)
PTX_INTEGERS(32, uint64_t, int64_t)
PTX_INTEGERS(64, ptx_u128, ptx_s128)
#undef PTX_INTEGERS

static inline uint32_t ptx_mul_wide_u16(uint16_t a, uint16_t b) {
    return (uint32_t)a * b;
}

static inline uint32_t ptx_mul_wide_s16(uint16_t a, uint16_t b) {
    return (uint32_t)((int32_t)(int16_t)a * (int16_t)b);
}

static inline uint64_t ptx_mul_wide_u32(uint32_t a, uint32_t b) {
    return (uint64_t)a * b;
}

static inline uint64_t ptx_mul_wide_s32(uint32_t a, uint32_t b) {
    return (uint64_t)((int64_t)(int32_t)a * (int32_t)b);
}

static inline uint32_t ptx_mad_wide_u16(uint16_t a, uint16_t b, uint32_t c) {
    return ptx_mul_wide_u16(a, b) + c;
}

static inline uint32_t ptx_mad_wide_s16(uint16_t a, uint16_t b, uint32_t c) {
    return ptx_mul_wide_s16(a, b) + c;
}

static inline uint64_t ptx_mad_wide_u32(uint32_t a, uint32_t b, uint64_t c) {
    return ptx_mul_wide_u32(a, b) + c;
}

static inline uint64_t ptx_mad_wide_s32(uint32_t a, uint32_t b, uint64_t c) {
    return ptx_mul_wide_s32(a, b) + c;
}

/* The .s32 number next to `value`. */
static inline uint32_t ptx_clamp_s32(int64_t value) {
    return (uint32_t)(value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value);
}

static inline uint32_t ptx_add_sat_s32(uint32_t a, uint32_t b) {
    return ptx_clamp_s32((int64_t)(int32_t)a + (int32_t)b);
}

static inline uint32_t ptx_sub_sat_s32(uint32_t a, uint32_t b) {
    return ptx_clamp_s32((int64_t)(int32_t)a - (int32_t)b);
}

static inline uint32_t ptx_mad_hi_sat_s32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_add_sat_s32(ptx_mul_hi_s32(a, b), c);
}

/* min.relu and max.relu: never below zero. */
static inline uint32_t ptx_min_relu_s32(uint32_t a, uint32_t b) {
    return ptx_max_s32(ptx_min_s32(a, b), 0);
}

static inline uint32_t ptx_max_relu_s32(uint32_t a, uint32_t b) {
    return ptx_max_s32(ptx_max_s32(a, b), 0);
}

/* The product of the lowest 24 bits: .lo takes its bits 31 to 0, .hi 47 to 16. */
static inline uint64_t ptx_product24_u32(uint32_t a, uint32_t b) {
    return (uint64_t)(a & 0xffffff) * (b & 0xffffff);
}

static inline int64_t ptx_product24_s32(uint32_t a, uint32_t b) {
    return ptx_extend(a, 24) * ptx_extend(b, 24);
}

static inline uint32_t ptx_mul24_lo_u32(uint32_t a, uint32_t b) {
    return (uint32_t)ptx_product24_u32(a, b);
}

static inline uint32_t ptx_mul24_hi_u32(uint32_t a, uint32_t b) {
    return (uint32_t)(ptx_product24_u32(a, b) >> 16);
}

static inline uint32_t ptx_mul24_lo_s32(uint32_t a, uint32_t b) {
    return (uint32_t)ptx_product24_s32(a, b);
}

static inline uint32_t ptx_mul24_hi_s32(uint32_t a, uint32_t b) {
    return (uint32_t)(ptx_product24_s32(a, b) >> 16);
}

static inline uint32_t ptx_mad24_lo_u32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_mul24_lo_u32(a, b) + c;
}

static inline uint32_t ptx_mad24_hi_u32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_mul24_hi_u32(a, b) + c;
}

static inline uint32_t ptx_mad24_lo_s32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_mul24_lo_s32(a, b) + c;
}

static inline uint32_t ptx_mad24_hi_s32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_mul24_hi_s32(a, b) + c;
}

static inline uint32_t ptx_mad24_hi_sat_s32(uint32_t a, uint32_t b, uint32_t c) {
    return ptx_add_sat_s32(ptx_mul24_hi_s32(a, b), c);
}

/* The chains of the carry flag: each takes the flag, which is false in an add.cc, sub.cc or mad.cc,
 * and sets it. Of a subtraction it is the borrow. */
#define PTX_CARRIES(width)                                                                         \
    static inline uint##width##_t ptx_addc_u##width(uint##width##_t a, uint##width##_t b,          \
                                                    bool *carry) {                                 \
        uint##width##_t sum = a + b, all = sum + *carry;                                           \
                                                                                                   \
        *carry = sum < a || all < sum;                                                             \
        return all;                                                                                \
    }                                                                                              \
    static inline uint##width##_t ptx_subc_u##width(uint##width##_t a, uint##width##_t b,          \
                                                    bool *borrow) {                                \
        uint##width##_t difference = a - b, all = difference - *borrow;                            \
                                                                                                   \
        *borrow = a < b || difference < *borrow;                                                   \
        return all;                                                                                \
    }                                                                                              \
    /* As instructions leave the flag to each other, also sub.cc to addc and add.cc to subc: where \
     * nothing was borrowed it is set. */                                                          \
    static inline uint##width##_t ptx_subc_flag_u##width(uint##width##_t a, uint##width##_t b,     \
                                                         bool *flag) {                             \
        bool borrow = !*flag;                                                                      \
        uint##width##_t difference = ptx_subc_u##width(a, b, &borrow);                             \
                                                                                                   \
        *flag = !borrow;                                                                           \
        return difference;                                                                         \
    }                                                                                              \
    static inline uint##width##_t ptx_sub_flag_u##width(uint##width##_t a, uint##width##_t b,      \
                                                        bool *flag) {                              \
        *flag = true;                                                                              \
        return ptx_subc_flag_u##width(a, b, flag);                                                 \
    }                                                                                              \
    static inline uint##width##_t ptx_madc_lo_u##width(uint##width##_t a, uint##width##_t b,       \
                                                       uint##width##_t c, bool *carry) {           \
        return ptx_addc_u##width(ptx_mul_lo_u##width(a, b), c, carry);                             \
    }                                                                                              \
    static inline uint##width##_t ptx_madc_hi_u##width(uint##width##_t a, uint##width##_t b,       \
                                                       uint##width##_t c, bool *carry) {           \
        return ptx_addc_u##width(ptx_mul_hi_u##width(a, b), c, carry);                             \
    }                                                                                              \
    static inline uint##width##_t ptx_madc_hi_s##width(uint##width##_t a, uint##width##_t b,       \
                                                       uint##width##_t c, bool *carry) {           \
        return ptx_addc_u##width(ptx_mul_hi_s##width(a, b), c, carry);                             \
    }

PTX_CARRIES(32)
PTX_CARRIES(64)
#undef PTX_CARRIES

static inline uint32_t ptx_popc_b64(uint64_t a) {
    a -= a >> 1 & UINT64_C(0x5555555555555555);
    a = (a & UINT64_C(0x3333333333333333)) + (a >> 2 & UINT64_C(0x3333333333333333));
    a = (a + (a >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (uint32_t)(a * UINT64_C(0x0101010101010101) >> 56);
}

static inline uint32_t ptx_popc_b32(uint32_t a) {
    a -= a >> 1 & 0x55555555;
    a = (a & 0x33333333) + (a >> 2 & 0x33333333);
    a = (a + (a >> 4)) & 0x0f0f0f0f;
    return a * 0x01010101 >> 24;
}

static inline uint32_t ptx_clz_b32(uint32_t a) {
    return a ? (uint32_t)__builtin_clz(a) : 32;
}

static inline uint32_t ptx_clz_b64(uint64_t a) {
    return a ? (uint32_t)__builtin_clzll(a) : 64;
}

/* `shift` is .shiftamt: the distance from the highest bit. */
static inline uint32_t ptx_bfind_u32(uint32_t a, bool shift) {
    if (!a)
        return UINT32_MAX;
    return shift ? ptx_clz_b32(a) : 31 - ptx_clz_b32(a);
}

static inline uint32_t ptx_bfind_u64(uint64_t a, bool shift) {
    if (!a)
        return UINT32_MAX;
    return shift ? ptx_clz_b64(a) : 63 - ptx_clz_b64(a);
}

static inline uint32_t ptx_bfind_s32(uint32_t a, bool shift) {
    return ptx_bfind_u32((int32_t)a < 0 ? ~a : a, shift);
}

static inline uint32_t ptx_bfind_s64(uint64_t a, bool shift) {
    return ptx_bfind_u64((int64_t)a < 0 ? ~a : a, shift);
}

/* The set bit of `mask` that is number |offset| from `base` on, counted upwards if the offset is
 * positive; all ones: there is none. A base beyond 31 has none. */
static inline uint32_t ptx_fns_b32(uint32_t mask, uint32_t base, uint32_t offset) {
    int32_t step = (int32_t)offset < 0 ? -1 : 1;
    uint32_t left = ptx_abs_s32(offset);

    if (base > 31)
        return UINT32_MAX;
    if (!offset)
        return mask >> base & 1 ? base : UINT32_MAX;
    for (int32_t position = (int32_t)base; position >= 0 && position < 32; position += step)
        if ((mask >> position & 1) && --left == 0)
            return (uint32_t)position;
    return UINT32_MAX;
}

static inline uint32_t ptx_brev_b32(uint32_t a) {
    a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
    a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
    a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(a);
}

static inline uint64_t ptx_brev_b64(uint64_t a) {
    return (uint64_t)ptx_brev_b32((uint32_t)a) << 32 | ptx_brev_b32((uint32_t)(a >> 32));
}

/* Bit fields: of a position and of a length the lowest 8 bits count. */
static inline uint64_t ptx_bfe(uint64_t a, uint32_t position, uint32_t length, uint32_t width,
                               bool is_signed) {
    uint32_t start = position & 0xff, count = length & 0xff;
    uint32_t last = start + count - 1 < width ? start + count - 1 : width - 1;
    uint64_t field = start < width ? a >> (start % 64) & ptx_ones(count) : 0;
    bool negative = is_signed && count && (a >> (last % 64) & 1);
    uint32_t within = start < width ? last - start + 1 : 0;

    return negative ? (field | ~ptx_ones(within)) & ptx_ones(width) : field;
}

static inline uint32_t ptx_bfe_u32(uint32_t a, uint32_t position, uint32_t length) {
    return (uint32_t)ptx_bfe(a, position, length, 32, false);
}

static inline uint32_t ptx_bfe_s32(uint32_t a, uint32_t position, uint32_t length) {
    return (uint32_t)ptx_bfe(a, position, length, 32, true);
}

static inline uint64_t ptx_bfe_u64(uint64_t a, uint32_t position, uint32_t length) {
    return ptx_bfe(a, position, length, 64, false);
}

static inline uint64_t ptx_bfe_s64(uint64_t a, uint32_t position, uint32_t length) {
    return ptx_bfe(a, position, length, 64, true);
}

/* `into` with the lowest bits of `field` at the position. */
static inline uint64_t ptx_bfi_b64(uint64_t field, uint64_t into, uint32_t position,
                                   uint32_t length) {
    uint32_t start = position & 0xff;
    uint64_t mask = start < 64 ? ptx_ones(length & 0xff) << (start % 64) : 0;

    return (into & ~mask) | (field << (start % 64) & mask);
}

static inline uint32_t ptx_bfi_b32(uint32_t field, uint32_t into, uint32_t position,
                                   uint32_t length) {
    return (uint32_t)ptx_bfi_b64(field, into, position, length);
}

/* Bits from the position `a` on, `b` of them. */
static inline uint32_t ptx_bmsk_b32(uint32_t a, uint32_t b, bool clamp) {
    if (clamp)
        return a < 32 ? (uint32_t)(ptx_ones(b) << a) : 0;
    return (uint32_t)(ptx_ones(b & 31) << (a & 31));
}

/* The number in the lowest `width` bits of `a`. */
static inline uint32_t ptx_szext(uint32_t a, uint32_t width, bool clamp, bool is_signed) {
    uint32_t bits = width & 31;

    if (clamp && width >= 32)
        return a;
    if (!bits)
        return 0;
    return is_signed ? (uint32_t)ptx_extend(a, bits) : a & (uint32_t)ptx_ones(bits);
}

/* The source's halves are `a`, the lower, and `b`. */
static inline uint32_t ptx_shf_l(uint32_t a, uint32_t b, uint32_t count, bool clamp) {
    uint32_t by = clamp ? (count < 32 ? count : 32) : count & 31;

    return (uint32_t)(((uint64_t)b << 32 | a) << by >> 32);
}

static inline uint32_t ptx_shf_r(uint32_t a, uint32_t b, uint32_t count, bool clamp) {
    uint32_t by = clamp ? (count < 32 ? count : 32) : count & 31;

    return (uint32_t)(((uint64_t)b << 32 | a) >> by);
}

/* `set` where the condition's bits are set, elsewhere `clear`. */
static inline uint32_t ptx_choose_bits(uint32_t condition, uint32_t set, uint32_t clear) {
    return ((set ^ clear) & condition) ^ clear;
}

/* Bit i of the table is the result for i = 4 * a + 2 * b + c. */
static inline uint32_t ptx_lop3_b32(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t results[8];

    for (uint32_t i = 0; i < 8; i++)
        results[i] = 0 - (table >> i & 1);
    return ptx_choose_bits(a,
                           ptx_choose_bits(b, ptx_choose_bits(c, results[7], results[6]),
                                           ptx_choose_bits(c, results[5], results[4])),
                           ptx_choose_bits(b, ptx_choose_bits(c, results[3], results[2]),
                                           ptx_choose_bits(c, results[1], results[0])));
}

/* What prmt does with its selector. */
enum ptx_prmt {
    PTX_PRMT_DEFAULT, /* a byte of the result for each 4 bits */
    PTX_PRMT_F4E,     /* four bytes upwards */
    PTX_PRMT_B4E,     /* and downwards */
    PTX_PRMT_RC8,     /* one byte, four times */
    PTX_PRMT_ECL,     /* clamped from the left */
    PTX_PRMT_ECR,     /* and from the right */
    PTX_PRMT_RC16     /* a half, twice */
};

/* Which byte of the eight the byte `to` of the result is. */
static inline uint32_t ptx_prmt_from(uint32_t to, uint32_t control, enum ptx_prmt mode) {
    uint32_t first = control & 3;

    switch (mode) {
    case PTX_PRMT_F4E:
        return first + to;
    case PTX_PRMT_B4E:
        return (first - to) & 7;
    case PTX_PRMT_RC8:
        return first;
    case PTX_PRMT_ECL:
        return to > first ? to : first;
    case PTX_PRMT_ECR:
        return to < first ? to : first;
    case PTX_PRMT_RC16:
        return (first & 1) * 2 + (to & 1);
    case PTX_PRMT_DEFAULT:
    default:
        return control >> (4 * to) & 7;
    }
}

/* Bytes 0 to 3 are those of `a`, 4 to 7 those of `b`. */
static inline uint32_t ptx_prmt_b32(uint32_t a, uint32_t b, uint32_t control, enum ptx_prmt mode) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;

    for (uint32_t to = 0; to < 4; to++) {
        uint32_t byte = bytes >> (8 * ptx_prmt_from(to, control, mode)) & 0xff;
        bool sign_only = mode == PTX_PRMT_DEFAULT && (control >> (4 * to) & 8);

        if (sign_only)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * to);
    }
    return result;
}

#endif
