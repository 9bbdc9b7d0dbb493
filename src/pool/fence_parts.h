/* What fences are made of, for the files that make and keep them: fence.c records them and looks
 * whether they have passed; fence_drain.c waits for all; fence_lists.c knows which blocks wait for
 * which, and calls nobody; fence_streams.c sees to streams that a fence has to name. */
#ifndef POOLCUDA_POOL_FENCE_PARTS_H
#define POOLCUDA_POOL_FENCE_PARTS_H

#include "pool/internal.h"

/* Events belong to a context and die with it; while it lives they are used again. */
struct fence_event {
    CUevent event;
    struct context *context;
    struct fence_event *next;
};

/* What a destroyed stream left behind: an event after its last work. Every fence up to the one
 * before which it has passed includes it. `users` and `gone` mean what they do in a fence. */
struct left_event {
    struct fence_event *event;
    uint64_t number;
    int users;
    bool gone;
    LIST_ENTRY(left_event) link;
};

/* Invariant: in its context's list until it has passed or its context has ended, but for those of
 * fence_now; freed by whoever then finds `users` 0. Its events are not looked at before `recorded`.
 * only: the context whose work it comes after; NULL: all of them. */
struct fence {
    struct block_list blocks;
    const struct context *only;
    struct fence_event *events;
    uint64_t left_number; /* it includes the left events up to this number */
    uint64_t number;      /* in the order in which fences were begun */
    int users;            /* threads that use it without the lock */
    bool recorded, gone;
    bool given_up; /* it is waited for no more to be recorded, nor counted */
    TAILQ_ENTRY(fence) link;
};

/* A stream whose work the legacy stream does not wait for, for drivers without cuCtxRecordEvent. */
struct free_stream {
    CUstream handle;
    struct context *context;
    LIST_ENTRY(free_stream) link;
};

/* What is to be recorded: `stream` in `context`, or all of the context. */
struct fence_target {
    struct context *context;
    CUstream stream;
};

/* How an event is looked at. beside_captures: waits without the gate, so that captures may begin.
 */
enum fence_look { FENCE_ASKS, FENCE_WAITS, FENCE_WAITS_BESIDE_CAPTURES };
/* Drops the events that streams have left up to the fence. Lock held on entry and return, not in
 * between. */
bool fence_left_events_pass(struct pool *pool, const struct fence *fence, enum fence_look how);

/* fence.c. Records one event for each target. False if one could not be: then the fence is worth
 * nothing. Lock not held, gate entered. */
bool fence_record(struct pool *pool, const struct fence_target *targets, int count,
                  struct fence *fence);

/* Fences what has been freed so far. False if that cannot be done now. Lock held on entry and
 * return, but not in between. */
bool fence_unfenced(struct pool *pool, struct context *context);
/* Asks or waits whether a fence has passed; its blocks are idle then. Lock held on entry and
 * return, not in between: the fence is gone afterwards if it has passed. */
bool fence_passes(struct pool *pool, struct context *context, struct fence *fence, bool wait);

/* fence_lists.c. All below: lock held. */

void fence_move_blocks(struct block_list *from, struct block_list *to);
/* Keeps the events for fences to come. */
void fence_recycle_events(struct fence_event *events);
/* Called by whoever has used one without the lock, or has taken it out of its list. */
void fence_drop_if_unused(struct context *context, struct fence *fence);
void fence_drop_left_if_unused(struct left_event *left);
/* The oldest fence that blocks wait for; one that has passed may still be in the list, without any.
 */
struct fence *fence_oldest(struct context *context);
/* The last fence for which an allocation of this thread may wait: it may for those before, too.
 * NULL: for none. */
struct fence *fence_last_own(struct context *context);
/* The fence to wait for when nothing idle serves a request; NULL: none, or only such that stand
 * behind work for which no free of this thread would have waited. */
struct fence *fence_worth_waiting(struct pool *pool, struct context *context,
                                  const struct site *site, size_t size);
/* A context of the device with blocks that wait for a fence, or for one to be made. */
struct context *fence_deferring(struct pool *pool, const struct device *device);
/* Forgets which blocks the stream has freed: its handle may soon be another stream's. */
void fence_forget_order(struct pool *pool, CUstream stream);

#endif
