/* Records of blocks, and what keepers of idle ones know: sites and stores. Everything here is
 * guarded by the pool's lock, except where a comment says otherwise. */
#ifndef POOLCUDA_BLOCKS_BLOCK_H
#define POOLCUDA_BLOCKS_BLOCK_H

#include "base/call_site.h"
#include "base/hash.h"

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct site;
struct context;
struct stats_site;
struct CUstream_st; /* a CUstream points to it */

/* One driver allocation, or a suballocation where the keeper cuts regions.
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
        struct region *region;   /* keepers that cut regions */
    };
    union {
        size_t asked;      /* whole blocks: the request that size was rounded up from */
        uint64_t identity; /* suballocations: the BUFFER_ID, 0 until asked for */
    };
    uint8_t state;
    bool cached;
    bool quick_freeable; /* quick.c: LIVE, and a thread's cache may take it when it is freed */
    uint8_t taints;      /* bits of enum pool_taint: to be freed for good */
    union {
        uint16_t bin; /* of a cache, where it was last; checked before use */
        uint8_t bar;  /* mapped memory, while idle: the strictest of its chunks' enum chunk_bar */
    };
    bool in_driver_pool; /* policy async: it lies in the driver's pool */
    union {
        bool releasable; /* suballocations, while idle: the driver could have it back as it is */
        uint8_t marks;   /* of managed memory: managed.c's */
    };
    union {
        RB_ENTRY(pool_block) by_size;
        struct {
            LIST_ENTRY(pool_block) in_list; /* of fence_lists.c, or a keeper's */
            struct CUstream_st *freed_in;   /* DEFERRED: the stream that may have it, or NULL */
            uint32_t freed_by; /* DEFERRED: whose native free would have waited, by thread_number();
                                  0: nobody's */
        };
        struct {
            struct pool_block *next_leaving; /* GONE, on its way back to the driver: a list */
            bool refused;                    /* which has not taken it */
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

/* The idle blocks of one context, as its keeper keeps them. Invariant: count and bytes sum
 * them, stranded those that are not releasable; each keeper uses the members that it needs, and
 * leaves the others empty. */
struct idle_store {
    size_t count, bytes;
    struct size_tree by_size;
    struct bins *bins;
    struct regions *regions;
    struct block_list leaving; /* blocks that are not to be kept */
    uint64_t clock;            /* blocks given so far: the age of the next */
    size_t unused;             /* bytes of idle memory that is in no block */
    size_t stranded; /* bytes of idle suballocations that live ones keep from the driver */
};

/* A call site within one context. Invariant: idle holds idle_count blocks. */
struct site {
    struct call_site key;
    uintptr_t id; /* site_id() of the key */
    struct site_tree idle;
    size_t idle_count;
    size_t largest_missed; /* of the sizes that nothing idle has served */
    /* The smallest of them, if the first was the largest: the site's sizes only fall. Else 0, which
     * no request is smaller than. */
    size_t least_missed;
    uint64_t hits_before; /* the site's by its last miss */
    unsigned growing;     /* so many misses in a row were each for the largest size so far */
    struct site_record *record;
    struct stats_site *stats;
    UT_hash_handle by_key;
};

#endif
