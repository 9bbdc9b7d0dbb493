/* mov, packing, selecting, comparing. PTX ISA, "Data Movement and Conversion Instructions",
 * "Comparison and Selection Instructions". */
#include "arithmetic.h"
#include "handlers.h"
#include "machine.h"

/* --- mov --- */

enum step run_move(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a);
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, { d[lane] = a[lane]; });
    return STEP_ON;
}

enum step run_move_predicate(struct warp *warp, const struct instruction *instruction) {
    set_predicate(warp, instruction->d, predicate(warp, instruction->a));
    return STEP_ON;
}

/* 128 bits, which are two rows. */
enum step run_move_wide(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->a + 1);
    uint64_t *d = destination(warp, instruction->d), *e = destination(warp, instruction->d + 1);

    FOR_LANES(warp, lane, { d[lane] = a[lane]; });
    FOR_LANES(warp, lane, { e[lane] = b[lane]; });
    return STEP_ON;
}

/* Parts of `size` bytes to one register, or to the two of 128 bits. */
enum step run_pack(struct warp *warp, const struct instruction *instruction) {
    const struct extra *extra = instruction->extra;
    unsigned int bits = instruction->size * 8u, each = 64 / bits;
    uint64_t made[2][LANES] = {{0}};
    uint64_t mask = ptx_ones(bits);

    for (unsigned int i = 0; i < extra->count; i++) {
        const uint64_t *part = source(warp, extra->rows[i]);
        uint64_t *to = made[i / each];

        for (unsigned int lane = 0; lane < LANES; lane++)
            to[lane] |= (part[lane] & mask) << (i % each * bits);
    }
    for (unsigned int i = 0; i * each < extra->count; i++) {
        uint64_t *d = destination(warp, instruction->d + (operand_row)i);

        FOR_LANES(warp, lane, { d[lane] = made[i][lane]; });
    }
    return STEP_ON;
}

enum step run_unpack(struct warp *warp, const struct instruction *instruction) {
    const struct extra *extra = instruction->extra;
    unsigned int bits = instruction->size * 8u, each = 64 / bits;
    uint64_t mask = ptx_ones(bits), taken[2][LANES];

    for (unsigned int i = 0; i * each < extra->count; i++) {
        const uint64_t *from = source(warp, instruction->a >= 0 ? instruction->a + (operand_row)i
                                                                : instruction->a - (operand_row)i);

        for (unsigned int lane = 0; lane < LANES; lane++)
            taken[i][lane] = from[lane]; /* a part may be the register itself */
    }
    for (unsigned int i = 0; i < extra->count; i++) {
        const uint64_t *from = taken[i / each];
        unsigned int shift = i % each * bits;
        uint64_t *d;

        if (extra->rows[i] == NO_ROW)
            continue;
        d = destination(warp, extra->rows[i]);
        FOR_LANES(warp, lane, { d[lane] = (from[lane] >> shift) & mask; });
    }
    return STEP_ON;
}

/* --- addresses --- */

/* The address of a variable in the frame's local memory. */
enum step run_local_address(struct warp *warp, const struct instruction *instruction) {
    uint64_t address = warp->frame->local + instruction->number;
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, { d[lane] = address; });
    return STEP_ON;
}

static enum window window_of(const struct warp *warp, const struct instruction *instruction) {
    switch (instruction->space) {
    case SPACE_SHARED:
        return WINDOW_SHARED;
    case SPACE_LOCAL:
        return WINDOW_LOCAL;
    case SPACE_PARAM: /* of a function they are in local memory */
        return warp->frame->caller != NULL || !warp->frame->function->kernel ? WINDOW_LOCAL
                                                                             : WINDOW_PARAM;
    default:
        return WINDOW_GLOBAL;
    }
}

enum step run_to_generic(struct warp *warp, const struct instruction *instruction) {
    uint64_t window = (uint64_t)window_of(warp, instruction) << WINDOW_SHIFT;
    const uint64_t *a = source(warp, instruction->a);
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, { d[lane] = a[lane] + window; });
    return STEP_ON;
}

enum step run_from_generic(struct warp *warp, const struct instruction *instruction) {
    uint64_t window = (uint64_t)window_of(warp, instruction) << WINDOW_SHIFT;
    const uint64_t *a = source(warp, instruction->a);
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, { d[lane] = a[lane] - window; });
    return STEP_ON;
}

