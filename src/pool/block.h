/* The pool's records: blocks, sites, contexts, devices. Everything here is guarded by the pool's
 * lock, except where a comment says otherwise. */
#ifndef POOLCUDA_POOL_BLOCK_H
#define POOLCUDA_POOL_BLOCK_H

#include "call_site.h"
#include "driver/cuda_api.h"
#include "hash_table.h"
#include "observe/stats.h"
#include "pool/address_index.h"
#include "pool/pool.h"

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct site;
struct context;

/* One driver allocation, or a suballocation where the policy cuts regions.
 * LIVE: the program owns it. WAITING: freed by the program, the wait of its free is under way.
 * DEFERRED: freed, but work that uses it may be under way: it may serve again once a fence has
 * passed.
 * IDLE: kept for reuse. GONE: its context ended, it is being freed for good, or the record is
 * unused: in no table.
 * Invariant: all but GONE blocks are in the pool's map; only IDLE ones are in their context's
 * store, or, if `cached`, in a thread's cache; only DEFERRED ones in a list of fence_lists.c.
 * asked <= size, requested <= size. requested is 0 while neither live nor waiting.
 *
 * The first cache line is all that a hit touches. */
enum block_state { BLOCK_LIVE, BLOCK_WAITING, BLOCK_DEFERRED, BLOCK_IDLE, BLOCK_GONE };

struct pool_block {
    _Alignas(128) uint64_t pointer; /* a CUdeviceptr: the key of the pool's map */
    size_t size;                    /* as asked from the driver */
    size_t requested;               /* as asked by the program */
    struct context *context;
    struct site *site;
    union {
        struct pool_block *next; /* in a bin of a cache */
        uint64_t age;            /* in a store of whole blocks: greater for those freed later */
        struct region *region;   /* policies that cut regions */
    };
    union {
        size_t asked;      /* whole blocks: the request that size was rounded up from */
        uint64_t identity; /* suballocations: the BUFFER_ID, 0 until asked for */
    };
    uint8_t state;
    bool cached;
    bool
        quick_freeable; /* cache_quick.h: LIVE, and a thread's cache may take it when it is freed */
    uint8_t taints;     /* bits of enum pool_taint: to be freed for good */
    uint16_t bin;       /* of a cache, where it was last; checked before use */
    bool in_driver_pool; /* policy async: it lies in the driver's pool */
    union {
        bool releasable; /* suballocations, while idle: the driver could have it back as it is */
        uint8_t marks;   /* of managed memory: managed.c's */
    };
    union {
        RB_ENTRY(pool_block) by_size;
        struct {
            LIST_ENTRY(pool_block) in_list; /* of fence_lists.c, or a policy's */
            CUstream freed_in;              /* DEFERRED: the stream that may have it, or NULL */
            uint32_t freed_by; /* DEFERRED: whose native free would have waited, by thread_number();
                                  0: nobody's */
        };
    };
    union {
        RB_ENTRY(pool_block) by_site_size; /* whole blocks */
        RB_ENTRY(pool_block) by_address;   /* suballocations */
    };
};
_Static_assert(offsetof(struct pool_block, by_size) == 64, "one cache line for hits");
_Static_assert(sizeof(struct pool_block) == 128, "and one for the rest");

RB_HEAD(size_tree, pool_block);
RB_HEAD(site_tree, pool_block);
LIST_HEAD(block_list, pool_block);

enum { STORE_BINS = 1024 };

/* Lists of blocks by size class. Invariant: `filled` has a bit for each list that is not empty. */
struct bins {
    struct block_list blocks[STORE_BINS];
    uint64_t filled[STORE_BINS / 64];
};

/* The idle blocks of one context, as the pool's policy keeps them. Invariant: count and bytes sum
 * them, stranded those that are not releasable; each policy uses the members that it needs, and
 * leaves the others empty. */
struct idle_store {
    size_t count, bytes;
    struct size_tree by_size;
    struct bins *bins;
    struct regions *regions;
    struct vmm *vmm;
    struct driver_pool *async;
    uint64_t clock;    /* blocks given so far: the age of the next */
    size_t unused;     /* bytes of idle memory that is in no block */
    size_t stranded;   /* bytes of idle suballocations that live ones keep from the driver */
    struct pool *pool; /* for policies that cut blocks: they change its ledger */
};

/* A call site within one context. Invariant: idle holds idle_count blocks. */
struct site {
    struct call_site key;
    uintptr_t id; /* site_id() of the key */
    struct site_tree idle;
    size_t idle_count;
    struct site_record *record;
    struct stats_site *stats;
    UT_hash_handle by_key;
};

