/* What the code of stubs.S calls, unless nothing is to be done for the function: which one it is,
 * what has to be looked at, and when no longer. What is to be done is the business of
 * call_effects.c and call_order.c. A stub is known here by its number alone. */
#include "interpose/call_arguments.h"
#include "interpose/call_effects.h"
#include "interpose/call_order.h"
#include "interpose/entry_points.h"
#include "interpose/given_addresses.h"
#include "interpose/hooks.h"
#include "interpose/loader.h"
#include "interpose/stack_walk.h"
#include "interpose/state.h"
#include "interpose/stub_frame.h"
#include "interpose/stubs.h"
#include "interpose/unknown.h"
#include "order/noted.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A function at an address that the table's symbols do not have. Filled under loader_lock, never
 * changed afterwards; published by spares_used. */
static struct spare {
    void *function;
    const char *name;
    struct entry entry;
    unsigned row; /* that the entry is of, if of any */
} spares[STUB_SPARES];
static atomic_int spares_used;

struct stub_entry stub_entries[ENTRIES + STUB_SPARES];
/* The first two are no bits of the word's. */
enum { LOOK_INSIDE = 0x40, QUICK = 0x80, LOOK_STREAM = 8, LOOK_DEFAULT = 16 };
enum { COPIED_WORDS = 16, WORDS_UNKNOWN = 0x100 };
_Static_assert(sizeof(struct stub_entry) == STUB_SIZE, "the offsets are the same");
_Static_assert(offsetof(struct stub_entry, words) == 12, "as in stubs.S");
_Static_assert(offsetof(CUlaunchConfig, hStream) == 32, "as in stubs.S");

/* How many words of arguments each function takes from the stack. */
static const uint8_t stack_words[ENTRIES] = {
#if defined(__x86_64__)
#define STACK(symbol, words, _) [ENTRY_NUMBER_##symbol] = words,
#else
#define STACK(symbol, _, words) [ENTRY_NUMBER_##symbol] = words,
#endif
#include "interpose/stack_arguments.def"
#undef STACK
};

/* In place of attempts: the driver has none, or none is known. */
#define NO_SUCH_FUNCTION UINT64_MAX

void *stub_before(struct stub_frame *frame);
void *stub_before_unseen(struct stub_frame *frame);
bool stub_after(struct stub_frame *frame, CUresult result);
void stub_failed(CUresult result);
void stub_tells(void);

static uint64_t number_of(const struct stub_frame *frame) {
    return frame->stub / STUB_SIZE;
}

static const char *name_of(const struct stub_frame *frame) {
    uint64_t number = number_of(frame);
    return number < ENTRIES ? entry_name((unsigned)number) : spares[number - ENTRIES].name;
}

static const struct entry *entry_of(const struct stub_frame *frame) {
    uint64_t number = number_of(frame);
    return number < ENTRIES ? &entry_points[number] : &spares[number - ENTRIES].entry;
}

static unsigned row_of(const struct stub_frame *frame) {
    uint64_t number = number_of(frame);
    return number < ENTRIES ? (unsigned)number : spares[number - ENTRIES].row;
}

/* The bits of the word for which something is to be done for this function. */
static unsigned concerning_bits(const struct entry *entry) {
    if (entry_submits(entry))
        return ORDER_OWED | ORDER_UNFENCED | ORDER_TRACKED | ORDER_DEFERRED |
               (call_reaches(entry) != REACHES_NONE ? ORDER_CONTEXTS : 0);
    return entry_pays(entry) || entry_marks(entry) ? ORDER_OWED : 0;
}

/* Where stub_call finds the stream, with LOOK_INSIDE shifted out. None: where it finds 0. */
static unsigned stream_place(const struct entry *entry) {
    enum { STACK = sizeof(struct stub_frame) / 8 + 4 }; /* as many words from the frame */
    unsigned position = entry->stream & STREAM_POSITION,
             nowhere = offsetof(struct stub_frame, attempts) / 8;
    unsigned sort = entry->stream & STREAM_SORT;
    if (sort != STREAM_ARGUMENT && sort != STREAM_INSIDE)
        return nowhere;
    return position < REGISTER_ARGUMENTS ? position : STACK + position - REGISTER_ARGUMENTS;
}

/* What is to be looked at from now on before calls of this function. Of those that submit to
 * streams that nobody knows of none is noted: a struct that does not exist has no stream. */
