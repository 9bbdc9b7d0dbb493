/* cvt. PTX ISA, "Data Movement and Conversion Instructions: cvt". cvt.pack: packed.h.
 *
 * The names are ptx_TO_from_FROM(). Rounding to an integer uses the words of rounding to a float:
 * PTX_RN is .rni, PTX_RZ .rzi, PTX_RM .rmi, PTX_RP .rpi. */
#ifndef SIMCUDA_PTX_CONVERSIONS_H
#define SIMCUDA_PTX_CONVERSIONS_H

#include "doubles.h"
#include "halves.h"
#include "packed.h"

/* The width and signedness of an integer type. */
struct ptx_integer {
    uint32_t width; /* 8, 16, 32 or 64 */
    bool is_signed;
};

/* Integer to integer. The result is extended to 64 bits as the destination's type is, so that any
 * wider register takes its lowest bits. */
static inline uint64_t ptx_int_from_int(uint64_t a, struct ptx_integer from, struct ptx_integer to,
                                        bool sat) {
    int64_t value = ptx_part(a, 0, from.width, from.is_signed);
    bool huge = from.width == 64 && !from.is_signed && value < 0; /* 2^63 or more */

    if (sat && huge)
        value =
            to.width == 64 && !to.is_signed ? value : (int64_t)ptx_ones(to.width - to.is_signed);
    else if (sat && to.width < 64)
        value = ptx_clamp(value, to.width, to.is_signed);
    else if (sat && !to.is_signed && value < 0)
        value = 0;
    return (uint64_t)ptx_part((uint64_t)value, 0, to.width, to.is_signed);
}

/* An integral number next to it, of the host's types. */
static inline double ptx_integral(double value, enum ptx_rounding rounding) {
    switch (rounding) {
    case PTX_RN:
        return rint(value);
    case PTX_RM:
        return floor(value);
    case PTX_RP:
        return ceil(value);
    case PTX_RZ:
    case PTX_RNA:
    default:
        return trunc(value);
    }
}

/* A floating-point number to an integer: out of range the type's number next to it. The result is
 * extended as that of ptx_int_from_int(). `from_f64`: the instruction's type is .f64, which decides
 * what a NaN becomes. */
static inline uint64_t ptx_int_from_double(double a, enum ptx_rounding rounding,
                                           struct ptx_integer to, bool from_f64) {
    /* The conversion of C truncates by itself. */
    double value = rounding == PTX_RZ ? a : ptx_integral(a, rounding);

    if (value != value) {
        if (!from_f64 && to.width < 64)
            return 0;
        return (uint64_t)ptx_part(UINT64_C(1) << (to.width - 1), 0, to.width, to.is_signed);
    }
    if (to.width < 64) {
        double most = (double)ptx_ones(to.is_signed ? to.width - 1 : to.width);
        double least = to.is_signed ? -most - 1 : 0;

        return (uint64_t)(int64_t)(value < least ? least : value > most ? most : value);
    }
    if (to.is_signed)
        return value >= 0x1p63   ? (uint64_t)INT64_MAX
               : value < -0x1p63 ? (uint64_t)INT64_MIN
                                 : (uint64_t)(int64_t)value;
    return value >= 0x1p64 ? UINT64_MAX : value > 0 ? (uint64_t)value : 0;
}

static inline uint64_t ptx_int_from_f64(uint64_t a, enum ptx_rounding rounding,
                                        struct ptx_integer to) {
    return ptx_int_from_double(ptx_double(a), rounding, to, true);
}

static inline uint64_t ptx_int_from_f32(uint32_t a, enum ptx_rounding rounding,
                                        struct ptx_integer to, bool ftz) {
    return ptx_int_from_double(ptx_float(ptx_flush_f32(a, ftz)), rounding, to, false);
}

static inline uint64_t ptx_int_from_f16(uint16_t a, enum ptx_rounding rounding,
                                        struct ptx_integer to) {
    return ptx_int_from_double(ptx_half(a), rounding, to, false);
}

static inline uint64_t ptx_int_from_bf16(uint16_t a, enum ptx_rounding rounding,
                                         struct ptx_integer to) {
    return ptx_int_from_double(ptx_bfloat(a), rounding, to, false);
}

static inline struct ptx_number ptx_number_from_int(uint64_t a, struct ptx_integer from) {
    int64_t value = ptx_part(a, 0, from.width, from.is_signed);
    bool negative = from.is_signed && value < 0;

    return ptx_number(negative, negative ? 0 - (uint64_t)value : (uint64_t)value, 0);
}

static inline uint64_t ptx_f64_from_int(uint64_t a, struct ptx_integer from,
                                        enum ptx_rounding rounding, bool sat) {
    int64_t value = ptx_part(a, 0, from.width, from.is_signed);

    if (sat) /* to [0, 1] */
        return ptx_double_bits(value == 0 || (from.is_signed && value < 0) ? 0 : 1);
    if (rounding != PTX_RN)
        return ptx_encode(ptx_number_from_int(a, from), PTX_FORMAT_F64, rounding, false);
    return ptx_double_bits(from.is_signed ? (double)value : (double)(uint64_t)value);
}

