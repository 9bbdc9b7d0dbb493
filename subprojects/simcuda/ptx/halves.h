/* Half precision: f16, bf16, and two of them in a register. PTX ISA, "Half Precision Floating-Point
 * Instructions". A NaN that is computed is 0x7fff. */
#ifndef SIMCUDA_PTX_HALVES_H
#define SIMCUDA_PTX_HALVES_H

#include "floats.h"
#include "formats.h"

#define PTX_NAN_F16 0x7fff

/* .ftz, .sat, .relu: no negative result. */
struct ptx_half_form {
    bool ftz;
    bool sat;
    bool relu;
};

static inline float ptx_half(uint16_t a) {
    /* As a float the exponent is too small by 112; an infinity's and a NaN's is the largest. */
    uint32_t bits = ptx_float_bits(ptx_float((uint32_t)(a & 0x7fff) << 13) * 0x1p112f);

    if ((a & 0x7c00) == 0x7c00)
        bits |= 0x7f800000;
    return ptx_float(bits | (uint32_t)(a & 0x8000) << 16);
}

static inline float ptx_bfloat(uint16_t a) {
    return ptx_float((uint32_t)a << 16);
}

/* The half next to it, ties to even. */
static inline uint16_t ptx_half_bits(float value) {
    uint32_t bits = ptx_float_bits(value), magnitude = bits & 0x7fffffff, half;

    if (magnitude >= 0x38800000) /* 2^-14 */
        half = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
    else /* the last place of 0.5 is that of a subnormal half */
        half = ptx_float_bits(ptx_float(magnitude) + 0.5f) - 0x3f000000;
    if (magnitude >= 0x477ff000) /* 65520 */
        half = 0x7c00;
    if (magnitude > 0x7f800000)
        return PTX_NAN_F16;
    return (uint16_t)(half | (bits >> 16 & 0x8000));
}

