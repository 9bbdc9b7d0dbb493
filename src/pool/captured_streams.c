/* Which streams are being captured. The gate counts what the hooks have seen; a capture may end
 * without any of them: by a function that nobody knows, past the hooks, with its context. The pool
 * would be out of use from then on, so now and then the streams themselves are asked.
 *
 * A capture whose stream is not known here, or only to its own thread, is not named: the call that
 * ends it says so, or the end of its context, as far as that is known, or of the only thread that
 * can name its stream.
 *
 * The gate must open once for each capture, and not before it is over. A thread that has ended one
 * says so after the driver's call. Meanwhile the stream may have been asked, and another capture
 * may have begun in it or elsewhere, so an end is only counted for the stream that it names, and
 * there the ends of captures that are known to be over come first. */
#include "pool/context_owners.h"
#include "pool/internal.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ASK_EVERY = 16 }; /* calls that went past the pool because of captures */
/* A thread that does not come back from asking was cancelled. */
static const uint64_t lost_ns = UINT64_C(5000000000);

/* A stream of which captures are or were named.
 * going_on: one counts in the gate. late: captures that count no more, and whose ends somebody may
 * still report. Invariant: one of the two. begun: captures so far, so that an answer about the one
 * before is not taken for one about the last. asked: without the lock, just now; the stream must
 * not end meanwhile. ending: it may end with its context just now, so it must not be asked. */
struct capture {
    CUstream stream;
    CUcontext context;
    CUdevice ordinal;
    bool primary, going_on, asked, ending;
    unsigned late, begun;
    LIST_ENTRY(capture) link;
};

/* A capture whose stream cannot be asked. thread: the only one that can name the stream; 0: any
 * can. Invariant: each of them is counted in unnamed_captures. */
struct unasked_capture {
    CUstream stream;
    CUcontext context;
    CUdevice ordinal;
    bool primary;
    pid_t thread;
    LIST_ENTRY(unasked_capture) link;
};

static pid_t this_thread(void) {
    static __thread char mark;
    pid_t thread = (pid_t)syscall(SYS_gettid);
    return thread > 0 ? thread : -(pid_t)((uintptr_t)&mark >> 4 & INT32_MAX); /* may not be asked */
}

/* Forgets one. Lock held. */
static void forget_unasked(struct unasked_capture *capture) {
    lock_check_held(LOCK_POOL);
    LIST_REMOVE(capture, link);
    free(capture);
}

/* It counts no more. Lock held. */
static void end_unasked(struct pool *pool, struct unasked_capture *capture) {
    lock_check_held(LOCK_POOL);
    pool->unnamed_captures -= pool->unnamed_captures > 0;
    forget_unasked(capture);
}

/* The one in this stream, as the calling thread means it in its current context. NULL: none is
 * known. Lock held. */
static struct unasked_capture *find_unasked(struct pool *pool, CUstream stream, CUcontext current) {
    lock_check_held(LOCK_POOL);
    struct unasked_capture *capture;
    pid_t thread = stream == CU_STREAM_PER_THREAD ? this_thread() : 0;
    LIST_FOREACH (capture, &pool->unasked_captures, link)
        if (capture->stream == stream && capture->thread == thread &&
            (!thread || capture->context == current))
            break;
    return capture;
}

/* Lock held. */
static struct capture *find(struct pool *pool, CUstream stream) {
    lock_check_held(LOCK_POOL);
    struct capture *capture;
    LIST_FOREACH (capture, &pool->named_captures, link)
        if (capture->stream == stream)
            return capture;
    return NULL;
}

/* Lock held on entry and return, not in between. */
static void await_answers(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    while (pool->captures_asked) {
        pool_unlock(pool);
        futex_pause();
        pool_lock(pool);
        if (clock_ns(CLOCK_MONOTONIC) - began > lost_ns)
            pool->captures_asked = false;
    }
}

/* Lock held. */
static void forget(struct capture *capture) {
    lock_check_held(LOCK_POOL);
    LIST_REMOVE(capture, link);
    free(capture);
}

/* Whether the stream can be asked by any thread, and the context is known with which it ends: that
 * is the stream's own, whichever is current. */
static bool look_at_stream(struct pool *pool, struct capture *capture) {
    const struct driver *driver = pool->driver;
    CUcontext current;
    if (!capture->stream || capture->stream == CU_STREAM_PER_THREAD ||
        !driver->stream_is_capturing || !driver->stream_get_ctx ||
        driver->stream_get_ctx(capture->stream, &capture->context) != CUDA_SUCCESS ||
        driver->ctx_get_current(&current) != CUDA_SUCCESS)
        return false;
    if (capture->context == current)
        return driver->ctx_get_device(&capture->ordinal) == CUDA_SUCCESS;
    pool_lock(pool);
    const struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->handle == capture->context)
            break;
    if (context)
        capture->ordinal = context->ordinal;
    bool created = context_is_created(pool, capture->context);
    pool_unlock(pool);
    return context || created; /* only a primary one's device matters */
}

