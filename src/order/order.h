/* Order: what work on the device comes before a free, and how the program's later calls are kept
 * behind it without the host waiting at the free.
 *
 * The rules
 *   A native free returns once all work is done that was submitted to the context before it. A free
 *   that does not wait *owes* that wait. It stands for this and no more: neither for work that is
 *   submitted later nor for other contexts.
 *   1. The fence of a context is a set of events that together come after all that was submitted to
 *      it before its last free. It is recorded at the latest before the next submission of any
 *      thread (order_submits), so no later work is in it. Whoever submits meanwhile waits until the
 *      events are recorded.
 *   2. Before a call that could tell that the wait was not made, it is paid: the host waits for the
 *      fences (order_pay), not for their contexts.
 *   3. Work on the device is kept in order without the host: before the first submission to a
 *      stream after a fence, the stream waits for the fence's events, but for those that it comes
 *      after by itself. So each event of a fence lies behind every fence before it, and the last
 *      one stands for all.
 *   4. Which streams hold work is known as long as one thread submits it: each submission that goes
 *      to a context with streams is noted before it is made. Where several threads submit
 *      (order_is_tracked), a note could be taken back between its making and the driver's call:
 *      then nobody may owe in contexts with streams. A thread that frees and is not the one that
 *      submits may not owe either (order_may_owe). Threads are told apart by numbers: addresses are
 *      given to later ones again. Where there are several contexts nobody may owe once there are
 *      several threads: natively a free holds up none that works in another context. There a thread
 *      counts from the moment that it makes a context current.
 *   5. What cannot be fenced is waited for at once, with the context, before anything else is
 *      submitted: that is the same work.
 *
 * Work in the legacy stream comes after all earlier work in blocking streams, and theirs after its
 * [cuda.h, "Stream synchronization behavior"]. No event is recorded in a legacy stream that holds
 * no work of its own: it would be a barrier between the others.
 *
 * All functions are thread-safe. Functions that call the driver say so; no lock is held meanwhile.
 */
#ifndef POOLCUDA_ORDER_ORDER_H
#define POOLCUDA_ORDER_ORDER_H

#include "base/hash.h"
#include "driver/driver.h"

#include <bsd/sys/queue.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the word says, which stubs of the driver's functions look at before they ask: bits. Frees
 * set them without the lock. Pools that live at the same time share it, as tests' may, and so are
 * asked more often. */
extern atomic_int order_word __attribute__((visibility("hidden")));
enum order_bit {
    ORDER_OWED = 1,      /* a wait is owed: some calls have to pay first */
    ORDER_UNFENCED = 2,  /* such a free has no fence yet: a submission has to be preceded by one */
    ORDER_TRACKED = 4,   /* submissions are to be noted */
    ORDER_DEFERRED = 8,  /* a free that owes no wait, but defers its block, has no fence yet */
    ORDER_CONTEXTS = 16, /* there are several: copies may reach from one into another */
    ORDER_FREED = 32,    /* frees have set the first two without the lock */
};

/* For how long another thread is waited for that is recording a fence: it has to enter the driver
 * and come back. */
#define ORDER_RECORD_NS UINT64_C(100000000)

struct order_fence;
struct order_event;

/* A stream of the program's. id: of no other, though the handle may have been another's. busy: it
 * may hold work that no fence covers, and is in its context's list of those. behind: the number of
 * the last fence that its work is ordered after. */
struct order_stream {
    CUstream handle;
    struct order_context *context;
    uint64_t id, behind;
    bool non_blocking, busy;
    LIST_ENTRY(order_stream) busy_link;
    UT_hash_handle by_handle; /* of created streams alone */
    LIST_ENTRY(order_stream) link;
};

/* What is known of one context's work.
 * Invariant: `unfenced` implies `owes`; fence, if not NULL, is the last one recorded; owed, if not
 * NULL, the last one that was recorded for a free, and has not been seen to pass. scattered: there
 * is work in streams that nobody has noted.
 * crossings: see crossings.c.
 * fences: how many were begun, of which `recording` are not yet recorded. users: threads that use
 * it without the lock; it is freed by the last of them once it has ended. turn: of the last payment
 * that looked at it. */