/* What is in no other window is global memory, or constant memory, which is not told apart. */
enum step run_is_in_space(struct warp *warp, const struct instruction *instruction) {
    uint64_t window = window_of(warp, instruction);
    const uint64_t *a = source(warp, instruction->a);
    uint32_t is = 0;

    if (instruction->space != SPACE_CONST)
        for (unsigned int lane = 0; lane < LANES; lane++)
            is |= (uint32_t)(a[lane] >> WINDOW_SHIFT == window) << lane;
    set_predicate(warp, instruction->d, is);
    return STEP_ON;
}

/* --- selecting --- */

enum step run_select(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    uint32_t first = predicate(warp, instruction->c);
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, { d[lane] = first >> lane & 1 ? a[lane] : b[lane]; });
    return STEP_ON;
}

enum step run_select_by_sign(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    const uint64_t *c = source(warp, instruction->c);
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, {
        bool first = instruction->type2 == TYPE_F32
                         ? ptx_slct_f32((uint32_t)c[lane], instruction->flag)
                         : (int32_t)c[lane] >= 0;
        d[lane] = first ? a[lane] : b[lane];
    });
    return STEP_ON;
}

/* --- comparing --- */

#define COMPARE(function, T, compare)                                                              \
    case compare:                                                                                  \
        for (unsigned int lane = 0; lane < LANES; lane++)                                          \
            holds |= (uint32_t)function(compare, (T)a[lane], (T)b[lane]) << lane;                  \
        break;
#define COMPARE_ANY(function, T)                                                                   \
    static uint32_t compare_##function(enum ptx_compare which, const uint64_t *a,                  \
                                       const uint64_t *b) {                                        \
        uint32_t holds = 0;                                                                        \
                                                                                                   \
        switch (which) {                                                                           \
            COMPARE(function, T, PTX_EQ)                                                           \
            COMPARE(function, T, PTX_NE)                                                           \
            COMPARE(function, T, PTX_LT)                                                           \
            COMPARE(function, T, PTX_LE)                                                           \
            COMPARE(function, T, PTX_GT)                                                           \
            COMPARE(function, T, PTX_GE)                                                           \
        default:                                                                                   \
            for (unsigned int lane = 0; lane < LANES; lane++)                                      \
                holds |= (uint32_t)function(which, (T)a[lane], (T)b[lane]) << lane;                \
        }                                                                                          \
        return holds;                                                                              \
    }

static inline bool float_plain(enum ptx_compare compare, uint32_t a, uint32_t b) {
    return ptx_compare_f32(compare, a, b, false);
}

static inline bool float_ftz(enum ptx_compare compare, uint32_t a, uint32_t b) {
    return ptx_compare_f32(compare, a, b, true);
}

COMPARE_ANY(ptx_compare_u16, uint16_t)
COMPARE_ANY(ptx_compare_s16, uint16_t)
COMPARE_ANY(ptx_compare_u32, uint32_t)
COMPARE_ANY(ptx_compare_s32, uint32_t)
COMPARE_ANY(ptx_compare_u64, uint64_t)
COMPARE_ANY(ptx_compare_s64, uint64_t)
COMPARE_ANY(float_plain, uint32_t)
COMPARE_ANY(float_ftz, uint32_t)
COMPARE_ANY(ptx_compare_f64, uint64_t)

/* Compares halves; `shift`: which one of two in a register. */
static uint32_t compare_halves(const struct instruction *instruction, const uint64_t *a,
                               const uint64_t *b, unsigned int shift) {
    bool is_bfloat = instruction->type == TYPE_BF16 || instruction->type == TYPE_BF16X2;
    enum ptx_compare compare = (enum ptx_compare)instruction->mode;
    uint32_t holds = 0;

    for (unsigned int lane = 0; lane < LANES; lane++) {
        uint16_t x = (uint16_t)(a[lane] >> shift), y = (uint16_t)(b[lane] >> shift);

        holds |= (uint32_t)(is_bfloat ? ptx_compare_bf16(compare, x, y, instruction->flag)
                                      : ptx_compare_f16(compare, x, y, instruction->flag))
                 << lane;
    }
    return holds;
}

