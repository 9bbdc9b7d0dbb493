/* How long the arguments of each function are.
 *
 * A launch names its arguments' places and not how many there are, so no place may be looked at
 * that the driver does not confirm. It is asked by cuFuncGetParamInfo (12.4). Before that nobody
 * can say, and the first launch with arguments is taken to give a host address. That it answers
 * INVALID_VALUE behind the last argument, and refuses a CUkernel, is assumed, not yet seen on a
 * GPU.
 *
 * What it has said is kept in a table that is read and written without a lock: a slot's version is
 * odd while it is written, and different afterwards. A reader that meets such a slot, and a writer,
 * does without. Functions that share a slot take turns. */
#include "interpose/launch_arguments.h"

#include "interpose/host_addresses.h"
#include "interpose/loader.h"
#include "interpose/real_entries.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum {
    SLOT_BITS = 10,
    WORDS_KEPT = 13, /* of 8 bytes: a slot takes two cache lines */
    ARGUMENTS_KEPT = WORDS_KEPT * 4,
};

/* bytes: of each argument, at most so many as 16 bits say. */
struct arguments {
    uint64_t function, generation, count;
    union {
        uint16_t bytes[ARGUMENTS_KEPT];
        uint64_t words[WORDS_KEPT];
    };
};

static struct slot {
    _Atomic uint64_t version;
    _Atomic uint64_t function, generation_count, words[WORDS_KEPT];
} slots[1 << SLOT_BITS];

static _Atomic uint64_t generations;

void launch_arguments_forget(void) {
    atomic_fetch_add_explicit(&generations, 1, memory_order_relaxed);
}

/* Modules are unloaded by functions of the driver, and by the runtime of a library that goes. */
static uint64_t generation(void) {
    return atomic_load_explicit(&generations, memory_order_relaxed) +
           atomic_load_explicit(&loader_unloads, memory_order_relaxed);
}

static struct slot *slot_of(CUfunction function) {
    return &slots[(uint64_t)(uintptr_t)function * 0x9e3779b97f4a7c15 >> (64 - SLOT_BITS)];
}

enum { COUNT_BITS = 8 };

static bool read_slot(struct arguments *arguments, CUfunction function) {
    struct slot *slot = slot_of(function);
    uint64_t version = atomic_load_explicit(&slot->version, memory_order_acquire);
    if (version % 2 ||
        atomic_load_explicit(&slot->function, memory_order_relaxed) != (uintptr_t)function)
        return false;
    uint64_t both = atomic_load_explicit(&slot->generation_count, memory_order_relaxed);
    arguments->count = both % (1 << COUNT_BITS);
    for (size_t i = 0; i * 4 < arguments->count; i++)
        arguments->words[i] = atomic_load_explicit(&slot->words[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return both >> COUNT_BITS == generation() &&
           atomic_load_explicit(&slot->version, memory_order_relaxed) == version;
}

static void write_slot(const struct arguments *arguments) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    struct slot *slot = slot_of((CUfunction)(uintptr_t)arguments->function);
    uint64_t version = atomic_load_explicit(&slot->version, memory_order_relaxed);
    if (version % 2 ||
        !atomic_compare_exchange_strong_explicit(&slot->version, &version, version + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&slot->function, arguments->function, memory_order_relaxed);
    atomic_store_explicit(&slot->generation_count,
                          arguments->generation << COUNT_BITS | arguments->count,
                          memory_order_relaxed);
    for (size_t i = 0; i * 4 < arguments->count; i++)
        atomic_store_explicit(&slot->words[i], arguments->words[i], memory_order_relaxed);
    atomic_store_explicit(&slot->version, version + 2, memory_order_release);
}

typedef CUresult info_function(void *function, size_t index, size_t *offset, size_t *size);

/* The driver's function by which it tells of this handle's arguments. NULL: none does. *none: it
 * has no arguments. A handle of a context and one of a library (CUkernel) look alike. */
static info_function *info_of(CUfunction function, bool *none) {
    info_function *by_function, *by_kernel;
    size_t offset, size;
    *(void **)&by_function = real_find("cuFuncGetParamInfo");
    *(void **)&by_kernel = real_find("cuKernelGetParamInfo");
    CUresult result = by_function ? by_function(function, 0, &offset, &size) : CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_SUCCESS)
        return by_function;
    *none = result == CUDA_ERROR_INVALID_VALUE; /* the index is too large */
    result = by_kernel ? by_kernel(function, 0, &offset, &size) : CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_SUCCESS)
        return by_kernel;
    *none = *none || result == CUDA_ERROR_INVALID_VALUE;
    return NULL;
}

static bool is_given(const void *argument, size_t bytes, uint64_t now) {
    return argument && host_addresses_among(argument, bytes, now);
}

/* Looks at the arguments as the driver tells of each, and notes what it says. */
static bool ask_and_look(CUfunction function, void *const *parameters, uint64_t now) {
    struct arguments arguments = {.function = (uintptr_t)function, .generation = generation()};
    bool none = false;
    info_function *info = info_of(function, &none);
    size_t offset, size = 0;
    if (!info && !none)
        return true;
    for (;;) {
        CUresult result =
            info ? info(function, arguments.count, &offset, &size) : CUDA_ERROR_INVALID_VALUE;
        if (result == CUDA_ERROR_INVALID_VALUE) /* there are no more */
            break;
        if (result != CUDA_SUCCESS || is_given(parameters[arguments.count], size, now))
            return true;
        if (arguments.count < ARGUMENTS_KEPT)
            arguments.bytes[arguments.count] = (uint16_t)(size < UINT16_MAX ? size : UINT16_MAX);
        arguments.count++;
    }
    if (arguments.count <= ARGUMENTS_KEPT)
        write_slot(&arguments);
    return false;
}

static bool are_among(void *const *parameters, CUfunction function, uint64_t now) {
    struct arguments arguments;
    if (!read_slot(&arguments, function))
        return ask_and_look(function, parameters, now);
    for (uint64_t i = 0; i < arguments.count; i++)
        if (is_given(parameters[i], arguments.bytes[i], now))
            return true;
    return false;
}

/* Arguments in one buffer, each at its offset: addresses are aligned in it. */
static bool are_in_buffer(void *const *extra, uint64_t now) {
    const void *buffer = NULL;
    const size_t *size = NULL;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return true; /* a newer form */
    }
    return buffer && size && host_addresses_among(buffer, *size, now);
}

bool launch_gives_host_address(CUfunction function, void *const *parameters, void *const *extra,
                               uint64_t now) {
    if (parameters && function)
        return are_among(parameters, function, now);
    return extra && are_in_buffer(extra, now);
}