static inline uint32_t ptx_f32_from_int(uint64_t a, struct ptx_integer from,
                                        enum ptx_rounding rounding, bool sat) {
    int64_t value = ptx_part(a, 0, from.width, from.is_signed);
    uint32_t bits = ptx_float_bits(from.is_signed ? (float)value : (float)(uint64_t)value);

    if (rounding != PTX_RN)
        bits = (uint32_t)ptx_encode(ptx_number_from_int(a, from), PTX_FORMAT_F32, rounding, false);
    return sat ? ptx_saturate_f32(bits) : bits;
}

static inline uint16_t ptx_f16_from_int(uint64_t a, struct ptx_integer from,
                                        enum ptx_rounding rounding, bool sat) {
    struct ptx_half_form form = {.sat = sat};

    return ptx_finish_half(
        (uint16_t)ptx_encode(ptx_number_from_int(a, from), PTX_FORMAT_F16, rounding, false), 0x7c00,
        0x3c00, form);
}

static inline uint16_t ptx_bf16_from_int(uint64_t a, struct ptx_integer from,
                                         enum ptx_rounding rounding) {
    return (uint16_t)ptx_encode(ptx_number_from_int(a, from), PTX_FORMAT_BF16, rounding, false);
}

/* A float's NaN keeps its sign and payload, and is quiet. */
static inline uint64_t ptx_f64_from_f32(uint32_t a, bool ftz, bool sat) {
    uint32_t flushed = ptx_flush_f32(a, ftz);
    double value = ptx_float(flushed);

    if (sat)
        return ptx_double_bits(value > 0 ? (value < 1 ? value : 1) : 0);
    if (value != value)
        return (uint64_t)(a & 0x80000000) << 32 | UINT64_C(0x7ff8000000000000) |
               (uint64_t)(a & 0x7fffff) << 29;
    return ptx_double_bits(value);
}

static inline uint32_t ptx_f32_from_f64(uint64_t a, enum ptx_rounding rounding, bool ftz,
                                        bool sat) {
    return ptx_finish_f32(ptx_narrow(ptx_double(a), rounding), ftz, sat);
}

static inline uint32_t ptx_f32_from_f16(uint16_t a, bool ftz, bool sat) {
    return ptx_finish_f32(ptx_half(a), ftz, sat);
}

static inline uint32_t ptx_f32_from_bf16(uint16_t a, bool ftz, bool sat) {
    return ptx_finish_f32(ptx_bfloat(a), ftz, sat);
}

static inline uint64_t ptx_f64_from_f16(uint16_t a, bool sat) {
    return ptx_f64_from_f32(ptx_f32_from_f16(a, false, false), false, sat);
}

static inline uint64_t ptx_f64_from_bf16(uint16_t a) {
    return ptx_f64_from_f32(ptx_f32_from_bf16(a, false, false), false, false);
}

/* What cvt may ask of a narrower result. */
struct ptx_narrow_form {
    enum ptx_rounding rounding;
    bool ftz; /* of an operand of .f32 */
    bool sat;
    bool relu;
    bool satfinite;
};

/* A double that is the operand, to a 16-bit format. */
static inline uint16_t ptx_narrow_to_half(double value, struct ptx_format format, uint16_t one,
                                          struct ptx_narrow_form form) {
    struct ptx_number number = ptx_decode(ptx_double_bits(value), PTX_FORMAT_F64);
    uint16_t bits = (uint16_t)ptx_encode(number, format, form.rounding, form.satfinite);

    return ptx_finish_half(bits, (uint16_t)format.infinity, one,
                           (struct ptx_half_form){.sat = form.sat, .relu = form.relu});
}

static inline uint16_t ptx_f16_from_f32(uint32_t a, struct ptx_narrow_form form) {
    float value = ptx_float(ptx_flush_f32(a, form.ftz));

    if (form.rounding == PTX_RN && !form.satfinite)
        return ptx_finish_f16(value, (struct ptx_half_form){.sat = form.sat, .relu = form.relu});
    return ptx_narrow_to_half(value, PTX_FORMAT_F16, 0x3c00, form);
}

static inline uint16_t ptx_bf16_from_f32(uint32_t a, struct ptx_narrow_form form) {
    float value = ptx_float(ptx_flush_f32(a, form.ftz));

    if (form.rounding == PTX_RN && !form.satfinite)
        return ptx_finish_bf16(value, (struct ptx_half_form){.sat = form.sat, .relu = form.relu});
    return ptx_narrow_to_half(value, PTX_FORMAT_BF16, 0x3f80, form);
}

static inline uint16_t ptx_f16_from_f64(uint64_t a, struct ptx_narrow_form form) {
    return ptx_narrow_to_half(ptx_double(a), PTX_FORMAT_F16, 0x3c00, form);
}

static inline uint16_t ptx_bf16_from_f64(uint64_t a, struct ptx_narrow_form form) {
    return ptx_narrow_to_half(ptx_double(a), PTX_FORMAT_BF16, 0x3f80, form);
}

