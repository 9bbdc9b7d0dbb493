/* Video instructions: vadd, vsub, vabsdiff, vmin, vmax, vavrg, vset, vshl, vshr, vmad, and those of
 * halves (vadd2) and bytes (vadd4). PTX ISA, "Scalar Video Instructions", "SIMD Video
 * Instructions". */
#ifndef SIMCUDA_PTX_VIDEO_H
#define SIMCUDA_PTX_VIDEO_H

#include "packed.h"

enum ptx_video {
    PTX_VADD,
    PTX_VSUB,
    PTX_VABSDIFF,
    PTX_VMIN,
    PTX_VMAX,
    PTX_VAVRG,
    PTX_VSHL_CLAMP,
    PTX_VSHL_WRAP,
    PTX_VSHR_CLAMP,
    PTX_VSHR_WRAP,
    PTX_VSET /* 1 where the comparison holds */
};

/* What is done with the result of the first operation and the third operand. */
enum ptx_video_second { PTX_VIDEO_NONE, PTX_VIDEO_ADD, PTX_VIDEO_MIN, PTX_VIDEO_MAX };

/* The part of a register that an operand is: .b0 to .b3, .h0 and .h1, all. */
enum ptx_video_part { PTX_B0, PTX_B1, PTX_B2, PTX_B3, PTX_H0, PTX_H1, PTX_WORD };

/* A scalar video instruction but for its operands. `compare` is vset's. A part of the result other
 * than PTX_WORD is merged into the third operand. */
struct ptx_video_form {
    enum ptx_video operation;
    enum ptx_compare compare;
    bool to_signed, a_signed, b_signed;
    bool saturate;
    enum ptx_video_second second;
    enum ptx_video_part to, a_part, b_part;
};

static inline uint32_t ptx_video_width(enum ptx_video_part part) {
    return part <= PTX_B3 ? 8 : part <= PTX_H1 ? 16 : 32;
}

static inline uint32_t ptx_video_index(enum ptx_video_part part) {
    return part <= PTX_B3 ? part - PTX_B0 : part <= PTX_H1 ? part - PTX_H0 : 0;
}

static inline int64_t ptx_video_operand(uint32_t bits, enum ptx_video_part part, bool is_signed) {
    return ptx_part(bits, ptx_video_index(part), ptx_video_width(part), is_signed);
}

static inline int64_t ptx_video_shift(enum ptx_video operation, int64_t a, int64_t b) {
    bool wraps = operation == PTX_VSHL_WRAP || operation == PTX_VSHR_WRAP;
    uint32_t count = wraps ? (uint32_t)b & 31 : (uint32_t)(b < 32 ? b : 32);

    if (operation == PTX_VSHL_CLAMP || operation == PTX_VSHL_WRAP)
        return (int64_t)((uint64_t)a << count);
    return a >> count;
}

static inline int64_t ptx_video_operate(enum ptx_video operation, enum ptx_compare compare,
                                        int64_t a, int64_t b) {
    switch (operation) {
    case PTX_VADD:
        return a + b;
    case PTX_VSUB:
        return a - b;
    case PTX_VABSDIFF:
        return a < b ? b - a : a - b;
    case PTX_VMIN:
        return a < b ? a : b;
    case PTX_VMAX:
        return a > b ? a : b;
    case PTX_VAVRG: /* halves are rounded away from zero */
        return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case PTX_VSET:
        return ptx_compare_s64(compare, (uint64_t)a, (uint64_t)b);
    case PTX_VSHL_CLAMP:
    case PTX_VSHL_WRAP:
    case PTX_VSHR_CLAMP:
    case PTX_VSHR_WRAP:
    default:
        return ptx_video_shift(operation, a, b);
    }
}

static inline uint32_t ptx_video(struct ptx_video_form form, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t width = ptx_video_width(form.to);
    uint32_t shift = ptx_video_index(form.to) * width;
    int64_t third = ptx_part(c, 0, 32, form.to_signed);
    int64_t result = ptx_video_operate(form.operation, form.compare,
                                       ptx_video_operand(a, form.a_part, form.a_signed),
                                       ptx_video_operand(b, form.b_part, form.b_signed));

    if (form.saturate)
        result = ptx_clamp(result, width, form.to_signed);
    if (form.second == PTX_VIDEO_ADD)
        result += third;
    else if (form.second == PTX_VIDEO_MIN)
        result = result < third ? result : third;
    else if (form.second == PTX_VIDEO_MAX)
        result = result > third ? result : third;
    if (form.to == PTX_WORD)
        return (uint32_t)result;
    return (uint32_t)(((uint64_t)result & ptx_ones(width)) << shift) |
           (c & ~(uint32_t)(ptx_ones(width) << shift));
}

/* vmad but for its operands. `negate_product`: exactly one of `a` and `b` is negated. `scale` is 0,
 * 7 or 15. */
struct ptx_vmad_form {
    bool a_signed, b_signed;
    bool negate_product, negate_c, plus_one;
    bool saturate;
    uint32_t scale;
    enum ptx_video_part a_part, b_part;
};

static inline uint32_t ptx_vmad(struct ptx_vmad_form form, uint32_t a, uint32_t b, uint32_t c) {
    bool is_signed = form.a_signed || form.b_signed || form.negate_product || form.negate_c;
    ptx_s128 product = (ptx_s128)ptx_video_operand(a, form.a_part, form.a_signed) *
                       ptx_video_operand(b, form.b_part, form.b_signed);
    ptx_s128 third = ptx_part(form.negate_c ? ~c : c, 0, 32, is_signed);
    ptx_s128 least = is_signed ? INT32_MIN : 0, most = is_signed ? INT32_MAX : UINT32_MAX;

    if (form.negate_product)
        product = -product;
    product += third + ((form.plus_one || (form.negate_c && !form.negate_product)) ? 1 : 0);
    product >>= form.scale;
    if (form.saturate)
        product = product < least ? least : product > most ? most : product;
    return (uint32_t)product;
}

/* A video instruction of two halves or four bytes (`width` is 16 or 8). Each 4 bits of a selector,
 * from the lowest on, say which part of `a` and, behind these, of `b` is the operand of one part of
 * the result: 0x3210 is .b3210, 0x32 .h32. `mask` has a bit for each part that is computed: the
 * others are the third operand's. With `accumulate` the computed ones are added to that instead. */
struct ptx_simd_video_form {
    enum ptx_video operation;
    enum ptx_compare compare;
    bool to_signed, a_signed, b_signed;
    bool saturate, accumulate;
    uint32_t width;
    uint32_t mask, a_selector, b_selector;
};

static inline uint32_t ptx_simd_video(struct ptx_simd_video_form form, uint32_t a, uint32_t b,
                                      uint32_t c) {
    uint64_t both = (uint64_t)b << 32 | a;

    for (uint32_t i = 0; i < 32 / form.width; i++) {
        uint32_t a_index = form.a_selector >> (4 * i) & 7, b_index = form.b_selector >> (4 * i) & 7;
        int64_t result = ptx_video_operate(form.operation, form.compare,
                                           ptx_part(both, a_index, form.width, form.a_signed),
                                           ptx_part(both, b_index, form.width, form.b_signed));
        uint64_t field = ptx_ones(form.width) << (i * form.width);

        if (form.saturate)
            result = ptx_clamp(result, form.width, form.to_signed);
        if (!(form.mask >> i & 1))
            continue;
        c = form.accumulate
                ? c + (uint32_t)result
                : (c & ~(uint32_t)field) | (uint32_t)((uint64_t)result << (i * form.width) & field);
    }
    return c;
}

#endif
