/* The lock of a cache that another thread has: waiting for it, and not. */
#include "base/placed.h"
#include "pool/cache_stopped.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPINS = 20,
    TRIES = 8,
    YIELDS = 100,
};

static void pause_a_little(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Somebody has it for some dozens of instructions, or together with the pool's: mostly not for
 * long.
 */
static bool lock_contended(struct cache *cache) {
    for (int tries = 0; tries < TRIES; tries++) {
        for (int spin = 0; spin < SPINS; spin++) {
            if (atomic_load_explicit(&cache->parked, memory_order_relaxed))
                return false;
            if (!atomic_load_explicit(&cache->lock, memory_order_relaxed) && cache_try_lock(cache))
                return true;
            pause_a_little();
        }
        syscall(SYS_sched_yield); /* libc's function may end a cancelled thread */
    }
    return false;
}

PLACED bool cache_lock(struct cache *cache) {
    return __builtin_expect(cache_try_lock(cache), 1) || lock_contended(cache);
}

/* A wake-up that is missed, or that nobody makes because a thread has the cache for other reasons,
 * costs the time-out. */
bool cache_lock_after_stop(struct pool *pool, struct cache *cache) {
    static const struct timespec most = {.tv_nsec = 1000 * 1000};
    bool locked = false;
    atomic_fetch_add(&pool->resume_waiters, 1);
    for (int tries = 0; tries < TRIES && !locked && !atomic_load(&cache->parked); tries++) {
        int seen = atomic_load(&pool->resumes);
        locked = cache_lock(cache);
        if (!locked && !atomic_load(&cache->parked))
            futex_wait(&pool->resumes, seen, &most);
    }
    atomic_fetch_sub(&pool->resume_waiters, 1);
    return locked || cache_lock(cache);
}

/* A thread that only yields still keeps one of lower priority from running, so at last it
 * sleeps. */
void cache_lock_at_last(struct pool *pool, struct cache *cache) {
    lock_check_held(LOCK_POOL);
    uint64_t start = clock_ns(CLOCK_MONOTONIC);
    for (int tries = 0; !cache_lock(cache); tries++)
        if (tries >= YIELDS / TRIES)
            futex_pause();
    atomic_fetch_add_explicit(&pool->waited_ns, clock_ns(CLOCK_MONOTONIC) - start,
                              memory_order_relaxed);
}

/* Each cache's lock is taken once and given back: one that this very thread has, below a signal's
 * handler, cannot be had. */
bool pool_is_at_rest(struct pool *pool, int (*try_lock)(pthread_mutex_t *)) {
    if (try_lock(&pool->lock))
        return false;
    int i = 0;
    for (; i < pool->active_count && cache_lock(pool->active[i]); i++)
        cache_unlock(pool->active[i]);
    bool rests = i == pool->active_count;
    pthread_mutex_unlock(&pool->lock);
    return rests;
}
