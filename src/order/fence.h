/* Fences: events that together come after the work of some streams of one context. */
#ifndef POOLCUDA_ORDER_FENCE_H
#define POOLCUDA_ORDER_FENCE_H

#include "order/order.h"

/* More streams than that are fenced with their whole context, where the driver can do that. */
enum { FENCE_PARTS = 8 };

/* An event belongs to its context and dies with it. */
struct order_event {
    CUevent event;
    struct order_event *next;
};

/* next: in the list of its context's crossings (crossings.c), whose `number` is the stream's id,
 * if that is known.
 * parts: each an event behind the work of the stream with that id; 0: behind all of the context's.
 * Invariant: not changed once it is published; its events are not recorded again before `users` is
 * 0. */
struct order_fence {
    struct order_context *context;
    uint64_t number; /* among the context's */
    int users, count;
    struct order_fence *next;
    struct {
        uint64_t stream;
        bool legacy, blocking; /* which other streams' work comes after it by itself */
        struct order_event *event;
    } parts[FENCE_PARTS];
};

/* A fence without parts, with one user; NULL without host memory. Lock not held. */
struct order_fence *fence_new(struct order *order, struct order_context *context, uint64_t number);
/* Adds a part: an event recorded in that stream, or with NULL in the whole context, which is
 * current. False: it could not be recorded. Calls the driver. Lock not held. */
bool fence_add(struct order *order, struct order_fence *fence, const struct order_stream *stream);
/* Waits for all parts. Calls the driver. Lock not held. */
CUresult fence_wait(const struct order *order, const struct order_fence *fence);
/* Whether all parts have passed. Calls the driver. Lock not held. */
bool fence_has_passed(const struct order *order, const struct order_fence *fence);
/* Whether the stream's work comes after all parts by itself. */
bool fence_is_in(const struct order_fence *fence, const struct order_stream *stream);
/* Has the stream wait for the parts that its work does not come after by itself. Calls the driver.
 * Lock not held. */
bool fence_order(const struct order *order, const struct order_fence *fence,
                 const struct order_stream *stream);
/* One user less. Its events are the context's to use again. Lock held. */
void fence_drop(struct order_fence *fence);

#endif
