/* The queues: submission, execution, waiting, and CUDA's order between streams. */
#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "hazard.h"
#include "host_backing.h"
#include "lock.h"
#include "managed.h"
#include "stream.h"
#include "stuck.h"
#include "unmapping.h"
#include "values.h"

#include <stdlib.h>
#include <time.h>
#include <utlist.h>

struct vclock host_clock;

/* Timelines of streams that are gone. */
static struct retired_timeline {
    uint32_t timeline;
    uint64_t count;
} * retired;
static size_t retired_count;
static uint32_t timelines;

static struct CUstream_st *busy; /* every stream with queued work */
static unsigned int host_waiters;
static pthread_cond_t host_wake = PTHREAD_COND_INITIALIZER;
static __thread struct op *executed; /* by this thread, last */
static __thread struct CUctx_st *executed_in;

uint32_t timeline_take(uint64_t *count) {
    sim_check_held();
    for (size_t i = 0; i < retired_count; i++) {
        struct retired_timeline old = retired[i];

        if (!vclock_covers(&host_clock, old.timeline, old.count))
            continue;
        retired[i] = retired[--retired_count];
        *count = old.count;
        return old.timeline;
    }
    *count = 0;
    return timelines++;
}

void timeline_give(uint32_t timeline, uint64_t count) {
    sim_check_held();
    vclock_raise(&host_clock, timeline, 0); /* a stream without work is covered, too */
    retired = allocate_again(retired, (retired_count + 1) * sizeof *retired);
    retired[retired_count++] = (struct retired_timeline){timeline, count};
}

struct work *work_keep(struct work *work) {
    sim_check_held();
    work->references++;
    return work;
}

void work_drop(struct work *work) {
    sim_check_held();
    if (work == NULL || --work->references != 0)
        return;
    for (size_t i = 0; i < work->wait_count; i++)
        work_drop(work->waits[i]);
    free(work->waits);
    vclock_clear(&work->clock);
    if (work->op != NULL)
        op_drop(work->op);
    free(work);
}

static void not_before(struct work *work, uint64_t ns) {
    if (work->finished_ns < ns)
        work->finished_ns = ns;
}

static void add_wait(struct work *work, struct work *other) {
    vclock_join(&work->clock, &other->clock);
    if (other->done) {
        not_before(work, other->finished_ns);
        return;
    }
    work->waits = allocate_again(work->waits, (work->wait_count + 1) * sizeof(void *));
    work->waits[work->wait_count++] = work_keep(other);
}

static bool ready(const struct CUstream_st *stream) {
    const struct work *head = stream->queue_head;

    if (head == NULL || stream->running)
        return false;
    for (size_t i = 0; i < head->wait_count; i++)
        if (!head->waits[i]->done)
            return false;
    return true;
}

/* A stream that goes has its work done: whatever would have waited for it still comes after it. */
static void leave_order(const struct CUstream_st *stream) {
    const struct CUctx_st *context = stream->context, *root = context_root(stream->context);

    if (context->fence != NULL)
        vclock_join(&context->fence->clock, &stream->clock);
    if (root->fence != NULL)
        vclock_join(&root->fence->clock, &stream->clock);
    if (context->legacy != NULL && stream_is_blocking(stream))
        vclock_join(&context->legacy->clock, &stream->clock);
}

void stream_drained(struct CUstream_st *stream) {
    sim_check_held();
    if (!stream->destroyed || stream->queue_head != NULL || stream->running)
        return;
    managed_stream_ended(stream);
    if (stream->has_thread) {
        pthread_cond_signal(&stream->wake); /* it has nothing left to do, and comes here again */
        return;
    }
    leave_order(stream);
    DL_DELETE(stream->context->streams, stream);
    timeline_give(stream->timeline, stream->submitted);
    work_drop(stream->last);
    vclock_clear(&stream->clock);
    vclock_clear(&stream->overlap_clock);
    pthread_cond_destroy(&stream->wake);
    free(stream);
}

static void run_head(struct CUstream_st *stream);

static void *stream_thread(void *argument) {
    struct CUstream_st *stream = argument;

    sim_lock();
    for (;;) {
        if (ready(stream))
            run_head(stream);
        else if (stream->destroyed && stream->queue_head == NULL && !stream->running)
            break;
        else
            sim_wait(&stream->wake);
    }
    stream->has_thread = false;
    stream_drained(stream);
    sim_unlock();
    return NULL;
}

