/* Single precision, correctly rounded: add, sub, mul, fma, div, rcp, sqrt; min, max, signs,
 * comparisons. PTX ISA, "Floating-Point Instructions". A NaN that is computed is 0x7fffffff, which
 * the CUDA programming guide calls canonical. */
#ifndef SIMCUDA_PTX_FLOATS_H
#define SIMCUDA_PTX_FLOATS_H

#include "bits.h"

#define PTX_NAN_F32 UINT32_C(0x7fffffff)

static inline bool ptx_is_nan_f32(uint32_t a) {
    return (a & 0x7fffffff) > 0x7f800000;
}

/* With .ftz a subnormal number is a zero of its sign. */
static inline uint32_t ptx_flush_f32(uint32_t a, bool ftz) {
    return ftz && !(a & 0x7f800000) ? a & 0x80000000 : a;
}

/* Within 0 and 1; a NaN is 0. */
static inline uint32_t ptx_saturate_f32(uint32_t a) {
    float value = ptx_float(a);

    return value > 0 ? (value < 1 ? a : 0x3f800000) : 0;
}

/* What an instruction makes of the value computed. */
static inline uint32_t ptx_finish_f32(float value, bool ftz, bool sat) {
    uint32_t bits = value != value ? PTX_NAN_F32 : ptx_float_bits(value);

    bits = ptx_flush_f32(bits, ftz);
    return sat ? ptx_saturate_f32(bits) : bits;
}

/* The sum of two doubles, rounded to odd: truncated, and its lowest bit set unless it is exact. Any
 * rounding of that to 51 bits or fewer is a rounding of the exact sum. */
static inline double ptx_sum_to_odd(double a, double b) {
    double sum = a + b;
    double of_b = sum - a;
    double error = (a - (sum - of_b)) + (b - of_b);
    uint64_t bits = ptx_double_bits(sum);

    /* Not where the sum is infinite or a NaN: then the error is a NaN. */
    if ((error > 0 || error < 0) && !(bits & 1))
        bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
    return ptx_double(bits);
}

/* A double that is exact, or on the exact result's side of each float. */
static inline float ptx_narrow(double value, enum ptx_rounding rounding) {
    float nearest = (float)value;
    uint32_t bits = ptx_float_bits(nearest);
    bool negative = bits >> 31;
    bool above = nearest > value, below = nearest < value;

    switch (rounding) {
    case PTX_RZ:
        bits -= negative ? below : above;
        break;
    case PTX_RM:
        bits = negative ? bits + above : bits - above;
        break;
    case PTX_RP:
        bits = negative ? bits - below : bits + below;
        break;
    case PTX_RN:
    case PTX_RNA:
    default:
        break;
    }
    return ptx_float(bits);
}

/* A sum of nothing is +0, rounded down -0; but two zeros of one sign keep it. */
static inline float ptx_add_rounded(double a, double b, enum ptx_rounding rounding) {
    double sum = ptx_sum_to_odd(a, b);

    if (rounding == PTX_RM && sum == 0 && !(a == 0 && !signbit(a) && !signbit(b)))
        return -0.0f;
    return ptx_narrow(sum, rounding);
}

static inline uint32_t ptx_add_f32(uint32_t a, uint32_t b, enum ptx_rounding rounding, bool ftz,
                                   bool sat) {
    float x = ptx_float(ptx_flush_f32(a, ftz)), y = ptx_float(ptx_flush_f32(b, ftz));

    return ptx_finish_f32(rounding == PTX_RN ? x + y : ptx_add_rounded(x, y, rounding), ftz, sat);
}

static inline uint32_t ptx_sub_f32(uint32_t a, uint32_t b, enum ptx_rounding rounding, bool ftz,
                                   bool sat) {
    return ptx_add_f32(a, b ^ 0x80000000, rounding, ftz, sat);
}

static inline uint32_t ptx_mul_f32(uint32_t a, uint32_t b, enum ptx_rounding rounding, bool ftz,
                                   bool sat) {
    float x = ptx_float(ptx_flush_f32(a, ftz)), y = ptx_float(ptx_flush_f32(b, ftz));

    /* A product of two floats is a double. */
    return ptx_finish_f32(rounding == PTX_RN ? x * y : ptx_narrow((double)x * y, rounding), ftz,
                          sat);
}

/* fma.f32, and mad.f32 of sm_20 on. */
static inline uint32_t ptx_fma_f32(uint32_t a, uint32_t b, uint32_t c, enum ptx_rounding rounding,
                                   bool ftz, bool sat) {
    float x = ptx_float(ptx_flush_f32(a, ftz)), y = ptx_float(ptx_flush_f32(b, ftz));
    float z = ptx_float(ptx_flush_f32(c, ftz));

    return ptx_finish_f32(
        rounding == PTX_RN ? fmaf(x, y, z) : ptx_add_rounded((double)x * y, z, rounding), ftz, sat);
}

