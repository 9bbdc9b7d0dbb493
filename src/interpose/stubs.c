/* The stubs that stand before the driver's functions that have no hook of their own: which function
 * is behind which, and when nothing is to be done for it. The code of stubs.S calls in here unless
 * that is so; what is to be done is the business of call_effects.c and call_order.c. */
#include "interpose/stubs.h"

#include "interpose/call_effects.h"
#include "interpose/call_order.h"
#include "interpose/entry_points.h"
#include "interpose/given_addresses.h"
#include "interpose/hooks.h"
#include "interpose/loader.h"
#include "interpose/state.h"
#include "interpose/stub_frame.h"
#include "interpose/unknown.h"
#include "order/order.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum {
    SPARES = 1024, /* as in stubs.S */
    STUB_SIZE = 16,
};

/* A function at an address that the table's symbols do not have. Filled under loader_lock, never
 * changed afterwards; published by spares_used. */
static struct spare {
    void *function;
    const char *name;
    struct entry entry;
    unsigned row; /* that the entry is of, if of any */
} spares[SPARES];
static atomic_int spares_used;

/* Read by stubs.S. stub_real[i] is valid once stub_quick[i] is not 0: then nothing is to be done
 * for the function unless order_word has one of its bits. */
HIDDEN _Atomic(void *) stub_real[ENTRIES + SPARES];
HIDDEN atomic_uchar stub_quick[ENTRIES + SPARES];
enum { QUICK = 0x80 }; /* no bit of the word's */
extern const char stub_code[] HIDDEN;

#define NO_SUCH_FUNCTION UINT64_MAX /* in place of attempts */

HIDDEN void *stub_before(struct stub_frame *frame);
HIDDEN bool stub_after(struct stub_frame *frame, CUresult result);
HIDDEN void stub_failed(CUresult result);

static const char *name_of(const struct stub_frame *frame) {
    return frame->number < ENTRIES ? entry_name((unsigned)frame->number)
                                   : spares[frame->number - ENTRIES].name;
}

static const struct entry *entry_of(uint64_t number) {
    return number < ENTRIES ? &entry_points[number] : &spares[number - ENTRIES].entry;
}

static unsigned row_of(uint64_t number) {
    return number < ENTRIES ? (unsigned)number : spares[number - ENTRIES].row;
}

/* What is to be done for this function from now on, unless the word has one of its bits: nothing.
 */
static unsigned char quick_bits(const struct entry *entry) {
    if (entry_submits(entry))
        return QUICK | ORDER_OWED | ORDER_UNFENCED | ORDER_TRACKED | ORDER_DEFERRED |
               (call_reaches(entry) != REACHES_NONE ? ORDER_CONTEXTS : 0);
    return entry_pays(entry) ? QUICK | ORDER_OWED : QUICK;
}

