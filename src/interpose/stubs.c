/* What is done before and after the driver's functions that have no hook of their own. The stubs of
 * stubs.S call in here unless there is nothing to do.
 *
 * Nothing here looks at the functions' signatures but for the few arguments that decide: a stream's
 * handle and flags, the stream that work goes to, the address of a module's variable. */
#include "interpose/stubs.h"

#include "interpose/call_arguments.h"
#include "interpose/caller.h"
#include "interpose/checked.h"
#include "interpose/entry_points.h"
#include "interpose/given_addresses.h"
#include "interpose/hooks.h"
#include "interpose/loader.h"
#include "interpose/managed_calls.h"
#include "interpose/state.h"
#include "interpose/unknown.h"
#include "order/order.h"
#include "site_tag.h"

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

/* Where stub_call has the return address, in words from the arguments on the stack. */
#if defined(__x86_64__)
enum { RETURN_ADDRESS = -1 };
#else
enum { RETURN_ADDRESS = -3 };
#endif

/* As stubs.S lays it out. stack: the arguments beyond the registers'. */
struct stub_frame {
    uint64_t registers[8];
    unsigned char vectors[8][16];
    const uint64_t *stack;
    uint64_t number, attempts; /* NO_SUCH_FUNCTION: the driver has none */
    union {
        uint64_t opens; /* the gate, afterwards: a captured stream or a memory pool is destroyed, or
                         * if a capture that begins fails to */
        uint64_t to_stub; /* where nothing follows the call: what stub_before returned is a stub */
    };
    struct pool_context_wait waits; /* before a call that waits for all work of the context */
};

#define NO_SUCH_FUNCTION UINT64_MAX

HIDDEN void *stub_before(struct stub_frame *frame);
HIDDEN bool stub_after(struct stub_frame *frame, CUresult result);
HIDDEN void stub_failed(CUresult result);

static uint64_t argument(const struct stub_frame *frame, unsigned index) {
    return call_argument(&(struct call_arguments){frame->registers, frame->stack}, index);
}

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

/* The attributes that change nothing but how the kernel itself runs. */
static bool is_plain_launch(const CUlaunchConfig *config) {
    for (unsigned i = 0; i < config->numAttrs; i++)
        switch (config->attrs[i].id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            break;
        default:
            return false;
        }
    return true;
}

