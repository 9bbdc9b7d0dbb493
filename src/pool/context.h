/* The pool's records of contexts, devices and sites, under its lock unless said otherwise. */
#ifndef POOLCUDA_POOL_CONTEXT_H
#define POOLCUDA_POOL_CONTEXT_H

#include "blocks/block.h"
#include "counters/stats.h"
#include "driver/cuda_api.h"
#include "keep/keeper.h"
#include "pool/address_index.h"
#include "pool/pool.h"

/* A call site's stats, which outlive the contexts that it allocated in. */
struct site_record {
    struct call_site key;
    struct stats_site *stats;     /* of the page, or where there is none, `unreported` */
    struct stats_site unreported; /* what is learnt of a site does not depend on a page */
    struct cache *counting;       /* its thread may count in `stats` without the lock; NULL: none */
    UT_hash_handle by_key;
};

/* What calls of threads' caches have changed (cache.h): in unsigned arithmetic that may wrap. */
enum cache_sum {
    CACHE_SUMS_OF_SHARD = STATS_SHARD_SUMS - 1, /* these have the first numbers */
#define SHARD_SUM(sum, what)
#define CACHE_SUM(sum, what) SUM_##sum,
#include "counters/counters.def"
    CACHE_SUMS
};

enum { GIVEN_UP_BITS = 6, GIVEN_UP = 1 << GIVEN_UP_BITS };

/* bounds.c's and headroom.c's alone. Headroom: bytes to allocate before it is asked again what is
 * free; what was live and what others used, at most, when idle memory was last given up, and
 * whether it has been. Decay: the least idle bytes since period_began (nanoseconds, 0: never yet),
 * and the device's changes when the clock was last looked at. given_up: by size. */
struct device_bounds {
    uint64_t until_asked, crowd_live, crowd_others;
    bool crowded;
    uint64_t least_idle, period_began, looked;
    uint64_t given_up[GIVEN_UP], missed; /* how many of these */
    uint64_t yielded; /* bytes that may be held beyond the bound, by the last of these misses */
};

/* Whether the device's kernels reach plain host memory. HOST_BY_ADDRESS: what they are given the
 * address of (HMM). HOST_ALWAYS: or it has the host's page tables (ATS), or nobody is to look. */
enum host_access { HOST_NEVER, HOST_BY_ADDRESS, HOST_ALWAYS };

/* One device, by ordinal, or the ledger of a kind of memory that is no device's: of all contexts.
 * Invariant: its figures are those of counters.def, over_size is the part of live by which blocks
 * exceed their own request's rounded size. What is idle or waste is stored nowhere.
 * Peaks are the largest values so far; frees and so on are counted since it was first used. */
struct device {
    enum pool_memory memory;
    CUdevice ordinal; /* of no device: ordinal_of_kind */
    uint64_t total;   /* bytes: cuDeviceTotalMem; of no device, config.host_memory */
    uint8_t uuid[STATS_UUID];
#define DEVICE_FIGURE(name, sums, help) uint64_t name;
#include "counters/counters.def"
    uint64_t over_size, peak_in_use, peak_live, peak_held;
    uint64_t frees, oom_events, oom_rescued;
    int pressure;   /* allocations that are out of memory just now: frees then go to the driver */
    int releasing;  /* blocks on their way back to the driver in some thread */
    int unvisited;  /* of these, blocks whose contexts' ends wait for them, as no visit is made */
    int ending;     /* of these, contexts that end: what they have apart from blocks, and `left` */
    uint64_t lent;  /* part of in_use: of idle blocks that requests begin in, which may yet fail */
    int attempting; /* requests that may give back what they have of the driver: policy.h */
    /* What requests have asked of the driver that may be more than they need, and is in no record
     * yet; and how many there have been, read without the lock. */
    LIST_HEAD(, share) sharing;
    _Atomic uint64_t shares;
    enum host_access host_access;
    bool unified;          /* its memory is the host's, or the host uses it as its own */
    atomic_bool unlimited; /* available.c, without the lock: no control group limits it */
    struct device_bounds bounds;
    bool frugal; /* an allocation has failed that it has memory for: its live blocks waste less */
    bool exact;  /* some blocks are no larger than their requests, whatever the keeper rounds to */
    bool saves;  /* idle memory has gone back to the driver, or some site's sizes only grow */
    uint64_t changes, peaked; /* allocations and frees; these when peak_in_use last grew */
    /* ledger_sums.c: how many samples there are, the nanoseconds that each stands for, and what was
     * held at the last one and in the map. NULL: what is no device has none. */
    struct stats_device *stats;
    uint32_t samples;
    uint64_t interval, noted, noted_held, mapped_held;
    struct address_index index;  /* of its blocks, if the pool is indexed */
    struct pool_block *stranded; /* stranded.c: a list */
    _Atomic uint64_t renewed_ns; /* cache_stop.c, no lock: when a call last went the long way */
    TAILQ_ENTRY(device) link;
};

/* The ordinal of the ledger of a kind of memory, below POOL_ALL_DEVICES. Not for POOL_DEVICE. */
static inline CUdevice ordinal_of_kind(enum pool_memory memory) {
    return POOL_ALL_DEVICES - (CUdevice)memory;
}

/* One context's memory of one kind: a context that allocates several kinds has as many records,
 * which end together. A record never comes back to life: the driver may reuse the handle.
 * Invariant: an ended context has no blocks and no sites. live_blocks counts LIVE and WAITING ones.
 */
