/* The waits of frees, made at once or when they are paid. That every call that could tell is
 * preceded by the payment is the business of the hooks. */
#include "pool/internal.h"

#include "base/by_pointer.h"
#include "order/order.h"

enum { MOMENT_NS = 250 * 1000 * 1000 };

bool wait_is_owed(void) {
    return atomic_load_explicit(&order_word, memory_order_acquire) & ORDER_OWED;
}

/* What a wait is made for: events, where they can be recorded, else the context. */
enum covered { COVER_CONTEXT, COVER_EVENT_OF_CONTEXT, COVER_EVENT_OF_LEGACY };

/* Only the last block's free trusts what is known of streams, that there are none: each other
 * reason to wait is one not to. What is submitted in green contexts may be missed by events of
 * their primary one. Lock held. */
static enum covered covered_by(const struct pool *pool, enum wait_reason reason) {
    lock_check_held(LOCK_POOL);
    if (!pool->driver->event_synchronize || !pool->driver->thread_exchange_capture_mode ||
        pool->reasons[WAIT_REASON_green] || PLANTED(wrong_context))
        return COVER_CONTEXT;
    return reason == WAIT_REASON_last_block ? COVER_EVENT_OF_LEGACY : COVER_EVENT_OF_CONTEXT;
}

/* All work is done that was submitted to the context when so many frees had owed their waits, and
 * it had so many fences. Lock held. */
static void note_done(struct pool *pool, CUcontext context, uint64_t owed_number, uint64_t fences) {
    lock_check_held(LOCK_POOL);
    if (pool->owed_number == owed_number)
        order_is_done(&pool->order, context, fences);
}

/* Counts a wait that began then. */
static void count_time_since(uint64_t began) {
    stats_add(STATS_wait_ns, clock_ns(CLOCK_MONOTONIC) - began);
}

static CUresult synchronize(struct pool *pool, CUcontext handle) {
    CUresult result;
    if (PLANTED(wrong_context))
        return pool->driver->ctx_synchronize();
    for (int ends = 0; !order_synchronize(&pool->order, handle, &result); ends++)
        if (ends == ORDER_MOST_ENDS || !order_await_decision(&pool->order, handle))
            break;
    return result;
}

/* Waits for all contexts but the owner. NOT_SUPPORTED: there are too many. The gate is the
 * caller's. Lock not held. */
static CUresult wait_for_others(struct pool *pool, const struct context *owner) {
    lock_check_none();
    enum { MAX_OTHERS = 64 };
    CUcontext others[MAX_OTHERS];
    int count = 0;
    pool_lock(pool);
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->handle == owner->handle || context->broken || !context_is_first(pool, context))
            continue;
        if (count < MAX_OTHERS)
            others[count] = context->handle;
        count++;
    }
    pool_unlock_between(pool);
    if (count > MAX_OTHERS)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < count; i++)
        synchronize(pool, others[i]);
    return CUDA_SUCCESS;
}

/* A capture may begin meanwhile on another thread, whose begin must not wait for this: in relaxed
 * mode the wait for an event does it no harm [cuda.h, cuThreadExchangeStreamCaptureMode]. */
static CUresult wait_for_events(struct pool *pool, struct order_fence *fence,
                                struct fence *streams) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    capture_mode_exchange(pool, &mode);
    CUresult result = fence     ? order_fence_wait(&pool->order, fence)
                      : streams ? fence_now_wait(pool, streams)
                                : CUDA_SUCCESS;
    bool all = order_wait_for_crossings(&pool->order);
    capture_mode_exchange(pool, &mode);
    return result == CUDA_SUCCESS && !all ? CUDA_ERROR_NOT_SUPPORTED : result;
}

/* Where work of other contexts may use the block as well, all are waited for: the result is the
 * owner's. *fences: how many of the owner's the wait covers. Lock not held. */