/* The stream that the work goes to; NULL: not known, or several. */
static CUstream stream_of(const struct stub_frame *frame, const struct entry *entry) {
    unsigned position = entry->stream & STREAM_POSITION;
    const CUlaunchConfig *config;
    CUstream stream = NULL;
    switch (entry->stream & STREAM_SORT) {
    case STREAM_DEFAULT:
        break;
    case STREAM_ARGUMENT:
        stream = (CUstream)(uintptr_t)argument(frame, position);
        break;
    case STREAM_INSIDE:
        config = (const CUlaunchConfig *)(uintptr_t)argument(frame, position);
        if (!config) /* the driver says so */
            return NULL;
        stream = config->hStream;
        break;
    default:
        return NULL;
    }
    if (stream)
        return stream;
    return entry_is_per_thread(entry) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* Whether the order of streams may not hold what the call does. */
static bool is_loose(const struct stub_frame *frame, const struct entry *entry) {
    if ((entry->stream & STREAM_SORT) != STREAM_INSIDE || !entry_submits(entry))
        return false;
    unsigned position = entry->stream & STREAM_POSITION;
    const CUlaunchConfig *config = (const CUlaunchConfig *)(uintptr_t)argument(frame, position);
    return !config || !is_plain_launch(config);
}

/* How many of a call's first arguments point to memory that it reaches. */
enum reached { REACHES_NONE, REACHES_FIRST, REACHES_FIRST_TWO, REACHES_UNKNOWN };
static enum reached reached_by(const struct entry *entry) {
    static const unsigned char reached[UINT8_MAX] = {
        [WORK_set] = REACHES_FIRST,        [WORK_copy] = REACHES_FIRST_TWO,
        [WORK_device] = REACHES_FIRST_TWO, [WORK_copies] = REACHES_UNKNOWN,
        [WORK_graph] = REACHES_UNKNOWN,    [WORK_unpack] = REACHES_UNKNOWN,
    };
    return (enum reached)reached[entry->work];
}

/* Where the call may reach memory of another context. Copies and memsets between linear addresses
 * have them in front, others in structs. */
static void reach(struct pool *pool, const struct stub_frame *frame, const struct entry *entry,
                  CUstream stream) {
    const CUdeviceptr pointers[] = {argument(frame, 0), argument(frame, 1)};
    enum reached reached = reached_by(entry);
    if (reached != REACHES_NONE)
        pool_reaches(pool, stream, pointers, reached == REACHES_UNKNOWN ? 0 : (size_t)reached,
                     reached != REACHES_UNKNOWN, name_of(frame));
}

/* Sees to the order of what the call submits, if it does, and to what is owed before the call. */
static void order(struct pool *pool, const struct stub_frame *frame, const struct entry *entry) {
    CUstream stream = entry_submits(entry) ? stream_of(frame, entry) : NULL;
    if (stream)
        pool_submits(pool, stream, name_of(frame));
    else if (entry_submits(entry))
        pool_submits_somewhere(pool, name_of(frame));
    if (entry_submits(entry))
        reach(pool, frame, entry, stream ? stream : CU_STREAM_LEGACY);
    if (entry->sync == SYNC_stream && entry->stream)
        pool_waits_for_stream(pool, stream_of(frame, entry), name_of(frame));
    else if ((entry_pays(entry) && !frame->waits.context) || is_loose(frame, entry))
        pool_pay(pool, name_of(frame));
}

/* Because of some things no wait may be owed: which reason it is, and whether it stays for good or
 * is counted. What an unknown function makes or ends cannot be counted. */
static enum wait_reason reason_of(const struct entry *entry, bool *stays) {
    *stays = true;
    switch ((enum entry_effect)entry->effect) {
    case EFFECT_stream:
    case EFFECT_green_stream:
        return entry_is_unknown(entry) ? WAIT_REASON_stream : WAIT_REASONS;
    case EFFECT_pinned:
        *stays = entry_is_unknown(entry);
        return WAIT_REASON_pinned;
    case EFFECT_registered:
        *stays = entry_is_unknown(entry);
        return WAIT_REASON_registered;
    case EFFECT_managed:
    case EFFECT_memory_pool:
        return WAIT_REASON_managed;
    case EFFECT_imported:
        return WAIT_REASON_imported;
    case EFFECT_exported:
        return WAIT_REASON_exported;
    case EFFECT_peer:
        return WAIT_REASON_peer;
    case EFFECT_context:
    case EFFECT_green_context:
        return entry_is_unknown(entry) ? WAIT_REASON_contexts : WAIT_REASONS;
    case EFFECT_global:
        return entry_is_unknown(entry) ? WAIT_REASON_managed : WAIT_REASONS;
    default:
        return WAIT_REASONS;
    }
}

/* From before the call on. */
static void begin_reason(struct pool *pool, const struct entry *entry) {
    bool stays;
    enum wait_reason reason = reason_of(entry, &stays);
    if (reason != WAIT_REASONS && stays)
        pool_reason_stays(pool, reason);
    else if (reason != WAIT_REASONS)
        pool_reason_begins(pool, reason);
    if (entry_escapes(entry))
        pool_work_pending(pool);
}

/* The check comes first, as the call may find what has gone wrong so far. */
static void check_before(struct check *check, const char *name, const struct entry *entry) {
    if (entry_awaits(entry))
        check_before_wait(check, name);
    if (entry_writes(entry))
        check_work(check);
}

/* It may have made or ended streams or memory pools, nobody knows which. */
static void forget_things(struct pool *pool, const struct entry *entry) {
    switch ((enum entry_effect)entry->effect) {
    case EFFECT_stream:
    case EFFECT_green_stream:
    case EFFECT_stream_ends:
        pool_streams_lost(pool);
        pool_captured_streams_lost(pool);
        break;
    case EFFECT_context_ends:
        pool_captured_streams_lost(pool);
        break;
    case EFFECT_memory_pool_ends:
        pool_memory_pools_lost(pool);
        break;
    default:
        break;
    }
}

/* The end of things that the pool knows by their handle. */
static void end_things(struct pool *pool, struct stub_frame *frame, const struct entry *entry) {
    if (entry->effect == EFFECT_stream_ends) {
        frame->opens = pool_stream_ends(pool, (CUstream)(uintptr_t)argument(frame, 0));
    } else if (entry->effect == EFFECT_memory_pool_ends) {
        pool_memory_pool_ends(pool, (CUmemoryPool)(uintptr_t)argument(frame, 0));
        frame->opens = true;
    }
}

static bool is_quick(const struct pool *pool, const struct entry *entry);
static unsigned char quick_bits(const struct entry *entry);

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
    if (entry_is_unknown(entry) && !retried)
        stats_add(STATS_unknown_calls, 1);
    if (entry_begins_capture(entry) && !retried) {
        pool_capture_began(pool, name_of(frame)); /* which pays */
        frame->opens = true;
    }
    if (entry_begins_capture(entry) || entry->capture == CAPTURE_ends)
        return;
    if (state_check() && !retried)
        check_before(state_check(), name_of(frame), entry);
    if (!retried)
        begin_reason(pool, entry);
    if (!retried && entry_waits_for_context(entry))
        frame->waits = pool_context_wait_begins(pool);
    order(pool, frame, entry);
    if (retried)
        return;
    if (entry_is_unknown(entry))
        forget_things(pool, entry);
    else
        end_things(pool, frame, entry);
}