/* Has the stream's own thread look at its queue. */
static void kick(struct CUstream_st *stream) {
    pthread_attr_t attributes;
    pthread_t thread;

    if (stream->has_thread) {
        pthread_cond_signal(&stream->wake);
        return;
    }
    /* detached: the end of the process does not wait for queued work; [wait:exit-does-not] assumed
     */
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    stream->has_thread = pthread_create(&thread, &attributes, stream_thread, stream) == 0;
    pthread_attr_destroy(&attributes);
    if (!stream->has_thread)
        abort(); /* the queue would never move */
}

/* When the work begins, which is ready, in virtual time. */
static uint64_t start_of(const struct CUstream_st *stream, struct work *work) {
    not_before(work, stream->finished_ns);
    for (size_t i = 0; i < work->wait_count; i++)
        not_before(work, work->waits[i]->finished_ns);
    return work->finished_ns;
}

static void finish(struct CUstream_st *stream, struct work *work, const struct work_time *time) {
    if (time_is_virtual())
        stream->finished_ns = work->finished_ns = start_of(stream, work) + time->takes_ns;
    else
        work->finished_ns = clock_ns();
}

/* Takes the head of a stream, which has run or needs not to, off its queue. */
static void complete_head(struct CUstream_st *stream, CUresult result,
                          const struct work_time *time) {
    struct work *work = stream->queue_head;

    if (result != CUDA_SUCCESS && context_error(stream->context) == CUDA_SUCCESS)
        context_root(stream->context)->sticky = result;
    hazard_done(work);
    work->done = true;
    finish(stream, work, time);
    for (size_t i = 0; i < work->wait_count; i++)
        work_drop(work->waits[i]);
    free(work->waits);
    work->waits = NULL;
    work->wait_count = 0;
    op_drop(work->op); /* what it owns goes now, not when nobody knows this work any more */
    work->op = NULL;
    stream->queue_head = work->next;
    stream->running = false;
    work_drop(work);
    if (stream->queue_head != NULL)
        return;
    stream->queue_tail = NULL;
    DL_DELETE2(busy, stream, busy_prev, busy_next); // NOLINT(clang-analyzer-core.NullDereference)
    stream_drained(stream);
}

/* Lets everything go that may start now. Markers complete here, iteratively: chains of them can be
 * long, and no thread needs to wake up for them. */
static void dispatch(void) {
    bool completed;

    do {
        struct CUstream_st *stream;

        completed = false;
        DL_FOREACH2(busy, stream, busy_next) {
            if (!ready(stream))
                continue;
            completed = stream->queue_head->op->marker;
            if (completed) {
                complete_head(stream, CUDA_SUCCESS, &(struct work_time){0});
                break; /* the list has changed */
            }
            kick(stream);
        }
    } while (completed);
    if (host_waiters != 0)
        pthread_cond_broadcast(&host_wake);
}

/* Executes the ready head of `stream` on this thread, without the lock. After an error only what
 * must tell the program about it still runs.
 * [order:error-drops-work] assumed; [order:callback-after-error] cuda.h 18101 */
static void run_head(struct CUstream_st *stream) {
    struct op *op = stream->queue_head->op;
    bool callback = op->calls_host && op->as.host.callback != NULL;
    CUresult result = CUDA_SUCCESS;
    struct work_time time = {0};
    struct toucher toucher;
    uint64_t start_ns = start_of(stream, stream->queue_head);

    stream->running = true;
    if (!op->marker && (context_error(stream->context) == CUDA_SUCCESS || callback)) {
        if (op->calls_host && host_waiters != 0)
            pthread_cond_broadcast(&host_wake); /* work_settle waits for it no more */
        executed = op;
        executed_in = stream->context;
        unmapping_work_begins(&toucher);
        sim_unlock();
        time_work_begin(&time, start_ns);
        result = op->run(op);
        time_work_end();
        sim_lock();
        unmapping_work_ended(&toucher);
    }
    complete_head(stream, result, &time);
    dispatch();
}

bool work_run_if_ready(struct work *work) {
    sim_check_held();
    if (work->done || work->stream->queue_head != work || !ready(work->stream))
        return work->done;
    run_head(work->stream);
    return true;
}

void work_seen(struct work *work) {
    sim_check_held();
    vclock_join(&host_clock, &work->clock);
    if (time_is_virtual())
        time_host_reach(work->finished_ns);
}

void work_depends_on_host(bool depends) {
    sim_check_held();
    executed->depends_on_host = depends;
    if (host_waiters != 0)
        pthread_cond_broadcast(&host_wake);
}

struct CUctx_st *work_context(void) {
    sim_check_held();
    return executed_in;
}

/* Whether some work goes on without the host. */
static bool device_goes_on(void) {
    const struct CUstream_st *stream;

    DL_FOREACH2(busy, stream, busy_next) {
        const struct op *op = stream->queue_head->op;

        if (ready(stream) || (stream->running && !op->depends_on_host && !op->calls_host))
            return true;
    }
    return false;
}