static CUresult wait_for_contexts(struct pool *pool, struct context *owner, bool all,
                                  enum covered covered, uint64_t *fences) {
    lock_check_none();
    struct order_fence *fence = NULL;
    struct fence *streams = NULL;
    *fences = order_fences(&pool->order, owner->handle);
    if (!pool_gate_enter(pool))
        return CUDA_ERROR_NOT_SUPPORTED;
    bool fenced =
        covered != COVER_CONTEXT &&
        order_fence_now(&pool->order, owner->handle, covered == COVER_EVENT_OF_CONTEXT, &fence);
    if (!fenced && covered != COVER_CONTEXT)
        streams = fence_now(pool, owner);
    CUresult result = all ? wait_for_others(pool, owner) : CUDA_SUCCESS;
    if (!fenced && !streams && result == CUDA_SUCCESS)
        result = synchronize(pool, owner->handle);
    pool_gate_leave(pool);
    bool events = fence || streams || order_has_crossings(&pool->order);
    CUresult passed = events ? wait_for_events(pool, fence, streams) : CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? passed : result;
}

CUresult context_wait(struct pool *pool, struct context *owner) {
    lock_check_none();
    pool_lock(pool);
    bool all = wait_reaches_others(pool, owner);
    pool_unlock_between(pool);
    uint64_t fences;
    return wait_for_contexts(pool, owner, all, COVER_CONTEXT, &fences);
}

CUresult wait_make(struct pool *pool, struct context *context, enum wait_reason reason) {
    lock_check_held(LOCK_POOL);
    uint64_t owed_number = pool->owed_number, pending = pool->pending, fences = 0;
    bool others = wait_reaches_others(pool, context);
    bool all = others || order_is_only(&pool->order, context->handle);
    enum covered covered = covered_by(pool, reason);
    pool_unlock_between(pool);
    stats_add(STATS_free_waited, 1);
    stats_wait(reason);
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    CUresult result = PLANTED(no_wait) ? CUDA_SUCCESS
                                       : wait_for_contexts(pool, context, others, covered, &fences);
    count_time_since(began);
    pool_note_error(pool, result);
    pool_lock(pool);
    if (result == CUDA_SUCCESS) {
        note_done(pool, context->handle, owed_number, fences);
        if (all)
            pool->pending_seen = pending;
    }
    return result;
}

BY_POINTER static void note_failure(void *pool, CUresult error) {
    pool_note_error(pool, error);
}

/* Waits for what is owed. The gate is the caller's. */
static void pay(struct pool *pool, const char *call) {
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    if (!order_pay(&pool->order, note_failure, pool))
        return;
    count_time_since(began);
    pool_lock(pool);
    stats_add(STATS_waits_paid, 1);
    stats_payer(call);
    pool_unlock(pool);
}

static void await_open_or_paid(struct pool *pool) {
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    while (wait_is_owed() && atomic_load(&pool->captures) &&
           clock_ns(CLOCK_MONOTONIC) - began < MOMENT_NS)
        futex_pause();
}

/* Whether the driver may be called before what the program submits or records: the gate is entered.
 */
static bool may_precede(struct pool *pool) {
    bool may_call;
    while (!(may_call = pool_gate_enter(pool)) && wait_is_owed())
        await_open_or_paid(pool); /* the capture that begins pays first */
    return may_call;
}

void pool_records(struct pool *pool, CUstream stream, const char *call) {
    if (!wait_is_owed() || PLANTED(event_before_free) || !may_precede(pool))
        return;
    bool behind = order_puts_behind(&pool->order, stream);
    pool_gate_leave(pool);
    if (!behind)
        pool_pay(pool, call);
}

void pool_submits(struct pool *pool, CUstream stream, const char *call) {
    if (atomic_load(&order_word) & ORDER_DEFERRED)
        fence_before_submission(pool);
    if (pool->config.free_mode != POOL_FREE_AUTO)
        return;
    bool may_call = may_precede(pool);
    int answer = order_submits(&pool->order, stream, may_call);
    if (may_call)
        pool_gate_leave(pool);
    if (answer & (ORDER_SEVERAL | ORDER_SOLE))
        pool_grant_anew(pool);
    if (answer & ORDER_PAY)
        pool_pay(pool, call);
}

void wait_precedes_own_work(struct pool *pool) {
    lock_check_none();
    if (!atomic_load(&order_word))
        return;
    int answer = order_submits(&pool->order, CU_STREAM_LEGACY, true);
    if (answer & ORDER_PAY)
        order_pay(&pool->order, note_failure, pool);
    if (answer & (ORDER_SEVERAL | ORDER_SOLE))
        pool_grant_anew(pool);
}

void wait_precedes_own_stream(struct pool *pool, const struct context *context, CUstream own) {
    lock_check_none();
    if (wait_is_owed() && !order_puts_own_behind(&pool->order, context->handle, own))
        order_pay(&pool->order, note_failure, pool);
}

