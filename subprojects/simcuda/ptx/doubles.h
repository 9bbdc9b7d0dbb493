/* Double precision: add, sub, mul, fma, div, rcp, sqrt; min, max, signs, comparisons. PTX ISA,
 * "Floating-Point Instructions": "NaN payloads are supported", so an operand that is a NaN is the
 * result, quiet; a NaN that is computed is 0xfff8000000000000, CUDART_NAN of CUDA's headers. */
#ifndef SIMCUDA_PTX_DOUBLES_H
#define SIMCUDA_PTX_DOUBLES_H

#include "floats.h"

#include <fenv.h>

#define PTX_NAN_F64   UINT64_C(0xfff8000000000000)
#define PTX_SIGN_F64  UINT64_C(0x8000000000000000)
#define PTX_INF_F64   UINT64_C(0x7ff0000000000000)
#define PTX_QUIET_F64 UINT64_C(0x0008000000000000)

static inline bool ptx_is_nan_f64(uint64_t a) {
    return (a & ~PTX_SIGN_F64) > PTX_INF_F64;
}

/* The first operand that is a NaN decides. */
static inline uint64_t ptx_finish_f64(double value, uint64_t a, uint64_t b, uint64_t c) {
    if (value == value)
        return ptx_double_bits(value);
    return ptx_is_nan_f64(a)   ? a | PTX_QUIET_F64
           : ptx_is_nan_f64(b) ? b | PTX_QUIET_F64
           : ptx_is_nan_f64(c) ? c | PTX_QUIET_F64
                               : PTX_NAN_F64;
}

enum ptx_double_operation { PTX_DOUBLE_ADD, PTX_DOUBLE_FMA, PTX_DOUBLE_DIV, PTX_DOUBLE_SQRT };

/* A rounding other than to nearest, by the host's. The operands and the result are volatile, so
 * that nothing is computed before or after that rounding is set. */
static inline double ptx_compute_rounded(enum ptx_double_operation operation, double a, double b,
                                         double c, enum ptx_rounding rounding) {
    volatile double x = a, y = b, z = c, result = 0;

    fesetround(rounding == PTX_RZ   ? FE_TOWARDZERO
               : rounding == PTX_RM ? FE_DOWNWARD
               : rounding == PTX_RP ? FE_UPWARD
                                    : FE_TONEAREST);
    switch (operation) {
    case PTX_DOUBLE_ADD:
        result = x + y;
        break;
    case PTX_DOUBLE_FMA:
        result = fma(x, y, z);
        break;
    case PTX_DOUBLE_DIV:
        result = x / y;
        break;
    case PTX_DOUBLE_SQRT:
    default:
        result = sqrt(x);
        break;
    }
    fesetround(FE_TONEAREST);
    return result;
}

static inline uint64_t ptx_add_f64(uint64_t a, uint64_t b, enum ptx_rounding rounding) {
    double x = ptx_double(a), y = ptx_double(b);

    return ptx_finish_f64(
        rounding == PTX_RN ? x + y : ptx_compute_rounded(PTX_DOUBLE_ADD, x, y, 0, rounding), a, b,
        0);
}

/* A NaN subtracted keeps its sign. */
static inline uint64_t ptx_sub_f64(uint64_t a, uint64_t b, enum ptx_rounding rounding) {
    return ptx_add_f64(a, ptx_is_nan_f64(b) ? b : b ^ PTX_SIGN_F64, rounding);
}

static inline uint64_t ptx_mul_f64(uint64_t a, uint64_t b, enum ptx_rounding rounding) {
    double x = ptx_double(a), y = ptx_double(b);
    /* A zero of the product's sign, which added to it changes nothing. */
    double zero = ptx_double((a ^ b ^ PTX_SIGN_F64) & PTX_SIGN_F64 ? 0 : PTX_SIGN_F64);

    return ptx_finish_f64(
        rounding == PTX_RN ? x * y : ptx_compute_rounded(PTX_DOUBLE_FMA, x, y, zero, rounding), a,
        b, 0);
}