static uint32_t compare(const struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    enum ptx_compare which = (enum ptx_compare)instruction->mode;

    switch ((enum type)instruction->type) {
    case TYPE_B16:
    case TYPE_U16:
        return compare_ptx_compare_u16(which, a, b);
    case TYPE_S16:
        return compare_ptx_compare_s16(which, a, b);
    case TYPE_B32:
    case TYPE_U32:
        return compare_ptx_compare_u32(which, a, b);
    case TYPE_S32:
        return compare_ptx_compare_s32(which, a, b);
    case TYPE_B64:
    case TYPE_U64:
        return compare_ptx_compare_u64(which, a, b);
    case TYPE_S64:
        return compare_ptx_compare_s64(which, a, b);
    case TYPE_F32:
        return instruction->flag ? compare_float_ftz(which, a, b)
                                 : compare_float_plain(which, a, b);
    case TYPE_F64:
        return compare_ptx_compare_f64(which, a, b);
    default:
        return compare_halves(instruction, a, b, 0);
    }
}

enum { COMBINE_NONE, COMBINE_AND, COMBINE_OR, COMBINE_XOR };

static uint32_t combine(const struct warp *warp, const struct instruction *instruction,
                        uint32_t holds) {
    uint32_t with = instruction->c == NO_ROW ? 0 : predicate(warp, instruction->c);

    switch (instruction->mode2) {
    case COMBINE_AND:
        return holds & with;
    case COMBINE_OR:
        return holds | with;
    case COMBINE_XOR:
        return holds ^ with;
    default:
        return holds;
    }
}

/* d is the result, the second predicate that of the opposite comparison. */
enum step run_set_predicate(struct warp *warp, const struct instruction *instruction) {
    uint32_t holds = compare(warp, instruction);

    if (instruction->extra != NULL) {
        uint32_t second = combine(warp, instruction, ~holds);

        holds = combine(warp, instruction, holds);
        set_predicate(warp, instruction->extra->rows[0], second);
    } else if (instruction->mode2 != COMBINE_NONE) {
        holds = combine(warp, instruction, holds);
    }
    set_predicate(warp, instruction->d, holds);
    return STEP_ON;
}

/* Each half's comparison is a predicate. */
enum step run_set_predicates(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    uint32_t low = combine(warp, instruction, compare_halves(instruction, a, b, 0));
    uint32_t high = combine(warp, instruction, compare_halves(instruction, a, b, 16));

    set_predicate(warp, instruction->d, low);
    if (instruction->extra != NULL)
        set_predicate(warp, instruction->extra->rows[0], high);
    return STEP_ON;
}

/* `number` is what a comparison that holds gives. */
enum step run_set(struct warp *warp, const struct instruction *instruction) {
    uint32_t holds = combine(warp, instruction, compare(warp, instruction));
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, { d[lane] = holds >> lane & 1 ? instruction->number : 0; });
    return STEP_ON;
}

enum step run_set_halves(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    uint32_t low = combine(warp, instruction, compare_halves(instruction, a, b, 0));
    uint32_t high = combine(warp, instruction, compare_halves(instruction, a, b, 16));
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, {
        d[lane] = (low >> lane & 1 ? instruction->number : 0) |
                  (high >> lane & 1 ? instruction->number << 16 : 0);
    });
    return STEP_ON;
}

enum step run_lop3(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    const uint64_t *c = source(warp, instruction->c);
    uint64_t *d = destination(warp, instruction->d);
    uint32_t table = (uint32_t)instruction->number;

    if (instruction->extra != NULL) { /* with a predicate: whether the result is not zero */
        uint32_t holds = 0, with = predicate(warp, instruction->extra->rows[1]);

        for (unsigned int lane = 0; lane < LANES; lane++)
            holds |= (uint32_t)(ptx_lop3_b32((uint32_t)a[lane], (uint32_t)b[lane],
                                             (uint32_t)c[lane], table) != 0)
                     << lane;
        holds = instruction->mode2 == COMBINE_AND ? holds & with : holds | with;
        FOR_LANES(warp, lane, {
            d[lane] = ptx_lop3_b32((uint32_t)a[lane], (uint32_t)b[lane], (uint32_t)c[lane], table);
        });
        set_predicate(warp, instruction->extra->rows[0], holds);
        return STEP_ON;
    }
    FOR_LANES(warp, lane, {
        d[lane] = ptx_lop3_b32((uint32_t)a[lane], (uint32_t)b[lane], (uint32_t)c[lane], table);
    });
    return STEP_ON;
}
