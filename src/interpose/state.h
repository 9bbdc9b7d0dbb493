/* The library's state in this process: options, the pool, whether we take part at all. */
#ifndef POOLCUDA_INTERPOSE_STATE_H
#define POOLCUDA_INTERPOSE_STATE_H

#include "check/check.h"
#include "options/options.h"
#include "pool/inside.h"
#include "pool/pool.h"
#include "thread_marks.h"

#include <stdbool.h>

/* Whether lookups may be answered with our hooks: false with POOLCUDA_DISABLE. Reads the options on
 * its first call, which is the first lookup of a CUDA name. */
bool state_enabled(void);

/* To be called before the process may be forbidden any system call: ends what needs them, a
 * recording for one. Where CUDA has not been used, the library is disabled. False: a child that
 * shares this memory has called, which is not concerned. */
bool state_shut_in(void);

/* The pool, created on first use. NULL when disabled, without libcuda, or without memory: the
 * caller then goes to the driver. */
struct pool *state_pool(void);

const struct options *state_options(void);

/* The check of POOLCUDA_CHECK, NULL without it; made with the pool. */
extern _Atomic(struct check *) state_the_check __attribute__((visibility("hidden")));
static inline struct check *state_check(void) {
    return atomic_load_explicit(&state_the_check, memory_order_acquire);
}
/* Whether there is or will be one. */
bool state_checks(void);
bool state_checks_launches(void); /* POOLCUDA_CHECK=sync */

/* Changes the settings named by bits of enum pool_setting to what *config says: of the pool, or of
 * the one that is yet to be made. False: the library is inert. */
bool state_configure(const struct pool_config *config, unsigned settings);
/* What is in effect, or will be. False: the library is inert. */
bool state_get_config(struct pool_config *config);
/* Tells the user, once per process, about a consequence of an option that he has set. */
void state_say_once(const char *line);

/* The pool if it is there already and calls need neither be recorded nor checked; NULL: not yet, or
 * never. With one there are the driver's entries that every pool needs. */
extern _Atomic(struct pool *) state_quick __attribute__((visibility("hidden")));

/* While a thread is inside one of our calls into the driver or the pool, whatever the driver calls
 * back goes straight to the driver. */

/* The thread begins such a call; it is in none. */
static inline void state_enter(void) {
    thread_marks.inside = true;
    pool_enter();
}

/* The pool if this call may use it, until state_end_call: NULL without one, and for calls that the
 * driver makes while serving one of ours. */
static inline struct pool *state_begin_call(void) {
    struct pool *pool = thread_marks.inside ? NULL : state_pool();
    if (pool)
        state_enter();
    return pool;
}

static inline void state_end_call(void) {
    pool_leave();
    thread_marks.inside = false;
}

/* Ends a call with its result, which may tell that the context is lost. Returns the result. */
static inline CUresult state_end_call_with(struct pool *pool, CUresult result) {
    if (result != CUDA_SUCCESS)
        pool_note_error(pool, result);
    state_end_call();
    return result;
}

/* Around a fork, after which the child starts anew: it reports nothing unless it uses CUDA itself,
 * and then for itself. The last, in the child, returns whether there was a pool. */
void state_fork_prepare(void);
void state_fork_parent(void);
bool state_forget_after_fork(void);

#endif
