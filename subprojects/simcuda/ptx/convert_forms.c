/* cvt. PTX ISA, "Data Movement and Conversion Instructions: cvt, cvt.pack". */
#include "compute.h"

/* --- integers --- */

#define INTEGER(width, sign) ((struct ptx_integer){width, sign})

/* To a type and from it: its number of bits, whether it is signed. */
#define INTEGER_PAIR(to, to_type, to_width, to_signed, from, from_type, from_width, from_signed)   \
    COMPUTE_1(plain_##to##_##from, from_type, (uint64_t)(to_type)x)                                \
    COMPUTE_1(                                                                                     \
        sat_##to##_##from, uint64_t,                                                               \
        ptx_int_from_int(x, INTEGER(from_width, from_signed), INTEGER(to_width, to_signed), true)) \
    static enum step to##_##from(struct warp *warp, const struct instruction *instruction) {       \
        return instruction->flag2 ? sat_##to##_##from(warp, instruction)                           \
                                  : plain_##to##_##from(warp, instruction);                        \
    }

#define FROM_ALL(PAIR, to, to_type, to_width, to_signed)                                           \
    PAIR(to, to_type, to_width, to_signed, u8, uint8_t, 8, false)                                  \
    PAIR(to, to_type, to_width, to_signed, u16, uint16_t, 16, false)                               \
    PAIR(to, to_type, to_width, to_signed, u32, uint32_t, 32, false)                               \
    PAIR(to, to_type, to_width, to_signed, u64, uint64_t, 64, false)                               \
    PAIR(to, to_type, to_width, to_signed, s8, int8_t, 8, true)                                    \
    PAIR(to, to_type, to_width, to_signed, s16, int16_t, 16, true)                                 \
    PAIR(to, to_type, to_width, to_signed, s32, int32_t, 32, true)                                 \
    PAIR(to, to_type, to_width, to_signed, s64, int64_t, 64, true)
#define TO_ALL(PAIR)                                                                               \
    FROM_ALL(PAIR, u8, uint8_t, 8, false)                                                          \
    FROM_ALL(PAIR, u16, uint16_t, 16, false)                                                       \
    FROM_ALL(PAIR, u32, uint32_t, 32, false)                                                       \
    FROM_ALL(PAIR, u64, uint64_t, 64, false)                                                       \
    FROM_ALL(PAIR, s8, int8_t, 8, true)                                                            \
    FROM_ALL(PAIR, s16, int16_t, 16, true)                                                         \
    FROM_ALL(PAIR, s32, int32_t, 32, true)                                                         \
    FROM_ALL(PAIR, s64, int64_t, 64, true)
