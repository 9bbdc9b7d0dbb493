/* The bins of one thread's cache, by site and size: a hash table that grows with the program. */
#ifndef POOLCUDA_POOL_CACHE_TABLE_H
#define POOLCUDA_POOL_CACHE_TABLE_H

#include "base/lock.h"
#include "base/sizes.h"
#include "pool/context.h"

enum {
    CACHE_CLASSES = 512,
    CACHE_CLASS_BITS = 4, /* of a size, below its highest one, that tell classes apart */
    CACHE_NO_BIN = 0xffff,
    /* Places that are looked at for a bin, the pair among them: so wherever others are removed,
     * nothing has to move up. */
    CACHE_REACH = 16
};

/* The idle blocks of one site and size, whatever the sizes of the requests that they have served.
 * Unused while site is NULL.
 * Invariant: `head` is a list through `next`; its blocks have that size and that site; only a
 * listed bin has blocks. */
struct cache_bin {
    _Alignas(64) uintptr_t id; /* site_id() of the site */
    size_t size;
    struct pool_block *head;
    struct site *site;
    struct site *listed;      /* the site if the bin is in its class's list, else NULL */
    struct stats_site *stats; /* the site's own, if its record has us `counting`; else ours */
    uint32_t seen_hits;   /* hits of stats, when somebody last asked whether the bin is at rest */
    uint16_t along;       /* how many were taken of another site's bin at once, the last time */
    uint16_t next, class; /* place of the next in the class's list, or CACHE_NO_BIN; the class */
    bool spills; /* of the first of a pair: bins may lie farther away whose hashes point here */
};
_Static_assert(sizeof(struct cache_bin) == 64, "a cache line of its own");

/* Bins are found under the cache's lock, and change places only while all caches are stopped.
 * Invariant: `bins` has `count` entries, a power of two, and mask is the offset in bytes of the
 * last; `used` has the places of those with a site; all lie within reach of where their hash
 * points, `displaced` of them not in the pair there. Bins that may have blocks are listed by
 * classes of sizes, smaller ones first: `first` is the place of a class's first one where its bit
 * is set in `classes`; none is of more than `most` bytes. A bin whose last block is taken stays
 * listed until a walk comes by. */
struct cache_table {
    struct cache_bin *bins;
    size_t mask;
    unsigned count, used_count, displaced;
    uint16_t *used;
    void *memory; /* of both, as malloc gave it; NULL: the table has no place for a bin yet */
    size_t most;
    uint64_t classes[CACHE_CLASSES / 64];
    uint16_t first[CACHE_CLASSES];
};

/* A table without any bin. */
extern const struct cache_table cache_table_empty;

/* A walk along the bins with blocks of at least `least` and at most `most` bytes, which may shrink
 * between two steps, the smallest first. tries: bins that may still be looked at, besides those
 * that are too small, which lie in the first class and hide no larger one. The rest is the walk's
 * own. */
struct cache_walk {
    size_t least, most;
    unsigned tries;
    unsigned class;
    uint16_t *link;
};

/* Where the bin is, mostly. */
struct cache_bin *cache_table_home(const struct cache_table *table, uintptr_t id, size_t size);

/* The other one of the pair. */
struct cache_bin *cache_table_beside(const struct cache_bin *bin);

/* Number `at`, below used_count, of those with a site. */
struct cache_bin *cache_table_at(const struct cache_table *table, unsigned at);

bool cache_bin_is(const struct cache_bin *bin, uintptr_t id, size_t size);

/* The bin for requests of that size if it is in the pair where its hash points, else NULL. */
struct cache_bin *cache_table_find_near(const struct cache_table *table, uintptr_t id, size_t size);

/* Whether bins may lie farther away whose hashes point to this pair. */
bool cache_table_spills(const struct cache_bin *home);

/* Place number i, below CACHE_REACH, for a bin whose hash points there. */
struct cache_bin *cache_table_reach(const struct cache_table *table, const struct cache_bin *home,
                                    unsigned i);
/* The bin if it is not in the pair where its hash points, else NULL. */
struct cache_bin *cache_table_find_far(const struct cache_table *table, uintptr_t id, size_t size);

/* Looks in the whole table. NULL: there is none. */
struct cache_bin *cache_table_find(const struct cache_table *table, uintptr_t id, size_t size);

/* So many classes for each power of two, and one for all sizes beyond the last. */
unsigned cache_class(size_t size);

/* To be called before a bin of the table that may not be listed is given a block. */
void cache_table_list(struct cache_table *table, struct cache_bin *bin);

/* The first class from that on, and up to `last`, that has a list; last + 1: there is none. */
unsigned cache_table_next_class(const struct cache_table *table, unsigned class, unsigned last);

/* Whether a listed bin may have blocks of at least that size. */
bool cache_table_reaches(const struct cache_table *table, size_t size);

/* Adds to the site what the bin has counted apart. Lock held. */
void cache_merge_counts(struct cache_bin *bin);

/* The first bin with a block of at least the size, whose class that is, and a walk's next bin with
 * a block. NULL: there is none, or the walk has no tries left. */
struct cache_bin *cache_table_first(struct cache_table *table, unsigned class, size_t size);
struct cache_bin *cache_table_walk(struct cache_table *table, struct cache_walk *walk);
/* The bin with the largest blocks; NULL: no bin has any. *alike: whether another has such, too. */
struct cache_bin *cache_table_largest(struct cache_table *table, bool *alike);

/* For tests: whether the invariant holds. */
bool cache_table_is_valid(const struct cache_table *table);

#endif
