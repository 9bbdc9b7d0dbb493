/* Numbers in the parts of a 32-bit register: two of 16 bits, dot products of bytes. PTX ISA, the
 * types .u16x2 and .s16x2, "dp4a", "dp2a", "cvt.pack". Video instructions: video.h. */
#ifndef SIMCUDA_PTX_PACKED_H
#define SIMCUDA_PTX_PACKED_H

#include "integers.h"

/* One function for both halves of the registers, from one for a half. */
#define PTX_PAIR(name, half)                                                                       \
    static inline uint32_t name(uint32_t a, uint32_t b) {                                          \
        return half((uint16_t)a, (uint16_t)b) |                                                    \
               (uint32_t)half((uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16;                     \
    }

static inline uint16_t ptx_min_relu_s16(uint16_t a, uint16_t b) {
    return ptx_max_s16(ptx_min_s16(a, b), 0);
}

static inline uint16_t ptx_max_relu_s16(uint16_t a, uint16_t b) {
    return ptx_max_s16(ptx_max_s16(a, b), 0);
}

PTX_PAIR(ptx_add_u16x2, ptx_add_u16)
PTX_PAIR(ptx_sub_u16x2, ptx_sub_u16)
PTX_PAIR(ptx_min_u16x2, ptx_min_u16)
PTX_PAIR(ptx_max_u16x2, ptx_max_u16)
PTX_PAIR(ptx_min_s16x2, ptx_min_s16)
PTX_PAIR(ptx_max_s16x2, ptx_max_s16)
PTX_PAIR(ptx_min_relu_s16x2, ptx_min_relu_s16)
PTX_PAIR(ptx_max_relu_s16x2, ptx_max_relu_s16)
#undef PTX_PAIR

/* The part of `width` bits that is number `index` of a register, as a number. */
static inline int64_t ptx_part(uint64_t bits, uint32_t index, uint32_t width, bool is_signed) {
    uint64_t part = bits >> (index * width) & ptx_ones(width);

    return is_signed ? ptx_extend(part, width) : (int64_t)part;
}

/* Four products of bytes, added to `c`. */
static inline uint32_t ptx_dp4a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
    for (uint32_t i = 0; i < 4; i++)
        c += (uint32_t)(ptx_part(a, i, 8, a_signed) * ptx_part(b, i, 8, b_signed));
    return c;
}

/* Two products of a half with a byte, of the lower or the upper two bytes, added to `c`. */
static inline uint32_t ptx_dp2a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed,
                                bool upper) {
    for (uint32_t i = 0; i < 2; i++)
        c += (uint32_t)(ptx_part(a, i, 16, a_signed) *
                        ptx_part(b, i + (upper ? 2 : 0), 8, b_signed));
    return c;
}

/* The number of `width` bits next to `value`: at most 32, if unsigned at most 63. */
static inline int64_t ptx_clamp(int64_t value, uint32_t width, bool is_signed) {
    int64_t most = (int64_t)ptx_ones(is_signed ? width - 1 : width);
    int64_t least = is_signed ? -most - 1 : 0;

    return value < least ? least : value > most ? most : value;
}

/* cvt.pack.sat: `a` and `b`, of 32 bits, each to `width` bits; `c`, shifted up, fills the rest of
 * the register where the width is less than 16. */
static inline uint32_t ptx_cvt_pack(uint32_t a, uint32_t b, uint32_t c, bool from_signed,
                                    uint32_t width, bool to_signed) {
    uint64_t mask = ptx_ones(width);
    uint64_t high = (uint64_t)ptx_clamp(ptx_part(a, 0, 32, from_signed), width, to_signed) & mask;
    uint64_t low = (uint64_t)ptx_clamp(ptx_part(b, 0, 32, from_signed), width, to_signed) & mask;

    return (uint32_t)(low | high << width | (width < 16 ? (uint64_t)c << (2 * width) : 0));
}

#endif