bool work_is_done(const struct work *work) {
    sim_check_held();
    return work->done && (!time_is_virtual() || work->finished_ns <= time_host());
}

/* Work that waits for a value which is there ends by itself, unless another thread takes the value
 * away again: nobody would tell. Lock held on entry and return, not in between. */
static void let_values_be_seen(void) {
    sim_check_held();
    const struct timespec pause = {.tv_nsec = 50000};

    sim_unlock();
    nanosleep(&pause, NULL);
    sim_lock();
}

void work_settle(void) {
    sim_check_held();
    for (;;) {
        if (time_is_virtual() && device_goes_on()) {
            host_waiters++;
            sim_wait(&host_wake);
            host_waiters--;
        } else if (time_is_virtual() && value_waits_are_ending()) {
            let_values_be_seen();
        } else {
            return;
        }
    }
}

void work_wait(struct work *work) {
    sim_check_held();
    struct host_wait wait;
    bool waits = !work->done;

    work_keep(work);
    if (waits)
        stuck_wait_begin(&wait);
    while (!work->done) {
        struct CUstream_st *stream = work->stream;

        /* the waiting thread lends itself to the stream: cheaper than switching to its thread */
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): work is not done, so its stream exists
        if (ready(stream) && !stream->queue_head->op->calls_host) {
            run_head(stream);
            continue;
        }
        host_waiters++;
        sim_wait(&host_wake);
        host_waiters--;
    }
    if (waits)
        stuck_wait_end(&wait);
    work_seen(work);
    work_drop(work);
}

/* What was submitted has begun by then. */
void simcuda_host_works(uint64_t ns) {
    sim_lock();
    work_settle();
    sim_unlock();
    if (time_is_virtual())
        time_host_reach(time_host() + ns);
}

/* [order:per-thread-is-blocking] cuda.h 443; [order:non-blocking-apart] cuda.h 14920 */
bool stream_is_blocking(const struct CUstream_st *stream) {
    sim_check_held();
    return stream->kind == STREAM_BLOCKING || stream->kind == STREAM_PER_THREAD;
}

/* CUDA's order between the legacy stream and the blocking ones of its context.
 * [order:legacy-joins-blocking] cuda.h 433, lupine#569; [order:green-default-stream] assumed */
static void add_legacy_order(struct work *work, struct CUstream_st *stream) {
    struct CUctx_st *context = stream->context;
    struct CUstream_st *other;

    if (stream->kind == STREAM_LEGACY) {
        DL_FOREACH(context->streams, other)
        if (stream_is_blocking(other) && other->last != NULL)
            add_wait(work, other->last);
    } else if (stream_is_blocking(stream) && context->legacy->last != NULL) {
        add_wait(work, context->legacy->last);
    }
}

/* Notes what a programmatic launch behind `op`, which itself comes after `clock`, comes after.
 * [order:programmatic-record] assumed: event records in between change nothing. */
static void note_overlap(struct CUstream_st *stream, const struct op *op,
                         const struct vclock *clock) {
    if (!op->marker && !op->is_overlapped)
        stream->may_overlap = false;
    else if (!op->marker && !stream->may_overlap) {
        vclock_clear(&stream->overlap_clock);
        stream->may_overlap = true;
    }
    if (stream->may_overlap)
        vclock_join(&stream->overlap_clock, clock);
}

/* [order:stream] cuda.h 18067: what is ordered before the last work of the stream is ordered before
 * whatever waits for this one. */
static void take_number(struct CUstream_st *stream, struct work *work) {
    vclock_join(&work->clock, &stream->clock);
    vclock_raise(&work->clock, stream->timeline, ++stream->submitted);
    vclock_join(&stream->clock, &work->clock);
}

/* As order_in, where launches may overlap. [order:programmatic] cuda.h 2085: such a launch is not
 * ordered after the kernels beside which it may run; whatever waits for it waits for them, too. */
static void order_overlapping(struct CUstream_st *stream, struct op *op, struct work *work) {
    struct vclock begin = {0}; /* what is ordered before it begins */

    vclock_join(&begin, &work->clock);
    if (op->programmatic && stream->may_overlap)
        vclock_join(&begin, &stream->overlap_clock);
    else if (!op->marker)
        vclock_join(&begin, &stream->clock);
    note_overlap(stream, op, &begin);
    take_number(stream, work);
    hazard_submitted(op, work, &begin);
    vclock_clear(&begin);
}

