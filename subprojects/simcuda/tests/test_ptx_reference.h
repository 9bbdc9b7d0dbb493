/* References for the arithmetic of PTX: exact numbers of 113 bits, rounded once, and numbers to try
 * it with. Nothing here is of ptx/. */
#ifndef SIMCUDA_TEST_PTX_REFERENCE_H
#define SIMCUDA_TEST_PTX_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 wide;
#else
typedef long double wide; /* as wide, where there is no other */
#endif
_Static_assert(sizeof(wide) == 16, "a reference of 113 bits");

/* A binary format; `least` is the exponent of its least normal number. */
struct reference_format {
    int fraction;
    int exponents;
    int least;
};

static const struct reference_format half_format = {10, 5, -14}, bfloat_format = {7, 8, -126},
                                     float_format = {23, 8, -126}, double_format = {52, 11, -1022};

static const enum ptx_rounding roundings[] = {PTX_RN, PTX_RZ, PTX_RM, PTX_RP};

static uint64_t test_seed = 20260101;

static inline uint64_t next_bits(void) {
    test_seed ^= test_seed << 13;
    test_seed ^= test_seed >> 7;
    test_seed ^= test_seed << 17;
    return test_seed * UINT64_C(0x2545f4914f6cdd1d);
}

/* 2^exponent, by its binary digits. */
static inline wide power(unsigned int exponent) {
    wide result = 1, square = 2;

    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            result *= square;
        if (exponent > 1)
            square *= square;
    }
    return result;
}

static inline wide scaled(wide value, int exponent) {
    return exponent < 0 ? value / power((unsigned int)-exponent)
                        : value * power((unsigned int)exponent);
}

/* The exponent of the highest bit of a positive number, which is left between 1 and 2. */
static inline int normalize(wide *value) {
    int exponent = 0;

    for (int step = 4096; step; step /= 2) {
        wide by = power((unsigned int)step);

        if (*value >= by) {
            *value /= by;
            exponent += step;
        } else if (*value < 2 / by) {
            *value *= by;
            exponent -= step;
        }
    }
    if (*value < 1) {
        *value *= 2;
        exponent--;
    }
    return exponent;
}

/* Any number but a NaN, from its encoding; infinities are 2^16000. */
static inline wide reference_value(uint64_t bits, struct reference_format format) {
    uint64_t fraction = bits & ((UINT64_C(1) << format.fraction) - 1);
    int exponent = (int)(bits >> format.fraction & ((1u << format.exponents) - 1));
    bool negative = bits >> (format.fraction + format.exponents) & 1;
    wide value;

    if (exponent == (1 << format.exponents) - 1)
        value = power(16000);
    else if (exponent)
        value = scaled((wide)(fraction | UINT64_C(1) << format.fraction),
                       format.least - format.fraction + exponent - 1);
    else
        value = scaled((wide)fraction, format.least - format.fraction);
    return negative ? -value : value;
}

static inline bool reference_infinite(uint64_t bits, struct reference_format format) {
    uint64_t magnitude = bits & ((UINT64_C(1) << (format.fraction + format.exponents)) - 1);

    return magnitude == ((UINT64_C(1) << format.exponents) - 1) << format.fraction;
}

static inline bool reference_nan(uint64_t bits, struct reference_format format) {
    uint64_t magnitude = bits & ((UINT64_C(1) << (format.fraction + format.exponents)) - 1);

    return magnitude > ((UINT64_C(1) << format.exponents) - 1) << format.fraction;
}

/* An encoding whose every part is sometimes extreme: exponents at both ends, fractions of few
 * bits, middles between two numbers of fewer bits. */
static inline uint64_t next_number(struct reference_format format) {
    uint64_t bits = next_bits(), fraction = bits & ((UINT64_C(1) << format.fraction) - 1);
    uint64_t most = (UINT64_C(1) << format.exponents) - 1;
    uint64_t exponent = next_bits() % (most + 1);

    switch (next_bits() % 8) {
    case 0:
        fraction = 0;
        break;
    case 1:
        fraction = (UINT64_C(1) << format.fraction) - 1;
        break;
    case 2:
        fraction = UINT64_C(1) << (bits % (uint64_t)format.fraction);
        break;
    case 3:
        exponent = next_bits() % 3;
        break;
    case 4:
        exponent = most - next_bits() % 3;
        break;
    case 5:
        exponent = most / 2 - 2 + next_bits() % 5;
        break;
    default:
        break;
    }
    return (bits >> 63) << (format.fraction + format.exponents) | exponent << format.fraction |
           fraction;
}

/* The encoding of the exact `value`, rounded. `negative` is its sign where it is zero. */
static inline uint64_t reference_encode(wide value, bool negative, struct reference_format format,
                                        enum ptx_rounding rounding) {
    uint64_t sign = (UINT64_C(1) << (format.fraction + format.exponents));
    uint64_t infinity = ((UINT64_C(1) << format.exponents) - 1) << format.fraction, kept;
    int exponent;
    wide rest;

    negative = value < 0 || (value == 0 && negative);
    value = value < 0 ? -value : value;
    sign = negative ? sign : 0;
    if (value == 0)
        return sign;
    if (value >= power(15000))
        return sign | infinity;
    exponent = normalize(&value);
    if (exponent < format.least) {
        value = scaled(value, exponent - format.least);
        exponent = format.least;
    }
    value = scaled(value, format.fraction);
    kept = (uint64_t)value;
    rest = value - (wide)kept;
    if (rounding == PTX_RN)
        kept += 2 * rest > 1 || (2 * rest == 1 && (kept & 1));
    else if (rounding == PTX_RNA)
        kept += 2 * rest >= 1;
    else if (rounding != PTX_RZ)
        kept += rest > 0 && negative == (rounding == PTX_RM);
    kept += (uint64_t)(exponent - format.least) << format.fraction;
    if (kept >= infinity)
        kept = rounding == PTX_RN || rounding == PTX_RNA ||
                       (rounding != PTX_RZ && negative == (rounding == PTX_RM))
                   ? infinity
                   : infinity - 1;
    return sign | kept;
}

/* The encoding of an exact sum of two numbers: where that is nothing, its sign is theirs, or by the
 * rounding. */
static inline uint64_t reference_sum(wide a, bool a_negative, wide b, bool b_negative,
                                     struct reference_format format, enum ptx_rounding rounding) {
    bool negative = a == 0 && b == 0 && a_negative == b_negative ? a_negative : rounding == PTX_RM;

    return reference_encode(a + b, negative, format, rounding);
}

/* Whether a number of 113 bits holds the exact sum. */
static inline bool exact_sum(wide a, wide b) {
    wide sum = a + b, of_b = sum - a;

    return (a - (sum - of_b)) + (b - of_b) == 0;
}

static inline void assert_bits(uint64_t got, uint64_t expected, const char *what, uint64_t a,
                               uint64_t b, uint64_t c, int rounding) {
    if (got != expected)
        print_error("%s(%#llx, %#llx, %#llx), rounding %d: %#llx, not %#llx\n", what,
                    (unsigned long long)a, (unsigned long long)b, (unsigned long long)c, rounding,
                    (unsigned long long)got, (unsigned long long)expected);
    assert_true(got == expected);
}

#endif
