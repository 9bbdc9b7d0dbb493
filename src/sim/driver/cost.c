#include "cost.h"

#include "cuda_symbols.h"
#include "lock.h"
#include "settings.h"

#include <stdatomic.h>
#include <time.h>

/* A sleeping thread wakes up late by about this much; the rest of a wait is spun. */
static const uint64_t wakeup_slack_ns = 80000;

uint64_t clock_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void cost_wait_until(uint64_t deadline) {
    uint64_t now = clock_ns();

    if (deadline > now + wakeup_slack_ns) {
        uint64_t until = deadline - wakeup_slack_ns;
        struct timespec wake = {.tv_sec = (time_t)(until / 1000000000u),
                                .tv_nsec = (long)(until % 1000000000u)};

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) != 0)
            continue;
    }
    while (clock_ns() < deadline)
        continue;
}

static _Atomic uint64_t modelled_ns;

uint64_t cost_modelled_ns(void) {
    return atomic_load_explicit(&modelled_ns, memory_order_relaxed);
}

/* For programs in this process, which look it up by its name. */
SIM_EXPORT uint64_t simcuda_modelled_ns(void);

uint64_t simcuda_modelled_ns(void) {
    return cost_modelled_ns();
}

void cost_spend(uint64_t ns) {
    sim_check_none();
    enum { OFF, SPENT, COUNTED };

    if (ns == 0 || settings()->cost == OFF)
        return;
    atomic_fetch_add_explicit(&modelled_ns, ns, memory_order_relaxed);
    if (settings()->cost == SPENT)
        cost_wait_until(clock_ns() + ns);
}

void cost_spend_transfer(size_t bytes, double gbps) {
    cost_spend((uint64_t)((double)bytes / gbps));
}
