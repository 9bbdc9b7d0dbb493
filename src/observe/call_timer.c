#include "observe/call_timer.h"

#include "clock.h"

enum {
    ALL_TIMED = 64, /* of a thread's first calls, so that a short run's are */
    ONE_OF = 251    /* of later ones: a prime, so that no program's loop falls into step with it */
};

_Thread_local struct call_timer call_timers[STATS_CALLS];

uint64_t call_timer_start(enum stats_call call) {
    struct call_timer *timer = &call_timers[call];
    bool first = timer->timed < ALL_TIMED;
    timer->timed += first;
    timer->untimed = first ? 0 : ONE_OF - 1;
    return clock_ns(CLOCK_MONOTONIC);
}

void call_timer_stop(enum stats_call call, enum stats_memory memory, size_t bytes, uint64_t began) {
    stats_call(call, memory, bytes, clock_ns(CLOCK_MONOTONIC) - began);
}
