/* Streams and the work queued in them. All below: lock held. */
#ifndef SIMCUDA_STREAM_H
#define SIMCUDA_STREAM_H

#include "entry.h"
#include "op.h"
#include "vclock.h"

#include <pthread.h>
#include <uthash.h>

struct capture;
struct graph_node_set;

/* An operation that was submitted once.
 * Invariant: done implies that every work in its `waits` was done and that op has run or was
 * skipped after an error; `stream` may be read only while !done. */
struct work {
    unsigned int references;
    struct work *next; /* in the stream's queue */
    struct CUstream_st *stream;
    struct op *op;       /* NULL once done */
    struct work **waits; /* what must be done before it starts, besides its predecessor */
    size_t wait_count;
    struct vclock clock;  /* what is ordered before whatever waits for it, itself included */
    uint64_t finished_ns; /* with virtual time, until it is done: before what it does not begin */
    bool done;
};

enum stream_kind { STREAM_LEGACY, STREAM_BLOCKING, STREAM_NON_BLOCKING, STREAM_PER_THREAD };

/* What a program has said of a stream, besides its priority. */
struct stream_attributes {
    CUsynchronizationPolicy policy;
    CUaccessPolicyWindow window;
    CUlaunchMemSyncDomainMap domains;
    CUlaunchMemSyncDomain domain;
    unsigned int nvlink_centric;
};
extern const struct stream_attributes stream_attributes_default;

/* Invariant: queue_head..queue_tail are the works not yet done, in order; `running` means that one
 * thread, the stream's own or one that waits for it, executes queue_head. */
struct CUstream_st {
    struct CUctx_st *context;
    enum stream_kind kind;
    int priority;
    struct stream_attributes attributes;
    uint64_t id;
    uint32_t timeline;
    uint64_t submitted;
    uint64_t finished_ns; /* of the last work that is done, with virtual time */
    struct vclock clock;  /* of the last work submitted */
    /* The last work but event records is a kernel beside which a programmatic launch may run. It is
     * then ordered after this, which comes before that kernel. */
    bool may_overlap;
    struct vclock overlap_clock;
    struct work *last; /* the last work submitted, NULL when there was none */
    struct work *queue_head;
    struct work *queue_tail;
    bool running;
    bool destroyed; /* by the program; freed once it has drained */
    bool has_thread;
    bool holds_memory;   /* object_memory's; default streams have none */
    pthread_cond_t wake; /* its own thread waits here */
    struct capture *capture;
    struct graph_node_set *frontier;           /* while capturing: what the next node depends on */
    struct CUstream_st *prev, *next;           /* of its context */
    struct CUstream_st *busy_prev, *busy_next; /* streams with queued work */
    struct CUstream_st *self; /* the key of by_handle; NULL: no program has its handle */
    UT_hash_handle by_handle;
};

/* Takes a timeline for a new stream, and the number of the last work in it. A timeline of an
 * earlier stream is taken again only when the host is ordered after all of its work, hence all work
 * to come is too: then nothing can tell the two streams apart. */
uint32_t timeline_take(uint64_t *count);
void timeline_give(uint32_t timeline, uint64_t count);

struct CUstream_st *stream_create(struct CUctx_st *context, enum stream_kind kind, int priority);
CUresult stream_create_for_program(struct CUctx_st *context, unsigned int flags, int priority,
                                   CUstream *out);
int stream_priority_in_range(int priority);      /* the nearest one that there is */
void stream_destroy(struct CUstream_st *stream); /* its pending work still runs */

/* Frees a destroyed stream once nothing of it is left to do. */
void stream_drained(struct CUstream_st *stream);

/* The stream that a program's handle names in `context` (the current one). INVALID_HANDLE,
 * CONTEXT_IS_DESTROYED or the sticky error of the stream's own context otherwise. */
CUresult stream_resolve(struct CUctx_st *context, CUstream handle, enum null_stream null_stream,
                        struct CUstream_st **stream);

/* Finds the current context and a stream in it: what most stream functions begin with. */
CUresult stream_current(CUstream handle, enum null_stream null_stream, struct CUstream_st **stream);

bool stream_is_blocking(const struct CUstream_st *stream); /* takes part in the legacy order */

/* Queues `op` (a reference is taken) behind all that CUDA orders before it, and behind `after` if
 * that is not NULL. In a capturing stream it becomes a graph node instead and *work is NULL. On
 * success *work is a reference for the caller to drop, and the stream's thread has not been woken:
 * either work_wait or stream_go must follow. */
CUresult stream_submit(struct CUstream_st *stream, struct op *op, struct work *after,
                       struct work **work);
void stream_go(struct CUstream_st *stream);

/* Does what stream_submit does, drops the caller's reference to `op`, and waits when `wait`. */
CUresult stream_run(struct CUstream_st *stream, struct op *op, bool wait);
CUresult stream_submit_after(struct CUstream_st *stream, struct op *op, struct work *after);

/* Queues a marker after the last works of all streams of `context`, whatever their kind. */
struct work *stream_fence(struct CUctx_st *context);

struct work *work_keep(struct work *work);
void work_drop(struct work *work);

/* Blocks the calling thread until `work` is done and orders the host after it; drops nothing. */
void work_wait(struct work *work);
void work_seen(struct work *work); /* the host knows that it is done */

/* What a query of the host's says of `work`; with virtual time, what is so at the thread's time. To
 * be called after work_settle, which lets the device do then whatever it can do without the host:
 * so that virtual time depends on nothing real. */
bool work_is_done(const struct work *work);
void work_settle(void); /* Lock held on entry and return, not in between. */

/* The work that this thread executes cannot end before the host does something, or can again. */
void work_depends_on_host(bool depends);
struct CUctx_st *work_context(void); /* whose work this thread executes */

/* Runs `work` on this thread if it is ready, unknown to the host. Returns whether it was. */
bool work_run_if_ready(struct work *work);

/* Waits for everything submitted to a stream or a context. The result is the context's error. */
CUresult stream_synchronize(struct CUstream_st *stream);
CUresult context_wait(struct CUctx_st *context);

extern struct vclock host_clock; /* what is ordered before anything that the host does next */

#endif