struct order_context {
    CUcontext handle;
    CUdevice device; /* see order_context_begins */
    bool owes, unfenced, scattered, ended;
    uint64_t fences, turn;
    struct order_fence *fence, *owed, *spare_fence, *crossings;
    struct order_event *spare;
    CUstream own; /* own_stream.c; NULL until needed */
    int users, recording;
    int visits;     /* visits.c */
    int closing;    /* ends, and releases that may be one, under way: no more visits begin */
    bool dismissed; /* a wait was left out for that */
    struct order_stream legacy, per_thread; /* the latter: of order->sole, once it has been used */
    bool has_per_thread;
    LIST_HEAD(, order_stream) streams, busy;
    LIST_ENTRY(order_context) link;
};

struct order {
    const struct driver *driver;
    pthread_mutex_t lock;
    LIST_HEAD(, order_context) contexts;
    struct order_stream *by_handle;
    uint64_t turns, streams;
    atomic_uint sole;    /* the number of the only thread that has submitted since streams are
                            tracked; 0: none has */
    atomic_bool several; /* there have been others */
    atomic_bool streams_used;
    atomic_int crossings;    /* fences in the contexts' lists of those */
    _Atomic(CUcontext) only; /* the context, if there is one alone */
};

void order_init(struct order *order, const struct driver *driver);
/* Forgets everything and makes no CUDA call: at the end of a pool. */
void order_forget(struct order *order);

/* A context, its beginning (again and again, as it is met) and its end. device: whose primary one
 * it is; ORDER_NO_DEVICE: one that the program has made. False without host memory. */
enum { ORDER_NO_DEVICE = -1 };
bool order_context_begins(struct order *order, CUcontext context, CUdevice device);
void order_context_ends(struct order *order, CUcontext context);
void order_primary_ends(struct order *order, CUdevice device);

/* A stream has been created, or the current context's per-thread one is about to be used. False: it
 * cannot be tracked. Calls the driver. */
bool order_stream_begins(struct order *order, CUstream stream, bool non_blocking);
/* It is about to be destroyed. Returns whether it may hold work that no fence to come covers. */
bool order_stream_ends(struct order *order, CUstream stream);

/* visits.c. A context is to be used by its handle between these two, and nothing that may wait is
 * to be called there. False: it is ending, or not known. */
bool order_visit_begins(struct order *order, CUcontext context);
void order_visit_ends(struct order *order, CUcontext context);
/* Makes a context current that is visited. False: it could not be. Calls the driver. Lock not held.
 */
bool order_make_current(const struct order *order, CUcontext context, bool *pushed);
/* The former one is current again. Calls the driver. Lock not held. */
void order_make_former_current(const struct order *order, bool pushed);
/* Waits for all work of the context, as cuCtxSynchronize does. False: it could not be made current.
 * Calls the driver. Lock not held. */
bool order_synchronize(struct order *order, CUcontext context, CUresult *result);
/* Waits, for some seconds at most, while releases that may end the context are under way: they wait
 * for its work as well. Returns whether it has not ended. Lock not held. */
bool order_await_decision(struct order *order, CUcontext context);
enum { ORDER_MOST_ENDS = 8 }; /* that are awaited before a context is taken to be out of reach */
/* To be called before the driver ends the context, and before order_context_ends: waits for the
 * visits, and lets none begin. _stays: the driver has not ended it, so what was not waited for as
 * it ended is owed again. */
void order_context_closes(struct order *order, CUcontext context);
void order_context_stays(struct order *order, CUcontext context);

/* Whether a free may owe its wait, and the word that says that it does: without the lock, as each
 * free asks.
 *
 * Whether there are streams beside the legacy one. */
bool order_has_streams_about(const struct order *order);
/* Whether it is known which streams hold work. */
bool order_is_tracked(const struct order *order);
/* Whether the thread of that number is the only one that submits. */
bool order_is_sole(const struct order *order, uint32_t number);
/* Whether that thread's frees may owe their waits, as far as streams and threads decide. Where one
 * thread frees and another one submits, natively the one waits and the other does not: the
 * submissions must not come behind what the free waits for. */
