/* What the files of src/order share. All below: lock held. */
#ifndef POOLCUDA_ORDER_INTERNAL_H
#define POOLCUDA_ORDER_INTERNAL_H

#include "base/lock.h"
#include "order/fence.h"

/* The record of a context; NULL: there is none. */
struct order_context *order_find(const struct order *order, CUcontext handle);
/* Whether there are streams of its own. */
bool order_has_streams(const struct order_context *context);
/* Whether there is one context alone. */
bool order_is_one(const struct order *order);
/* Notes that the stream may hold work that no fence covers, or no longer does. */
void order_set_busy(struct order_stream *stream, bool busy);
/* Makes known whose frees have set the word's bits: those of the only context. */
void order_take_notice(struct order *order);
/* To be called when a context has come or gone. */
void order_note_only(struct order *order);
/* The word says what the contexts do. */
void order_tell(struct order *order);
/* The context's wait has been made, or is nobody's any more. */
void order_clear(struct order_context *context);
/* All of the context may hold work that no fence covers. */
void order_set_all_busy(struct order_context *context);
/* A wait that was left out is to be made after all: for whatever has been submitted by now. */
void order_owe_again(struct order *order, struct order_context *context);
/* One user less: frees the record of a context that has ended with its last one. */
void order_leave(struct order_context *context);
/* Waits for a moment, as others that record a fence of the context are about to be done. Lock held
 * on entry and return, not in between. */
void order_await(struct order *order, struct order_context *context);
/* Records fences of all contexts whose frees have none. False: one could be neither recorded nor
 * waited for at once. Calls the driver. Lock held on entry and return, not in between. */
bool order_fence_all(struct order *order);
/* The stream of which this is an earlier copy; NULL: it is gone. */
struct order_stream *order_find_again(struct order *order, const struct order_stream *copy);
/* A created stream of that handle, NULL if there is none. */
struct order_stream *order_find_created(struct order *order, CUstream handle);
/* The context that a stream works in, as the driver says, which is known from now on; NULL without
 * host memory. Lock not held. */
CUcontext order_meet_context_of(struct order *order, CUstream stream);
/* As fence_query and fence_wait: of a fence of any context, whose end another thread need not wait
 * with. Success if it ends. The fence and the context's record have another user. Both call the
 * driver. Lock held on entry and return, not in between. */
CUresult order_visit_fence(struct order *order, const struct order_fence *fence);
CUresult order_visit_until(struct order *order, const struct order_fence *fence);
/* Has the stream wait for its context's last fence, if it has not done so. False: it could not be
 * made to. Calls the driver. Lock held on entry and return, not in between: the stream may be gone.
 */
bool order_put_behind(struct order *order, struct order_context *context,
                      const struct order_stream *stream);
/* Which stream a submission goes to. NULL: none that is known. Lock held on entry and return, not
 * in between. */
struct order_stream *order_find_stream(struct order *order, CUstream handle,
                                       struct order_context **context);
/* A fence of what has been submitted to this stream, with one user, as has the context then; NULL:
 * it could not be recorded. Calls the driver. Lock held on entry and return, not in between. */
struct order_fence *order_record_in_stream(struct order *order, struct order_context *context,
                                           const struct order_stream *stream);
/* Gives back a fence with one user, as has the context. Lock not held. */
void order_fence_end(struct order *order, struct order_fence *fence);
/* Drops a fence of the list at that place in it. */
void order_drop_crossing(struct order *order, struct order_fence **place);
/* Forgets a created stream. */
void order_forget_stream(struct order *order, struct order_stream *stream);

#endif
