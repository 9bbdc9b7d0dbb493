#include "interpose/call_effects.h"

#include "interpose/call_order.h"
#include "interpose/caller.h"
#include "interpose/checked.h"
#include "interpose/managed_calls.h"
#include "interpose/real_entries.h"
#include "interpose/state.h"
#include "interpose/unknown.h"
#include "site_tag.h"

/* Where stub_call has the return address, in words from the arguments on the stack. */
#if defined(__x86_64__)
enum { RETURN_ADDRESS = -1 };
#else
enum { RETURN_ADDRESS = -3 };
#endif

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
static void begin_reason(struct pool *pool, const struct stub_frame *frame,
                         const struct entry *entry) {
    bool stays;
    enum wait_reason reason = reason_of(entry, &stays);
    if (reason != WAIT_REASONS && stays)
        pool_reason_stays(pool, reason);
    else if (reason != WAIT_REASONS)
        pool_reason_begins(pool, reason);
    if (entry->effect == EFFECT_reaches)
        pool_peer_reaches(pool, (CUcontext)(uintptr_t)stub_argument(frame, 0));
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
        frame->opens = pool_stream_ends(pool, (CUstream)(uintptr_t)stub_argument(frame, 0));
    } else if (entry->effect == EFFECT_memory_pool_ends) {
        pool_memory_pool_ends(pool, (CUmemoryPool)(uintptr_t)stub_argument(frame, 0));
        frame->opens = true;
    }
}

/* Whether it may change the state of managed memory that is pooled, and says so in its arguments.
 */
static bool changes_pooled(const struct entry *entry) {
    return !entry_is_unknown(entry) && managed_call_is(entry) && state_options()->managed;
}

void call_begins(struct pool *pool, struct stub_frame *frame, const struct entry *entry,
                 const char *name) {
    bool retried = frame->attempts > 0;
    if (entry_is_unknown(entry) && !retried)
        stats_add(STATS_unknown_calls, 1);
    if (entry_begins_capture(entry) && !retried) {
        pool_capture_began(pool, name); /* which pays */
        frame->opens = true;
    }
    if (entry_begins_capture(entry) || entry->capture == CAPTURE_ends)
        return;
    if (state_check() && !retried)
        check_before(state_check(), name, entry);
    if (!retried)
        begin_reason(pool, frame, entry);
    if (!retried && entry_waits_for_context(entry))
        frame->waits = pool_context_wait_begins(pool);
    call_order(pool, frame, entry, name);
    if (changes_pooled(entry))
        managed_call_begins(pool, entry, frame->registers);
    if (retried)
        return;
    if (entry_is_unknown(entry))
        forget_things(pool, entry);
    else
        end_things(pool, frame, entry);
}

/* A module's variable may be managed memory, which the host sees without a call. */
static void look_at_global(struct pool *pool, const struct stub_frame *frame) {
    const CUdeviceptr *address = (const CUdeviceptr *)(uintptr_t)stub_argument(frame, 0);
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
    return (CUfunction)(uintptr_t)stub_argument(frame, behind_config ? 1 : 0);
}

static void check_after(struct check *check, struct pool *pool, const struct stub_frame *frame,
                        const struct entry *entry, const char *name) {
    if (entry->sync == SYNC_asks || entry_awaits(entry) || entry->work == WORK_copy ||
        entry->work == WORK_copies)
        check_after_wait(check);
    if (!state_checks_launches() || !entry_writes(entry) || pool_is_capturing(pool))
        return;
    struct call_site at;
    find_site(&at, frame);
    check_after_work(check, name, launched(frame, entry), &at);
}

static void after_success(struct pool *pool, const struct stub_frame *frame,
                          const struct entry *entry) {
    if (entry_escapes(entry))
        pool_work_pending(pool); /* a wait may have ended between the announcement and the call */
    if (entry_is_unknown(entry))
        return;
    switch ((enum entry_effect)entry->effect) {
    case EFFECT_stream:
    case EFFECT_green_stream: {
        uint64_t flags = stub_argument(frame, entry->effect == EFFECT_green_stream ? 2 : 1);
        const CUstream *stream = (const CUstream *)(uintptr_t)stub_argument(frame, 0);
        pool_stream_created(pool, *stream, (flags & CU_STREAM_NON_BLOCKING) != 0);
        break;
    }
    case EFFECT_stream_ends:
        if (frame->opens)
            pool_capture_ended(pool);
        break;
    case EFFECT_memory_pool:
        pool_memory_pool_created(pool, *(const CUmemoryPool *)(uintptr_t)stub_argument(frame, 0),
                                 (const CUmemPoolProps *)(uintptr_t)stub_argument(frame, 1));
        break;
    case EFFECT_unregistered:
        pool_reason_ends(pool, WAIT_REASON_registered);
        break;
    case EFFECT_context:
        pool_context_created(pool, *(const CUcontext *)(uintptr_t)stub_argument(frame, 0));
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

static void after_failure(struct pool *pool, const struct stub_frame *frame,
                          const struct entry *entry) {
    bool stays;
    if (entry_begins_capture(entry) && frame->opens)
        pool_capture_ended(pool);
    enum wait_reason reason = reason_of(entry, &stays);
    if (reason != WAIT_REASONS && !stays)
        pool_reason_ends(pool, reason);
}

/* A call that asks for no memory can run out of it all the same, but only by CUDA's own error: what
 * another tool's negative answer to it means nobody knows. */
static bool found_no_memory(const struct entry *entry, CUresult result) {
    return result == CUDA_ERROR_OUT_OF_MEMORY ||
           (entry->memory != MEMORY__ && entry->memory != MEMORY_may && driver_refused(result));
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
    CUstream stream = (CUstream)(uintptr_t)stub_argument(frame, entry->stream & STREAM_POSITION);
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

bool call_ended(struct pool *pool, struct stub_frame *frame, const struct entry *entry,
                const char *name, CUresult result) {
    bool again = found_no_memory(entry, result) &&
                 checked_make_room(pool, name, (unsigned)frame->attempts++, asks_for(entry));
    if (entry_begins_capture(entry) && frame->opens && result == CUDA_SUCCESS)
        name_capture(pool, frame, entry);
    if (entry->capture == CAPTURE_ends && ends_capture(result))
        end_capture(pool, frame, entry);
    else if (entry->capture == CAPTURE_ends && result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        pool_capture_end_refused(pool, captured_stream(frame, entry));
    if (result == CUDA_SUCCESS && state_check())
        check_after(state_check(), pool, frame, entry, name);
    if (result == CUDA_SUCCESS) {
        if (entry_waits_for_context(entry))
            pool_context_wait_ended(pool, &frame->waits);
        after_success(pool, frame, entry);
        if (frame->attempts)
            stats_add(STATS_oom_rescued, 1);
    } else if (!again) {
        pool_note_error(pool, result);
        after_failure(pool, frame, entry);
    }
    if (entry->effect == EFFECT_memory_pool_ends && frame->opens && !again)
        pool_memory_pool_ended(pool);
    return again;
}
