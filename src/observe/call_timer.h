/* How long calls of the driver take: timed around each of a thread's first ones, then around one of
 * many, so that a program whose calls are quick does not pay for the clock. Misses that a thread's
 * cache serves by itself (cache_miss.c) are never timed: one of many goes the long way, and is. */
#ifndef POOLCUDA_OBSERVE_CALL_TIMER_H
#define POOLCUDA_OBSERVE_CALL_TIMER_H

#include "observe/stats.h"

/* What one thread has: how many calls were timed, and how many go untimed before the next one. */
struct call_timer {
    int timed, untimed;
};
extern _Thread_local struct call_timer call_timers[STATS_CALLS]
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

enum { CALL_TIMER_FIRST = 16 }; /* calls are timed, whoever makes them */

/* Whether the next call goes untimed, which is counted. If not, start is to be called before it,
 * and stop with what that has returned after it, if it has succeeded. bytes: of the block. */
static inline bool call_timer_rests(enum stats_call call) {
    return __builtin_expect(--call_timers[call].untimed >= 0, 1);
}
uint64_t call_timer_start(enum stats_call call);
void call_timer_stop(enum stats_call call, enum stats_memory memory, size_t bytes, uint64_t began);

#endif