/* fma.f64 and mad.f64 */
static inline uint64_t ptx_fma_f64(uint64_t a, uint64_t b, uint64_t c, enum ptx_rounding rounding) {
    double x = ptx_double(a), y = ptx_double(b), z = ptx_double(c);

    return ptx_finish_f64(
        rounding == PTX_RN ? fma(x, y, z) : ptx_compute_rounded(PTX_DOUBLE_FMA, x, y, z, rounding),
        a, b, c);
}

static inline uint64_t ptx_div_f64(uint64_t a, uint64_t b, enum ptx_rounding rounding) {
    double x = ptx_double(a), y = ptx_double(b);

    return ptx_finish_f64(
        rounding == PTX_RN ? x / y : ptx_compute_rounded(PTX_DOUBLE_DIV, x, y, 0, rounding), a, b,
        0);
}

static inline uint64_t ptx_rcp_f64(uint64_t a, enum ptx_rounding rounding) {
    return ptx_div_f64(UINT64_C(0x3ff0000000000000), a, rounding);
}

static inline uint64_t ptx_sqrt_f64(uint64_t a, enum ptx_rounding rounding) {
    double x = ptx_double(a);

    return ptx_finish_f64(
        rounding == PTX_RN ? sqrt(x) : ptx_compute_rounded(PTX_DOUBLE_SQRT, x, 0, 0, rounding), a,
        0, 0);
}

static inline uint64_t ptx_neg_f64(uint64_t a) {
    return a ^ PTX_SIGN_F64;
}

static inline uint64_t ptx_abs_f64(uint64_t a) {
    return a & ~PTX_SIGN_F64;
}

/* The sign of `a`, the magnitude of `b`. */
static inline uint64_t ptx_copysign_f64(uint64_t a, uint64_t b) {
    return (a & PTX_SIGN_F64) | (b & ~PTX_SIGN_F64);
}

/* Doubles in their order as numbers, -0 before +0. */
static inline int64_t ptx_order_f64(uint64_t a) {
    return (int64_t)(a ^ ((a & PTX_SIGN_F64) ? ~PTX_SIGN_F64 : 0));
}

/* min.f64 and max.f64 have no modifiers. */
static inline uint64_t ptx_extreme_f64(uint64_t a, uint64_t b, bool most) {
    if (ptx_is_nan_f64(a))
        return ptx_is_nan_f64(b) ? a | PTX_QUIET_F64 : b;
    if (ptx_is_nan_f64(b))
        return a;
    return (ptx_order_f64(a) < ptx_order_f64(b)) == most ? b : a;
}

static inline uint64_t ptx_min_f64(uint64_t a, uint64_t b) {
    return ptx_extreme_f64(a, b, false);
}

static inline uint64_t ptx_max_f64(uint64_t a, uint64_t b) {
    return ptx_extreme_f64(a, b, true);
}

static inline bool ptx_compare_f64(enum ptx_compare compare, uint64_t a, uint64_t b) {
    return ptx_compare_doubles(compare, ptx_double(a), ptx_double(b));
}

static inline bool ptx_testp_f64(enum ptx_testp test, uint64_t a) {
    uint64_t magnitude = a & ~PTX_SIGN_F64, least_normal = UINT64_C(1) << 52;

    switch (test) {
    case PTX_TESTP_FINITE:
        return magnitude < PTX_INF_F64;
    case PTX_TESTP_INFINITE:
        return magnitude == PTX_INF_F64;
    case PTX_TESTP_NUMBER:
        return magnitude <= PTX_INF_F64;
    case PTX_TESTP_NOTANUMBER:
        return magnitude > PTX_INF_F64;
    case PTX_TESTP_NORMAL: /* zeros are normal */
        return !magnitude || (magnitude >= least_normal && magnitude < PTX_INF_F64);
    case PTX_TESTP_SUBNORMAL:
    default:
        return magnitude && magnitude < least_normal;
    }
}

#endif