static unsigned look_of(const struct entry *entry) {
    unsigned sort = entry->stream & STREAM_SORT;
    uintptr_t null =
        (uintptr_t)(entry_is_per_thread(entry) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
    unsigned inside = sort == STREAM_ARGUMENT || sort == STREAM_DEFAULT ? 0 : LOOK_INSIDE;
    return QUICK | concerning_bits(entry) | stream_place(entry) << LOOK_STREAM |
           (unsigned)null << LOOK_DEFAULT | inside;
}

static bool is_quick(const struct pool *pool, const struct entry *entry) {
    if (state_check() || entry_is_unknown(entry) || entry_escapes(entry) ||
        entry_begins_capture(entry) || entry->capture == CAPTURE_ends ||
        entry_waits_for_context(entry))
        return false;
    switch ((enum entry_effect)entry->effect) {
    case EFFECT__:
    case EFFECT_frees:
        return !entry_is_per_thread(entry) || (pool && !pool_looks_for_per_thread());
    case EFFECT_managed:
    case EFFECT_imported:
    case EFFECT_exported:
    case EFFECT_peer:
        return pool != NULL;
    case EFFECT_attaches:
    case EFFECT_advises:
    case EFFECT_prefetches:
    case EFFECT_prefetches_each:
    case EFFECT_discards_each:
        return pool && !state_options()->managed;
    default:
        return false;
    }
}

/* As stubs.S looks. */
static bool needs_no_order(const struct stub_frame *frame, const struct entry *entry) {
    int word = atomic_load(&order_word);
    if (word == ORDER_TRACKED) {
        CUstream stream = call_stream(frame, entry);
        if (stream && noted_has(stream))
            return true;
    }
    return !word || !((unsigned)word & concerning_bits(entry));
}

/* Looks at what the call gives to the device. Returns whether nothing else is to be done. */
static bool look(struct pool *pool, const struct stub_frame *frame, const struct entry *entry) {
    unsigned row = row_of(frame);
    if (!given_looks_at(row))
        return false;
    given_look(pool, row, &(struct call_arguments){frame->registers, frame->stack});
    return !entry->effect && is_quick(pool, entry) && needs_no_order(frame, entry);
}

/* Who uses a thread's own stream calls a form that takes it for the null stream, or waits for it by
 * its handle: neither is quick as long as that is looked for. */
static void look_for_per_thread(struct pool *pool, const struct stub_frame *frame,
                                const struct entry *entry) {
    if (!entry_is_unknown(entry) &&
        (entry_is_per_thread(entry) || call_stream(frame, entry) == CU_STREAM_PER_THREAD))
        pool_per_thread_used(pool);
}

static bool may_show_per_thread(const struct pool *pool, const struct entry *entry) {
    return entry->sync == SYNC_stream && (!pool || pool_looks_for_per_thread());
}

/* Returns whether the call may reach other contexts' memory. */
static bool before(struct pool *pool, struct stub_frame *frame) {
    const struct entry *entry = entry_of(frame);
    bool retried = frame->attempts > 0;
    if (!retried && look(pool, frame, entry))
        return false;
    if (entry->ours == OURS_peek)
        return false;
    if (pool_looks_for_per_thread())
        look_for_per_thread(pool, frame, entry);
    call_begins(pool, frame, entry, name_of(frame));
    return call_crosses(entry);
}

static CUresult not_initialized(void) {
    return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult not_supported(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The first call of a function, or one while there is no driver: then *real is whoever stands in
 * for it, or what there is to say, and nothing is to be done for the call. Returns whether there
 * is. */
__attribute__((noinline)) static bool find_real(struct stub_frame *frame, void **real) {
    bool known = real_load();
    *real = known || real_stand_in((uintptr_t)frame->stack[-1]) /* where the call returns to */
                ? real_find(name_of(frame))
                : NULL;
    if (known && *real) {
        atomic_store_explicit(&stub_entries[number_of(frame)].real, *real, memory_order_release);
        return true;
    }
    if (!*real)
        *real = known ? (void *)not_supported : (void *)not_initialized;
    frame->attempts = NO_SUCH_FUNCTION;
    frame->to_stub = false;
    return false;
}

int stub_spare_number(void *function, const char *name, const struct entry *entry) {
    int number = 0;
    lock_take(&loader_lock, LOCK_LOADER);
    int used = atomic_load(&spares_used);
    while (number < used && spares[number].function != function)
        number++;
    char *copy = number == used && used < STUB_SPARES ? malloc(strlen(name) + 1) : NULL;
    if (copy) {
        memcpy(copy, name, strlen(name) + 1);
        bool known = !entry_is_unknown(entry);
        unsigned row = known ? (unsigned)(entry - entry_points) : GIVEN_UNKNOWN;
        spares[used] = (struct spare){function, copy, *entry, row};
        stub_entries[ENTRIES + used].words =
            known ? stack_words[row] : WORDS_UNKNOWN | COPIED_WORDS;
        atomic_store(&stub_entries[ENTRIES + used].real, function);
        atomic_store(&spares_used, ++used);
    }
    lock_drop(&loader_lock, LOCK_LOADER);
    if (number < used)
        return (int)ENTRIES + number;
    struct pool *pool = state_pool();
    if (pool)
        pool_reason_stays(pool, WAIT_REASON_bypass);
    return -1;
}

/* Among functions whose stub only precedes them, those that write to memory, where the check wants
 * to know that they have: the number of a stub that calls the function, else a negative one. */
static int stub_that_calls(const struct stub_frame *frame, void *real) {
    const struct entry *entry = entry_of(frame);
    if (number_of(frame) >= ENTRIES || !state_checks_launches() || entry->ours == OURS_call ||
        !entry_writes(entry))
        return -1;
    return stub_spare_number(real, name_of(frame), entry);
}

/* Whether the call submits work, and submissions are not tracked: then it is noted afterwards if
 * they are by then. */
static inline bool submits_unnoted(const struct stub_frame *frame, const struct entry *entry) {
    return !(atomic_load_explicit(&order_word, memory_order_relaxed) & ORDER_TRACKED) &&
           !frame->attempts && entry_submits(entry);
}

/* Returns where to go on: with FRAME_IS_STUB the offset of a stub. */
void *stub_before(struct stub_frame *frame) {
    const struct entry *entry = entry_of(frame);
    void *real = atomic_load_explicit(&stub_entries[number_of(frame)].real, memory_order_acquire);
    if (!real && !find_real(frame, &real))
        return real;
    if (!frame->attempts) {
        frame->opens = false;
        frame->waits.context = NULL;
    }
    struct pool *pool = state_begin_call();
    bool tells = submits_unnoted(frame, entry);
    int calling = pool ? stub_that_calls(frame, real) : -1;
    if (calling >= 0) {
        frame->to_stub = FRAME_IS_STUB;
        state_end_call();
        return (void *)((uintptr_t)calling * STUB_SIZE);
    }
    if (pool) {
        tells = before(pool, frame) || tells;
        state_end_call();
    }
    if (tells)
        frame->to_stub = FRAME_TELLS;
    if (!given_looks_at(row_of(frame)) && !thread_marks.inside && is_quick(pool, entry) &&
        !may_show_per_thread(pool, entry))
        atomic_store_explicit(&stub_entries[number_of(frame)].look, look_of(entry),
                              memory_order_release);
    return real;
}

/* For an unknown function whose frame is so near to the end of its page that the stack may end
 * before all words that would be copied. Returns where to go on: NULL: to the code that copies
 * them. Where it is not known whether they are there, to the function itself, whose result is then
 * not seen; so no wait may be owed any more. */
void *stub_before_unseen(struct stub_frame *frame) {
    uintptr_t stack = (uintptr_t)frame->stack;
    if (stack_walk_reaches(stack, stack + COPIED_WORDS * sizeof *frame->stack))
        return NULL;
    void *real = stub_before(frame);
    struct pool *pool = state_begin_call();
    if (pool) {
        pool_reason_stays(pool, WAIT_REASON_bypass);
        state_end_call();
    }
    return real;
}

/* A call has submitted work of which only now is known that the driver has it. */
static void tell(struct pool *pool) {
    if (atomic_load(&order_word) & ORDER_TRACKED)
        pool_submitted_unnoted(pool);
    call_crossed(pool);
}

/* Returns whether the call is to be made again. */
bool stub_after(struct stub_frame *frame, CUresult result) {
    const struct entry *entry = entry_of(frame);
    if (frame->attempts == NO_SUCH_FUNCTION) /* so nothing was announced */
        return false;
    struct pool *pool = state_begin_call();
    if (!pool)
        return false;
    if (result == CUDA_SUCCESS && frame->to_stub == FRAME_TELLS)
        tell(pool);
    bool again = call_ended(pool, frame, entry, name_of(frame), result);
    state_end_call();
    return again;
}

void stub_tells(void) {
    struct pool *pool = state_begin_call();
    if (!pool)
        return;
    tell(pool);
    state_end_call();
}

/* A function of which no more is looked at has failed: it may tell that the context is lost. */
void stub_failed(CUresult result) {
    struct pool *pool = state_begin_call();
    if (!pool)
        return;
    pool_note_error(pool, result);
    state_end_call();
}
