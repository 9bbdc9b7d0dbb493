/* Words and bits that all of the arithmetic uses. */
#ifndef SIMCUDA_PTX_BITS_H
#define SIMCUDA_PTX_BITS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* How a result is rounded that its type cannot hold: to nearest even, to zero, down, up; PTX_RNA to
 * nearest, ties away from zero, which cvt alone has. */
enum ptx_rounding { PTX_RN, PTX_RZ, PTX_RM, PTX_RP, PTX_RNA };

/* The comparisons of set and setp. Integers know the first six: .lo, .ls, .hi and .hs are these for
 * unsigned ones. Those with U hold for a NaN, too. */
enum ptx_compare {
    PTX_EQ,
    PTX_NE,
    PTX_LT,
    PTX_LE,
    PTX_GT,
    PTX_GE,
    PTX_EQU,
    PTX_NEU,
    PTX_LTU,
    PTX_LEU,
    PTX_GTU,
    PTX_GEU,
    PTX_NUM, /* neither is a NaN */
    PTX_NAN
};

/* What testp asks of a number. */
enum ptx_testp {
    PTX_TESTP_FINITE,
    PTX_TESTP_INFINITE,
    PTX_TESTP_NUMBER,
    PTX_TESTP_NOTANUMBER,
    PTX_TESTP_NORMAL,
    PTX_TESTP_SUBNORMAL
};

static inline float ptx_float(uint32_t bits) {
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t ptx_float_bits(float value) {
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double ptx_double(uint64_t bits) {
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t ptx_double_bits(double value) {
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The lowest `count` bits set: all of them for a count of 64 or more. */
static inline uint64_t ptx_ones(uint32_t count) {
    return count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
}

/* The two's complement number in the lowest `width` bits, 1 to 64. */
static inline int64_t ptx_extend(uint64_t bits, uint32_t width) {
    uint64_t sign = UINT64_C(1) << (width - 1);

    return (int64_t)(((bits & ptx_ones(width)) ^ sign) - sign);
}

/* The comparisons of one type of the host. */
#define PTX_COMPARE_FLOATS(name, type)                                                             \
    static inline bool name(enum ptx_compare compare, type a, type b) {                            \
        switch (compare) {                                                                         \
        case PTX_EQ:                                                                               \
            return a == b;                                                                         \
        case PTX_NE:                                                                               \
            return a < b || a > b;                                                                 \
        case PTX_LT:                                                                               \
            return a < b;                                                                          \
        case PTX_LE:                                                                               \
            return a <= b;                                                                         \
        case PTX_GT:                                                                               \
            return a > b;                                                                          \
        case PTX_GE:                                                                               \
            return a >= b;                                                                         \
        case PTX_EQU:                                                                              \
            return !(a < b || a > b);                                                              \
        case PTX_NEU:                                                                              \
            return a != b;                                                                         \
        case PTX_LTU:                                                                              \
            return !(a >= b);                                                                      \
        case PTX_LEU:                                                                              \
            return !(a > b);                                                                       \
        case PTX_GTU:                                                                              \
            return !(a <= b);                                                                      \
        case PTX_GEU:                                                                              \
            return !(a < b);                                                                       \
        case PTX_NUM:                                                                              \
            return !isunordered(a, b);                                                             \
        case PTX_NAN:                                                                              \
        default:                                                                                   \
            return isunordered(a, b);                                                              \
        }                                                                                          \
    }

PTX_COMPARE_FLOATS(ptx_compare_floats, float)
PTX_COMPARE_FLOATS(ptx_compare_doubles, double)
#undef PTX_COMPARE_FLOATS

#endif
