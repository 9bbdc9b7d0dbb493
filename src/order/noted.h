/* The quick way of submissions: streams for which the stubs of the driver's functions (stubs.S)
 * need not ask order_submits, as it would do nothing. Without the lock, in a few instructions.
 *
 * That a stream is in the table says: the thread `noted_by` is the only one that submits
 * (order->sole). The stream is noted to be busy, and lies behind the last fence of its context,
 * which is recorded. A default stream is in the table while there is one context alone, and the
 * thread's own stream is that thread's.
 *
 * A stub goes the quick way if the word (order_word) says that submissions are tracked and nothing
 * else that concerns the function, and *then* finds the stream in the table, by its own thread.
 *
 * The table is emptied with the lock, before what ends its truth can be seen: by the store to
 * noted_by. Streams are written by the noting thread alone, with the lock, and read by it alone. So
 * a stub and another thread meet in two words:
 *   - A free of another thread that owes. If the stub finds its bits in the word, it asks. If not,
 *     the call that submits began before the free could be known to have returned: natively, too,
 *     its work may have come before the free or after it, and it was given no memory that was
 *     handed out behind that free.
 *   - A fence that another thread records for such a free, as it pays or submits. The bits of the
 *     free leave the word after the table is emptied, so whoever finds them gone finds the table
 *     empty. The work of a stub that looked before may still not have reached the driver: its
 *     stream stays busy, as only the noting thread itself, which is in no stub meanwhile, takes
 *     such a note back (find_targets in owed.c). So the next fence covers it.
 *   - The end of a stream, the beginning of a context: the word need not change. The table is empty
 *     before the call returns that has brought it about; a call of the driver that began before
 *     is in no order with it natively either.
 *   - A second thread that submits. It is not the noting one, so it asks, and is noticed before its
 *     call goes on. Nobody owes from then on.
 *   - A capture. While one is under way order_submits would only note the stream, which it is; and
 *     nothing is put into the table then.
 * The order of the two looks matters, and that of the two stores: stubs.S loads the word so that
 * what follows is not loaded before. */
#ifndef POOLCUDA_ORDER_NOTED_H
#define POOLCUDA_ORDER_NOTED_H

/* A stream's place is the upper bits of this product with the lower half of its handle, or the next
 * one. */
#define NOTED_BITS   6
#define NOTED_FACTOR 0x9e3779b1
#define NOTED_WORD   4  /* ORDER_TRACKED */
#define TELLS_WORD   20 /* that and ORDER_CONTEXTS */
#define NOTED_NUMBER 4  /* of struct thread_marks: which thread it is */

#ifndef __ASSEMBLER__
#include "driver/cuda_api.h"
#include "order/order.h"
#include "thread_marks.h"

#include <stddef.h>

_Static_assert(NOTED_WORD == ORDER_TRACKED, "the bit of the word");
_Static_assert(TELLS_WORD == (ORDER_TRACKED | ORDER_CONTEXTS), "the bits of the word");

_Static_assert(offsetof(struct thread_marks, number) == NOTED_NUMBER, "where the stubs look");

/* The thread's number. NONE, which no thread has: the table is empty, whatever stands there. */
#define NOTED_BY_NONE UINT32_MAX
extern _Atomic uint32_t noted_by __attribute__((visibility("hidden")));
extern CUstream noted_streams[(1 << NOTED_BITS) + 1] __attribute__((visibility("hidden")));

/* Whether this thread's next submission to the stream, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD if
 * it is a default one, may go the quick way, if the word says no more than ORDER_TRACKED. */
static inline bool noted_has(CUstream stream) {
    unsigned place = (unsigned)(uintptr_t)stream * NOTED_FACTOR >> (32 - NOTED_BITS);
    return atomic_load_explicit(&noted_by, memory_order_relaxed) == thread_marks.number &&
           (noted_streams[place] == stream || noted_streams[place + 1] == stream);
}

/* To be called by the only thread that submits. Lock held. */
void noted_add(CUstream stream);
void noted_empty(void); /* Lock held. */
#endif

#endif
