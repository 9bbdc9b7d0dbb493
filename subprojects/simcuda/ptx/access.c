/* Loads and stores. PTX ISA, "Data Movement and Conversion Instructions: ld, st". */
#include "handlers.h"
#include "reach.h"

#include <string.h>

enum step access_fault(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                       uint64_t address, unsigned int bytes, const char *what) {
    enum simt_result result = (address & (bytes - 1)) != 0 ? SIMT_MISALIGNED : SIMT_ILLEGAL_ADDRESS;

    if (result == SIMT_ILLEGAL_ADDRESS && address >> WINDOW_SHIFT == WINDOW_GLOBAL)
        record_access(warp->worker, address, address + bytes, *what != 'r'); /* it was released? */
    return fault(warp, instruction, lane, result, what, address, bytes);
}

/* Which addresses of global memory an instruction has touched. Lanes in a row mostly touch bytes in
 * a row. */
struct touched {
    uint64_t first, next;
    uint64_t addresses[LANES];
    uint32_t lanes;
    bool in_a_row;
};

static inline void touch(struct touched *touched, unsigned int lane, uint64_t address,
                         unsigned int bytes) {
    if (touched->lanes == 0)
        touched->first = touched->next = address;
    touched->in_a_row = touched->in_a_row && address == touched->next;
    touched->next += bytes;
    touched->addresses[lane] = address;
    touched->lanes |= 1u << lane;
}

static void record_touched(struct warp *warp, const struct touched *touched, unsigned int bytes,
                           bool write) {
    if (touched->lanes == 0)
        return;
    warp->worker->writes += write;
    if (touched->in_a_row) {
        record_access(warp->worker, touched->first, touched->next, write);
        return;
    }
    for (uint32_t lanes = touched->lanes; lanes != 0; lanes &= lanes - 1) {
        uint64_t address = touched->addresses[__builtin_ctz(lanes)];

        record_access(warp->worker, address, address + bytes, write);
    }
}

static inline uint64_t load_value(const unsigned char *memory, unsigned int size, bool is_signed) {
    switch (size) {
    case 1: {
        uint8_t value = __atomic_load_n(memory, __ATOMIC_RELAXED);

        return is_signed ? (uint64_t)(int8_t)value : value;
    }
    case 2: {
        uint16_t value = __atomic_load_n((const uint16_t *)(const void *)memory, __ATOMIC_RELAXED);

        return is_signed ? (uint64_t)(int16_t)value : value;
    }
    case 4: {
        uint32_t value = __atomic_load_n((const uint32_t *)(const void *)memory, __ATOMIC_RELAXED);

        return is_signed ? (uint64_t)(int32_t)value : value;
    }
    default:
        return __atomic_load_n((const uint64_t *)(const void *)memory, __ATOMIC_RELAXED);
    }
}

static inline void store_value(unsigned char *memory, unsigned int size, uint64_t value) {
    switch (size) {
    case 1:
        __atomic_store_n(memory, (uint8_t)value, __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n((uint16_t *)(void *)memory, (uint16_t)value, __ATOMIC_RELAXED);
        break;
    case 4:
        __atomic_store_n((uint32_t *)(void *)memory, (uint32_t)value, __ATOMIC_RELAXED);
        break;
    default:
        __atomic_store_n((uint64_t *)(void *)memory, value, __ATOMIC_RELAXED);
        break;
    }
}

static inline uint64_t base_of(const struct warp *warp, const struct instruction *instruction) {
    return (uint64_t)instruction->offset + (instruction->in_frame ? warp->frame->local : 0);
}

/* Lanes of a warp that access one address at once make one access: the device joins what a warp
 * accesses to as few as it can (CUDA C++ Programming Guide, "Device Memory Accesses"), and of
 * several writes to one place the last is anybody's ("SIMT Architecture"). Programs count on it
 * that all lanes read the same there, whoever writes meanwhile: GCC's are compiled so that each
 * lane of a warp does what one would. It is lanes next to each other that are looked at. Local
 * memory is each lane's own. */
static inline bool is_same_access(enum window window, uint64_t address, uint64_t other) {
    return address == other && window != WINDOW_LOCAL;
}

/* Whether the active lane behind the first of `lanes` writes to the same address, too. */
static inline bool next_writes_it(uint32_t lanes, const uint64_t *a, uint64_t base,
                                  enum window window, uint64_t address) {
    uint32_t rest = lanes & (lanes - 1);

    return rest != 0 && is_same_access(window, address, a[__builtin_ctz(rest)] + base);
}

/* One value of each lane: the usual load. */
static inline __attribute__((always_inline)) enum step
load_one(struct warp *warp, const struct instruction *instruction, enum space space,
         unsigned int size, bool is_signed) {
    const uint64_t *a = source(warp, instruction->a);
    uint64_t *d = destination(warp, instruction->d);
    uint64_t base = base_of(warp, instruction), before = 0, value = 0;
    struct touched touched = {.in_a_row = true, .lanes = 0};

    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint64_t address = a[lane] + base, place = address;
        enum window window = window_in(space, &place);
        unsigned char *memory;

        if (lanes != warp->active && is_same_access(window, address, before)) {
            d[lane] = value;
            continue;
        }
        memory = reach_in(warp, lane, window, place, size);
        if (memory == NULL || (address & (size - 1)) != 0)
            return access_fault(warp, instruction, lane, address, size, "reads");
        before = address;
        d[lane] = value = load_value(memory, size, is_signed);
        if (window == WINDOW_GLOBAL)
            touch(&touched, lane, address, size);
    }
    record_touched(warp, &touched, size, false);
    if (warp->tries != 0)
        spin_read(warp, touched.lanes, touched.addresses, d, size);
    return STEP_ON;
}