struct context {
    CUcontext handle;
    struct pool_kind kind;
    const struct keeper *keeper; /* for memory of that kind */
    CUdevice ordinal;            /* of the context's own device */
    unsigned users; /* calls at what its source has, and what of it is on its way to the driver */
    struct device *device; /* whose ledger counts its memory: see ordinal_of_kind */
    unsigned long long id; /* cuCtxGetId; 0: the driver has none (before CUDA 12) */
    /* closing: nobody new begins to use its source, which its end waits for. over: the driver has
     * freed its memory, too. refused: or would not end it: what is left goes when it does. */
    bool closing, ended, over, refused;
    /* Both are looked at together. releases: of its device's primary context, which are under way:
     * it may have ended. */
    unsigned broken : 1; /* by a sticky error: everything passes through */
    unsigned releases : 31;
    bool created;      /* by cuCtxCreate and the like; else it is its device's primary context */
    uint32_t ended_by; /* the thread that ends it, by its number */
    uint64_t live_blocks;
    struct pool_block *sentinel; /* cache_stop.c: one of its blocks; NULL: none is known */
    bool frees_quickly; /* cache_stop.c: whether caches may serve frees, when last looked at */
    unsigned left; /* parts of idle memory that go with it alone; device->ending has them, too */
    struct idle_store store;
    const struct source *source;
    struct mapped *mapped; /* what these sources have, NULL until needed */
    struct driver_pool *driver_pool;
    size_t next_region; /* its size */
    struct site *sites; /* uthash by key */
    CUevent event;      /* to ask whether the context is idle; NULL until needed */
    bool event_pending; /* it was recorded and had not completed when last looked at */
    bool resting;       /* release.c: its work was done when last asked, or that cannot be asked */
    struct block_list unfenced;           /* deferred blocks that no fence covers yet */
    TAILQ_HEAD(fence_list, fence) fences; /* oldest first; fence_lists.c's */
    struct fence_event *spare_events;
    LIST_ENTRY(context) link;
};

/* --- context.c and visit.c --- */

/* The current context, NULL if there is none or the driver does not say. Asked again if that fails,
 * for a passing reason. Lock not held. */
CUresult context_current(struct pool *pool, CUcontext *handle);
/* The current context's record for memory of that kind, learnt if new. NULL if there is none or the
 * driver does not say. Lock not held on entry, but on return. */
struct context *context_lock_current(struct pool *pool, const struct pool_kind *kind);
/* Whether this is the first of one CUDA context's records, the one that counts where only the
 * context matters. */
bool context_is_first(const struct pool *pool, const struct context *context);
bool context_is_known(const struct pool *pool, CUcontext handle); /* and alive. Lock held */
/* Whether an error has lost a context of that handle: the driver refuses every call there. Lock
 * held. */
bool context_is_lost(const struct pool *pool, CUcontext handle);
/* Any record of the context, the same one each time; and that of its memory of one kind. NULL:
 * there is none. */
struct context *context_find(const struct pool *pool, CUcontext handle);
struct context *context_find_kind(const struct pool *pool, CUcontext handle,
                                  const struct pool_kind *kind);
/* What tells the context from any other, one under the same handle too; NULL: the current one. An
 * error may be one of earlier work, told once. */
CUresult context_ask_id(struct pool *pool, CUcontext handle, unsigned long long *id);
struct device *context_find_device(struct pool *pool, CUdevice ordinal);
/* How the device reaches plain host memory, which the host reads without a call. Calls the driver
 * and returns its error; a device that it says nothing of is taken to reach none. */
CUresult context_ask_host_access(const struct pool *pool, CUdevice ordinal,
                                 enum host_access *access);

/* Whether there may be green contexts, whose memory their primary ones own. */
bool context_has_green(const struct pool *pool);
/* created_contexts.c: where a green context is current, makes that owner current, until
 * pool_pop_device. False: it has not. Lock not held. */
bool context_push_owner(struct pool *pool);
/* Whether blocks of the context may be waiting for a fence, or for one to be made. Lock held. */
bool context_may_defer(const struct context *context);

/* What a device has idle, in bytes and in blocks. */
uint64_t device_idle(const struct device *device);
uint64_t device_idle_blocks(const struct device *device);
/* Counts so many that are no cache's. */
void device_count(struct device *device, uint64_t allocations, uint64_t hits);
/* Counts a call of that kind of memory: device memory has no counters of its own. */
void count_by_kind(enum pool_memory memory, enum stats_counter host, enum stats_counter managed);

/* How idle memory of the kind is kept. */
const struct keeper *kind_keeper(const struct pool *pool, const struct pool_kind *kind);

/* context_ends.c: nobody looks at any of them. Lock held. */
void ended_contexts_forget(struct pool *pool);
void context_destroy_sites(struct context *context); /* context_ends.c */
/* created_contexts.c. With drivers before 12.5, which tell whose memory is that they have given,
 * and not whose it would be: the current context's call has allocated this. Lock not held. */
void context_learn_by(struct pool *pool, CUdeviceptr pointer);
struct site *context_site(struct pool *pool, struct context *context, const struct call_site *key);
/* Makes `context` current for a while. Returns false, with nothing changed, if that fails twice. */
struct context_push {
    bool pushed;
};
bool context_push(struct pool *pool, CUcontext context, struct context_push *visit);
void context_pop(struct pool *pool, struct context_push *visit);
/* context_push by the thread that ends the context. */
bool context_push_ending(struct pool *pool, CUcontext context, struct context_push *visit);
/* Before the driver may end the device's primary context: nobody uses it by its handle any more.
 * _stays: it has not ended. Lock not held. */
void visits_close_primary(struct pool *pool, CUdevice ordinal);
void visits_primary_stays(struct pool *pool, CUdevice ordinal); /* Lock not held. */
/* Waits for all work that the native free would wait for. NOT_SUPPORTED: for more contexts than it
 * can, or while a stream is being captured; the block must then really be freed. Lock not held. */
CUresult context_wait(struct pool *pool, struct context *owner);

#endif
