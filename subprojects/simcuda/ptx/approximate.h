/* The approximate instructions: div.approx, div.full, rcp.approx, sqrt.approx, rsqrt, sin, cos,
 * lg2, ex2, tanh. The ISA bounds their errors; here a result is the float next to what the host
 * computes in double precision, so that hosts agree. NaNs as in floats.h. */
#ifndef SIMCUDA_PTX_APPROXIMATE_H
#define SIMCUDA_PTX_APPROXIMATE_H

#include "doubles.h"
#include "halves.h"

/* The reciprocal is zero where the divisor is beyond 2^126: so is the quotient, with its sign, and
 * an infinite dividend's is a NaN. */
static inline uint32_t ptx_div_approx_f32(uint32_t a, uint32_t b, bool ftz) {
    uint32_t magnitude = b & 0x7fffffff;

    if (magnitude > 0x7e800000 && magnitude < 0x7f800000)
        return ptx_mul_f32(a, b & 0x80000000, PTX_RN, ftz, false);
    return ptx_div_f32(a, b, PTX_RN, ftz);
}

static inline uint32_t ptx_div_full_f32(uint32_t a, uint32_t b, bool ftz) {
    return ptx_div_f32(a, b, PTX_RN, ftz);
}

static inline uint32_t ptx_rcp_approx_f32(uint32_t a, bool ftz) {
    return ptx_rcp_f32(a, PTX_RN, ftz);
}

static inline uint32_t ptx_sqrt_approx_f32(uint32_t a, bool ftz) {
    return ptx_sqrt_f32(a, PTX_RN, ftz);
}

#define PTX_APPROXIMATE(name, expression)                                                          \
    static inline uint32_t name(uint32_t a, bool ftz) {                                            \
        double x = ptx_float(ptx_flush_f32(a, ftz));                                               \
                                                                                                   \
        return ptx_finish_f32((float)(expression), ftz, false);                                    \
    }

PTX_APPROXIMATE(ptx_rsqrt_approx_f32, 1 / sqrt(x))
PTX_APPROXIMATE(ptx_sin_approx_f32, sin(x))
PTX_APPROXIMATE(ptx_cos_approx_f32, cos(x))
PTX_APPROXIMATE(ptx_lg2_approx_f32, log2(x))
PTX_APPROXIMATE(ptx_ex2_approx_f32, exp2(x))
#undef PTX_APPROXIMATE

static inline uint32_t ptx_tanh_approx_f32(uint32_t a) {
    return ptx_finish_f32((float)tanh(ptx_float(a)), false, false);
}

static inline uint64_t ptx_rsqrt_approx_f64(uint64_t a) {
    return ptx_finish_f64(1 / sqrt(ptx_double(a)), a, 0, 0);
}

/* What the two .approx.ftz.f64 make of their result: its upper half, flushed. */
static inline uint64_t ptx_upper_f64(double value) {
    uint64_t bits = ptx_double_bits(value) & ~UINT64_C(0xffffffff);

    if (value != value)
        return UINT64_C(0x7fffffff00000000);
    return bits & PTX_INF_F64 ? bits : bits & PTX_SIGN_F64;
}

static inline double ptx_upper_operand_f64(uint64_t a) {
    uint64_t mask = a & PTX_INF_F64 ? ~UINT64_C(0xffffffff) : PTX_SIGN_F64;

    /* The lower half of a NaN may be all that tells it from an infinity. */
    return ptx_double(ptx_is_nan_f64(a) ? a : a & mask);
}

static inline uint64_t ptx_rcp_approx_ftz_f64(uint64_t a) {
    return ptx_upper_f64(1 / ptx_upper_operand_f64(a));
}

static inline uint64_t ptx_rsqrt_approx_ftz_f64(uint64_t a) {
    return ptx_upper_f64(1 / sqrt(ptx_upper_operand_f64(a)));
}

/* ex2.approx.f16, ex2.approx.ftz.bf16 */
static inline uint16_t ptx_ex2_approx_f16(uint16_t a) {
    return ptx_half_bits((float)exp2(ptx_half(a)));
}

static inline uint16_t ptx_ex2_approx_ftz_bf16(uint16_t a) {
    struct ptx_half_form form = {.ftz = true};

    return ptx_finish_bf16((float)exp2(ptx_operand_bf16(a, form)), form);
}

static inline uint16_t ptx_tanh_approx_f16(uint16_t a) {
    return ptx_half_bits((float)tanh(ptx_half(a)));
}

static inline uint16_t ptx_tanh_approx_bf16(uint16_t a) {
    return ptx_bfloat_bits((float)tanh(ptx_bfloat(a)));
}

#define PTX_BOTH(name, half)                                                                       \
    static inline uint32_t name(uint32_t a) {                                                      \
        return half((uint16_t)a) | (uint32_t)half((uint16_t)(a >> 16)) << 16;                      \
    }

PTX_BOTH(ptx_ex2_approx_f16x2, ptx_ex2_approx_f16)
PTX_BOTH(ptx_ex2_approx_ftz_bf16x2, ptx_ex2_approx_ftz_bf16)
PTX_BOTH(ptx_tanh_approx_f16x2, ptx_tanh_approx_f16)
PTX_BOTH(ptx_tanh_approx_bf16x2, ptx_tanh_approx_bf16)
#undef PTX_BOTH

#endif
