/* Waiting for a device that is busy and out of memory: by looking again and again, never inside the
 * driver, and for a bounded time, since its kernel may be waiting for this very thread. The time is
 * real time, whatever clock the pool has: it is the program that waits. */
#include "pool/internal.h"

#include <time.h>

enum { FIRST_STEP_NS = 50 * 1000, LAST_STEP_NS = 1000 * 1000 };
/* SILENT_NS: for how long nobody asks why. THREAD_NS: what another thread has to give memory back,
 * which it does where the driver waits for nothing, or in a free of the program's. */
static const uint64_t SILENT_NS = 1000 * 1000 * 1000, THREAD_NS = SILENT_NS;

static void say(struct pool *pool) {
    if (pool->config.say)
        pool->config.say("poolcuda: the device is out of memory, and busy, so that idle memory "
                         "cannot be given back: "
                         "the call waits for it, but no longer than POOLCUDA_OOM_WAIT says");
}

/* Libc's function may end a cancelled thread. */
static void pause_for(unsigned ns) {
    struct timespec step = {.tv_nsec = (long)ns};
    syscall(SYS_nanosleep, &step, NULL);
}

bool patience_wait(struct pool *pool, struct patience *patience, enum patience_for what,
                   double seconds) {
    lock_check_none();
    uint64_t now = clock_ns(CLOCK_MONOTONIC), most = (uint64_t)(seconds * 1e9);
    bool device = what == PATIENCE_FOR_DEVICE;
    if (what == PATIENCE_FOR_THREAD && most < THREAD_NS)
        most = THREAD_NS;
    if (!most)
        return false;
    if (!patience->began)
        *patience = (struct patience){.began = now, .step = FIRST_STEP_NS};
    stats_add(STATS_oom_waits, device && !patience->counted);
    patience->counted = patience->counted || device;
    bool over = now - patience->began >= most;
    if (device && (over || now - patience->began >= SILENT_NS))
        say(pool);
    if (!over)
        pause_for(patience->step);
    patience->step = patience->step < LAST_STEP_NS / 2 ? 2 * patience->step : LAST_STEP_NS;
    return !over;
}

void patience_end(const struct patience *patience) {
    if (patience->began)
        stats_add(STATS_wait_ns, clock_ns(CLOCK_MONOTONIC) - patience->began);
}
