/* The records of contexts and their streams: found and asked about, inline, since whatever owes or
 * pays does so several times. All below: lock held. */
#ifndef POOLCUDA_ORDER_RECORDS_H
#define POOLCUDA_ORDER_RECORDS_H

#include "base/lock.h"
#include "order/order.h"

/* The record of a context; NULL: there is none. */
static inline struct order_context *order_find(const struct order *order, CUcontext handle) {
    lock_check_held(LOCK_ORDER);
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        if (context->handle == handle)
            return context;
    return NULL;
}
/* Whether there are streams of its own. */
static inline bool order_has_streams(const struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    return context->has_per_thread || !LIST_EMPTY(&context->streams);
}
/* Whether there is one context alone. */
static inline bool order_is_one(const struct order *order) {
    lock_check_held(LOCK_ORDER);
    const struct order_context *first = LIST_FIRST(&order->contexts);
    return first && !LIST_NEXT(first, link);
}
/* Notes that the stream may hold work that no fence covers, or no longer does. */
static inline void order_set_busy(struct order_stream *stream, bool busy) {
    lock_check_held(LOCK_ORDER);
    if (busy && !stream->busy)
        LIST_INSERT_HEAD(&stream->context->busy, stream, busy_link);
    if (!busy && stream->busy)
        LIST_REMOVE(stream, busy_link);
    stream->busy = busy;
}

#endif
