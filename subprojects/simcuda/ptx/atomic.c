/* atom and red. PTX ISA, "Parallel Synchronization and Communication Instructions". Other streams
 * and the host may use the same memory: so these are the host's own atomic operations. */
#include "atomic.h"

#include "arithmetic.h"
#include "handlers.h"
#include "reach.h"

/* What the memory is to hold, which holds `old`; `b` and `c` are the operands. */
static uint64_t result_32(const struct instruction *instruction, uint32_t old, uint32_t b,
                          uint32_t c) {
    const struct ptx_half_form half = {0};
    bool is_signed = instruction->type == TYPE_S32;

    switch ((enum atomic)instruction->mode) {
    case ATOMIC_EXCHANGE:
        return b;
    case ATOMIC_COMPARE:
        return old == b ? c : old;
    case ATOMIC_ADD:
        switch ((enum type)instruction->type) {
        case TYPE_F32:
            return ptx_add_f32(old, b, PTX_RN, false, false);
        case TYPE_F16X2:
            return ptx_add_f16x2(old, b, half);
        case TYPE_BF16X2:
            return ptx_add_bf16x2(old, b, half);
        default:
            return old + b;
        }
    case ATOMIC_INCREMENT:
        return old >= b ? 0 : old + 1;
    case ATOMIC_DECREMENT:
        return old == 0 || old > b ? b : old - 1;
    case ATOMIC_MIN:
        return is_signed ? ptx_min_s32(old, b) : ptx_min_u32(old, b);
    case ATOMIC_MAX:
        return is_signed ? ptx_max_s32(old, b) : ptx_max_u32(old, b);
    case ATOMIC_AND:
        return old & b;
    case ATOMIC_OR:
        return old | b;
    default:
        return old ^ b;
    }
}

static uint64_t result_64(const struct instruction *instruction, uint64_t old, uint64_t b,
                          uint64_t c) {
    bool is_signed = instruction->type == TYPE_S64;

    switch ((enum atomic)instruction->mode) {
    case ATOMIC_EXCHANGE:
        return b;
    case ATOMIC_COMPARE:
        return old == b ? c : old;
    case ATOMIC_ADD:
        return instruction->type == TYPE_F64 ? ptx_add_f64(old, b, PTX_RN) : old + b;
    case ATOMIC_MIN:
        return is_signed ? ptx_min_s64(old, b) : ptx_min_u64(old, b);
    case ATOMIC_MAX:
        return is_signed ? ptx_max_s64(old, b) : ptx_max_u64(old, b);
    case ATOMIC_AND:
        return old & b;
    case ATOMIC_OR:
        return old | b;
    default:
        return old ^ b;
    }
}

static uint16_t result_16(const struct instruction *instruction, uint16_t old, uint16_t b,
                          uint16_t c) {
    const struct ptx_half_form half = {0};

    switch ((enum atomic)instruction->mode) {
    case ATOMIC_EXCHANGE:
        return b;
    case ATOMIC_COMPARE:
        return old == b ? c : old;
    default:
        return instruction->type == TYPE_BF16 ? ptx_add_bf16(old, b, half)
                                              : ptx_add_f16(old, b, half);
    }
}

#define CHANGE(width)                                                                              \
    static uint64_t change_##width(const struct instruction *instruction, void *memory,            \
                                   uint64_t b, uint64_t c) {                                       \
        uint##width##_t *at = memory, old = __atomic_load_n(at, __ATOMIC_RELAXED);                 \
                                                                                                   \
        for (;;) {                                                                                 \
            uint##width##_t new = (uint##width##_t)result_##width(                                 \
                instruction, old, (uint##width##_t)b, (uint##width##_t)c);                         \
                                                                                                   \
            if (__atomic_compare_exchange_n(at, &old, new, false, __ATOMIC_SEQ_CST,                \
                                            __ATOMIC_SEQ_CST))                                     \
                return old;                                                                        \
        }                                                                                          \
    }
CHANGE(16)
CHANGE(32)
CHANGE(64)

/* The usual one in one instruction of the host. */
static uint64_t change(const struct instruction *instruction, void *memory, uint64_t b,
                       uint64_t c) {
    if (instruction->size == 4) {
        if (instruction->mode == ATOMIC_ADD &&
            (instruction->type == TYPE_U32 || instruction->type == TYPE_S32))
            return __atomic_fetch_add((uint32_t *)memory, (uint32_t)b, __ATOMIC_SEQ_CST);
        return change_32(instruction, memory, b, c);
    }
    if (instruction->size == 2)
        return change_16(instruction, memory, b, c);
    if (instruction->mode == ATOMIC_ADD && instruction->type != TYPE_F64)
        return __atomic_fetch_add((uint64_t *)memory, b, __ATOMIC_SEQ_CST);
    return change_64(instruction, memory, b, c);
}

enum step run_atomic(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    const uint64_t *c = instruction->c == NO_ROW ? b : source(warp, instruction->c);
    uint64_t *d = instruction->d == NO_ROW ? NULL : destination(warp, instruction->d);
    uint64_t base =
        (uint64_t)instruction->offset + (instruction->in_frame ? warp->frame->local : 0);
    unsigned int size = instruction->size;

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint64_t address = a[lane] + base, place = address, old;
        enum window window = window_in(instruction->space, &place);
        unsigned char *memory = reach_in(warp, lane, window, place, size);

        if (memory == NULL || (address & (size - 1)) != 0 || window == WINDOW_PARAM)
            return access_fault(warp, instruction, lane, address, size, "changes");
        old = change(instruction, memory, b[lane], c[lane]);
        if (d != NULL)
            d[lane] = old;
        if (window == WINDOW_GLOBAL) {
            record_access(warp->worker, address, address + size, false);
            record_access(warp->worker, address, address + size, true);
        }
    }
    return STEP_ON;
}

/* Several values of one vector, each by itself: red.global.add.v2.f32 */
enum step run_atomic_vector(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a);
    const struct extra *extra = instruction->extra;
    unsigned int bytes = instruction->size * extra->count;

    warp->worker->effects++;
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint64_t address = a[lane] + (uint64_t)instruction->offset, place = address;
        enum window window = window_in(instruction->space, &place);
        unsigned char *memory = reach_in(warp, lane, window, place, bytes);

        if (memory == NULL || (address & (bytes - 1)) != 0 || window != WINDOW_GLOBAL)
            return access_fault(warp, instruction, lane, address, bytes, "changes");
        for (unsigned int i = 0; i < extra->count; i++) {
            uint64_t b = source(warp, extra->rows[i])[lane];
            uint64_t old = change(instruction, memory + i * instruction->size, b, b);

            if (extra->more_count != 0 && extra->more[i] != NO_ROW)
                destination(warp, extra->more[i])[lane] = old;
        }
        record_access(warp->worker, address, address + bytes, false);
        record_access(warp->worker, address, address + bytes, true);
    }
    return STEP_ON;
}