bool order_may_owe(const struct order *order, uint32_t number);
/* Whether frees of the context may owe by setting bits of the word, no more: it is the only one. */
bool order_is_only(const struct order *order, CUcontext context);
/* A free in the context owes its wait from now on. */
void order_owe(struct order *order, CUcontext context);
/* A free in the only context owes its wait from now on. */
void order_owe_quickly(void);
/* A free has deferred its block. */
void order_defers(void);
/* Whether work has crossed from one context into another's memory, and is waited for by nobody yet.
 */
bool order_has_crossings(const struct order *order);

/* To be called before work is submitted to `stream`: of the current context, if it is the legacy
 * one. Calls the driver, unless a capture forbids that (may_call): then the submission is noted and
 * nothing else. Returns bits: ORDER_PAY: the order could not be made, so the wait has to be paid.
 * ORDER_SEVERAL: this is the first submission of another thread. ORDER_SOLE: it is the first of
 * all, and there are other threads, which may have owed so far. */
enum { ORDER_DONE = 0, ORDER_PAY = 1, ORDER_SEVERAL = 2, ORDER_SOLE = 4 };
int order_submits(struct order *order, CUstream stream, bool may_call);
/* To be called before an event is recorded in `stream`, as order_submits otherwise, while a wait is
 * owed: the event tells of a time, and other processes of more. False: the wait has to be paid.
 * Calls the driver. */
bool order_puts_behind(struct order *order, CUstream stream);
/* Whether the program's wait for that stream is one for all that is owed: nothing needs to be paid
 * before it. */
bool order_stream_covers(struct order *order, CUstream stream);
/* Whether a context other than that of the stream owes a wait: what reaches its memory must not
 * come before that is paid. */
bool order_others_owe(struct order *order, CUstream stream);
/* To be called after work was submitted while ORDER_TRACKED was not set: it may be work that was on
 * its way to the driver as a context had its first stream, and so is in a legacy stream. Before the
 * call returns it is noted, so no free that comes behind it misses it. */
void order_submitted_unnoted(struct order *order);
/* To be called before work is submitted that is in no known stream, or in several: of any context.
 */
void order_submits_somewhere(struct order *order);

/* Waits for all fences. Calls the driver, and `failed` with its errors. Returns whether anything
 * was owed. */
bool order_pay(struct order *order, void (*failed)(void *data, CUresult error), void *data);
/* Waits for what has been submitted to a context so far, and for nothing else, in two steps:
 * records a fence, and waits for it. whole: though the context has no streams that are known, there
 * may be some. False: no fence can be recorded. Both call the driver; the second ends the fence's
 * use. */
bool order_fence_now(struct order *order, CUcontext context, bool whole,
                     struct order_fence **fence);
CUresult order_fence_wait(struct order *order, struct order_fence *fence);

/* own_stream.c: a non-blocking stream of the pool's own, in the current context. All call the
 * driver.
 * NULL: it cannot be created. */
CUstream order_own_stream(struct order *order, CUcontext context);
/* Puts it behind what the context's frees owe, and behind nothing else. False: that has to be paid.
 */
bool order_puts_own_behind(struct order *order, CUcontext context, CUstream own);
/* Waits until it has done what was submitted to it, if there is one, while nothing is owed: then
 * that is no program's work. Lock not held. */
void order_await_own(struct order *order, CUcontext context);
/* A fence of what has been submitted to it, for order_fence_wait. False: it cannot be recorded. */
bool order_fence_own(struct order *order, CUcontext context, CUstream own,
                     struct order_fence **fence);

/* crossings.c. To be called after work was submitted to `stream`, of the current context if it is
 * the legacy one, that may use memory of other contexts. False: nothing can be recorded that stands
 * for it. Calls the driver. */
bool order_crossed(struct order *order, CUstream stream);
/* Waits for what has crossed so far, and for nothing else. False: there was too much of it. Calls
 * the driver. */
bool order_wait_for_crossings(struct order *order);

/* Whether a payment would wait for nothing. Calls the driver. */
bool order_is_over(struct order *order);
/* The host has waited for all work that was submitted to the context before its last free that
 * owes. fences: order_fences() before that wait began: later ones are not covered. */
void order_is_done(struct order *order, CUcontext context, uint64_t fences);
/* The number of the context's last fence; 0: it has none. */
uint64_t order_fences(struct order *order, CUcontext context);

#endif
