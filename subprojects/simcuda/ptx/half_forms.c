/* Half precision. PTX ISA, "Half Precision Floating-Point Instructions". */
#include "compute.h"

#define HALF_FORM                                                                                  \
    ((struct ptx_half_form){                                                                       \
        .ftz = instruction->flag, .sat = instruction->flag2, .relu = instruction->flag3})
#define EXTREME                                                                                    \
    ((struct ptx_extreme){.ftz = instruction->flag,                                                \
                          .nan = (instruction->mode2 & 1) != 0,                                    \
                          .xorsign_abs = (instruction->mode2 & 2) != 0})

#define HALVES(type, T)                                                                            \
    COMPUTE_2(add_##type, T, T, ptx_add_##type(x, y, HALF_FORM))                                   \
    COMPUTE_2(sub_##type, T, T, ptx_sub_##type(x, y, HALF_FORM))                                   \
    COMPUTE_2(mul_##type, T, T, ptx_mul_##type(x, y, HALF_FORM))                                   \
    COMPUTE_3(fma_##type, T, T, T, ptx_fma_##type(x, y, z, HALF_FORM))                             \
    COMPUTE_1(neg_##type, T, ptx_neg_##type(x, instruction->flag))                                 \
    COMPUTE_1(abs_##type, T, ptx_abs_##type(x, instruction->flag))                                 \
    COMPUTE_2(min_##type, T, T, ptx_min_##type(x, y, EXTREME))                                     \
    COMPUTE_2(max_##type, T, T, ptx_max_##type(x, y, EXTREME))
HALVES(f16, uint16_t)
HALVES(f16x2, uint32_t)
HALVES(bf16, uint16_t)
HALVES(bf16x2, uint32_t)

COMPUTE_1(ex2_f16, uint16_t, ptx_ex2_approx_f16(x))
COMPUTE_1(ex2_f16x2, uint32_t, ptx_ex2_approx_f16x2(x))
COMPUTE_1(ex2_bf16, uint16_t, ptx_ex2_approx_ftz_bf16(x))
COMPUTE_1(ex2_bf16x2, uint32_t, ptx_ex2_approx_ftz_bf16x2(x))
COMPUTE_1(tanh_f16, uint16_t, ptx_tanh_approx_f16(x))
COMPUTE_1(tanh_f16x2, uint32_t, ptx_tanh_approx_f16x2(x))
COMPUTE_1(tanh_bf16, uint16_t, ptx_tanh_approx_bf16(x))
COMPUTE_1(tanh_bf16x2, uint32_t, ptx_tanh_approx_bf16x2(x))

#define HALF_ROWS(type, letter)                                                                    \
    {"add." #type, add_##type, "D" letter letter, "rfs"},                                          \
        {"sub." #type, sub_##type, "D" letter letter, "rfs"},                                      \
        {"mul." #type, mul_##type, "D" letter letter, "rfs"},                                      \
        {"fma." #type, fma_##type, "D" letter letter letter, "rfsu"},                              \
        {"neg." #type, neg_##type, "D" letter, "f"}, {"abs." #type, abs_##type, "D" letter, "f"},  \
        {"min." #type, min_##type, "D" letter letter, "fnx"}, {                                    \
        "max." #type, max_##type, "D" letter letter, "fnx"                                         \
    }

const struct form half_forms[] = {
    HALF_ROWS(f16, "h"),
    HALF_ROWS(f16x2, "i"),
    HALF_ROWS(bf16, "h"),
    HALF_ROWS(bf16x2, "i"),
    {"ex2.approx.f16", ex2_f16, "Dh", ""},
    {"ex2.approx.f16x2", ex2_f16x2, "Di", ""},
    {"ex2.approx.ftz.bf16", ex2_bf16, "Dh", ""},
    {"ex2.approx.ftz.bf16x2", ex2_bf16x2, "Di", ""},
    {"tanh.approx.f16", tanh_f16, "Dh", ""},
    {"tanh.approx.f16x2", tanh_f16x2, "Di", ""},
    {"tanh.approx.bf16", tanh_bf16, "Dh", ""},
    {"tanh.approx.bf16x2", tanh_bf16x2, "Di", ""},
    {NULL, NULL, NULL, NULL},
};