static inline uint16_t ptx_f16_from_bf16(uint16_t a, struct ptx_narrow_form form) {
    return ptx_narrow_to_half(ptx_bfloat(a), PTX_FORMAT_F16, 0x3c00, form);
}

static inline uint16_t ptx_bf16_from_f16(uint16_t a, struct ptx_narrow_form form) {
    return ptx_narrow_to_half(ptx_half(a), PTX_FORMAT_BF16, 0x3f80, form);
}

/* cvt.rn.f16x2.f32: `a` is the upper half. */
static inline uint32_t ptx_f16x2_from_f32(uint32_t a, uint32_t b, struct ptx_narrow_form form) {
    return (uint32_t)ptx_f16_from_f32(a, form) << 16 | ptx_f16_from_f32(b, form);
}

static inline uint32_t ptx_bf16x2_from_f32(uint32_t a, uint32_t b, struct ptx_narrow_form form) {
    return (uint32_t)ptx_bf16_from_f32(a, form) << 16 | ptx_bf16_from_f32(b, form);
}

/* A float whose fraction ends after 10 bits. */
static inline uint32_t ptx_tf32_from_f32(uint32_t a, struct ptx_narrow_form form) {
    struct ptx_number number = ptx_decode(a, PTX_FORMAT_F32);
    uint32_t bits;

    if (number.kind == PTX_NOT_A_NUMBER)
        return PTX_NAN_F32;
    bits = (uint32_t)ptx_encode(number, PTX_FORMAT_TF32, form.rounding, form.satfinite) << 13;
    return form.relu && (bits & 0x80000000) ? 0 : bits;
}

/* A float to e4m3 or e5m2, of which no result is infinite. */
static inline uint8_t ptx_f8_from_float(float value, struct ptx_format format, bool relu) {
    struct ptx_number number = ptx_decode(ptx_float_bits(value), PTX_FORMAT_F32);
    uint8_t bits = (uint8_t)ptx_encode(number, format, PTX_RN, true);

    return relu && (bits & 0x80) ? 0 : bits;
}

/* cvt.rn.satfinite.e4m3x2.f32 and .e5m2x2: `a` is the upper byte. */
static inline uint16_t ptx_f8x2_from_f32(uint32_t a, uint32_t b, struct ptx_format format,
                                         bool relu) {
    return (uint16_t)(ptx_f8_from_float(ptx_float(a), format, relu) << 8 |
                      ptx_f8_from_float(ptx_float(b), format, relu));
}

static inline uint16_t ptx_f8x2_from_f16x2(uint32_t a, struct ptx_format format, bool relu) {
    return (uint16_t)(ptx_f8_from_float(ptx_half((uint16_t)(a >> 16)), format, relu) << 8 |
                      ptx_f8_from_float(ptx_half((uint16_t)a), format, relu));
}

static inline uint16_t ptx_f16_from_f8(uint8_t a, struct ptx_format format, bool relu) {
    uint16_t bits = (uint16_t)ptx_encode(ptx_decode(a, format), PTX_FORMAT_F16, PTX_RN, false);

    return relu && (bits & 0x8000) ? 0 : bits;
}

static inline uint32_t ptx_f16x2_from_f8x2(uint16_t a, struct ptx_format format, bool relu) {
    return (uint32_t)ptx_f16_from_f8((uint8_t)(a >> 8), format, relu) << 16 |
           ptx_f16_from_f8((uint8_t)a, format, relu);
}

/* Rounding to an integral number of the same type: cvt.rni.f32.f32 and so on. Without a rounding,
 * cvt.ftz.f32.f32 and cvt.sat.f32.f32: `rounds` is false. */
static inline uint32_t ptx_f32_from_f32(uint32_t a, bool rounds, enum ptx_rounding rounding,
                                        bool ftz, bool sat) {
    float value = ptx_float(ptx_flush_f32(a, ftz));

    return ptx_finish_f32(rounds ? (float)ptx_integral(value, rounding) : value, ftz, sat);
}

static inline uint64_t ptx_f64_from_f64(uint64_t a, bool rounds, enum ptx_rounding rounding,
                                        bool sat) {
    double value = ptx_double(a);

    value = rounds ? ptx_integral(value, rounding) : value;
    if (sat)
        value = value > 0 ? (value < 1 ? value : 1) : 0;
    return ptx_finish_f64(value, a, 0, 0);
}

static inline uint16_t ptx_f16_from_f16(uint16_t a, bool rounds, enum ptx_rounding rounding,
                                        bool sat) {
    float value = ptx_half(a);

    return ptx_finish_f16(rounds ? (float)ptx_integral(value, rounding) : value,
                          (struct ptx_half_form){.sat = sat});
}

static inline uint16_t ptx_bf16_from_bf16(uint16_t a, bool rounds, enum ptx_rounding rounding) {
    float value = ptx_bfloat(a);

    return ptx_finish_bf16(rounds ? (float)ptx_integral(value, rounding) : value,
                           (struct ptx_half_form){0});
}

#endif