void pool_submitted_unnoted(struct pool *pool) {
    order_submitted_unnoted(&pool->order);
}

void pool_submits_somewhere(struct pool *pool, const char *call) {
    if (atomic_load(&order_word) & ORDER_DEFERRED)
        fence_before_submission(pool);
    if (pool_gate_enter(pool)) {
        order_submits_somewhere(&pool->order);
        pool_gate_leave(pool);
    }
    pool_pay(pool, call);
}

void pool_waits_for_stream(struct pool *pool, CUstream stream, const char *call) {
    if (wait_is_owed() && !order_stream_covers(&pool->order, stream))
        pool_pay(pool, call);
}

/* Whether the driver says that the pointer is the current context's, or none's. */
static bool is_own(const struct pool *pool, CUdeviceptr pointer) {
    CUcontext current = NULL, owner = NULL;
    const struct driver *driver = pool->driver;
    return driver->ctx_get_current(&current) == CUDA_SUCCESS && driver->pointer_get_attribute &&
           (driver->pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, pointer) !=
                CUDA_SUCCESS ||
            !owner || owner == current);
}

bool pool_reaches(struct pool *pool, CUstream stream, const CUdeviceptr *pointers, size_t count,
                  bool all_known, const char *call) {
    if (atomic_load_explicit(&pool->order.only, memory_order_relaxed))
        return false;
    bool crosses = !all_known;
    for (size_t i = 0; i < count && !crosses; i++)
        crosses = pointers[i] && !is_own(pool, pointers[i]);
    if (crosses && order_others_owe(&pool->order, stream))
        pool_pay(pool, call);
    return crosses;
}

/* Kept out of the way of calls behind which nothing has crossed. */
__attribute__((noinline)) void pool_crossed(struct pool *pool, CUstream stream) {
    if (pool_stream_is_captured(pool, stream)) /* so nothing has been submitted */
        return;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    capture_mode_exchange(pool, &mode);
    bool recorded = order_crossed(&pool->order, stream);
    capture_mode_exchange(pool, &mode);
    if (!recorded)
        pool_reason_stays(pool, WAIT_REASON_contexts);
    else
        pool_grant_anew(pool);
}

/* With the lock all frees are counted, also those that caches have served. */
struct pool_context_wait pool_context_wait_begins(struct pool *pool) {
    struct pool_context_wait wait = {.context = NULL};
    if (!wait_is_owed() || context_current(pool, &wait.context) != CUDA_SUCCESS)
        return wait;
    pool_lock(pool);
    wait.owed_number = pool->owed_number;
    pool_unlock(pool);
    wait.fences = order_fences(&pool->order, wait.context);
    return wait;
}

void pool_context_wait_ended(struct pool *pool, const struct pool_context_wait *wait) {
    if (!wait->context)
        return;
    pool_lock(pool);
    note_done(pool, wait->context, wait->owed_number, wait->fences);
    pool_unlock(pool);
}

void pool_pay(struct pool *pool, const char *call) {
    if (PLANTED(query_after_owed_wait))
        return;
    while (wait_is_owed()) {
        if (pool_gate_enter(pool)) {
            pay(pool, call);
            pool_gate_leave(pool);
            return;
        }
        await_open_or_paid(pool); /* the capture that begins pays first */
    }
}

bool wait_would_last(struct pool *pool, struct context *context) {
    lock_check_none();
    return quiet_ask(pool, context) != REST_QUIET;
}

bool wait_try_pay(struct pool *pool, const char *call) {
    lock_check_none();
    if (!wait_is_owed())
        return true;
    if (!pool_gate_enter(pool))
        return false;
    pay(pool, call);
    pool_gate_leave(pool);
    return true;
}

/* If several captures begin at once only the first pays: the wait of another would invalidate it.
 */
void pool_capture_began(struct pool *pool, const char *call) {
    if (atomic_load(&order_word) & ORDER_DEFERRED) /* what is submitted beside it is later work */
        fence_before_submission(pool);
    if (gate_close_begin(pool)) {
        if (wait_is_owed())
            pay(pool, call);
        gate_close_end(pool);
    }
    captures_count_unnamed(pool); /* not before: an end may be reported of one that never counted */
}
