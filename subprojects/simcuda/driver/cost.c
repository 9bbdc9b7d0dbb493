#include "cost.h"

#include "cuda_symbols.h"
#include "lock.h"
#include "settings.h"

#include <stdatomic.h>
#include <time.h>

/* The values of SIMCUDA_COST. */
enum { OFF, SPENT, COUNTED, VIRTUAL };

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
static _Atomic uint64_t latest_ns; /* the latest virtual time of any thread */

/* This thread's virtual time, and what of it its calls themselves have taken. A new thread begins
 * at the latest time there is. */
static __thread uint64_t host_ns, host_calls_ns;
static __thread bool host_began;
static __thread struct work_time *work; /* that this thread executes; NULL: it is the host */

uint64_t cost_modelled_ns(void) {
    return atomic_load_explicit(&modelled_ns, memory_order_relaxed);
}

SIM_EXPORT uint64_t simcuda_modelled_ns(void) {
    return cost_modelled_ns();
}

void cost_spend(uint64_t ns) {
    sim_check_none();
    if (ns == 0 || settings()->cost == OFF)
        return;
    atomic_fetch_add_explicit(&modelled_ns, ns, memory_order_relaxed);
    if (settings()->cost == SPENT)
        cost_wait_until(clock_ns() + ns);
    else if (work != NULL)
        work->takes_ns += ns;
    else if (time_is_virtual()) {
        time_host_reach(time_host() + ns);
        host_calls_ns += ns;
    }
}

void cost_keep_busy(uint64_t ns) {
    sim_check_none();
    if (time_is_virtual() && work != NULL)
        work->takes_ns += ns;
    else
        cost_wait_until(clock_ns() + ns);
}

bool time_is_virtual(void) {
    return settings()->cost == VIRTUAL;
}

static uint64_t later(uint64_t one, uint64_t other) {
    return one > other ? one : other;
}

uint64_t time_host(void) {
    if (!host_began)
        host_ns = atomic_load(&latest_ns);
    host_began = true;
    return host_ns;
}

void time_host_reach(uint64_t ns) {
    uint64_t seen = atomic_load(&latest_ns);

    host_ns = later(time_host(), ns);
    while (seen < host_ns && !atomic_compare_exchange_weak(&latest_ns, &seen, host_ns))
        continue;
}

uint64_t time_latest(void) {
    return atomic_load(&latest_ns);
}

void time_work_begin(struct work_time *time, uint64_t start_ns) {
    *time = (struct work_time){.start_ns = start_ns};
    work = time;
}

void time_work_end(void) {
    work = NULL;
}

uint64_t time_work_now(void) {
    return work->start_ns + work->takes_ns;
}

void time_work_reach(uint64_t ns) {
    work->takes_ns = later(time_work_now(), ns) - work->start_ns;
}

uint64_t simcuda_host_ns(void) {
    return time_host();
}

uint64_t simcuda_host_calls_ns(void) {
    return host_calls_ns;
}

void cost_spend_transfer(size_t bytes, double gbps) {
    cost_spend((uint64_t)((double)bytes / gbps));
}