/* Forgets the stream. Returns whether a capture that counts went on in it. */
static bool take_name(struct pool *pool, CUstream stream) {
    pool_lock(pool);
    await_answers(pool);
    struct capture *capture = find(pool, stream);
    bool going_on = capture && capture->going_on;
    if (capture)
        forget(capture);
    pool_unlock(pool);
    return going_on;
}

/* With which context the capture ends: its stream's own, or, of the per-thread stream, the current
 * one. */
static bool find_context_of(struct pool *pool, struct unasked_capture *capture) {
    const struct driver *driver = pool->driver;
    CUcontext current;
    if (driver->ctx_get_current(&current) != CUDA_SUCCESS)
        return false;
    capture->context = current;
    if (capture->stream != CU_STREAM_PER_THREAD &&
        (!driver->stream_get_ctx ||
         driver->stream_get_ctx(capture->stream, &capture->context) != CUDA_SUCCESS))
        return false;
    return capture->context == current && driver->ctx_get_device(&capture->ordinal) == CUDA_SUCCESS;
}

/* The stream's capture is not named. A former one in it is over. */
void pool_capture_unseen(struct pool *pool, CUstream stream) {
    struct unasked_capture *capture = stream ? calloc(1, sizeof *capture) : NULL;
    if (capture) {
        capture->stream = stream;
        capture->thread = stream == CU_STREAM_PER_THREAD ? this_thread() : 0;
    }
    bool known = capture && find_context_of(pool, capture);
    bool former = take_name(pool, stream);
    pool_lock(pool);
    struct unasked_capture *same = known ? find_unasked(pool, stream, capture->context) : NULL;
    if (same) {
        end_unasked(pool, same);
        former = true;
    }
    if (known && pool->unnamed_captures) {
        capture->primary = !context_is_created(pool, capture->context);
        LIST_INSERT_HEAD(&pool->unasked_captures, capture, link);
        capture = NULL;
    }
    pool_unlock(pool);
    free(capture);
    if (former)
        gate_open(pool);
}

/* Names one capture in the stream of `fresh`. Returns whether a former one that counted is over by
 * that. *fresh: NULL if the record is in use. Lock held. */
static bool add_name(struct pool *pool, struct capture **fresh) {
    lock_check_held(LOCK_POOL);
    struct capture *capture = find(pool, (*fresh)->stream);
    if (!pool->unnamed_captures)
        return false;
    pool->unnamed_captures--;
    if (!capture) {
        capture = *fresh;
        *fresh = NULL;
        capture->primary = !context_is_created(pool, capture->context);
        LIST_INSERT_HEAD(&pool->named_captures, capture, link);
    }
    bool counted = capture->going_on;
    capture->late += counted;
    capture->going_on = true;
    capture->begun++;
    return counted;
}

void pool_capture_named(struct pool *pool, CUstream stream) {
    struct capture *capture = calloc(1, sizeof *capture);
    if (capture)
        capture->stream = stream;
    if (!capture || !look_at_stream(pool, capture)) {
        free(capture);
        pool_capture_unseen(pool, stream);
        return;
    }
    pool_lock(pool);
    bool opens = add_name(pool, &capture);
    pool_unlock(pool);
    free(capture);
    if (opens)
        gate_open(pool);
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
    int unasked = 0;
    pool->unnamed_captures -= ended;
    struct unasked_capture *capture = LIST_FIRST(&pool->unasked_captures), *next;
    for (; capture; capture = next) {
        next = LIST_NEXT(capture, link);
        if (++unasked > pool->unnamed_captures) /* it was one of these, nobody knows which */
            forget_unasked(capture);
    }
    pool_unlock(pool);
    return ended;
}

void pool_capture_ended(struct pool *pool) {
    if (end_unnamed(pool))
        gate_open(pool);
}

bool pool_stream_is_captured(struct pool *pool, CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!atomic_load(&pool->captures) || !pool->driver->stream_is_capturing)
        return false;
    CUresult result = pool->driver->stream_is_capturing(stream, &status);
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* The driver is to refuse a use of the stream, and to end the capture. It waits if that has just
 * ended, as the program's call would. In relaxed mode nothing else is a reason to refuse. */