static inline __attribute__((always_inline)) enum step
store_one(struct warp *warp, const struct instruction *instruction, enum space space,
          unsigned int size) {
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    uint64_t base = base_of(warp, instruction);
    struct touched touched = {.in_a_row = true, .lanes = 0};

    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint64_t address = a[lane] + base, place = address;
        enum window window = window_in(space, &place);
        unsigned char *memory;

        if (next_writes_it(lanes, a, base, window, address))
            continue;
        memory = reach_in(warp, lane, window, place, size);
        if (memory == NULL || (address & (size - 1)) != 0 || window == WINDOW_PARAM)
            return access_fault(warp, instruction, lane, address, size, "writes");
        store_value(memory, size, b[lane]);
        if (window == WINDOW_GLOBAL)
            touch(&touched, lane, address, size);
    }
    warp->worker->effects++;
    record_touched(warp, &touched, size, true);
    return STEP_ON;
}

enum step run_load_global_4(struct warp *warp, const struct instruction *instruction) {
    return load_one(warp, instruction, SPACE_GLOBAL, 4, false);
}

enum step run_load_global_8(struct warp *warp, const struct instruction *instruction) {
    return load_one(warp, instruction, SPACE_GLOBAL, 8, false);
}

enum step run_load_shared_4(struct warp *warp, const struct instruction *instruction) {
    return load_one(warp, instruction, SPACE_SHARED, 4, false);
}

enum step run_load_generic_4(struct warp *warp, const struct instruction *instruction) {
    return load_one(warp, instruction, SPACE_GENERIC, 4, false);
}

enum step run_store_global_4(struct warp *warp, const struct instruction *instruction) {
    return store_one(warp, instruction, SPACE_GLOBAL, 4);
}

enum step run_store_global_8(struct warp *warp, const struct instruction *instruction) {
    return store_one(warp, instruction, SPACE_GLOBAL, 8);
}

enum step run_store_shared_4(struct warp *warp, const struct instruction *instruction) {
    return store_one(warp, instruction, SPACE_SHARED, 4);
}

enum step run_store_generic_4(struct warp *warp, const struct instruction *instruction) {
    return store_one(warp, instruction, SPACE_GENERIC, 4);
}

/* A kernel's parameter by name: the same for all lanes. */
enum step run_load_parameter(struct warp *warp, const struct instruction *instruction) {
    const struct launch *launch = warp->block->launch;
    const struct extra *extra = instruction->extra;

    for (unsigned int i = 0; i < instruction->count; i++) {
        operand_row row = extra != NULL ? extra->rows[i] : instruction->d;
        size_t offset = (size_t)instruction->offset + i * instruction->size;
        size_t bytes = launch->kernel->function->parameter_bytes;
        uint64_t value = 0, *d;

        if (offset > bytes || instruction->size > bytes - offset)
            return access_fault(warp, instruction, 0, offset, instruction->size, "reads");
        value = load_value((const unsigned char *)launch->asked->parameters + offset,
                           instruction->size, type_is_signed((enum type)instruction->type));
        if (row == NO_ROW)
            continue;
        d = destination(warp, row);
        FOR_LANES(warp, lane, { d[lane] = value; });
    }
    return STEP_ON;
}