static inline uint16_t ptx_bfloat_bits(float value) {
    uint32_t bits = ptx_float_bits(value);

    if (value != value)
        return PTX_NAN_F16;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A double as a float that rounds to fewer bits as the double does: truncated, and odd if that is
 * not exact. */
static inline float ptx_float_to_odd(double value) {
    uint32_t bits = ptx_float_bits(ptx_narrow(value, PTX_RZ));

    if (ptx_float(bits) != value && value == value)
        bits |= 1;
    return ptx_float(bits);
}

/* With .ftz a subnormal half is a zero of its sign: the exponent's bits are `infinity`. */
static inline uint16_t ptx_flush_half(uint16_t a, uint16_t infinity, bool ftz) {
    return ftz && !(a & infinity) ? a & 0x8000 : a;
}

static inline uint16_t ptx_finish_half(uint16_t a, uint16_t infinity, uint16_t one,
                                       struct ptx_half_form form) {
    uint16_t bits = ptx_flush_half(a, infinity, form.ftz);
    bool nan = (bits & 0x7fff) > infinity;

    if (form.sat)
        return nan || (bits & 0x8000) ? 0 : bits > one ? one : bits;
    if (form.relu && !nan && (bits & 0x8000))
        return 0;
    return bits;
}

static inline uint16_t ptx_finish_f16(float value, struct ptx_half_form form) {
    return ptx_finish_half(ptx_half_bits(value), 0x7c00, 0x3c00, form);
}

static inline uint16_t ptx_finish_bf16(float value, struct ptx_half_form form) {
    return ptx_finish_half(ptx_bfloat_bits(value), 0x7f80, 0x3f80, form);
}

static inline float ptx_operand_f16(uint16_t a, struct ptx_half_form form) {
    return ptx_half(ptx_flush_half(a, 0x7c00, form.ftz));
}

static inline float ptx_operand_bf16(uint16_t a, struct ptx_half_form form) {
    return ptx_bfloat(ptx_flush_half(a, 0x7f80, form.ftz));
}

/* min and max of 16-bit formats, by the order of their bits. */
static inline uint16_t ptx_extreme_half(uint16_t a, uint16_t b, uint16_t infinity,
                                        struct ptx_extreme form, bool most) {
    uint16_t sign = (a ^ b) & 0x8000, first = ptx_flush_half(a, infinity, form.ftz);
    uint16_t second = ptx_flush_half(b, infinity, form.ftz), found;
    bool first_nan = (a & 0x7fff) > infinity, second_nan = (b & 0x7fff) > infinity;

    if (form.nan ? first_nan || second_nan : first_nan && second_nan)
        return PTX_NAN_F16;
    if (form.xorsign_abs) {
        first &= 0x7fff;
        second &= 0x7fff;
    }
    found = (ptx_order_f32((uint32_t)first << 16) < ptx_order_f32((uint32_t)second << 16)) == most
                ? second
                : first;
    found = first_nan ? second : second_nan ? first : found;
    return form.xorsign_abs ? (uint16_t)((found & 0x7fff) | sign) : found;
}

/* The functions of one format, and the same for two of its numbers in a register. A float holds
 * every product and, once more rounded, sum; what the exponent of a float does not is rounded to
 * odd before, as is a fused product and sum. */
#define PTX_HALVES(type, infinity)                                                                 \
    static inline uint16_t ptx_add_##type(uint16_t a, uint16_t b, struct ptx_half_form form) {     \
        return ptx_finish_##type(ptx_operand_##type(a, form) + ptx_operand_##type(b, form), form); \
    }                                                                                              \
    static inline uint16_t ptx_sub_##type(uint16_t a, uint16_t b, struct ptx_half_form form) {     \
        return ptx_finish_##type(ptx_operand_##type(a, form) - ptx_operand_##type(b, form), form); \
    }                                                                                              \
    static inline uint16_t ptx_mul_##type(uint16_t a, uint16_t b, struct ptx_half_form form) {     \
        double product = (double)ptx_operand_##type(a, form) * ptx_operand_##type(b, form);        \
                                                                                                   \
        return ptx_finish_##type(ptx_float_to_odd(product), form);                                 \
    }                                                                                              \
    static inline uint16_t ptx_fma_##type(uint16_t a, uint16_t b, uint16_t c,                      \
                                          struct ptx_half_form form) {                             \
        double product = (double)ptx_operand_##type(a, form) * ptx_operand_##type(b, form);        \
        double sum = ptx_sum_to_odd(product, ptx_operand_##type(c, form));                         \
                                                                                                   \
        return ptx_finish_##type(ptx_float_to_odd(sum), form);                                     \
    }                                                                                              \
    static inline uint16_t ptx_neg_##type(uint16_t a, bool ftz) {                                  \
        return ptx_flush_half(a, infinity, ftz) ^ 0x8000;                                          \
    }                                                                                              \
    static inline uint16_t ptx_abs_##type(uint16_t a, bool ftz) {                                  \
        return ptx_flush_half(a, infinity, ftz) & 0x7fff;                                          \
    }                                                                                              \
    static inline uint16_t ptx_min_##type(uint16_t a, uint16_t b, struct ptx_extreme form) {       \
        return ptx_extreme_half(a, b, infinity, form, false);                                      \
    }                                                                                              \
    static inline uint16_t ptx_max_##type(uint16_t a, uint16_t b, struct ptx_extreme form) {       \
        return ptx_extreme_half(a, b, infinity, form, true);                                       \
    }                                                                                              \
    static inline bool ptx_compare_##type(enum ptx_compare compare, uint16_t a, uint16_t b,        \
                                          bool ftz) {                                              \
        struct ptx_half_form form = {.ftz = ftz};                                                  \
                                                                                                   \
        return ptx_compare_floats(compare, ptx_operand_##type(a, form),                            \
                                  ptx_operand_##type(b, form));                                    \
    }                                                                                              \
    static inline uint32_t ptx_add_##type##x2(uint32_t a, uint32_t b, struct ptx_half_form form) { \
        return ptx_add_##type((uint16_t)a, (uint16_t)b, form) |                                    \
               (uint32_t)ptx_add_##type((uint16_t)(a >> 16), (uint16_t)(b >> 16), form) << 16;     \
    }                                                                                              \
    static inline uint32_t ptx_sub_##type##x2(uint32_t a, uint32_t b, struct ptx_half_form form) { \
        return ptx_sub_##type((uint16_t)a, (uint16_t)b, form) |                                    \
               (uint32_t)ptx_sub_##type((uint16_t)(a >> 16), (uint16_t)(b >> 16), form) << 16;     \
    }                                                                                              \
    static inline uint32_t ptx_mul_##type##x2(uint32_t a, uint32_t b, struct ptx_half_form form) { \
        return ptx_mul_##type((uint16_t)a, (uint16_t)b, form) |                                    \
               (uint32_t)ptx_mul_##type((uint16_t)(a >> 16), (uint16_t)(b >> 16), form) << 16;     \
    }                                                                                              \
    static inline uint32_t ptx_fma_##type##x2(uint32_t a, uint32_t b, uint32_t c,                  \
                                              struct ptx_half_form form) {                         \
        return ptx_fma_##type((uint16_t)a, (uint16_t)b, (uint16_t)c, form) |                       \
               (uint32_t)ptx_fma_##type((uint16_t)(a >> 16), (uint16_t)(b >> 16),                  \
                                        (uint16_t)(c >> 16), form)                                 \
                   << 16;                                                                          \
    }                                                                                              \
    static inline uint32_t ptx_neg_##type##x2(uint32_t a, bool ftz) {                              \
        return ptx_neg_##type((uint16_t)a, ftz) |                                                  \
               (uint32_t)ptx_neg_##type((uint16_t)(a >> 16), ftz) << 16;                           \
    }                                                                                              \
    static inline uint32_t ptx_abs_##type##x2(uint32_t a, bool ftz) {                              \
        return ptx_abs_##type((uint16_t)a, ftz) |                                                  \
               (uint32_t)ptx_abs_##type((uint16_t)(a >> 16), ftz) << 16;                           \
    }                                                                                              \
    static inline uint32_t ptx_min_##type##x2(uint32_t a, uint32_t b, struct ptx_extreme form) {   \
        return ptx_min_##type((uint16_t)a, (uint16_t)b, form) |                                    \
               (uint32_t)ptx_min_##type((uint16_t)(a >> 16), (uint16_t)(b >> 16), form) << 16;     \
    }                                                                                              \
    static inline uint32_t ptx_max_##type##x2(uint32_t a, uint32_t b, struct ptx_extreme form) {   \
        return ptx_max_##type((uint16_t)a, (uint16_t)b, form) |                                    \
               (uint32_t)ptx_max_##type((uint16_t)(a >> 16), (uint16_t)(b >> 16), form) << 16;     \
    }

PTX_HALVES(f16, 0x7c00)
PTX_HALVES(bf16, 0x7f80)
#undef PTX_HALVES

#endif