/* What is to be done for this function from now on, unless the word has one of its bits: nothing.
 */
static unsigned char quick_bits(const struct entry *entry) {
    if (entry_submits(entry))
        return QUICK | ORDER_OWED | ORDER_UNFENCED | ORDER_TRACKED | ORDER_DEFERRED |
               (reached_by(entry) != REACHES_NONE ? ORDER_CONTEXTS : 0);
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

/* Whether it may change the state of managed memory that is pooled, and says so in its arguments.
 */
static bool changes_pooled(const struct entry *entry) {
    return !entry_is_unknown(entry) && managed_call_is(entry) && state_options()->managed;
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
        if (changes_pooled(entry))
            managed_call_begins(pool, entry, frame->registers);
        state_end_call();
    }
    if (!thread_marks.inside && is_quick(pool, entry) && !given_looks_at(row_of(frame->number)))
        atomic_store_explicit(&stub_quick[frame->number], quick_bits(entry), memory_order_release);
    return real;
}

/* A module's variable may be managed memory, which the host sees without a call. */
static void look_at_global(struct pool *pool, const struct stub_frame *frame) {
    const CUdeviceptr *address = (const CUdeviceptr *)(uintptr_t)argument(frame, 0);
    int managed = 0;
    if (!address || !REAL(cuPointerGetAttribute) ||
        REAL(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, *address) !=
            CUDA_SUCCESS ||
        managed)
        pool_reason_stays(pool, WAIT_REASON_managed);
}

static void find_site(struct call_site *site, const struct stub_frame *frame) {
    if (!site_tag_find(site))
        caller_find(site, frame->stack[RETURN_ADDRESS], (uintptr_t)frame->stack,
                    (unsigned)state_options()->site_depth);
}

/* What a launch launches; NULL if it is none of one kernel. */
static CUfunction launched(const struct stub_frame *frame, const struct entry *entry) {
    if (entry->work != WORK_kernel || entry->stream == STREAM_each)
        return NULL;
    bool behind_config = (entry->stream & STREAM_SORT) == STREAM_INSIDE;
    return (CUfunction)(uintptr_t)argument(frame, behind_config ? 1 : 0);
}

static void check_after(struct check *check, struct pool *pool, const struct stub_frame *frame) {
    const struct entry *entry = entry_of(frame->number);
    if (entry->sync == SYNC_asks || entry_awaits(entry) || entry->work == WORK_copy ||
        entry->work == WORK_copies)
        check_after_wait(check);
    if (!state_checks_launches() || !entry_writes(entry) || pool_is_capturing(pool))
        return;
    struct call_site at;
    find_site(&at, frame);
    check_after_work(check, name_of(frame), launched(frame, entry), &at);
}

