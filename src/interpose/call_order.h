/* Before a call of the driver that submits work or waits for some: the order that it comes in, and
 * what is owed. */
#ifndef POOLCUDA_INTERPOSE_CALL_ORDER_H
#define POOLCUDA_INTERPOSE_CALL_ORDER_H

#include "interpose/entry_points.h"
#include "interpose/stub_frame.h"
#include "thread_marks.h"

/* Sees to the order of what the call submits, if it does, and to what is owed before the call. */
void call_order(struct pool *pool, const struct stub_frame *frame, const struct entry *entry,
                const char *name);

/* The stream that the call's work goes to; NULL: not known, or several. */
CUstream call_stream(const struct stub_frame *frame, const struct entry *entry);

/* How many of a call's first arguments point to memory that it reaches. */
enum reached { REACHES_NONE, REACHES_FIRST, REACHES_FIRST_TWO, REACHES_UNKNOWN };
enum reached call_reaches(const struct entry *entry);
/* Whether the thread's call, of this function, may reach other contexts' memory. */
static inline bool call_crosses(const struct entry *entry) {
    return thread_marks.crossing && call_reaches(entry) != REACHES_NONE;
}
/* To be called once such a call has succeeded, and for others: makes known what it has submitted.
 */
void call_crossed(struct pool *pool);

#endif