/* Gives `work` its clock and its number, and has its accesses looked at. */
static void order_in(struct CUstream_st *stream, struct op *op, struct work *work) {
    work->stream = stream;
    vclock_join(&work->clock, &host_clock);
    if (time_is_virtual())
        not_before(work, time_host());
    if (op->is_overlapped || stream->may_overlap) {
        order_overlapping(stream, op, work);
    } else {
        take_number(stream, work);
        hazard_submitted(op, work, &work->clock);
    }
}

static struct work *enqueue(struct CUstream_st *stream, struct op *op, struct work *work) {
    bool was_idle = stream->queue_head == NULL;

    /* The queue's, and the stream's, as its last: before the hazard detector, which keeps the work
     * and may let it go again. */
    work->references += 2;
    order_in(stream, op, work);
    work->op = op_keep(op);
    work_drop(stream->last);
    stream->last = work;
    if (was_idle) {
        stream->queue_head = stream->queue_tail = work;
        DL_APPEND2(busy, stream, busy_prev, busy_next);
        if (op->marker && ready(stream)) {
            complete_head(stream, CUDA_SUCCESS, &(struct work_time){0});
            dispatch();
        }
    } else {
        stream->queue_tail->next = work;
        stream->queue_tail = work;
    }
    return work; // NOLINT(clang-analyzer-unix.Malloc): the stream keeps it as its last
}

CUresult stream_submit(struct CUstream_st *stream, struct op *op, struct work *after,
                       struct work **out) {
    sim_check_held();
    struct work *work;
    CUresult result;

    *out = NULL;
    if (stream->capture != NULL)
        return capture_add(stream, op);
    result = capture_check_legacy(stream);
    if (result == CUDA_SUCCESS && !host_backing_promise(op))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS)
        return result;
    work = allocate_zeroed(sizeof *work);
    if (after != NULL)
        add_wait(work, after);
    add_legacy_order(work, stream);
    enqueue(stream, op, work);
    *out = work_keep(work);
    return CUDA_SUCCESS;
}

void stream_go(struct CUstream_st *stream) {
    sim_check_held();
    if (ready(stream))
        kick(stream);
}

CUresult stream_run(struct CUstream_st *stream, struct op *op, bool wait) {
    sim_check_held();
    struct CUctx_st *context = stream->context;
    struct work *work;
    CUresult result = stream_submit(stream, op, NULL, &work);

    op_drop(op);
    if (work == NULL)
        return result;
    if (wait) {
        work_wait(work);
        result = context_error(context);
    } else {
        stream_go(stream);
    }
    work_drop(work);
    return result;
}

CUresult stream_submit_after(struct CUstream_st *stream, struct op *op, struct work *after) {
    sim_check_held();
    struct work *work;
    CUresult result = stream_submit(stream, op, after, &work);

    op_drop(op);
    if (result == CUDA_SUCCESS)
        stream_go(stream); // NOLINT(clang-analyzer-unix.Malloc): the stream has a reference
    work_drop(work);
    return result;
}

/* [order:context-event] cuda.h 7013; [order:green-parts] cuda.h 7019 */
struct work *stream_fence(struct CUctx_st *context) {
    sim_check_held();
    struct work *work = allocate_zeroed(sizeof *work);
    struct op *op = op_marker("fence");
    struct CUctx_st *part = NULL;
    struct CUstream_st *stream;

    while ((part = context_next_part(context, part)) != NULL)
        DL_FOREACH(part->streams, stream)
    if (stream != part->fence && stream->last != NULL)
        add_wait(work, stream->last);
    enqueue(context->fence, op, work);
    op_drop(op);
    work_keep(work);
    stream_go(context->fence);
    return work;
}

CUresult stream_synchronize(struct CUstream_st *stream) {
    sim_check_held();
    struct CUctx_st *context = stream->context;
    struct work *last = stream->last;
    bool legacy = stream->kind == STREAM_LEGACY;

    if (last != NULL)
        work_wait(last); /* the stream may be destroyed meanwhile, a legacy one with its context */
    if (legacy && context->legacy == stream) {
        /* it stands for the blocking ones too; [wait:legacy-synchronize] assumed */
        struct work *work = allocate_zeroed(sizeof *work);
        struct op *op = op_marker("synchronize");

        add_legacy_order(work, stream);
        enqueue(stream, op, work);
        op_drop(op);
        work_wait(work);
    }
    return context_error(context);
}

CUresult context_wait(struct CUctx_st *context) {
    sim_check_held();
    struct work *fence = stream_fence(context);

    work_wait(fence);
    work_drop(fence); // NOLINT(clang-analyzer-unix.Malloc): the reference that stream_fence gave
    return context_error(context);
}
