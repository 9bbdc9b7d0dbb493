/* Work of the program's and captures of its streams: what is known of them, and waits for them. */
#ifndef POOLCUDA_POOL_WAIT_H
#define POOLCUDA_POOL_WAIT_H

#include "pool/context.h"

/* Captures (captured_streams.c). All below: lock not held.
 *
 * One that begins is not named yet. _stream_ends: whether a capture
 * ends with the stream, which pool_capture_ended is then called for. */
void captures_count_unnamed(struct pool *pool);
bool captures_stream_ends(struct pool *pool, CUstream stream);
/* For captures that end with the context; NULL: with the device's primary one. _may_end: between a
 * call that may end it and the answer whether it has. */
void captures_end(struct pool *pool, CUcontext context, CUdevice ordinal);
void captures_may_end(struct pool *pool, CUcontext context, CUdevice ordinal, bool may);
/* To be called when a call went past the pool because of captures: asks whether there are any. */
void captures_passed(struct pool *pool);
void captures_forget(struct pool *pool); /* lock held */

/* quiet.c: whether all work of the current context is known to be complete; asks without waiting.
 */
bool context_is_quiet(struct pool *pool, struct context *context);
/* Asks so by the context's event, which is not pending; NOT_READY: now it is. Lock not held. */
CUresult quiet_ask_by(struct pool *pool, const struct context *context, CUevent event);
/* Whether a context rests, any one, for whoever has nothing better to do than to wait: drivers
 * without cuCtxRecordEvent are asked as well, as far as that can be done. UNKNOWN: they cannot be,
 * or a stream is being captured, or the context is lost. Lock not held. */
enum rest { REST_BUSY, REST_QUIET, REST_UNKNOWN };
enum rest quiet_ask(struct pool *pool, struct context *context);
/* Whether a wait is owed that is over as soon as it is made. Lock not held. */
bool quiet_is_owed_wait_over(struct pool *pool);
/* Notes what all contexts have under way, and asks later whether that is done. Gate closed, and no
 * capture begun. Lock not held. note: false: the driver cannot tell. */
bool quiet_note_work(struct pool *pool);
/* Lock not held. */
bool quiet_is_noted_work_done(struct pool *pool);

/* capture_mode.c. The thread's mode for captures becomes *mode, which tells what it was. */
CUresult capture_mode_exchange(struct pool *pool, CUstreamCaptureMode *mode);
/* gate_closing.c. Whoever is inside has left when gate_close returns, and nobody enters until as
 * many gate_open. */
void gate_close(struct pool *pool);
void gate_open(struct pool *pool);
/* gate_close in two parts: between them no other thread closes the gate, and prohibited calls may
 * be made. begin: false: the gate is closed, and a capture may have begun: no such call, and no
 * end. */
bool gate_close_begin(struct pool *pool);
void gate_close_end(struct pool *pool);

/* wait_choice.c: what becomes of a wait; wait_reasons.c: why; wait.c: makes it. All below: lock
 * held. */

enum wait_choice { WAIT_NOW, WAIT_OWED, WAIT_DEFERRED };
/* What to do about the wait of a free of `block`; *reason is set for WAIT_NOW. */
enum wait_choice wait_choice(const struct pool *pool, const struct pool_block *block,
                             enum wait_reason *reason);
void wait_owe(struct pool *pool, struct context *context);
/* Counts owed waits of frees that threads' caches have served. */
void wait_owe_more(struct pool *pool, uint64_t frees);
/* Whether a cache of that `thread` may serve frees of the context's blocks, unless they are its
 * last: they owe their wait by saying so in the order's word, or leave it to fences to come. */
bool wait_is_skipped(const struct pool *pool, const struct context *context, uint32_t thread);
/* Makes the wait. Lock held on entry and return, not in between. */
CUresult wait_make(struct pool *pool, struct context *context, enum wait_reason reason);
bool wait_is_owed(void); /* lock not needed */
/* Before the pool itself submits work to the current context's legacy stream that may touch what
 * was freed: puts it behind what is owed. Gate entered. Lock not held. */
void wait_precedes_own_work(struct pool *pool);
/* As above, to a stream of its own, which is put behind what that context's frees owe. Gate
 * entered. Lock not held. */
void wait_precedes_own_stream(struct pool *pool, const struct context *context, CUstream own);
/* Whether work of other contexts may use a context's memory, so that a free waits for them, too. */
bool wait_reaches_others(const struct pool *pool, const struct context *context);
/* Whether devices other than its own may. Access to a device's memory does not make that device
 * reach others'. Memory that is no device's is everybody's. */
bool wait_is_reached(const struct pool *pool, const struct context *context);
/* Whether a wait for the context's work would take time, as far as is known. Lock not held. */
bool wait_would_last(struct pool *pool, struct context *context);
/* Makes an owed wait before `call`. False: not now, a stream is being captured. Lock not held. */
bool wait_try_pay(struct pool *pool, const char *call);
void wait_forget(struct pool *pool); /* everything, at the pool's end */

#endif
