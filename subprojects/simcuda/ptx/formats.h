/* Numbers of any binary format, by integers alone: what no instruction of the host converts. */
#ifndef SIMCUDA_PTX_FORMATS_H
#define SIMCUDA_PTX_FORMATS_H

#include "bits.h"

/* A format of a sign, an exponent and a fraction. A magnitude beyond the largest number is encoded
 * as `infinity`, one more is the first NaN; e4m3 has no infinity, its one NaN is there. */
struct ptx_format {
    uint32_t fraction; /* bits */
    int32_t least;     /* the exponent of the least normal number */
    uint64_t infinity;
    uint64_t nan; /* what a conversion makes of a NaN */
    uint64_t sign;
};

#define PTX_FORMAT_F16  ((struct ptx_format){10, -14, 0x7c00, 0x7fff, 0x8000})
#define PTX_FORMAT_BF16 ((struct ptx_format){7, -126, 0x7f80, 0x7fff, 0x8000})
#define PTX_FORMAT_F32  ((struct ptx_format){23, -126, 0x7f800000, 0x7fffffff, 0x80000000})
#define PTX_FORMAT_F64                                                                             \
    ((struct ptx_format){52, -1022, UINT64_C(0x7ff0000000000000), UINT64_C(0xfff8000000000000),    \
                         UINT64_C(0x8000000000000000)})
/* f32 without the lowest 13 bits of its fraction. */
#define PTX_FORMAT_TF32 ((struct ptx_format){10, -126, 0x3fc00, 0x3ffff, 0x40000})
#define PTX_FORMAT_E5M2 ((struct ptx_format){2, -14, 0x7c, 0x7f, 0x80})
#define PTX_FORMAT_E4M3 ((struct ptx_format){3, -6, 0x7f, 0x7f, 0x80})

enum ptx_number_kind { PTX_ZERO, PTX_FINITE, PTX_INFINITE, PTX_NOT_A_NUMBER };

/* A number of no format. Invariant: of a finite one the highest bit of the significand is set; it
 * stands for 2 to the `exponent`. */
struct ptx_number {
    bool negative;
    enum ptx_number_kind kind;
    int32_t exponent;
    uint64_t significand;
};

/* significand * 2^exponent */
static inline struct ptx_number ptx_number(bool negative, uint64_t significand, int32_t exponent) {
    struct ptx_number number = {.negative = negative, .kind = PTX_ZERO};
    uint32_t shift;

    if (!significand)
        return number;
    shift = (uint32_t)__builtin_clzll(significand);
    number.kind = PTX_FINITE;
    number.significand = significand << shift;
    number.exponent = exponent + 63 - (int32_t)shift;
    return number;
}

static inline struct ptx_number ptx_decode(uint64_t bits, struct ptx_format format) {
    uint64_t magnitude = bits & (format.sign - 1);
    uint64_t fraction = magnitude & ptx_ones(format.fraction);
    int32_t exponent = (int32_t)(magnitude >> format.fraction);
    bool negative = bits & format.sign;

    if (magnitude >= format.infinity)
        return (struct ptx_number){.negative = negative,
                                   .kind =
                                       magnitude == format.infinity && format.infinity != format.nan
                                           ? PTX_INFINITE
                                           : PTX_NOT_A_NUMBER};
    if (exponent)
        fraction |= UINT64_C(1) << format.fraction;
    return ptx_number(negative, fraction,
                      format.least - (int32_t)format.fraction + (exponent ? exponent - 1 : 0));
}

static inline bool ptx_away(enum ptx_rounding rounding, bool negative) {
    return rounding == PTX_RN || rounding == PTX_RNA || (rounding == PTX_RM && negative) ||
           (rounding == PTX_RP && !negative);
}

/* The significand without its lowest `drop` bits, 1 or more, rounded. */
static inline uint64_t ptx_drop(uint64_t significand, uint32_t drop, enum ptx_rounding rounding,
                                bool negative) {
    uint64_t kept = drop < 64 ? significand >> drop : 0;
    /* What is dropped, and half of the last place that is kept. */
    uint64_t rest = drop > 64 ? 1 : significand & ptx_ones(drop);
    uint64_t half = drop > 64 ? 2 : UINT64_C(1) << (drop - 1);

    switch (rounding) {
    case PTX_RN:
        return kept + (rest > half || (rest == half && (kept & 1)));
    case PTX_RNA:
        return kept + (rest >= half);
    case PTX_RZ:
        return kept;
    case PTX_RM:
    case PTX_RP:
    default:
        return kept + (rest && ptx_away(rounding, negative));
    }
}

/* The number in the format. `finite`: no result is infinite, the largest number is instead. */
static inline uint64_t ptx_encode(struct ptx_number number, struct ptx_format format,
                                  enum ptx_rounding rounding, bool finite) {
    uint64_t sign = number.negative ? format.sign : 0, bits;
    int32_t above = number.exponent - format.least;
    uint32_t drop = 63 - format.fraction;

    if (number.kind == PTX_NOT_A_NUMBER)
        return format.nan;
    if (number.kind == PTX_ZERO)
        return sign;
    if (number.kind == PTX_INFINITE)
        return sign | (finite ? format.infinity - 1 : format.infinity);
    if (above < 0)
        bits = ptx_drop(number.significand, drop + (uint32_t)-above, rounding, number.negative);
    else /* the leading bit makes the exponent one more */
        bits = ((uint64_t)above << format.fraction) +
               ptx_drop(number.significand, drop, rounding, number.negative);
    if (bits >= format.infinity)
        bits =
            finite || !ptx_away(rounding, number.negative) ? format.infinity - 1 : format.infinity;
    return sign | bits;
}

#endif
