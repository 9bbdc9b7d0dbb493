/* Which streams are being captured. The gate counts what the hooks have seen; a capture may end
 * without any of them: by a function that nobody knows, past the hooks, with its context. The pool
 * would be out of use from then on, so now and then the streams themselves are asked.
 *
 * A capture whose stream is not known here, or only to its own thread, is not named: only the call
 * that ends it says so. */
#include "pool/internal.h"

enum { ASK_EVERY = 16 }; /* calls that went past the pool because of captures */

/* asked: without the lock, just now; the stream must not end meanwhile. over: the stream has said
 * that its capture has ended, and the gate is open again. The record stays for the thread that has
 * ended it: it tells so later, and that must not count for another capture. */
struct capture {
    CUstream stream;
    CUcontext context;
    CUdevice ordinal;
    bool primary, asked, over;
    LIST_ENTRY(capture) link;
};

/* Lock held. */
static struct capture *find(struct pool *pool, CUstream stream) {
    lock_check_held(LOCK_POOL);
    struct capture *capture;
    LIST_FOREACH (capture, &pool->named_captures, link)
        if (capture->stream == stream)
            return capture;
    return NULL;
}

/* Lock held, which is given up in between. */
static void await_answers(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    while (pool->captures_asked) {
        pool_unlock(pool);
        gate_pause();
        pool_lock(pool);
    }
}

/* Lock held. */
static void forget(struct capture *capture) {
    lock_check_held(LOCK_POOL);
    LIST_REMOVE(capture, link);
    free(capture);
}

/* Whether the stream can be asked by any thread, and it is known with what it ends. */
static bool look_at_stream(const struct driver *driver, struct capture *capture) {
    CUcontext owner;
    return capture->stream && capture->stream != CU_STREAM_PER_THREAD &&
           driver->stream_is_capturing && driver->stream_get_ctx &&
           driver->ctx_get_current(&capture->context) == CUDA_SUCCESS &&
           driver->stream_get_ctx(capture->stream, &owner) == CUDA_SUCCESS &&
           owner == capture->context && driver->ctx_get_device(&capture->ordinal) == CUDA_SUCCESS;
}

/* A new capture has begun there. */
static void forget_former(struct pool *pool, CUstream stream) {
    pool_lock(pool);
    struct capture *former = find(pool, stream);
    if (former && former->over)
        forget(former);
    pool_unlock(pool);
}

void pool_capture_named(struct pool *pool, CUstream stream) {
    forget_former(pool, stream);
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return;
    capture->stream = stream;
    bool known = look_at_stream(pool->driver, capture);
    pool_lock(pool);
    if (known && pool->unnamed_captures && !find(pool, stream)) {
        pool->unnamed_captures--;
        capture->primary = !context_is_created(pool, capture->context);
        LIST_INSERT_HEAD(&pool->named_captures, capture, link);
        capture = NULL;
    }
    pool_unlock(pool);
    free(capture);
}

void captures_count_unnamed(struct pool *pool) {
    lock_check_none();
    pool_lock(pool);
    pool->unnamed_captures++;
    pool_unlock(pool);
}

/* Whether there was one that is not named, which has ended now. */
static bool end_unnamed(struct pool *pool) {
    pool_lock(pool);
    bool ended = pool->unnamed_captures > 0;
    pool->unnamed_captures -= ended;
    pool_unlock(pool);
    return ended;
}

void pool_capture_ended(struct pool *pool) {
    if (end_unnamed(pool))
        gate_open(pool);
}

enum named { NAMED_NOT, NAMED_GOING_ON, NAMED_OVER };

/* Forgets the stream's capture, and says what was known of it. */
static enum named take_name(struct pool *pool, CUstream stream) {
    pool_lock(pool);
    await_answers(pool);
    struct capture *capture = find(pool, stream);
    enum named named = !capture ? NAMED_NOT : capture->over ? NAMED_OVER : NAMED_GOING_ON;
    if (capture)
        forget(capture);
    pool_unlock(pool);
    return named;
}

/* A stream that was drawn into another one's capture leaves it, which goes on. */
bool captures_stream_ends(struct pool *pool, CUstream stream) {
    lock_check_none();
    bool captured = pool_stream_is_captured(pool, stream);
    enum named named = take_name(pool, stream);
    if (named == NAMED_GOING_ON && !captured)
        gate_open(pool);
    pool_lock(pool);
    pool->unnamed_captures += named == NAMED_GOING_ON && captured;
    bool counted = pool->unnamed_captures > 0;
    pool_unlock(pool);
    return captured && counted;
}

void pool_capture_ended_in(struct pool *pool, CUstream stream) {
    switch (take_name(pool, stream)) {
    case NAMED_GOING_ON:
        gate_open(pool);
        break;
    case NAMED_NOT:
        pool_capture_ended(pool);
        break;
    case NAMED_OVER:
        break;
    }
}

/* Opens the gate for each capture in a context that ends; NULL: in the device's primary one. */
static void end_in_context(struct pool *pool, CUcontext context, CUdevice ordinal) {
    int ended = 0;
    pool_lock(pool);
    await_answers(pool);
    struct capture *capture = LIST_FIRST(&pool->named_captures);
    while (capture) {
        struct capture *next = LIST_NEXT(capture, link);
        bool ends =
            context ? capture->context == context : capture->primary && capture->ordinal == ordinal;
        ended += ends && !capture->over;
        if (ends)
            forget(capture);
        capture = next;
    }
    pool_unlock(pool);
    while (ended--)
        gate_open(pool);
}

void captures_context_ends(struct pool *pool, CUcontext context) {
    lock_check_none();
    end_in_context(pool, context, 0);
}

void captures_primary_ends(struct pool *pool, CUdevice ordinal) {
    lock_check_none();
    end_in_context(pool, NULL, ordinal);
}

/* One that has not been asked in this round. Lock held. */
static struct capture *next_to_ask(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct capture *capture;
    LIST_FOREACH (capture, &pool->named_captures, link)
        if (!capture->asked && !capture->over)
            return capture;
    return NULL;
}

/* An error is no answer. */
static bool has_ended(const struct pool *pool, CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return pool->driver->stream_is_capturing(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Asks all streams that are known to be captured. Returns how many captures have ended. Lock held
 * on entry, not on return; no other thread is asking. */
static int ask_all(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct capture *capture;
    int ended = 0;
    pool->captures_asked = true;
    while ((capture = next_to_ask(pool))) {
        CUstream stream = capture->stream;
        capture->asked = true;
        pool_unlock(pool);
        bool over = has_ended(pool, stream);
        pool_lock(pool);
        capture->over = over;
        ended += over;
    }
    LIST_FOREACH (capture, &pool->named_captures, link)
        capture->asked = false;
    pool->captures_asked = false;
    pool_unlock(pool);
    for (int i = 0; i < ended; i++)
        gate_open(pool);
    return ended;
}

void pool_capture_ended_somewhere(struct pool *pool) {
    pool_lock(pool);
    await_answers(pool);
    if (!ask_all(pool))
        pool_capture_ended(pool);
}

void captures_passed(struct pool *pool) {
    lock_check_none();
    if (atomic_fetch_add(&pool->passed_calls, 1) % ASK_EVERY != ASK_EVERY - 1)
        return;
    pool_lock(pool);
    if (pool->captures_asked) /* by another thread */
        pool_unlock(pool);
    else
        ask_all(pool);
}

void captures_forget(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct capture *capture;
    while ((capture = LIST_FIRST(&pool->named_captures))) {
        LIST_REMOVE(capture, link);
        free(capture);
    }
    pool->unnamed_captures = 0;
    pool->captures_asked = false;
}