static CUresult ask_for_refusal(struct pool *pool, CUstream stream) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    capture_mode_exchange(pool, &mode);
    CUresult result = pool->driver->stream_synchronize(stream);
    capture_mode_exchange(pool, &mode);
    return result;
}

CUresult pool_stream_refuses(struct pool *pool, CUstream stream) {
    CUstreamCaptureStatus status;
    bool refuses =
        atomic_load(&pool->captures) && pool->driver->stream_is_capturing &&
        pool->driver->stream_synchronize &&
        pool->driver->stream_is_capturing(stream, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return refuses ? ask_for_refusal(pool, stream) : CUDA_SUCCESS;
}

/* A stream that was drawn into another one's capture leaves it, which goes on. One that is captured
 * and not named may have been drawn in as well: to take its end for that of a capture could open
 * the gate while another one goes on. */
bool captures_stream_ends(struct pool *pool, CUstream stream) {
    lock_check_none();
    bool captured = pool_stream_is_captured(pool, stream);
    bool going_on = take_name(pool, stream);
    if (going_on && !captured)
        gate_open(pool);
    pool_lock(pool);
    pool->unnamed_captures += going_on && captured;
    pool_unlock(pool);
    return going_on && captured;
}

/* Asks the stream whether the capture that is known to go on there has ended. An error is no
 * answer, nor is one about a stream in which another capture has begun meanwhile. Lock held on
 * entry and return, not in between; captures_asked is set, so that the record stays. */
static bool has_ended(struct pool *pool, const struct capture *capture) {
    lock_check_held(LOCK_POOL);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CUstream stream = capture->stream;
    unsigned begun = capture->begun;
    pool_unlock(pool);
    CUresult result = pool->driver->stream_is_capturing(stream, &status);
    pool_lock(pool);
    return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE &&
           capture->begun == begun;
}

/* What the end that somebody reports for this stream means for the gate. */
enum end { END_LATE, END_COUNTS, END_UNNAMED };
static enum end take_end(struct pool *pool, CUstream stream) {
    CUcontext current = NULL;
    pool->driver->ctx_get_current(&current);
    pool_lock(pool);
    await_answers(pool);
    struct capture *capture = find(pool, stream);
    struct unasked_capture *unasked = capture ? NULL : find_unasked(pool, stream, current);
    if (unasked) /* pool_capture_ended counts it */
        forget_unasked(unasked);
    enum end end = !capture ? END_UNNAMED : capture->late ? END_LATE : END_COUNTS;
    if (capture && capture->late && capture->going_on) {
        /* One of two captures has ended. If the other one has as well, its end need not be
         * reported. */
        pool->captures_asked = true;
        bool over = has_ended(pool, capture);
        pool->captures_asked = false;
        capture->going_on = !over;
        capture->late -= !over;
        end = over ? END_COUNTS : END_LATE;
    } else if (capture && capture->late) {
        capture->late--;
    } else if (capture) {
        capture->going_on = false;
    }
    if (capture && !capture->going_on && !capture->late)
        forget(capture);
    pool_unlock(pool);
    return end;
}

void pool_capture_ended_in(struct pool *pool, CUstream stream) {
    switch (take_end(pool, stream)) {
    case END_COUNTS:
        gate_open(pool);
        break;
    case END_UNNAMED:
        pool_capture_ended(pool);
        break;
    case END_LATE:
        break;
    }
}

/* A capture in the context that is current, and gone, has ended with it. */
void pool_capture_end_refused(struct pool *pool, CUstream stream) {
    CUcontext current = NULL;
    pool->driver->ctx_get_current(&current);
    pool_lock(pool);
    await_answers(pool);
    struct capture *capture = find(pool, stream);
    struct unasked_capture *unasked = capture ? NULL : find_unasked(pool, stream, current);
    bool counted = false;
    if (capture && capture->context == current) {
        counted = capture->going_on;
        forget(capture);
    } else if (unasked && unasked->context == current) {
        counted = true;
        end_unasked(pool, unasked);
    }
    pool_unlock(pool);
    if (counted)
        gate_open(pool);
}

/* For so many captures that have ended. */
static void open_gate(struct pool *pool, int ended) {
    while (ended--)
        gate_open(pool);
}

/* Whether the capture ends with that context; NULL: with the device's primary one. */
static bool ends_with(const struct capture *capture, CUcontext context, CUdevice ordinal) {
    return context ? capture->context == context : capture->primary && capture->ordinal == ordinal;
}

void captures_end(struct pool *pool, CUcontext context, CUdevice ordinal) {
    lock_check_none();
    int ended = 0;
    pool_lock(pool);
    await_answers(pool);
    struct capture *capture = LIST_FIRST(&pool->named_captures);
    while (capture) {
        struct capture *next = LIST_NEXT(capture, link);
        bool ends = ends_with(capture, context, ordinal);
        ended += ends && capture->going_on;
        if (ends)
            forget(capture);
        capture = next;
    }
    struct unasked_capture *unasked = LIST_FIRST(&pool->unasked_captures);
    while (unasked) {
        struct unasked_capture *next = LIST_NEXT(unasked, link);
        bool ends =
            context ? unasked->context == context : unasked->primary && unasked->ordinal == ordinal;
        ended += ends;
        if (ends)
            end_unasked(pool, unasked);
        unasked = next;
    }
    pool_unlock(pool);
    open_gate(pool, ended);
}

/* The streams that end with the context must not be asked meanwhile. */
void captures_may_end(struct pool *pool, CUcontext context, CUdevice ordinal, bool may) {
    lock_check_none();
    struct capture *capture;
    pool_lock(pool);
    await_answers(pool);
    LIST_FOREACH (capture, &pool->named_captures, link)
        if (ends_with(capture, context, ordinal))
            capture->ending = may;
    pool_unlock(pool);
}

/* Streams may be gone, nobody knows which: from now on none is asked. */
void pool_captured_streams_lost(struct pool *pool) {
    pool_lock(pool);
    await_answers(pool);
    struct capture *capture = LIST_FIRST(&pool->named_captures);
    while (capture) {
        struct capture *next = LIST_NEXT(capture, link);
        pool->unnamed_captures += capture->going_on;
        forget(capture);
        capture = next;
    }
    pool_unlock(pool);
}

/* One that has not been asked in this round. Lock held. */
static struct capture *next_to_ask(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct capture *capture;
    LIST_FOREACH (capture, &pool->named_captures, link)
        if (!capture->asked && capture->going_on && !capture->ending)
            return capture;
    return NULL;
}

/* Whether an end was outstanding of a named capture that is over: it is the one reported now. */
static bool take_any_late(struct pool *pool) {
    struct capture *capture;
    pool_lock(pool);
    await_answers(pool);
    LIST_FOREACH (capture, &pool->named_captures, link)
        if (capture->late)
            break;
    bool found = capture != NULL;
    if (found && --capture->late == 0 && !capture->going_on)
        forget(capture);
    pool_unlock(pool);
    return found;
}

/* Ends the captures in per-thread streams of threads that are gone: nobody can end them any more,
 * nor be disturbed in them. Returns how many there were. Lock held. */
static int end_those_of_gone_threads(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    int ended = 0;
    struct unasked_capture *capture = LIST_FIRST(&pool->unasked_captures);
    while (capture) {
        struct unasked_capture *next = LIST_NEXT(capture, link);
        if (capture->thread && syscall(SYS_tgkill, getpid(), capture->thread, 0) &&
            errno == ESRCH) {
            end_unasked(pool, capture);
            ended++;
        }
        capture = next;
    }
    return ended;
}

/* Asks all streams that are known to be captured. Returns how many captures have ended. Lock held
 * on entry and return, not in between; no other thread is asking. */
static int ask_all(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct capture *capture;
    int ended = end_those_of_gone_threads(pool);
    pool->captures_asked = true;
    while ((capture = next_to_ask(pool))) {
        capture->asked = true;
        bool over = has_ended(pool, capture);
        capture->going_on = !over;
        capture->late += over;
        ended += over;
    }
    LIST_FOREACH (capture, &pool->named_captures, link)
        capture->asked = false;
    pool->captures_asked = false;
    return ended;
}

void pool_capture_ended_somewhere(struct pool *pool) {
    pool_lock(pool);
    await_answers(pool);
    int ended = ask_all(pool);
    pool_unlock(pool);
    open_gate(pool, ended);
    if (!take_any_late(pool))
        pool_capture_ended(pool);
}

void captures_passed(struct pool *pool) {
    lock_check_none();
    if (atomic_fetch_add(&pool->passed_calls, 1) % ASK_EVERY != ASK_EVERY - 1)
        return;
    pool_lock(pool);
    bool asked = pool->captures_asked; /* by another thread */
    int ended = asked ? 0 : ask_all(pool);
    pool_unlock(pool);
    open_gate(pool, ended);
}

void captures_forget(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct capture *capture;
    while ((capture = LIST_FIRST(&pool->named_captures))) {
        LIST_REMOVE(capture, link);
        free(capture);
    }
    struct unasked_capture *unasked;
    while ((unasked = LIST_FIRST(&pool->unasked_captures)))
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that is forgotten is in the list no more
        forget_unasked(unasked);
    pool->unnamed_captures = 0;
    pool->captures_asked = false;
}
