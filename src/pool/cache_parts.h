/* What a cache is made of: for cache_quick.h, which serves from it, and for what does the rest. */
#ifndef POOLCUDA_POOL_CACHE_PARTS_H
#define POOLCUDA_POOL_CACHE_PARTS_H

#include "pool/cache_table.h"
#include "pool/internal.h"

enum {
    CACHE_SITE_BITS = 4,
    /* Bins that are looked at in a cache for a block to spare: all of a thread's thousands might be
     * empty. */
    CACHE_MOST_TRIED = 256,
};

static const uint64_t CACHE_STOP = (uint64_t)1 << 32; /* more than are freed in between */

/* Unused while `site` is NULL. No idle block serves a request of `bytes`, rounded to `size`, while
 * `stamp` is cache_stamp(). */
struct cache_site {
    _Alignas(64) uintptr_t id;
    struct site *site;
    size_t bytes, size;
    uint64_t stamp;
};

/* A parked cache stays locked until its thread has taken the pool's lock itself and gives it back,
 * so that this lock need stop only those that are in use.
 *
 * Members change under `lock`, and those marked "while stopped" only while all caches are stopped.
 * Invariant: with `lock` free, `key` is cache_key() of the context if calls may be served, else 0;
 * a cache in use has a context and a shard, and is in its pool's table. */
struct cache {
    _Alignas(128) atomic_int lock;
    int budget;                /* calls to be served before cache_renew */
    atomic_bool parked;        /* while stopped */
    bool busy;                 /* while stopped: it has served calls since the last time */
    bool defers, young;        /* while stopped */
    bool nothing_idle;         /* while stopped: on the device, then */
    bool alone;                /* while stopped: in use, and in its context */
    bool may_miss;             /* while stopped: `alone` or `nothing_idle` */
    bool misses_near;          /* while stopped: `may_miss`, and all bins are in their pairs */
    uintptr_t key;             /* while stopped */
    struct context *context;   /* while stopped */
    uint64_t sums[CACHE_SUMS]; /* since they were last merged */
    uint64_t peak_in_use, peak_live; /* the largest of these sums */
    uint64_t peak_taken;       /* the largest of live less held, by which idle memory shrinks */
    struct stats_shard *shard; /* where sums are published for readers of the stats page */
    struct cache_table table;
    struct pointer_table freeable; /* while stopped: the pool's; empty, if it may free nothing */
    struct pool_block *sentinel;   /* while stopped: the context's; NULL: frees need none */
    struct pool_block *deferred;   /* freed, to be fenced: linked through `next`, as the next two */
    struct pool_block *fresh;      /* live, new: for the ledger and the map */
    struct pool_block *spare;      /* unused records */
    struct fit fit;                /* while stopped: what may serve a request; surplus in all */
    uint64_t stops;                /* while stopped: how often it was, times CACHE_STOP */
    uint64_t may_grow;             /* bytes that it may get from the driver while alone */
    uint64_t renewed_ns;           /* when its budget last sent a call the long way */
    uint64_t rests_since;          /* while stopped, by the coarse clock; 0: not looked at yet */
    uint64_t counts_merged;        /* while stopped: the device's changes when bins' were */
    unsigned asking;               /* threads that ask the driver, or wait in cache_free_last */
    unsigned waited;               /* frees since it was stopped whose wait has been made */
    CUevent last_event;            /* of the thread that waits; it dies with the context */
    size_t bins_apart;             /* bins that count in stats of their own */
    unsigned bins_asked;           /* to be added since the table was last to grow */
    unsigned thread;               /* while stopped: whose it is, 1 to CACHE_THREADS */
    uint64_t served, swept; /* calls merged; of them, when bins at rest were last looked for */
    struct pool *pool;      /* while stopped */
    struct cache *next_spare;
    struct cache_site sites[1 << CACHE_SITE_BITS]; /* the last to go the long way */
};

/* The thread's cache for the context that it used last, by cache_key(); NULL and 0: none yet.
 * Caches are never given back to the system, since any thread may have one here; the cache's own
 * key tells whether it still serves. Whoever has one here has a number (thread_marks.h). */
struct cache_mine {
    uintptr_t key;
    struct cache *cache;
};

extern _Thread_local struct cache_mine cache_mine
    __attribute__((visibility("hidden"), tls_model("initial-exec")));
/* Looks among the bins for other sites; NULL: none. */
struct cache *cache_mine_among_others(uintptr_t key);

bool cache_lock_contended(struct cache *cache);

/* Waits until whoever has stopped the cache has gone on. The long way would wait as well, but then
 * stop all others in turn: a crowd of threads would stop each other for ever. False: as
 * cache_lock. */
bool cache_lock_after_stop(struct pool *pool, struct cache *cache);

/* What the cache does when its budget is used up. False: the call is to go the long way. Cache
 * locked. */
bool cache_renew(struct cache *cache);

/* cache_serve_larger, where the store's least block that suffices has `kept` bytes, or a bin may
 * have one. Cache locked. */
struct pool_block *cache_choose_larger(struct cache *cache, struct site *site, size_t bytes,
                                       size_t size, size_t kept, bool *none);
/* Such a block for the site of that id, if that has gone the long way lately. Cache locked. */
struct pool_block *cache_serve_known(struct cache *cache, uintptr_t id, size_t bytes, size_t size);

/* The bin for blocks of the block's site and size, listed. NULL: there is none. Cache locked. */
struct cache_bin *cache_find_bin_for(struct cache *cache, struct pool_block *block);

#endif
