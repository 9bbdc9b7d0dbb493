/* The bins of one thread's cache, by site and size: a hash table that grows with the program. */
#ifndef POOLCUDA_POOL_CACHE_TABLE_H
#define POOLCUDA_POOL_CACHE_TABLE_H

#include "base/lock.h"
#include "base/sizes.h"
#include "pool/context.h"

enum {
    CACHE_CLASSES = 512,
    CACHE_CLASS_BITS = 4, /* of a size, below its highest one, that tell classes apart */
    CACHE_NO_BIN = 0xffff
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
static inline struct cache_bin *cache_table_home(const struct cache_table *table, uintptr_t id,
                                                 size_t size) {
    return (struct cache_bin *)((char *)table->bins + (hash_word(id ^ size) >> 26 & table->mask));
}

/* The other one of the pair. */
static inline struct cache_bin *cache_table_beside(const struct cache_bin *bin) {
    return (struct cache_bin *)((uintptr_t)bin ^ sizeof *bin);
}

/* Number `at`, below used_count, of those with a site. */
static inline struct cache_bin *cache_table_at(const struct cache_table *table, unsigned at) {
    return &table->bins[table->used[at]];
}

static inline bool cache_bin_is(const struct cache_bin *bin, uintptr_t id, size_t size) {
    return bin->id == id && bin->size == size;
}

/* The bin for requests of that size if it is in the pair where its hash points, else NULL. */
static inline struct cache_bin *cache_table_find_near(const struct cache_table *table, uintptr_t id,
                                                      size_t size) {
    struct cache_bin *bin = cache_table_home(table, id, size);
    if (__builtin_expect(!cache_bin_is(bin, id, size), 0)) {
        bin = cache_table_beside(bin);
        if (!cache_bin_is(bin, id, size))
            return NULL;
    }
    return bin;
}

/* Whether bins may lie farther away whose hashes point to this pair. */
static inline bool cache_table_spills(const struct cache_bin *home) {
    return ((const struct cache_bin *)((uintptr_t)home & ~sizeof *home))->spills;
}

/* The bin if it is not in the pair where its hash points, else NULL. */
struct cache_bin *cache_table_find_far(const struct cache_table *table, uintptr_t id, size_t size);

/* Looks in the whole table. NULL: there is none. */
static inline struct cache_bin *cache_table_find(const struct cache_table *table, uintptr_t id,
                                                 size_t size) {
    struct cache_bin *bin = cache_table_find_near(table, id, size);
    bool far = !bin && cache_table_spills(cache_table_home(table, id, size));
    return far ? cache_table_find_far(table, id, size) : bin;
}

/* So many classes for each power of two, and one for all sizes beyond the last. */
static inline unsigned cache_class(size_t size) {
    size_t units = size / ROUND_SMALL;
    unsigned bits = 64 - (unsigned)__builtin_clzll(units | 1);
    unsigned octave = bits > CACHE_CLASS_BITS + 1 ? bits - CACHE_CLASS_BITS - 1 : 0;
    size_t class = ((size_t)octave << CACHE_CLASS_BITS) + (units >> octave);
    return class < CACHE_CLASSES ? (unsigned)class : CACHE_CLASSES - 1;
}

/* To be called before a bin of the table that may not be listed is given a block. In each file that
 * calls it, since the compiler sees there which registers it leaves alone (cache_quick.h). */
__attribute__((noinline, unused)) static void cache_table_list(struct cache_table *table,
                                                               struct cache_bin *bin) {
    if (bin->listed)
        return;
    unsigned class = bin->class;
    uint64_t bit = (uint64_t)1 << class % 64;
    uint16_t *link = &table->first[class];
    if (!(table->classes[class / 64] & bit))
        *link = CACHE_NO_BIN;
    table->classes[class / 64] |= bit;
    while (*link != CACHE_NO_BIN && table->bins[*link].size < bin->size)
        link = &table->bins[*link].next;
    bin->next = *link;
    *link = (uint16_t)(bin - table->bins);
    bin->listed = bin->site;
    table->most = bin->size > table->most ? bin->size : table->most;
}

/* The first class from that on, and up to `last`, that has a list; last + 1: there is none. */
static inline unsigned cache_table_next_class(const struct cache_table *table, unsigned class,
                                              unsigned last) {
    while (class <= last) {
        uint64_t bits = table->classes[class / 64] >> class % 64;
        if (bits) {
            class += (unsigned)__builtin_ctzll(bits);
            break;
        }
        class = (class / 64 + 1) * 64;
    }
    return class <= last ? class : last + 1;
}

/* Whether a listed bin may have blocks of at least that size. */
static inline bool cache_table_reaches(const struct cache_table *table, size_t size) {
    return size <= table->most &&
           cache_table_next_class(table, cache_class(size), CACHE_CLASSES - 1) < CACHE_CLASSES;
}

/* Adds to the site what the bin has counted apart. Lock held. */
static inline void cache_merge_counts(struct cache_bin *bin) {
    lock_check_held(LOCK_POOL);
    if (bin->stats == bin->site->stats)
        return;
    bin->seen_hits -= (uint32_t)stats_read(&bin->stats->hits);
    stats_site_merge(bin->site->stats, bin->stats);
}

/* The first bin with a block of at least the size, whose class that is, and a walk's next bin with
 * a block. NULL: there is none, or the walk has no tries left. */
struct cache_bin *cache_table_first(struct cache_table *table, unsigned class, size_t size);
struct cache_bin *cache_table_walk(struct cache_table *table, struct cache_walk *walk);
/* The bin with the largest blocks; NULL: no bin has any. *alike: whether another has such, too. */
struct cache_bin *cache_table_largest(struct cache_table *table, bool *alike);

/* For tests: whether the invariant holds. */
bool cache_table_is_valid(const struct cache_table *table);

#endif