/* --- all others: vectors, small types, other spaces --- */

static unsigned char *reach_all(struct warp *warp, const struct instruction *instruction,
                                unsigned int lane, uint64_t address, bool write,
                                struct touched *touched) {
    unsigned int bytes = instruction->size * instruction->count;
    uint64_t place = address;
    enum window window = window_in(instruction->space, &place);
    unsigned char *memory = reach_in(warp, lane, window, place, bytes);

    if (memory == NULL || (address & (bytes - 1)) != 0 || (write && window == WINDOW_PARAM)) {
        access_fault(warp, instruction, lane, address, bytes, write ? "writes" : "reads");
        return NULL;
    }
    if (window == WINDOW_GLOBAL)
        touch(touched, lane, address, bytes);
    return memory;
}

static inline enum window window_of(const struct instruction *instruction, uint64_t address) {
    return window_in(instruction->space, &address);
}

/* Where a lane's value `i` goes. NULL: nowhere. */
static uint64_t *result_row(struct warp *warp, const struct instruction *instruction,
                            unsigned int i) {
    const struct extra *extra = instruction->extra;
    operand_row row = extra != NULL ? extra->rows[i] : instruction->d;

    return row != NO_ROW ? destination(warp, row) : NULL;
}

static void load_lane(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                      const unsigned char *memory) {
    for (unsigned int i = 0; i < instruction->count; i++) {
        uint64_t *row = result_row(warp, instruction, i);

        if (row != NULL)
            row[lane] = load_value(memory + i * instruction->size, instruction->size,
                                   type_is_signed((enum type)instruction->type));
    }
}

static void copy_lane(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                      unsigned int from) {
    for (unsigned int i = 0; i < instruction->count; i++) {
        uint64_t *row = result_row(warp, instruction, i);

        if (row != NULL)
            row[lane] = row[from];
    }
}

enum step run_load(struct warp *warp, const struct instruction *instruction) {
    uint64_t base = base_of(warp, instruction), addresses[LANES];
    struct touched touched = {.in_a_row = true, .lanes = 0};
    unsigned int before = 0;

    memcpy(addresses, source(warp, instruction->a), sizeof addresses); /* a result may be there */
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint64_t address = addresses[lane] + base;
        const unsigned char *memory;

        if (lanes != warp->active &&
            is_same_access(window_of(instruction, address), address, addresses[before] + base)) {
            copy_lane(warp, instruction, lane, before);
        } else {
            memory = reach_all(warp, instruction, lane, address, false, &touched);
            if (memory == NULL)
                return STEP_AGAIN;
            load_lane(warp, instruction, lane, memory);
        }
        before = lane;
    }
    if (instruction->flag)
        atomic_thread_fence(memory_order_acquire);
    record_touched(warp, &touched, instruction->size * instruction->count, false);
    if (instruction->extra != NULL || instruction->d == NO_ROW)
        warp->worker->effects++; /* what was read is not looked for in several registers */
    else if (warp->tries != 0)
        spin_read(warp, touched.lanes, touched.addresses, destination(warp, instruction->d),
                  instruction->size);
    return STEP_ON;
}

enum step run_store(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *a = source(warp, instruction->a);
    const struct extra *extra = instruction->extra;
    uint64_t base = base_of(warp, instruction);
    struct touched touched = {.in_a_row = true, .lanes = 0};

    if (instruction->flag)
        atomic_thread_fence(memory_order_release);
    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint64_t address = a[lane] + base;
        unsigned char *memory;

        if (next_writes_it(lanes, a, base, window_of(instruction, address), address))
            continue;
        memory = reach_all(warp, instruction, lane, address, true, &touched);
        if (memory == NULL)
            return STEP_AGAIN;
        for (unsigned int i = 0; i < instruction->count; i++)
            store_value(memory + i * instruction->size, instruction->size,
                        source(warp, extra != NULL ? extra->rows[i] : instruction->b)[lane]);
    }
    warp->worker->effects++;
    record_touched(warp, &touched, instruction->size * instruction->count, true);
    return STEP_ON;
}