/* A call site's stats, which outlive the contexts that it allocated in. */
struct site_record {
    struct call_site key;
    struct stats_site *stats;
    struct cache *counting; /* its thread may count in `stats` without the lock; NULL: none */
    UT_hash_handle by_key;
};

/* What calls of threads' caches have changed (cache.h): in unsigned arithmetic that may wrap. */
struct cache_sums {
#define CACHE_SUM(sum, what) uint64_t sum;
#include "observe/counters.def"
};

enum { GIVEN_UP_BITS = 6, GIVEN_UP = 1 << GIVEN_UP_BITS };

/* available.c: where a device's memory lies. */
struct device_place {
    bool unified;    /* in the host's, or the host uses it as its own */
    bool limited;    /* by a control group, under the name `region` */
    char region[32]; /* "drm/0000:01:00.0/" */
};
/* Whether the device's kernels reach plain host memory. HOST_BY_ADDRESS: what they are given the
 * address of (HMM). HOST_ALWAYS: or it has the host's page tables (ATS), or nobody is to look. */
enum host_access { HOST_NEVER, HOST_BY_ADDRESS, HOST_ALWAYS };

/* One device, by ordinal, or the ledger of a kind of memory that is no device's. Byte sums are over
 * all its contexts.
 * Invariant: live + idle = what the pool holds of it; in_use sums the requests of live, over_size
 * is the part of live by which blocks exceed their own request's rounded size. Peaks are the
 * largest values so far; the last row counts calls since the device was first used. */
struct device {
    enum pool_memory memory;
    CUdevice ordinal; /* of no device: ordinal_of_kind */
    uint64_t total;   /* bytes: cuDeviceTotalMem; of no device, config.host_memory */
    uint8_t uuid[STATS_UUID];
    uint64_t live, idle, in_use, peak_in_use, over_size;
    uint64_t peak_live, peak_held, live_blocks, idle_blocks;
    uint64_t allocations, hits, frees, oom_events, oom_rescued;
    int pressure;  /* allocations that are out of memory just now: frees then go to the driver */
    int releasing; /* blocks on their way back to the driver in some thread */
    enum host_access host_access;
    struct device_place place;
    uint64_t until_asked; /* bytes to allocate before it is asked again what is free */
    /* headroom.c: what was live and what others used, at most, when idle memory was last given up;
     * crowded: it has been. */
    uint64_t crowd_live, crowd_others;
    bool crowded;
    uint64_t given_up[GIVEN_UP]; /* bounds.h: by size */
    /* bounds.c: the least idle bytes since period_began (nanoseconds, 0: never yet); the changes
     * when the clock was last looked at. */
    uint64_t least_idle, period_began, looked;
    /* history.c: how many samples there are, the nanoseconds
     * that each stands for, and what was held at the last one and in the map. NULL: what is no
     * device has none. */
    struct stats_device *stats;
    uint32_t samples;
    uint64_t interval, changes, noted, noted_held, mapped_held;
    struct stats_sums published; /* what caches themselves have published */
    struct address_index index;  /* of its blocks, if the pool is indexed */
    _Atomic uint64_t
        renewed_ns; /* cache_stop.c, without the lock: when a call last went the long way */
    LIST_ENTRY(device) link;
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
    const struct policy *policy; /* for memory of that kind */
    CUdevice ordinal;            /* of the context's own device */
    struct device *device;       /* whose ledger counts its memory: see ordinal_of_kind */
    unsigned long long id;       /* cuCtxGetId; 0: the driver has none (before CUDA 12) */
    bool ended;
    /* Both are looked at together. releases: of its device's primary context, which are under way:
     * it may have ended. */
    unsigned broken : 1; /* by a sticky error: everything passes through */
    unsigned releases : 31;
    bool created; /* by cuCtxCreate and the like; else it is its device's primary context */
    uint64_t live_blocks;
    struct pool_block *sentinel; /* cache_stop.c: one of its blocks; NULL: none is known */
    bool frees_quickly; /* cache_stop.c: whether caches may serve frees, when last looked at */
    struct idle_store store;
    struct site *sites; /* uthash by key */
    CUevent event;      /* to ask whether the context is idle; NULL until needed */
    bool event_pending; /* it was recorded and had not completed when last looked at */
    bool
        resting; /* release.c: whether its work was done when last asked, or that cannot be asked */
    struct block_list unfenced;           /* deferred blocks that no fence covers yet */
    TAILQ_HEAD(fence_list, fence) fences; /* oldest first; fence_lists.c's */
    struct fence_event *spare_events;
    LIST_ENTRY(context) link;
};

#endif
