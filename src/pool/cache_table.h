/* The bins of one thread's cache, by site and size: a hash table that grows with the program. */
#ifndef POOLCUDA_POOL_CACHE_TABLE_H
#define POOLCUDA_POOL_CACHE_TABLE_H

#include "pool/context.h"

/* The idle blocks of one site and size, whatever the sizes of the requests that they have served.
 * Unused while site is NULL.
 * Invariant: `head` is a list through `next`; its blocks have that size and that site. */
struct cache_bin {
    _Alignas(64) uintptr_t id; /* site_id() of the site */
    size_t size;
    struct pool_block *head;
    struct site *site;
    struct stats_site *stats; /* the site's own, if its record has us `counting`; else ours */
    uint32_t seen_hits; /* hits of stats, when somebody last asked whether the bin is at rest */
    uint32_t along;     /* how many were taken of another site's bin at once, the last time */
};
_Static_assert(sizeof(struct cache_bin) == 64, "a cache line of its own");

/* Bins are found under the cache's lock, and change places only while all caches are stopped.
 * Invariant: `bins` has `count` entries, a power of two, and mask is the offset in bytes of the
 * last; `used` lists those with a site, those of smaller blocks first; all lie within reach of
 * where their hash points, `displaced` of them not in the pair there. */
struct cache_table {
    struct cache_bin *bins;
    size_t mask;
    unsigned count, used_count, displaced;
    uint16_t *used;
    void *memory; /* of both, as malloc gave it */
};

static inline uint64_t cache_mix(uint64_t word) {
    return word * 0x9e3779b97f4a7c15u;
}

/* Where the bin is, mostly. */
static inline struct cache_bin *cache_table_home(const struct cache_table *table, uintptr_t id,
                                                 size_t size) {
    return (struct cache_bin *)((char *)table->bins + (cache_mix(id ^ size) >> 26 & table->mask));
}

/* The other one of the pair. */
static inline struct cache_bin *cache_table_beside(const struct cache_bin *bin) {
    return (struct cache_bin *)((uintptr_t)bin ^ sizeof *bin);
}

/* Number `at`, below used_count, of those with a site: by their blocks' sizes. */
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

/* Looks in the whole table. NULL: there is none. */
struct cache_bin *cache_table_find(const struct cache_table *table, uintptr_t id, size_t size);

/* All functions below are called with all caches stopped. */

/* False without host memory. */
bool cache_table_init(struct cache_table *table);
/* Whether there may be more places. */
bool cache_table_may_grow(const struct cache_table *table);
/* Makes twice as many places. False without host memory. */
bool cache_table_grow(struct cache_table *table);
/* Copies the bin, which has a site, to an unused place; NULL: there is none within reach. */
struct cache_bin *cache_table_add(struct cache_table *table, const struct cache_bin *bin);
/* Makes the bins unused for which keeps() is false. */
void cache_table_filter(struct cache_table *table, bool (*keeps)(struct cache_bin *, void *),
                        void *data);
/* The first in `used` whose blocks have at least that size: used_count if there is none. */
unsigned cache_table_from(const struct cache_table *table, size_t size);
/* For tests: whether the invariant holds. */
bool cache_table_is_valid(const struct cache_table *table);

#endif