TO_ALL(INTEGER_PAIR)
#define INTEGER_ROW(to, to_type, to_width, to_signed, from, from_type, from_width, from_signed)    \
    {"cvt." #to "." #from, to##_##from, "Dl", "s"},

/* --- between integers and floating point --- */

#define ROUNDING (enum ptx_rounding) instruction->mode
#define FLOAT_PAIRS(name, width, sign)                                                             \
    COMPUTE_1(name##_f16, uint16_t, ptx_int_from_f16(x, ROUNDING, INTEGER(width, sign)))           \
    COMPUTE_1(name##_bf16, uint16_t, ptx_int_from_bf16(x, ROUNDING, INTEGER(width, sign)))         \
    COMPUTE_1(name##_f32, uint32_t,                                                                \
              ptx_int_from_f32(x, ROUNDING, INTEGER(width, sign), instruction->flag))              \
    COMPUTE_1(name##_f64, uint64_t, ptx_int_from_f64(x, ROUNDING, INTEGER(width, sign)))           \
    COMPUTE_1(f16_##name, uint64_t,                                                                \
              ptx_f16_from_int(x, INTEGER(width, sign), ROUNDING, instruction->flag2))             \
    COMPUTE_1(bf16_##name, uint64_t, ptx_bf16_from_int(x, INTEGER(width, sign), ROUNDING))         \
    COMPUTE_1(f32_##name##_plain, uint64_t,                                                        \
              ptx_f32_from_int(x, INTEGER(width, sign), PTX_RN, false))                            \
    COMPUTE_1(f32_##name##_any, uint64_t,                                                          \
              ptx_f32_from_int(x, INTEGER(width, sign), ROUNDING, instruction->flag2))             \
    static enum step f32_##name(struct warp *warp, const struct instruction *instruction) {        \
        return instruction->mode == PTX_RN && !instruction->flag2                                  \
                   ? f32_##name##_plain(warp, instruction)                                         \
                   : f32_##name##_any(warp, instruction);                                          \
    }                                                                                              \
    COMPUTE_1(f64_##name, uint64_t,                                                                \
              ptx_f64_from_int(x, INTEGER(width, sign), ROUNDING, instruction->flag2))
#define FLOAT_ROWS(name)                                                                           \
    {"cvt." #name ".f16", name##_f16, "Dh", "ifs"},                                                \
        {"cvt." #name ".bf16", name##_bf16, "Dh", "ifs"},                                          \
        {"cvt." #name ".f32", name##_f32, "Df", "ifs"},                                            \
        {"cvt." #name ".f64", name##_f64, "Dg", "is"}, {"cvt.f16." #name, f16_##name, "Dl", "rs"}, \
        {"cvt.bf16." #name, bf16_##name, "Dl", "r"}, {"cvt.f32." #name, f32_##name, "Dl", "rsf"},  \
    {                                                                                              \
        "cvt.f64." #name, f64_##name, "Dl", "rs"                                                   \
    }
FLOAT_PAIRS(u8, 8, false)
FLOAT_PAIRS(u16, 16, false)
FLOAT_PAIRS(u32, 32, false)
FLOAT_PAIRS(u64, 64, false)
FLOAT_PAIRS(s8, 8, true)
FLOAT_PAIRS(s16, 16, true)
FLOAT_PAIRS(s32, 32, true)
FLOAT_PAIRS(s64, 64, true)

/* --- floating point --- */

#define NARROW                                                                                     \
    ((struct ptx_narrow_form){.rounding = ROUNDING,                                                \
                              .ftz = instruction->flag,                                            \
                              .sat = instruction->flag2,                                           \
                              .relu = instruction->flag3,                                          \
                              .satfinite = (instruction->mode2 & 4) != 0})
#define INTEGRAL ((instruction->mode2 & 8) != 0)

COMPUTE_1(f32_f32, uint32_t,
          ptx_f32_from_f32(x, INTEGRAL, ROUNDING, instruction->flag, instruction->flag2))
COMPUTE_1(f64_f64, uint64_t, ptx_f64_from_f64(x, INTEGRAL, ROUNDING, instruction->flag2))
COMPUTE_1(f16_f16, uint16_t, ptx_f16_from_f16(x, INTEGRAL, ROUNDING, instruction->flag2))
COMPUTE_1(bf16_bf16, uint16_t, ptx_bf16_from_bf16(x, INTEGRAL, ROUNDING))
COMPUTE_1(f64_f32, uint32_t, ptx_f64_from_f32(x, instruction->flag, instruction->flag2))
COMPUTE_1(f32_f64, uint64_t, ptx_f32_from_f64(x, ROUNDING, instruction->flag, instruction->flag2))
COMPUTE_1(f32_f16, uint16_t, ptx_f32_from_f16(x, instruction->flag, instruction->flag2))
COMPUTE_1(f32_bf16, uint16_t, ptx_f32_from_bf16(x, instruction->flag, instruction->flag2))
COMPUTE_1(f64_f16, uint16_t, ptx_f64_from_f16(x, instruction->flag2))
COMPUTE_1(f64_bf16, uint16_t, ptx_f64_from_bf16(x))
COMPUTE_1(f16_f32, uint32_t, ptx_f16_from_f32(x, NARROW))
COMPUTE_1(bf16_f32, uint32_t, ptx_bf16_from_f32(x, NARROW))
COMPUTE_1(f16_f64, uint64_t, ptx_f16_from_f64(x, NARROW))
COMPUTE_1(bf16_f64, uint64_t, ptx_bf16_from_f64(x, NARROW))
COMPUTE_1(f16_bf16, uint16_t, ptx_f16_from_bf16(x, NARROW))
COMPUTE_1(bf16_f16, uint16_t, ptx_bf16_from_f16(x, NARROW))
COMPUTE_2(f16x2_f32, uint32_t, uint32_t, ptx_f16x2_from_f32(x, y, NARROW))
COMPUTE_2(bf16x2_f32, uint32_t, uint32_t, ptx_bf16x2_from_f32(x, y, NARROW))
COMPUTE_1(tf32_f32, uint32_t, ptx_tf32_from_f32(x, NARROW))
COMPUTE_2(e4m3x2_f32, uint32_t, uint32_t,
          ptx_f8x2_from_f32(x, y, PTX_FORMAT_E4M3, instruction->flag3))
COMPUTE_2(e5m2x2_f32, uint32_t, uint32_t,
          ptx_f8x2_from_f32(x, y, PTX_FORMAT_E5M2, instruction->flag3))
COMPUTE_1(e4m3x2_f16x2, uint32_t, ptx_f8x2_from_f16x2(x, PTX_FORMAT_E4M3, instruction->flag3))
COMPUTE_1(e5m2x2_f16x2, uint32_t, ptx_f8x2_from_f16x2(x, PTX_FORMAT_E5M2, instruction->flag3))
COMPUTE_1(f16x2_e4m3x2, uint16_t, ptx_f16x2_from_f8x2(x, PTX_FORMAT_E4M3, instruction->flag3))
COMPUTE_1(f16x2_e5m2x2, uint16_t, ptx_f16x2_from_f8x2(x, PTX_FORMAT_E5M2, instruction->flag3))

/* --- cvt.pack --- */

#define PACK(to, width, to_signed, from, from_signed)                                              \
    COMPUTE_2(pack_##to##_##from, uint32_t, uint32_t,                                              \
              ptx_cvt_pack(x, y, 0, from_signed, width, to_signed))                                \
    COMPUTE_3(pack3_##to##_##from, uint32_t, uint32_t, uint32_t,                                   \
              ptx_cvt_pack(x, y, z, from_signed, width, to_signed))
#define PACKS(to, width, to_signed)                                                                \
    PACK(to, width, to_signed, s32, true) PACK(to, width, to_signed, u32, false)
PACKS(s16, 16, true)
PACKS(u16, 16, false)
PACKS(s8, 8, true)
PACKS(u8, 8, false)
PACKS(s4, 4, true)
PACKS(u4, 4, false)
PACKS(s2, 2, true)
PACKS(u2, 2, false)
#define PACK_ROWS(to)                                                                              \
    {"cvt.pack.sat." #to ".s32", pack_##to##_s32, "Dii", ""},                                      \
        {"cvt.pack.sat." #to ".u32", pack_##to##_u32, "Dii", ""},                                  \
        {"cvt.pack.sat." #to ".s32.b32", pack3_##to##_s32, "Diii", ""}, {                          \
        "cvt.pack.sat." #to ".u32.b32", pack3_##to##_u32, "Diii", ""                               \
    }

const struct form convert_forms[] = {
    // clang-format off
    TO_ALL(INTEGER_ROW)
    // clang-format on
    FLOAT_ROWS(u8),
    FLOAT_ROWS(u16),
    FLOAT_ROWS(u32),
    FLOAT_ROWS(u64),
    FLOAT_ROWS(s8),
    FLOAT_ROWS(s16),
    FLOAT_ROWS(s32),
    FLOAT_ROWS(s64),
    {"cvt.f32.f32", f32_f32, "Df", "irfs"},
    {"cvt.f64.f64", f64_f64, "Dg", "irs"},
    {"cvt.f16.f16", f16_f16, "Dh", "irfs"},
    {"cvt.bf16.bf16", bf16_bf16, "Dh", "ir"},
    {"cvt.f64.f32", f64_f32, "Df", "fs"},
    {"cvt.f32.f64", f32_f64, "Dg", "rfs"},
    {"cvt.f32.f16", f32_f16, "Dh", "fs"},
    {"cvt.f32.bf16", f32_bf16, "Dh", "fs"},
    {"cvt.f64.f16", f64_f16, "Dh", "s"},
    {"cvt.f64.bf16", f64_bf16, "Dh", ""},
    {"cvt.f16.f32", f16_f32, "Df", "rfsuF"},
    {"cvt.bf16.f32", bf16_f32, "Df", "rfsuF"},
    {"cvt.f16.f64", f16_f64, "Dg", "rs"},
    {"cvt.bf16.f64", bf16_f64, "Dg", "rs"},
    {"cvt.f16.bf16", f16_bf16, "Dh", "rs"},
    {"cvt.bf16.f16", bf16_f16, "Dh", "rs"},
    {"cvt.f16x2.f32", f16x2_f32, "Dff", "rfsuF"},
    {"cvt.bf16x2.f32", bf16x2_f32, "Dff", "rfsuF"},
    {"cvt.tf32.f32", tf32_f32, "Df", "ruF"},
    {"cvt.e4m3x2.f32", e4m3x2_f32, "Dff", "ruF"},
    {"cvt.e5m2x2.f32", e5m2x2_f32, "Dff", "ruF"},
    {"cvt.e4m3x2.f16x2", e4m3x2_f16x2, "Di", "ruF"},
    {"cvt.e5m2x2.f16x2", e5m2x2_f16x2, "Di", "ruF"},
    {"cvt.f16x2.e4m3x2", f16x2_e4m3x2, "Dh", "ru"},
    {"cvt.f16x2.e5m2x2", f16x2_e5m2x2, "Dh", "ru"},
    PACK_ROWS(s16),
    PACK_ROWS(u16),
    PACK_ROWS(s8),
    PACK_ROWS(u8),
    PACK_ROWS(s4),
    PACK_ROWS(u4),
    PACK_ROWS(s2),
    PACK_ROWS(u2),
    {NULL, NULL, NULL, NULL},
};
