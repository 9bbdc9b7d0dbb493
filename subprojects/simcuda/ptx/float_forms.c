/* Instructions in single and double precision. PTX ISA, "Floating Point Instructions". */
#include "compute.h"

/* Processors that have the instruction take it, others call the C library's fma, and so does code
 * that ThreadSanitizer watches: its calls come before it is ready where the loader asks which. */
#if defined __x86_64__ && !defined __SANITIZE_THREAD__
#define FUSED __attribute__((target_clones("fma", "default")))
#else
#define FUSED
#endif

/* The usual modes are constants in loops of their own: what they do not ask for costs nothing. */
#define MODED_2(name, T, function)                                                                 \
    COMPUTE_2(name##_plain, T, T, function(x, y, PTX_RN, false, false))                            \
    COMPUTE_2(name##_ftz, T, T, function(x, y, PTX_RN, true, false))                               \
    COMPUTE_2(name##_any, T, T,                                                                    \
              function(x, y, (enum ptx_rounding)instruction->mode, instruction->flag,              \
                       instruction->flag2))                                                        \
    static enum step name(struct warp *warp, const struct instruction *instruction) {              \
        if (instruction->mode != PTX_RN || instruction->flag2)                                     \
            return name##_any(warp, instruction);                                                  \
        return instruction->flag ? name##_ftz(warp, instruction)                                   \
                                 : name##_plain(warp, instruction);                                \
    }

MODED_2(add_f32, uint32_t, ptx_add_f32)
MODED_2(sub_f32, uint32_t, ptx_sub_f32)
MODED_2(mul_f32, uint32_t, ptx_mul_f32)

#define MODES (enum ptx_rounding) instruction->mode, instruction->flag, instruction->flag2

FUSED
COMPUTE_3(fma_f32_plain, uint32_t, uint32_t, uint32_t, ptx_fma_f32(x, y, z, PTX_RN, false, false))
FUSED
COMPUTE_3(fma_f32_ftz, uint32_t, uint32_t, uint32_t, ptx_fma_f32(x, y, z, PTX_RN, true, false))
COMPUTE_3(fma_f32_any, uint32_t, uint32_t, uint32_t, ptx_fma_f32(x, y, z, MODES))

static enum step fma_f32(struct warp *warp, const struct instruction *instruction) {
    if (instruction->mode != PTX_RN || instruction->flag2)
        return fma_f32_any(warp, instruction);
    return instruction->flag ? fma_f32_ftz(warp, instruction) : fma_f32_plain(warp, instruction);
}

#define ROUNDING (enum ptx_rounding) instruction->mode
COMPUTE_2(div_f32, uint32_t, uint32_t, ptx_div_f32(x, y, ROUNDING, instruction->flag))
COMPUTE_1(rcp_f32, uint32_t, ptx_rcp_f32(x, ROUNDING, instruction->flag))
COMPUTE_1(sqrt_f32, uint32_t, ptx_sqrt_f32(x, ROUNDING, instruction->flag))
COMPUTE_2(div_approx_f32, uint32_t, uint32_t, ptx_div_approx_f32(x, y, instruction->flag))
COMPUTE_2(div_full_f32, uint32_t, uint32_t, ptx_div_full_f32(x, y, instruction->flag))
COMPUTE_1(rcp_approx_f32, uint32_t, ptx_rcp_approx_f32(x, instruction->flag))
COMPUTE_1(sqrt_approx_f32, uint32_t, ptx_sqrt_approx_f32(x, instruction->flag))
COMPUTE_1(rsqrt_approx_f32, uint32_t, ptx_rsqrt_approx_f32(x, instruction->flag))
COMPUTE_1(sin_approx_f32, uint32_t, ptx_sin_approx_f32(x, instruction->flag))
COMPUTE_1(cos_approx_f32, uint32_t, ptx_cos_approx_f32(x, instruction->flag))
COMPUTE_1(lg2_approx_f32, uint32_t, ptx_lg2_approx_f32(x, instruction->flag))
COMPUTE_1(ex2_approx_f32, uint32_t, ptx_ex2_approx_f32(x, instruction->flag))
COMPUTE_1(tanh_approx_f32, uint32_t, ptx_tanh_approx_f32(x))
COMPUTE_1(neg_f32, uint32_t, ptx_neg_f32(x, instruction->flag))
COMPUTE_1(abs_f32, uint32_t, ptx_abs_f32(x, instruction->flag))
COMPUTE_2(copysign_f32, uint32_t, uint32_t, ptx_copysign_f32(x, y))

#define EXTREME                                                                                    \
    ((struct ptx_extreme){.ftz = instruction->flag,                                                \
                          .nan = (instruction->mode2 & 1) != 0,                                    \
                          .xorsign_abs = (instruction->mode2 & 2) != 0})
COMPUTE_2(min_f32, uint32_t, uint32_t, ptx_min_f32(x, y, EXTREME))
COMPUTE_2(max_f32, uint32_t, uint32_t, ptx_max_f32(x, y, EXTREME))
COMPUTE_3(min3_f32, uint32_t, uint32_t, uint32_t,
          ptx_min_f32(ptx_min_f32(x, y, EXTREME), z, EXTREME))
COMPUTE_3(max3_f32, uint32_t, uint32_t, uint32_t,
          ptx_max_f32(ptx_max_f32(x, y, EXTREME), z, EXTREME))

static enum step min_any_f32(struct warp *warp, const struct instruction *instruction) {
    return instruction->c == NO_ROW ? min_f32(warp, instruction) : min3_f32(warp, instruction);
}

static enum step max_any_f32(struct warp *warp, const struct instruction *instruction) {
    return instruction->c == NO_ROW ? max_f32(warp, instruction) : max3_f32(warp, instruction);
}

#define ROUNDED_2(name, function)                                                                  \
    COMPUTE_2(name##_plain, uint64_t, uint64_t, function(x, y, PTX_RN))                            \
    COMPUTE_2(name##_any, uint64_t, uint64_t, function(x, y, ROUNDING))                            \
    static enum step name(struct warp *warp, const struct instruction *instruction) {              \
        return instruction->mode == PTX_RN ? name##_plain(warp, instruction)                       \
                                           : name##_any(warp, instruction);                        \
    }

ROUNDED_2(add_f64, ptx_add_f64)
ROUNDED_2(sub_f64, ptx_sub_f64)
ROUNDED_2(mul_f64, ptx_mul_f64)
ROUNDED_2(div_f64, ptx_div_f64)
FUSED
COMPUTE_3(fma_f64_plain, uint64_t, uint64_t, uint64_t, ptx_fma_f64(x, y, z, PTX_RN))
COMPUTE_3(fma_f64_any, uint64_t, uint64_t, uint64_t, ptx_fma_f64(x, y, z, ROUNDING))

static enum step fma_f64(struct warp *warp, const struct instruction *instruction) {
    return instruction->mode == PTX_RN ? fma_f64_plain(warp, instruction)
                                       : fma_f64_any(warp, instruction);
}

COMPUTE_1(rcp_f64, uint64_t, ptx_rcp_f64(x, ROUNDING))
COMPUTE_1(sqrt_f64, uint64_t, ptx_sqrt_f64(x, ROUNDING))
COMPUTE_1(rcp_approx_f64, uint64_t, ptx_rcp_approx_ftz_f64(x))
COMPUTE_1(rsqrt_approx_f64, uint64_t, ptx_rsqrt_approx_f64(x))
COMPUTE_1(rsqrt_approx_ftz_f64, uint64_t, ptx_rsqrt_approx_ftz_f64(x))
COMPUTE_1(neg_f64, uint64_t, ptx_neg_f64(x))
COMPUTE_1(abs_f64, uint64_t, ptx_abs_f64(x))
COMPUTE_2(copysign_f64, uint64_t, uint64_t, ptx_copysign_f64(x, y))
COMPUTE_2(min_f64, uint64_t, uint64_t, ptx_min_f64(x, y))
COMPUTE_2(max_f64, uint64_t, uint64_t, ptx_max_f64(x, y))

/* testp: `number` is what is asked. */
#define TEST(name, width, asked)                                                                   \
    static enum step name##_f##width(struct warp *warp, const struct instruction *instruction) {   \
        const uint64_t *a = source(warp, instruction->a);                                          \
        uint32_t holds = 0;                                                                        \
                                                                                                   \
        for (unsigned int lane = 0; lane < LANES; lane++)                                          \
            holds |= (uint32_t)ptx_testp_f##width(asked, (uint##width##_t)a[lane]) << lane;        \
        set_predicate(warp, instruction->d, holds);                                                \
        return STEP_ON;                                                                            \
    }
#define TESTS(name, asked) TEST(name, 32, asked) TEST(name, 64, asked)
TESTS(finite, PTX_TESTP_FINITE)
TESTS(infinite, PTX_TESTP_INFINITE)
TESTS(number, PTX_TESTP_NUMBER)
TESTS(notanumber, PTX_TESTP_NOTANUMBER)
TESTS(normal, PTX_TESTP_NORMAL)
TESTS(subnormal, PTX_TESTP_SUBNORMAL)
#define TEST_ROWS(name)                                                                            \
    {"testp." #name ".f32", name##_f32, "Pf", ""}, {                                               \
        "testp." #name ".f64", name##_f64, "Pg", ""                                                \
    }

const struct form float_forms[] = {
    {"add.f32", add_f32, "Dff", "rfs"},
    {"sub.f32", sub_f32, "Dff", "rfs"},
    {"mul.f32", mul_f32, "Dff", "rfs"},
    {"fma.f32", fma_f32, "Dfff", "rfs"},
    {"mad.f32", fma_f32, "Dfff", "rfs"},
    {"div.f32", div_f32, "Dff", "rf"},
    {"rcp.f32", rcp_f32, "Df", "rf"},
    {"sqrt.f32", sqrt_f32, "Df", "rf"},
    {"div.approx.f32", div_approx_f32, "Dff", "f"},
    {"div.full.f32", div_full_f32, "Dff", "f"},
    {"rcp.approx.f32", rcp_approx_f32, "Df", "f"},
    {"sqrt.approx.f32", sqrt_approx_f32, "Df", "f"},
    {"rsqrt.approx.f32", rsqrt_approx_f32, "Df", "f"},
    {"sin.approx.f32", sin_approx_f32, "Df", "f"},
    {"cos.approx.f32", cos_approx_f32, "Df", "f"},
    {"lg2.approx.f32", lg2_approx_f32, "Df", "f"},
    {"ex2.approx.f32", ex2_approx_f32, "Df", "f"},
    {"tanh.approx.f32", tanh_approx_f32, "Df", ""},
    {"neg.f32", neg_f32, "Df", "f"},
    {"abs.f32", abs_f32, "Df", "f"},
    {"copysign.f32", copysign_f32, "Dff", ""},
    {"min.f32", min_any_f32, "Dff?f", "fnx"},
    {"max.f32", max_any_f32, "Dff?f", "fnx"},
    {"add.f64", add_f64, "Dgg", "r"},
    {"sub.f64", sub_f64, "Dgg", "r"},
    {"mul.f64", mul_f64, "Dgg", "r"},
    {"div.f64", div_f64, "Dgg", "r"},
    {"fma.f64", fma_f64, "Dggg", "r"},
    {"mad.f64", fma_f64, "Dggg", "r"},
    {"rcp.f64", rcp_f64, "Dg", "r"},
    {"sqrt.f64", sqrt_f64, "Dg", "r"},
    {"rcp.approx.ftz.f64", rcp_approx_f64, "Dg", ""},
    {"rsqrt.approx.f64", rsqrt_approx_f64, "Dg", ""},
    {"rsqrt.approx.ftz.f64", rsqrt_approx_ftz_f64, "Dg", ""},
    {"neg.f64", neg_f64, "Dg", ""},
    {"abs.f64", abs_f64, "Dg", ""},
    {"copysign.f64", copysign_f64, "Dgg", ""},
    {"min.f64", min_f64, "Dgg", ""},
    {"max.f64", max_f64, "Dgg", ""},
    TEST_ROWS(finite),
    TEST_ROWS(infinite),
    TEST_ROWS(number),
    TEST_ROWS(notanumber),
    TEST_ROWS(normal),
    TEST_ROWS(subnormal),
    {NULL, NULL, NULL, NULL},
};
