/* Which thread's cache is which, and the lock of one: a cache is made when its thread needs it, and
 * kept for another when its pool ends. Stopping them all is cache_stop.c's. */
#include "base/clock.h"
#include "pool/cache_stopped.h"
#include "thread_marks.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPINS = 20,
    TRIES = 8,
    YIELDS = 100,
    MINE_BITS = 3, /* contexts between which a thread changes without a search */
    MINE = 1 << MINE_BITS,
};

_Thread_local struct cache_mine cache_mine;
static _Thread_local struct cache_mine others[MINE] __attribute__((tls_model("initial-exec")));

static atomic_flag spares_lock = ATOMIC_FLAG_INIT;
static struct cache *spares;

/* Where the thread's cache of that key is or would be. */
static struct cache_mine *place_of(uintptr_t key) {
    return &others[hash_word(key) >> (64 - MINE_BITS)];
}

struct cache *cache_mine_among_others(uintptr_t key) {
    const struct cache_mine *place = place_of(key);
    if (place->key != key)
        return NULL;
    cache_mine = *place;
    return cache_mine.cache;
}

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
bool cache_lock_contended(struct cache *cache) {
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
__attribute__((noinline)) void cache_lock_at_last(struct pool *pool, struct cache *cache) {
    lock_check_held(LOCK_POOL);
    uint64_t start = clock_ns(CLOCK_MONOTONIC);
    for (int tries = 0; !cache_lock(cache); tries++)
        if (tries >= YIELDS / TRIES)
            futex_pause();
    atomic_fetch_add_explicit(&pool->waited_ns, clock_ns(CLOCK_MONOTONIC) - start,
                              memory_order_relaxed);
}

static void spares_take(void) {
    while (atomic_flag_test_and_set_explicit(&spares_lock, memory_order_acquire))
        pause_a_little();
}

static void spares_drop(void) {
    atomic_flag_clear_explicit(&spares_lock, memory_order_release);
}

void cache_give_back(struct cache *cache) {
    spares_take();
    cache->next_spare = spares;
    spares = cache;
    spares_drop();
}

static struct cache *new_cache(void) {
    spares_take();
    struct cache *cache = spares;
    if (cache)
        spares = cache->next_spare;
    spares_drop();
    if (cache)
        return cache;
    void *memory = calloc(1, sizeof *cache + _Alignof(struct cache));
    if (!memory)
        return NULL;
    cache =
        (struct cache *)(((uintptr_t)memory / _Alignof(struct cache) + 1) * _Alignof(struct cache));
    if (!cache_table_init(&cache->table, CACHE_FIRST_BINS)) {
        free(memory);
        return NULL;
    }
    return cache;
}

/* One that is in the pool's table and unused, or a new one. Lock held. */
static struct cache *take_unused_cache(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    for (int i = 0; i < pool->cache_count; i++)
        if (!pool->caches[i]->context)
            return pool->caches[i];
    struct cache *cache = pool->cache_count < CACHES ? new_cache() : NULL;
    if (!cache)
        return NULL;
    cache_lock_at_last(pool, cache);
    cache->pool = pool;
    cache->parked = true;
    pool->caches[pool->cache_count++] = cache;
    return cache;
}

static struct cache *find_cache(const struct pool *pool, const struct context *context,
                                unsigned thread) {
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->context == context && pool->caches[i]->thread == thread)
            return pool->caches[i];
    return NULL;
}

/* Lock held. */
__attribute__((noinline)) static struct cache *find_own(struct pool *pool, struct context *context,
                                                        uintptr_t key) {
    lock_check_held(LOCK_POOL);
    struct cache_mine *place = place_of(key);
    struct cache *cache = place->cache;
    if (cache && place->key == key && cache->pool == pool && cache->context == context)
        return cache;
    unsigned thread = 1 + (thread_number() - 1) % CACHE_THREADS;
    cache = find_cache(pool, context, thread);
    if (!cache && (cache = take_unused_cache(pool))) {
        struct stats_shard *shard = stats_shard_begin(context->device->stats);
        if (!shard)
            return NULL;
        cache->shard = shard;
        cache->context = context;
        cache->thread = thread;
    }
    if (cache)
        *place = cache_mine = (struct cache_mine){key, cache, thread_number()};
    return cache;
}

struct cache *cache_own(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    uintptr_t key = cache_key(pool, context->handle);
    struct cache *cache = cache_mine.cache;
    bool last = cache && cache_mine.key == key && cache->pool == pool && cache->context == context;
    return last ? cache : find_own(pool, context, key);
}

bool cache_is_asking(const struct pool *pool) {
    lock_check_held(LOCK_POOL);
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->asking)
            return true;
    return false;
}

struct pool_block *cache_give_spares(const struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct cache *own = cache_mine.cache;
    if (!own || own->pool != pool)
        return NULL;
    struct pool_block *spare = own->spare;
    own->spare = NULL;
    return spare;
}
