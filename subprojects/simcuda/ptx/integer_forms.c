/* Integer instructions. PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer
 * Arithmetic Instructions", "Logic and Shift Instructions". */
#include "compute.h"

#include <string.h>

/* Instructions that there are for 16, 32 and 64 bits. */
#define WIDTH(width)                                                                               \
    COMPUTE_2(add_##width, uint##width##_t, uint##width##_t, ptx_add_u##width(x, y))               \
    COMPUTE_2(sub_##width, uint##width##_t, uint##width##_t, ptx_sub_u##width(x, y))               \
    COMPUTE_2(mul_lo_##width, uint##width##_t, uint##width##_t, ptx_mul_lo_u##width(x, y))         \
    COMPUTE_2(mul_hi_u##width, uint##width##_t, uint##width##_t, ptx_mul_hi_u##width(x, y))        \
    COMPUTE_2(mul_hi_s##width, uint##width##_t, uint##width##_t, ptx_mul_hi_s##width(x, y))        \
    COMPUTE_3(mad_lo_##width, uint##width##_t, uint##width##_t, uint##width##_t,                   \
              ptx_mad_lo_u##width(x, y, z))                                                        \
    COMPUTE_3(mad_hi_u##width, uint##width##_t, uint##width##_t, uint##width##_t,                  \
              ptx_mad_hi_u##width(x, y, z))                                                        \
    COMPUTE_3(mad_hi_s##width, uint##width##_t, uint##width##_t, uint##width##_t,                  \
              ptx_mad_hi_s##width(x, y, z))                                                        \
    COMPUTE_2(div_u##width, uint##width##_t, uint##width##_t, ptx_div_u##width(x, y))              \
    COMPUTE_2(div_s##width, uint##width##_t, uint##width##_t, ptx_div_s##width(x, y))              \
    COMPUTE_2(rem_u##width, uint##width##_t, uint##width##_t, ptx_rem_u##width(x, y))              \
    COMPUTE_2(rem_s##width, uint##width##_t, uint##width##_t, ptx_rem_s##width(x, y))              \
    COMPUTE_2(min_u##width, uint##width##_t, uint##width##_t, ptx_min_u##width(x, y))              \
    COMPUTE_2(min_s##width, uint##width##_t, uint##width##_t, ptx_min_s##width(x, y))              \
    COMPUTE_2(max_u##width, uint##width##_t, uint##width##_t, ptx_max_u##width(x, y))              \
    COMPUTE_2(max_s##width, uint##width##_t, uint##width##_t, ptx_max_s##width(x, y))              \
    COMPUTE_3(sad_u##width, uint##width##_t, uint##width##_t, uint##width##_t,                     \
              ptx_sad_u##width(x, y, z))                                                           \
    COMPUTE_3(sad_s##width, uint##width##_t, uint##width##_t, uint##width##_t,                     \
              ptx_sad_s##width(x, y, z))                                                           \
    COMPUTE_1(abs_##width, uint##width##_t, ptx_abs_s##width(x))                                   \
    COMPUTE_1(neg_##width, uint##width##_t, ptx_neg_u##width(x))                                   \
    COMPUTE_2(and_##width, uint##width##_t, uint##width##_t, (uint##width##_t)(x & y))             \
    COMPUTE_2(or_##width, uint##width##_t, uint##width##_t, (uint##width##_t)(x | y))              \
    COMPUTE_2(xor_##width, uint##width##_t, uint##width##_t, (uint##width##_t)(x ^ y))             \
    COMPUTE_1(not_##width, uint##width##_t, (uint##width##_t) ~x)                                  \
    COMPUTE_1(cnot_##width, uint##width##_t, ptx_cnot_b##width(x))                                 \
    COMPUTE_2(shl_##width, uint##width##_t, uint32_t, ptx_shl_b##width(x, y))                      \
    COMPUTE_2(shr_u##width, uint##width##_t, uint32_t, ptx_shr_u##width(x, y))                     \
    COMPUTE_2(shr_s##width, uint##width##_t, uint32_t, ptx_shr_s##width(x, y))

WIDTH(16)
WIDTH(32)
WIDTH(64)

COMPUTE_2(mul_wide_u16, uint16_t, uint16_t, ptx_mul_wide_u16(x, y))
COMPUTE_2(mul_wide_s16, uint16_t, uint16_t, ptx_mul_wide_s16(x, y))
COMPUTE_2(mul_wide_u32, uint32_t, uint32_t, ptx_mul_wide_u32(x, y))
COMPUTE_2(mul_wide_s32, uint32_t, uint32_t, ptx_mul_wide_s32(x, y))
COMPUTE_3(mad_wide_u16, uint16_t, uint16_t, uint32_t, ptx_mad_wide_u16(x, y, z))
COMPUTE_3(mad_wide_s16, uint16_t, uint16_t, uint32_t, ptx_mad_wide_s16(x, y, z))
COMPUTE_3(mad_wide_u32, uint32_t, uint32_t, uint64_t, ptx_mad_wide_u32(x, y, z))
COMPUTE_3(mad_wide_s32, uint32_t, uint32_t, uint64_t, ptx_mad_wide_s32(x, y, z))
COMPUTE_2(add_sat_s32, uint32_t, uint32_t, ptx_add_sat_s32(x, y))
COMPUTE_2(sub_sat_s32, uint32_t, uint32_t, ptx_sub_sat_s32(x, y))
COMPUTE_3(mad_hi_sat_s32, uint32_t, uint32_t, uint32_t, ptx_mad_hi_sat_s32(x, y, z))
COMPUTE_2(min_relu_s32, uint32_t, uint32_t, ptx_min_relu_s32(x, y))
COMPUTE_2(max_relu_s32, uint32_t, uint32_t, ptx_max_relu_s32(x, y))
COMPUTE_2(mul24_lo_u32, uint32_t, uint32_t, ptx_mul24_lo_u32(x, y))
COMPUTE_2(mul24_hi_u32, uint32_t, uint32_t, ptx_mul24_hi_u32(x, y))
COMPUTE_2(mul24_lo_s32, uint32_t, uint32_t, ptx_mul24_lo_s32(x, y))
COMPUTE_2(mul24_hi_s32, uint32_t, uint32_t, ptx_mul24_hi_s32(x, y))
COMPUTE_3(mad24_lo_u32, uint32_t, uint32_t, uint32_t, ptx_mad24_lo_u32(x, y, z))
COMPUTE_3(mad24_hi_u32, uint32_t, uint32_t, uint32_t, ptx_mad24_hi_u32(x, y, z))
COMPUTE_3(mad24_lo_s32, uint32_t, uint32_t, uint32_t, ptx_mad24_lo_s32(x, y, z))
COMPUTE_3(mad24_hi_s32, uint32_t, uint32_t, uint32_t, ptx_mad24_hi_s32(x, y, z))
COMPUTE_3(mad24_hi_sat_s32, uint32_t, uint32_t, uint32_t, ptx_mad24_hi_sat_s32(x, y, z))

COMPUTE_2(add_u16x2, uint32_t, uint32_t, ptx_add_u16x2(x, y))
COMPUTE_2(min_u16x2, uint32_t, uint32_t, ptx_min_u16x2(x, y))
COMPUTE_2(max_u16x2, uint32_t, uint32_t, ptx_max_u16x2(x, y))
COMPUTE_2(min_s16x2, uint32_t, uint32_t, ptx_min_s16x2(x, y))
COMPUTE_2(max_s16x2, uint32_t, uint32_t, ptx_max_s16x2(x, y))
COMPUTE_2(min_relu_s16x2, uint32_t, uint32_t, ptx_min_relu_s16x2(x, y))
COMPUTE_2(max_relu_s16x2, uint32_t, uint32_t, ptx_max_relu_s16x2(x, y))

COMPUTE_1(popc_32, uint32_t, ptx_popc_b32(x))
COMPUTE_1(popc_64, uint64_t, ptx_popc_b64(x))
COMPUTE_1(clz_32, uint32_t, ptx_clz_b32(x))
COMPUTE_1(clz_64, uint64_t, ptx_clz_b64(x))
COMPUTE_1(brev_32, uint32_t, ptx_brev_b32(x))
COMPUTE_1(brev_64, uint64_t, ptx_brev_b64(x))
COMPUTE_1(bfind_u32, uint32_t, ptx_bfind_u32(x, false))
COMPUTE_1(bfind_u64, uint64_t, ptx_bfind_u64(x, false))
COMPUTE_1(bfind_s32, uint32_t, ptx_bfind_s32(x, false))
COMPUTE_1(bfind_s64, uint64_t, ptx_bfind_s64(x, false))
COMPUTE_1(bfind_shift_u32, uint32_t, ptx_bfind_u32(x, true))
COMPUTE_1(bfind_shift_u64, uint64_t, ptx_bfind_u64(x, true))
COMPUTE_1(bfind_shift_s32, uint32_t, ptx_bfind_s32(x, true))
COMPUTE_1(bfind_shift_s64, uint64_t, ptx_bfind_s64(x, true))
COMPUTE_3(fns_32, uint32_t, uint32_t, uint32_t, ptx_fns_b32(x, y, z))
COMPUTE_3(bfe_u32, uint32_t, uint32_t, uint32_t, ptx_bfe_u32(x, y, z))
COMPUTE_3(bfe_s32, uint32_t, uint32_t, uint32_t, ptx_bfe_s32(x, y, z))
COMPUTE_3(bfe_u64, uint64_t, uint32_t, uint32_t, ptx_bfe_u64(x, y, z))
COMPUTE_3(bfe_s64, uint64_t, uint32_t, uint32_t, ptx_bfe_s64(x, y, z))
COMPUTE_2(bmsk_clamp, uint32_t, uint32_t, ptx_bmsk_b32(x, y, true))
COMPUTE_2(bmsk_wrap, uint32_t, uint32_t, ptx_bmsk_b32(x, y, false))
COMPUTE_2(szext_clamp_u32, uint32_t, uint32_t, ptx_szext(x, y, true, false))
COMPUTE_2(szext_wrap_u32, uint32_t, uint32_t, ptx_szext(x, y, false, false))
COMPUTE_2(szext_clamp_s32, uint32_t, uint32_t, ptx_szext(x, y, true, true))
COMPUTE_2(szext_wrap_s32, uint32_t, uint32_t, ptx_szext(x, y, false, true))
COMPUTE_3(shf_l_clamp, uint32_t, uint32_t, uint32_t, ptx_shf_l(x, y, z, true))
COMPUTE_3(shf_l_wrap, uint32_t, uint32_t, uint32_t, ptx_shf_l(x, y, z, false))
COMPUTE_3(shf_r_clamp, uint32_t, uint32_t, uint32_t, ptx_shf_r(x, y, z, true))
COMPUTE_3(shf_r_wrap, uint32_t, uint32_t, uint32_t, ptx_shf_r(x, y, z, false))

#define PRMT(name, mode)                                                                           \
    COMPUTE_3(prmt_##name, uint32_t, uint32_t, uint32_t, ptx_prmt_b32(x, y, z, mode))
PRMT(default, PTX_PRMT_DEFAULT)
PRMT(f4e, PTX_PRMT_F4E)
PRMT(b4e, PTX_PRMT_B4E)
PRMT(rc8, PTX_PRMT_RC8)
PRMT(ecl, PTX_PRMT_ECL)
PRMT(ecr, PTX_PRMT_ECR)
PRMT(rc16, PTX_PRMT_RC16)

#define DOT(name, a_signed, b_signed)                                                              \
    COMPUTE_3(dp4a_##name, uint32_t, uint32_t, uint32_t, ptx_dp4a(x, y, z, a_signed, b_signed))    \
    COMPUTE_3(dp2a_lo_##name, uint32_t, uint32_t, uint32_t,                                        \
              ptx_dp2a(x, y, z, a_signed, b_signed, false))                                        \
    COMPUTE_3(dp2a_hi_##name, uint32_t, uint32_t, uint32_t,                                        \
              ptx_dp2a(x, y, z, a_signed, b_signed, true))
DOT(uu, false, false)
DOT(us, false, true)
DOT(su, true, false)
DOT(ss, true, true)

/* bfi has four operands. */
#define INSERT(width)                                                                              \
    static enum step bfi_##width(struct warp *warp, const struct instruction *instruction) {       \
        const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);       \
        const uint64_t *c = source(warp, instruction->c);                                          \
        const uint64_t *length = source(warp, instruction->extra->rows[0]);                        \
        uint64_t *d = destination(warp, instruction->d);                                           \
                                                                                                   \
        FOR_LANES(warp, lane, {                                                                    \
            d[lane] = ptx_bfi_b##width((uint##width##_t)a[lane], (uint##width##_t)b[lane],         \
                                       (uint32_t)c[lane], (uint32_t)length[lane]);                 \
        });                                                                                        \
        return STEP_ON;                                                                            \
    }
INSERT(32)
INSERT(64)

/* --- chains of the carry, which each lane has in a row of its own: the frame's last one ---
 * The ISA calls what sub.cc leaves a borrow. Devices keep a carry, as of a + ~b + 1: nvcc's
 * division of 128 bits has addc behind subc.cc to see whether nothing was borrowed. */

static uint64_t *carries(struct warp *warp) {
    return warp->rows[warp->frame->function->rows];
}

#define CHAIN_2(name, T, function, takes, gives)                                                   \
    static enum step name(struct warp *warp, const struct instruction *instruction) {              \
        const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);       \
        uint64_t *d = destination(warp, instruction->d), *carry = carries(warp);                   \
                                                                                                   \
        FOR_LANES(warp, lane, {                                                                    \
            bool flag = (takes) && carry[lane] != 0;                                               \
            d[lane] = function((T)a[lane], (T)b[lane], &flag);                                     \
            carry[lane] = (gives) ? flag : carry[lane];                                            \
        });                                                                                        \
        return STEP_ON;                                                                            \
    }
#define CHAIN_3(name, T, function, takes, gives)                                                   \
    static enum step name(struct warp *warp, const struct instruction *instruction) {              \
        const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);       \
        const uint64_t *c = source(warp, instruction->c);                                          \
        uint64_t *d = destination(warp, instruction->d), *carry = carries(warp);                   \
                                                                                                   \
        FOR_LANES(warp, lane, {                                                                    \
            bool flag = (takes) && carry[lane] != 0;                                               \
            d[lane] = function((T)a[lane], (T)b[lane], (T)c[lane], &flag);                         \
            carry[lane] = (gives) ? flag : carry[lane];                                            \
        });                                                                                        \
        return STEP_ON;                                                                            \
    }
#define CHAINS(width)                                                                              \
    CHAIN_2(add_cc_##width, uint##width##_t, ptx_addc_u##width, false, true)                       \
    CHAIN_2(addc_##width, uint##width##_t, ptx_addc_u##width, true, false)                         \
    CHAIN_2(addc_cc_##width, uint##width##_t, ptx_addc_u##width, true, true)                       \
    CHAIN_2(sub_cc_##width, uint##width##_t, ptx_sub_flag_u##width, false, true)                   \
    CHAIN_2(subc_##width, uint##width##_t, ptx_subc_flag_u##width, true, false)                    \
    CHAIN_2(subc_cc_##width, uint##width##_t, ptx_subc_flag_u##width, true, true)                  \
    CHAIN_3(mad_lo_cc_##width, uint##width##_t, ptx_madc_lo_u##width, false, true)                 \
    CHAIN_3(madc_lo_##width, uint##width##_t, ptx_madc_lo_u##width, true, false)                   \
    CHAIN_3(madc_lo_cc_##width, uint##width##_t, ptx_madc_lo_u##width, true, true)                 \
    CHAIN_3(mad_hi_cc_u##width, uint##width##_t, ptx_madc_hi_u##width, false, true)                \
    CHAIN_3(madc_hi_u##width, uint##width##_t, ptx_madc_hi_u##width, true, false)                  \
    CHAIN_3(madc_hi_cc_u##width, uint##width##_t, ptx_madc_hi_u##width, true, true)                \
    CHAIN_3(mad_hi_cc_s##width, uint##width##_t, ptx_madc_hi_s##width, false, true)                \
    CHAIN_3(madc_hi_s##width, uint##width##_t, ptx_madc_hi_s##width, true, false)                  \
    CHAIN_3(madc_hi_cc_s##width, uint##width##_t, ptx_madc_hi_s##width, true, true)
CHAINS(32)
CHAINS(64)

/* --- predicates --- */

static enum step and_pred(struct warp *warp, const struct instruction *instruction) {
    set_predicate(warp, instruction->d,
                  predicate(warp, instruction->a) & predicate(warp, instruction->b));
    return STEP_ON;
}

static enum step or_pred(struct warp *warp, const struct instruction *instruction) {
    set_predicate(warp, instruction->d,
                  predicate(warp, instruction->a) | predicate(warp, instruction->b));
    return STEP_ON;
}

static enum step xor_pred(struct warp *warp, const struct instruction *instruction) {
    set_predicate(warp, instruction->d,
                  predicate(warp, instruction->a) ^ predicate(warp, instruction->b));
    return STEP_ON;
}

static enum step not_pred(struct warp *warp, const struct instruction *instruction) {
    set_predicate(warp, instruction->d, ~predicate(warp, instruction->a));
    return STEP_ON;
}

/* --- the table --- */

#define ARITHMETIC_ROWS(width, letter)                                                             \
    {"add.u" #width, add_##width, "D" letter letter, ""},                                          \
        {"add.s" #width, add_##width, "D" letter letter, ""},                                      \
        {"sub.u" #width, sub_##width, "D" letter letter, ""},                                      \
        {"sub.s" #width, sub_##width, "D" letter letter, ""},                                      \
        {"mul.lo.u" #width, mul_lo_##width, "D" letter letter, ""},                                \
        {"mul.lo.s" #width, mul_lo_##width, "D" letter letter, ""},                                \
        {"mul.hi.u" #width, mul_hi_u##width, "D" letter letter, ""},                               \
        {"mul.hi.s" #width, mul_hi_s##width, "D" letter letter, ""},                               \
        {"mad.lo.u" #width, mad_lo_##width, "D" letter letter letter, ""},                         \
        {"mad.lo.s" #width, mad_lo_##width, "D" letter letter letter, ""},                         \
        {"mad.hi.u" #width, mad_hi_u##width, "D" letter letter letter, ""},                        \
        {"mad.hi.s" #width, mad_hi_s##width, "D" letter letter letter, ""},                        \
        {"div.u" #width, div_u##width, "D" letter letter, ""},                                     \
        {"div.s" #width, div_s##width, "D" letter letter, ""},                                     \
        {"rem.u" #width, rem_u##width, "D" letter letter, ""},                                     \
        {"rem.s" #width, rem_s##width, "D" letter letter, ""},                                     \
        {"min.u" #width, min_u##width, "D" letter letter, ""},                                     \
        {"min.s" #width, min_s##width, "D" letter letter, ""},                                     \
        {"max.u" #width, max_u##width, "D" letter letter, ""},                                     \
        {"max.s" #width, max_s##width, "D" letter letter, ""},                                     \
        {"sad.u" #width, sad_u##width, "D" letter letter letter, ""},                              \
        {"sad.s" #width, sad_s##width, "D" letter letter letter, ""},                              \
        {"abs.s" #width, abs_##width, "D" letter, ""},                                             \
        {"neg.s" #width, neg_##width, "D" letter, ""},                                             \
        {"and.b" #width, and_##width, "D" letter letter, ""},                                      \
        {"or.b" #width, or_##width, "D" letter letter, ""},                                        \
        {"xor.b" #width, xor_##width, "D" letter letter, ""},                                      \
        {"not.b" #width, not_##width, "D" letter, ""},                                             \
        {"cnot.b" #width, cnot_##width, "D" letter, ""},                                           \
        {"shl.b" #width, shl_##width, "D" letter "i", ""},                                         \
        {"shr.b" #width, shr_u##width, "D" letter "i", ""},                                        \
        {"shr.u" #width, shr_u##width, "D" letter "i", ""}, {                                      \
        "shr.s" #width, shr_s##width, "D" letter "i", ""                                           \
    }

#define CHAIN_ROWS(width, letter)                                                                  \
    CHAIN_TYPE_ROWS(width, letter, u), CHAIN_TYPE_ROWS(width, letter, s)
#define CHAIN_TYPE_ROWS(width, letter, sign)                                                       \
    {"add.cc." #sign #width, add_cc_##width, "D" letter letter, ""},                               \
        {"addc." #sign #width, addc_##width, "D" letter letter, ""},                               \
        {"addc.cc." #sign #width, addc_cc_##width, "D" letter letter, ""},                         \
        {"sub.cc." #sign #width, sub_cc_##width, "D" letter letter, ""},                           \
        {"subc." #sign #width, subc_##width, "D" letter letter, ""},                               \
        {"subc.cc." #sign #width, subc_cc_##width, "D" letter letter, ""},                         \
        {"mad.lo.cc." #sign #width, mad_lo_cc_##width, "D" letter letter letter, ""},              \
        {"madc.lo." #sign #width, madc_lo_##width, "D" letter letter letter, ""},                  \
        {"madc.lo.cc." #sign #width, madc_lo_cc_##width, "D" letter letter letter, ""},            \
        {"mad.hi.cc." #sign #width, mad_hi_cc_##sign##width, "D" letter letter letter, ""},        \
        {"madc.hi." #sign #width, madc_hi_##sign##width, "D" letter letter letter, ""}, {          \
        "madc.hi.cc." #sign #width, madc_hi_cc_##sign##width, "D" letter letter letter, ""         \
    }

#define DOT_ROWS(name, types)                                                                      \
    {"dp4a." types, dp4a_##name, "Diii", ""}, {"dp2a.lo." types, dp2a_lo_##name, "Diii", ""}, {    \
        "dp2a.hi." types, dp2a_hi_##name, "Diii", ""                                               \
    }

const struct form integer_forms[] = {
    ARITHMETIC_ROWS(16, "h"),
    ARITHMETIC_ROWS(32, "i"),
    ARITHMETIC_ROWS(64, "l"),
    CHAIN_ROWS(32, "i"),
    CHAIN_ROWS(64, "l"),
    DOT_ROWS(uu, "u32.u32"),
    DOT_ROWS(us, "u32.s32"),
    DOT_ROWS(su, "s32.u32"),
    DOT_ROWS(ss, "s32.s32"),
    {"mul.wide.u16", mul_wide_u16, "Dhh", ""},
    {"mul.wide.s16", mul_wide_s16, "Dhh", ""},
    {"mul.wide.u32", mul_wide_u32, "Dii", ""},
    {"mul.wide.s32", mul_wide_s32, "Dii", ""},
    {"mad.wide.u16", mad_wide_u16, "Dhhi", ""},
    {"mad.wide.s16", mad_wide_s16, "Dhhi", ""},
    {"mad.wide.u32", mad_wide_u32, "Diil", ""},
    {"mad.wide.s32", mad_wide_s32, "Diil", ""},
    {"add.sat.s32", add_sat_s32, "Dii", ""},
    {"sub.sat.s32", sub_sat_s32, "Dii", ""},
    {"mad.hi.sat.s32", mad_hi_sat_s32, "Diii", ""},
    {"min.relu.s32", min_relu_s32, "Dii", ""},
    {"max.relu.s32", max_relu_s32, "Dii", ""},
    {"mul24.lo.u32", mul24_lo_u32, "Dii", ""},
    {"mul24.hi.u32", mul24_hi_u32, "Dii", ""},
    {"mul24.lo.s32", mul24_lo_s32, "Dii", ""},
    {"mul24.hi.s32", mul24_hi_s32, "Dii", ""},
    {"mad24.lo.u32", mad24_lo_u32, "Diii", ""},
    {"mad24.hi.u32", mad24_hi_u32, "Diii", ""},
    {"mad24.lo.s32", mad24_lo_s32, "Diii", ""},
    {"mad24.hi.s32", mad24_hi_s32, "Diii", ""},
    {"mad24.hi.sat.s32", mad24_hi_sat_s32, "Diii", ""},
    {"add.u16x2", add_u16x2, "Dii", ""},
    {"add.s16x2", add_u16x2, "Dii", ""},
    {"min.u16x2", min_u16x2, "Dii", ""},
    {"max.u16x2", max_u16x2, "Dii", ""},
    {"min.s16x2", min_s16x2, "Dii", ""},
    {"max.s16x2", max_s16x2, "Dii", ""},
    {"min.relu.s16x2", min_relu_s16x2, "Dii", ""},
    {"max.relu.s16x2", max_relu_s16x2, "Dii", ""},
    {"popc.b32", popc_32, "Di", ""},
    {"popc.b64", popc_64, "Dl", ""},
    {"clz.b32", clz_32, "Di", ""},
    {"clz.b64", clz_64, "Dl", ""},
    {"brev.b32", brev_32, "Di", ""},
    {"brev.b64", brev_64, "Dl", ""},
    {"bfind.u32", bfind_u32, "Di", ""},
    {"bfind.u64", bfind_u64, "Dl", ""},
    {"bfind.s32", bfind_s32, "Di", ""},
    {"bfind.s64", bfind_s64, "Dl", ""},
    {"bfind.shiftamt.u32", bfind_shift_u32, "Di", ""},
    {"bfind.shiftamt.u64", bfind_shift_u64, "Dl", ""},
    {"bfind.shiftamt.s32", bfind_shift_s32, "Di", ""},
    {"bfind.shiftamt.s64", bfind_shift_s64, "Dl", ""},
    {"fns.b32", fns_32, "Diii", ""},
    {"bfe.u32", bfe_u32, "Diii", ""},
    {"bfe.s32", bfe_s32, "Diii", ""},
    {"bfe.u64", bfe_u64, "Dlii", ""},
    {"bfe.s64", bfe_s64, "Dlii", ""},
    {"bfi.b32", bfi_32, "Diiii", ""},
    {"bfi.b64", bfi_64, "Dllii", ""},
    {"bmsk.clamp.b32", bmsk_clamp, "Dii", ""},
    {"bmsk.wrap.b32", bmsk_wrap, "Dii", ""},
    {"szext.clamp.u32", szext_clamp_u32, "Dii", ""},
    {"szext.wrap.u32", szext_wrap_u32, "Dii", ""},
    {"szext.clamp.s32", szext_clamp_s32, "Dii", ""},
    {"szext.wrap.s32", szext_wrap_s32, "Dii", ""},
    {"shf.l.clamp.b32", shf_l_clamp, "Diii", ""},
    {"shf.l.wrap.b32", shf_l_wrap, "Diii", ""},
    {"shf.r.clamp.b32", shf_r_clamp, "Diii", ""},
    {"shf.r.wrap.b32", shf_r_wrap, "Diii", ""},
    {"prmt.b32", prmt_default, "Diii", ""},
    {"prmt.b32.f4e", prmt_f4e, "Diii", ""},
    {"prmt.b32.b4e", prmt_b4e, "Diii", ""},
    {"prmt.b32.rc8", prmt_rc8, "Diii", ""},
    {"prmt.b32.ecl", prmt_ecl, "Diii", ""},
    {"prmt.b32.ecr", prmt_ecr, "Diii", ""},
    {"prmt.b32.rc16", prmt_rc16, "Diii", ""},
    {"and.pred", and_pred, "Ppp", ""},
    {"or.pred", or_pred, "Ppp", ""},
    {"xor.pred", xor_pred, "Ppp", ""},
    {"not.pred", not_pred, "Pp", ""},
    {NULL, NULL, NULL, NULL},
};