static bool is_quick(const struct pool *pool, const struct entry *entry) {
    if (state_check() || entry_is_unknown(entry) || entry_escapes(entry) ||
        entry_begins_capture(entry) || entry->capture == CAPTURE_ends ||
        entry_waits_for_context(entry))
        return false;
    switch ((enum entry_effect)entry->effect) {
    case EFFECT__:
    case EFFECT_frees:
        return pool || !entry_is_per_thread(entry); /* then the stream is known */
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

/* Looks at what the call gives to the device. Returns whether nothing else is to be done. */
static bool look(struct pool *pool, const struct stub_frame *frame, const struct entry *entry) {
    unsigned row = row_of(frame->number);
    if (!given_looks_at(row))
        return false;
    given_look(pool, row, &(struct call_arguments){frame->registers, frame->stack});
    int word = atomic_load(&order_word);
    return !entry->effect && is_quick(pool, entry) && (!word || !(word & quick_bits(entry)));
}

static void before(struct pool *pool, struct stub_frame *frame) {
    const struct entry *entry = entry_of(frame->number);
    bool retried = frame->attempts > 0;
    if (!retried && look(pool, frame, entry))
        return;
    if (entry->ours == OURS_peek)
        return;
    call_begins(pool, frame, entry, name_of(frame));
}

static CUresult not_initialized(void) {
    return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult not_supported(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

static void *find_real(const struct stub_frame *frame) {
    uint64_t number = frame->number;
    void *real = atomic_load_explicit(&stub_real[number], memory_order_acquire);
    if (real)
        return real;
    real = real_load() ? real_find(name_of(frame)) : NULL;
    atomic_store_explicit(&stub_real[number], real, memory_order_release);
    return real;
}

static void *spare_stub(void *function, const char *name, const struct entry *entry);

/* Among functions whose stub only precedes them, those that write to memory, where the check wants
 * to know that they have: a stub that calls the function, else NULL. */
static void *stub_that_calls(const struct stub_frame *frame, void *real) {
    const struct entry *entry = entry_of(frame->number);
    if (frame->number >= ENTRIES || !state_checks_launches() || entry->ours == OURS_call ||
        !entry_writes(entry))
        return NULL;
    return spare_stub(real, name_of(frame), entry);
}

void *stub_before(struct stub_frame *frame) {
    const struct entry *entry = entry_of(frame->number);
    void *real = find_real(frame);
    if (!real) {
        frame->attempts = NO_SUCH_FUNCTION;
        return real_load() ? (void *)not_supported : (void *)not_initialized;
    }
    if (!frame->attempts) {
        frame->opens = false;
        frame->waits.context = NULL;
    }
    struct pool *pool = state_begin_call();
    void *calling = pool ? stub_that_calls(frame, real) : NULL;
    if (calling) {
        frame->to_stub = true;
        state_end_call();
        return calling;
    }
    if (pool) {
        before(pool, frame);
        state_end_call();
    }
    if (!given_looks_at(row_of(frame->number)) && !thread_marks.inside && is_quick(pool, entry))
        atomic_store_explicit(&stub_quick[frame->number], quick_bits(entry), memory_order_release);
    return real;
}

/* Returns whether the call is to be made again. */
bool stub_after(struct stub_frame *frame, CUresult result) {
    const struct entry *entry = entry_of(frame->number);
    if (frame->attempts == NO_SUCH_FUNCTION) /* so nothing was announced */
        return false;
    struct pool *pool = state_begin_call();
    if (!pool)
        return false;
    bool again = call_ended(pool, frame, entry, name_of(frame), result);
    state_end_call();
    return again;
}

/* A function of which no more is looked at has failed: it may tell that the context is lost. */
void stub_failed(CUresult result) {
    struct pool *pool = state_begin_call();
    if (!pool)
        return;
    pool_note_error(pool, result);
    state_end_call();
}

static void *stub(uint64_t number) {
    return (void *)(uintptr_t)(stub_code + number * STUB_SIZE);
}

/* The stub that stands before `function`, which the table knows under no symbol of this address.
 * NULL if there are none left: then no wait may be owed any more. */
static void *spare_stub(void *function, const char *name, const struct entry *entry) {
    int number = 0;
    lock_take(&loader_lock, LOCK_LOADER);
    int used = atomic_load(&spares_used);
    while (number < used && spares[number].function != function)
        number++;
    char *copy = number == used && used < SPARES ? malloc(strlen(name) + 1) : NULL;
    if (copy) {
        memcpy(copy, name, strlen(name) + 1);
        bool known = !entry_is_unknown(entry);
        unsigned row = known ? (unsigned)(entry - entry_points) : GIVEN_UNKNOWN;
        spares[used] = (struct spare){function, copy, *entry, row};
        atomic_store(&stub_real[ENTRIES + used], function);
        atomic_store(&spares_used, ++used);
    }
    lock_drop(&loader_lock, LOCK_LOADER);
    if (number < used)
        return stub(ENTRIES + (uint64_t)number);
    struct pool *pool = state_pool();
    if (pool)
        pool_reason_stays(pool, WAIT_REASON_bypass);
    return NULL;
}

static void *known_stub(unsigned number, void *found) {
    void *real = atomic_load_explicit(&stub_real[number], memory_order_acquire);
    if (!real)
        atomic_store_explicit(&stub_real[number], found, memory_order_release);
    return stub(number);
}

static void *replace_unknown(const char *name, void *found, bool per_thread) {
    struct entry entry = unknown_entry(name, per_thread);
    void *ours = spare_stub(found, name, &entry);
    return ours ? ours : found;
}

void *stubs_replace_symbol(const char *name, void *found) {
    if (!real_load() || real_find(name) != found)
        return found;
    unsigned number = entry_find(name);
    if (number == ENTRIES)
        return replace_unknown(name, found, unknown_is_per_thread(name));
    return entry_has_stub(&entry_points[number]) ? known_stub(number, found) : found;
}

/* A form that the table has is at the address of its symbol, or at the one that the driver answers
 * with for the version that introduced it. What is to have a hook has got it before. */
void *stubs_replace_base(const char *base, void *found, bool per_thread) {
    if (!real_load())
        return found;
    for (unsigned i = entry_next_form(base, 0); i < ENTRIES; i = entry_next_form(base, i + 1))
        if (real_find(entry_name(i)) == found)
            return entry_has_stub(&entry_points[i]) ? known_stub(i, found) : found;
    for (unsigned i = entry_next_form(base, 0); i < ENTRIES; i = entry_next_form(base, i + 1)) {
        const struct entry *entry = &entry_points[i];
        if (real_ask(base, entry->since, entry_is_per_thread(entry)) != found)
            continue;
        if (entry->ours == OURS_hook)
            break;
        void *ours = entry_has_stub(entry) ? spare_stub(found, entry_name(i), entry) : NULL;
        return ours ? ours : found;
    }
    return replace_unknown(base, found, per_thread);
}

void stubs_forget_after_fork(void) {
    for (int i = 0; i < ENTRIES + SPARES; i++)
        atomic_store_explicit(&stub_quick[i], 0, memory_order_relaxed);
    given_forget_after_fork();
}