static void after_success(struct pool *pool, const struct stub_frame *frame) {
    const struct entry *entry = entry_of(frame->number);
    if (entry_escapes(entry))
        pool_work_pending(pool); /* a wait may have ended between the announcement and the call */
    if (entry_is_unknown(entry))
        return;
    switch ((enum entry_effect)entry->effect) {
    case EFFECT_stream:
    case EFFECT_green_stream: {
        uint64_t flags = argument(frame, entry->effect == EFFECT_green_stream ? 2 : 1);
        const CUstream *stream = (const CUstream *)(uintptr_t)argument(frame, 0);
        pool_stream_created(pool, *stream, (flags & CU_STREAM_NON_BLOCKING) != 0);
        break;
    }
    case EFFECT_stream_ends:
        if (frame->opens)
            pool_capture_ended(pool);
        break;
    case EFFECT_memory_pool:
        pool_memory_pool_created(pool, *(const CUmemoryPool *)(uintptr_t)argument(frame, 0),
                                 (const CUmemPoolProps *)(uintptr_t)argument(frame, 1));
        break;
    case EFFECT_unregistered:
        pool_reason_ends(pool, WAIT_REASON_registered);
        break;
    case EFFECT_context:
        pool_context_created(pool, *(const CUcontext *)(uintptr_t)argument(frame, 0));
        break;
    case EFFECT_green_context:
        pool_reason_stays(pool, WAIT_REASON_green);
        break;
    case EFFECT_global:
        look_at_global(pool, frame);
        break;
    default:
        if (changes_pooled(entry))
            managed_call_succeeded(pool, entry, frame->registers);
        break;
    }
}

static void after_failure(struct pool *pool, const struct stub_frame *frame) {
    const struct entry *entry = entry_of(frame->number);
    bool stays;
    if (entry_begins_capture(entry) && frame->opens)
        pool_capture_ended(pool);
    enum wait_reason reason = reason_of(entry, &stays);
    if (reason != WAIT_REASONS && !stays)
        pool_reason_ends(pool, reason);
}

/* What a call asks for that has found no memory. */
static enum pool_asks asks_for(const struct entry *entry) {
    switch ((enum entry_memory)entry->memory) {
    case MEMORY_host:
    case MEMORY_address:
        return POOL_ASKS_OTHER_MEMORY;
    case MEMORY_device:
    case MEMORY_managed:
    case MEMORY_array:
        return POOL_ASKS_DEVICE_MEMORY;
    case MEMORY__:
    case MEMORY_may:
        break;
    }
    return POOL_ASKS_NO_MEMORY;
}

/* Success and these errors end the capture [cuda.h, cuStreamEndCapture]. Others leave it running,
 * or there was none; UNMATCHED says that it began in another stream, which is asked sooner or
 * later. */
static bool ends_capture(CUresult result) {
    return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
           result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

static CUstream captured_stream(const struct stub_frame *frame, const struct entry *entry) {
    CUstream stream = (CUstream)(uintptr_t)argument(frame, entry->stream & STREAM_POSITION);
    return !stream && entry_is_per_thread(entry) ? CU_STREAM_PER_THREAD : stream;
}

static void name_capture(struct pool *pool, const struct stub_frame *frame,
                         const struct entry *entry) {
    if (entry->capture == CAPTURE_begins_unseen)
        pool_capture_unseen(pool, captured_stream(frame, entry));
    else if (!entry_is_unknown(entry))
        pool_capture_named(pool, captured_stream(frame, entry));
}

static void end_capture(struct pool *pool, const struct stub_frame *frame,
                        const struct entry *entry) {
    if (entry_is_unknown(entry))
        pool_capture_ended_somewhere(pool);
    else
        pool_capture_ended_in(pool, captured_stream(frame, entry));
}

/* Returns whether the call is to be made again. */
bool stub_after(struct stub_frame *frame, CUresult result) {
    const struct entry *entry = entry_of(frame->number);
    if (frame->attempts == NO_SUCH_FUNCTION) /* so nothing was announced */
        return false;
    struct pool *pool = state_begin_call();
    if (!pool)
        return false;
    bool again =
        result == CUDA_ERROR_OUT_OF_MEMORY &&
        checked_make_room(pool, name_of(frame), (unsigned)frame->attempts++, asks_for(entry));
    if (entry_begins_capture(entry) && frame->opens && result == CUDA_SUCCESS)
        name_capture(pool, frame, entry);
    if (entry->capture == CAPTURE_ends && ends_capture(result))
        end_capture(pool, frame, entry);
    if (result == CUDA_SUCCESS && state_check())
        check_after(state_check(), pool, frame);
    if (result == CUDA_SUCCESS) {
        if (entry_waits_for_context(entry))
            pool_context_wait_ended(pool, &frame->waits);
        after_success(pool, frame);
        if (frame->attempts)
            stats_add(STATS_oom_rescued, 1);
    } else if (!again) {
        pool_note_error(pool, result);
        after_failure(pool, frame);
    }
    if (entry->effect == EFFECT_memory_pool_ends && frame->opens && !again)
        pool_memory_pool_ended(pool);
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
