/* PTX's types and state spaces. */
#ifndef SIMCUDA_PTX_TYPES_H
#define SIMCUDA_PTX_TYPES_H

#include <stdbool.h>
#include <stddef.h>

/* What is accepted, in bytes: an alignment, a variable with initial values. */
enum { MOST_ALIGNMENT = 1 << 20, MOST_INITIAL_BYTES = 1 << 30 };

/* PTX ISA, "Fundamental Types" and "Alternate Floating-Point Data Formats". */
#define SIMT_TYPES(TYPE)                                                                           \
    TYPE(PRED, "pred", 0)                                                                          \
    TYPE(B8, "b8", 1)                                                                              \
    TYPE(B16, "b16", 2)                                                                            \
    TYPE(B32, "b32", 4)                                                                            \
    TYPE(B64, "b64", 8)                                                                            \
    TYPE(B128, "b128", 16)                                                                         \
    TYPE(U8, "u8", 1)                                                                              \
    TYPE(U16, "u16", 2)                                                                            \
    TYPE(U32, "u32", 4)                                                                            \
    TYPE(U64, "u64", 8)                                                                            \
    TYPE(S8, "s8", 1)                                                                              \
    TYPE(S16, "s16", 2)                                                                            \
    TYPE(S32, "s32", 4)                                                                            \
    TYPE(S64, "s64", 8)                                                                            \
    TYPE(F16, "f16", 2)                                                                            \
    TYPE(F16X2, "f16x2", 4)                                                                        \
    TYPE(BF16, "bf16", 2)                                                                          \
    TYPE(BF16X2, "bf16x2", 4)                                                                      \
    TYPE(TF32, "tf32", 4)                                                                          \
    TYPE(F32, "f32", 4)                                                                            \
    TYPE(F64, "f64", 8)                                                                            \
    TYPE(U16X2, "u16x2", 4)                                                                        \
    TYPE(S16X2, "s16x2", 4)                                                                        \
    TYPE(F32X2, "f32x2", 8)                                                                        \
    TYPE(E4M3X2, "e4m3x2", 2)                                                                      \
    TYPE(E5M2X2, "e5m2x2", 2)                                                                      \
    TYPE(TEXREF, "texref", 8)                                                                      \
    TYPE(SAMPLERREF, "samplerref", 8)                                                              \
    TYPE(SURFREF, "surfref", 8)

enum type {
#define TYPE_NAME(name, text, size) TYPE_##name,
    SIMT_TYPES(TYPE_NAME)
#undef TYPE_NAME
        TYPES,
    TYPE_NONE = TYPES
};

struct type_facts {
    const char *text;
    unsigned int size; /* bytes; 0: a predicate */
};

extern const struct type_facts type_facts[TYPES];

enum type type_named(const char *text, size_t length); /* TYPE_NONE: there is none */
bool type_is_signed(enum type type);
bool type_is_float(enum type type); /* one number in floating point */
bool type_is_opaque(enum type type);

enum space {
    SPACE_GENERIC,
    SPACE_REG,
    SPACE_GLOBAL,
    SPACE_CONST,
    SPACE_SHARED,
    SPACE_LOCAL,
    SPACE_PARAM, /* of the kernel; within functions parameters are local */
    SPACES
};

/* The spaces that generic addresses reach through a window of their own: this many bits below the
 * window's number. Everything else is global. */
enum { WINDOW_SHIFT = 56 };
enum window {
    WINDOW_GLOBAL,
    WINDOW_SHARED,
    WINDOW_LOCAL,
    WINDOW_PARAM,
    WINDOW_CODE,
    WINDOW_GRID,
    WINDOWS
};

#endif
