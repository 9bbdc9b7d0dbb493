/* What a cache is made of, and the steps of those that use it. */
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

/* False: the cache is parked, or somebody has it for longer than a call takes. */
bool cache_lock(struct cache *cache);

/* Waits until whoever has stopped the cache has gone on. The long way would wait as well, but then
 * stop all others in turn: a crowd of threads would stop each other for ever. False: as
 * cache_lock. */
bool cache_lock_after_stop(struct pool *pool, struct cache *cache);

/* What the cache does when its budget is used up. False: the call is to go the long way. Cache
 * locked. */
bool cache_renew(struct cache *cache);

/* A request of a site that has no bin for its size: a larger block, which goes live, if the site
 * has a bin for such blocks. kept: as cache_may_have says. NULL: there is none, or the policy has
 * to choose. *none: no idle block serves, if the cache is alone. Cache locked. */
struct pool_block *cache_serve_larger(struct cache *cache, struct site *site, size_t bytes,
                                      size_t size, size_t kept, bool *none);
/* Such a block for the site of that id, if that has gone the long way lately. Cache locked. */
struct pool_block *cache_serve_known(struct cache *cache, uintptr_t id, size_t bytes, size_t size);

/* Where what is known of the site with that id is or would be. Cache locked. */
struct cache_site *cache_place_for(struct cache *cache, uintptr_t id);

/* Whether a block of at least that size may be idle in the cache or in the store; *kept: the least
 * in the store, SIZE_MAX if there is none. Cache locked. */
bool cache_may_have(struct cache *cache, size_t size, size_t *kept);

/* To be called before what is held grows, and when the sums are merged: from their least idle
 * memory bounds.c knows what nobody needs, and between these calls least is idle when most is live.
 */
void cache_note_taken(struct cache *cache);

/* --- cache_parts.c: also what hits and frees do --- */

bool cache_try_lock(struct cache *cache);
void cache_unlock(struct cache *cache);
/* To be called where the cache must be locked, by the caller or because the pool is. */
void cache_check_locked(const struct cache *cache);
/* A context is one of a pool. */
uintptr_t cache_key(const struct pool *pool, CUcontext handle);
/* Another number whenever more blocks may have become idle, for a cache that is alone. */
uint64_t cache_stamp(const struct cache *cache);

struct pool_block *cache_pop(struct cache_bin *bin);
/* Keeps the block, which is idle from now on, in a listed bin; in any bin of the cache. */
void cache_push_listed(struct cache_bin *bin, struct pool_block *block);
void cache_push(struct cache *cache, struct cache_bin *bin, struct pool_block *block);
void cache_note_bin(const struct cache *cache, const struct cache_bin *bin,
                    struct pool_block *block);

/* The bin for the block: mostly the one that it was in last. whole: as quick_malloc says; without
 * it bins that are not near are NULL, as if there were none. Cache locked. */
struct cache_bin *cache_bin_of(struct cache *cache, struct pool_block *block, bool whole);
/* The bin for blocks of the block's site and size, listed. NULL: there is none. Cache locked. */
struct cache_bin *cache_find_bin_for(struct cache *cache, struct pool_block *block);

/* So much more of what the cache counts, and its shard as well. */
void cache_count(struct cache *cache, enum stats_sum sum, uint64_t more);
/* Counts a live block of that size, for a request of that many bytes, in cache and site. */
void cache_count_growth(struct cache *cache, struct stats_site *site, size_t bytes, size_t size);
/* Counts a block of that size that goes live for a request of that many bytes. */
void cache_count_hit(struct cache *cache, const struct cache_bin *bin, size_t bytes, size_t size);
void cache_make_live(struct pool_block *block, size_t bytes);
/* If two threads free the same block at once, only one finds it quick_freeable. */
bool cache_claim(struct pool_block *block);
/* Counts a live block of that many bytes that is freed into the bin. */
void cache_count_free(struct cache *cache, const struct cache_bin *bin, size_t bytes);

/* --- cache_serve.c --- */

/* The rest of quick_malloc where the site's bin is empty: a block of another cache or bin serves.
 * Never QUICK_TRY. Cache locked on entry, and on return with QUICK_MISS. */
enum quick cache_serve_other(struct cache *cache, struct cache_bin *bin, CUdeviceptr *pointer,
                             size_t bytes);
/* QUICK_TRY. The call counts once, whichever form serves it: where bins lie, the loader decides.
 * Kept out of the quick forms, whose registers it would need. Cache locked on entry, not on return.
 */
__attribute__((noinline)) enum quick cache_try_again(struct cache *cache);

#endif