/* div.rn and so on. In double precision no quotient but an exact one comes as near to a float, or
 * to the middle of two, as that precision's error; nor does a square root. */
static inline uint32_t ptx_div_f32(uint32_t a, uint32_t b, enum ptx_rounding rounding, bool ftz) {
    float x = ptx_float(ptx_flush_f32(a, ftz)), y = ptx_float(ptx_flush_f32(b, ftz));

    return ptx_finish_f32(rounding == PTX_RN ? x / y : ptx_narrow((double)x / y, rounding), ftz,
                          false);
}

static inline uint32_t ptx_rcp_f32(uint32_t a, enum ptx_rounding rounding, bool ftz) {
    return ptx_div_f32(0x3f800000, a, rounding, ftz);
}

static inline uint32_t ptx_sqrt_f32(uint32_t a, enum ptx_rounding rounding, bool ftz) {
    float x = ptx_float(ptx_flush_f32(a, ftz));

    return ptx_finish_f32(rounding == PTX_RN ? sqrtf(x) : ptx_narrow(sqrt(x), rounding), ftz,
                          false);
}

/* neg and abs. A NaN's bits pass, but for the sign. */
static inline uint32_t ptx_neg_f32(uint32_t a, bool ftz) {
    return ptx_flush_f32(a, ftz) ^ 0x80000000;
}

static inline uint32_t ptx_abs_f32(uint32_t a, bool ftz) {
    return ptx_flush_f32(a, ftz) & 0x7fffffff;
}

/* The sign of `a`, the magnitude of `b`. */
static inline uint32_t ptx_copysign_f32(uint32_t a, uint32_t b) {
    return (a & 0x80000000) | (b & 0x7fffffff);
}

/* Floats in their order as numbers, -0 before +0. */
static inline int32_t ptx_order_f32(uint32_t a) {
    return (int32_t)(a ^ ((a & 0x80000000) ? 0x7fffffff : 0));
}

/* How min and max take their operands: .ftz, .NaN, .xorsign.abs */
struct ptx_extreme {
    bool ftz;
    bool nan;
    bool xorsign_abs;
};

/* With three operands: the first two, then the result and the third. */
static inline uint32_t ptx_extreme_f32(uint32_t a, uint32_t b, struct ptx_extreme form, bool most) {
    uint32_t sign = (a ^ b) & 0x80000000, first = ptx_flush_f32(a, form.ftz);
    uint32_t second = ptx_flush_f32(b, form.ftz), found;
    bool first_nan = ptx_is_nan_f32(a), second_nan = ptx_is_nan_f32(b);

    if (form.xorsign_abs) {
        first &= 0x7fffffff;
        second &= 0x7fffffff;
    }
    found = (ptx_order_f32(first) < ptx_order_f32(second)) == most ? second : first;
    found = first_nan ? second : second_nan ? first : found;
    if (form.xorsign_abs)
        found = (found & 0x7fffffff) | sign;
    return (form.nan ? first_nan || second_nan : first_nan && second_nan) ? PTX_NAN_F32 : found;
}

static inline uint32_t ptx_min_f32(uint32_t a, uint32_t b, struct ptx_extreme form) {
    return ptx_extreme_f32(a, b, form, false);
}

static inline uint32_t ptx_max_f32(uint32_t a, uint32_t b, struct ptx_extreme form) {
    return ptx_extreme_f32(a, b, form, true);
}

static inline bool ptx_compare_f32(enum ptx_compare compare, uint32_t a, uint32_t b, bool ftz) {
    return ptx_compare_floats(compare, ptx_float(ptx_flush_f32(a, ftz)),
                              ptx_float(ptx_flush_f32(b, ftz)));
}

/* slct.f32's condition: `c` is at least zero, which no NaN is, and -0 is. */
static inline bool ptx_slct_f32(uint32_t c, bool ftz) {
    return ptx_float(ptx_flush_f32(c, ftz)) >= 0;
}

static inline bool ptx_testp_f32(enum ptx_testp test, uint32_t a) {
    uint32_t magnitude = a & 0x7fffffff;

    switch (test) {
    case PTX_TESTP_FINITE:
        return magnitude < 0x7f800000;
    case PTX_TESTP_INFINITE:
        return magnitude == 0x7f800000;
    case PTX_TESTP_NUMBER:
        return magnitude <= 0x7f800000;
    case PTX_TESTP_NOTANUMBER:
        return magnitude > 0x7f800000;
    case PTX_TESTP_NORMAL: /* zeros are normal */
        return !magnitude || (magnitude >= 0x00800000 && magnitude < 0x7f800000);
    case PTX_TESTP_SUBNORMAL:
    default:
        return magnitude && magnitude < 0x00800000;
    }
}

#endif
