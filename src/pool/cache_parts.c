/* The steps that all files of caches take: finding and listing bins, taking and keeping blocks,
 * counting. Hits and frees take them, too. */
#include "pool/cache_parts.h"

#include "base/placed.h"

#include <stdlib.h>

PLACED struct cache_bin *cache_table_home(const struct cache_table *table, uintptr_t id,
                                          size_t size) {
    return (struct cache_bin *)((char *)table->bins + (hash_word(id ^ size) >> 26 & table->mask));
}

PLACED struct cache_bin *cache_table_beside(const struct cache_bin *bin) {
    return (struct cache_bin *)((uintptr_t)bin ^ sizeof *bin);
}

struct cache_bin *cache_table_at(const struct cache_table *table, unsigned at) {
    return &table->bins[table->used[at]];
}

PLACED bool cache_bin_is(const struct cache_bin *bin, uintptr_t id, size_t size) {
    return bin->id == id && bin->size == size;
}

PLACED struct cache_bin *cache_table_find_near(const struct cache_table *table, uintptr_t id,
                                               size_t size) {
    struct cache_bin *bin = cache_table_home(table, id, size);
    if (__builtin_expect(!cache_bin_is(bin, id, size), 0)) {
        bin = cache_table_beside(bin);
        if (!cache_bin_is(bin, id, size))
            return NULL;
    }
    return bin;
}

PLACED bool cache_table_spills(const struct cache_bin *home) {
    return ((const struct cache_bin *)((uintptr_t)home & ~sizeof *home))->spills;
}

struct cache_bin *cache_table_reach(const struct cache_table *table, const struct cache_bin *home,
                                    unsigned i) {
    return &table->bins[(((unsigned)(home - table->bins) & ~1u) + i) & (table->count - 1)];
}

struct cache_bin *cache_table_find_far(const struct cache_table *table, uintptr_t id, size_t size) {
    const struct cache_bin *home = cache_table_home(table, id, size);
    for (unsigned i = 2; i < CACHE_REACH; i++)
        if (cache_bin_is(cache_table_reach(table, home, i), id, size))
            return cache_table_reach(table, home, i);
    return NULL;
}

struct cache_bin *cache_table_find(const struct cache_table *table, uintptr_t id, size_t size) {
    struct cache_bin *bin = cache_table_find_near(table, id, size);
    bool far = !bin && cache_table_spills(cache_table_home(table, id, size));
    return far ? cache_table_find_far(table, id, size) : bin;
}

unsigned cache_class(size_t size) {
    size_t units = size / ROUND_SMALL;
    unsigned bits = 64 - (unsigned)__builtin_clzll(units | 1);
    unsigned octave = bits > CACHE_CLASS_BITS + 1 ? bits - CACHE_CLASS_BITS - 1 : 0;
    size_t class = ((size_t)octave << CACHE_CLASS_BITS) + (units >> octave);
    return class < CACHE_CLASSES ? (unsigned)class : CACHE_CLASSES - 1;
}

PLACED void cache_table_list(struct cache_table *table, struct cache_bin *bin) {
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

unsigned cache_table_next_class(const struct cache_table *table, unsigned class, unsigned last) {
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

bool cache_table_reaches(const struct cache_table *table, size_t size) {
    return size <= table->most &&
           cache_table_next_class(table, cache_class(size), CACHE_CLASSES - 1) < CACHE_CLASSES;
}

void cache_merge_counts(struct cache_bin *bin) {
    lock_check_held(LOCK_POOL);
    if (bin->stats == bin->site->stats)
        return;
    bin->seen_hits -= (uint32_t)stats_read(&bin->stats->hits);
    stats_site_merge(bin->site->stats, bin->stats);
}

PLACED bool cache_try_lock(struct cache *cache) {
    return !atomic_exchange_explicit(&cache->lock, 1, memory_order_acquire);
}

void cache_check_locked(const struct cache *cache) {
#ifdef POOLCUDA_CHECK_LOCKS
    if (!atomic_load_explicit(&cache->lock, memory_order_relaxed))
        abort();
#else
    (void)cache;
#endif
}

PLACED void cache_unlock(struct cache *cache) {
    atomic_store_explicit(&cache->lock, 0, memory_order_release);
}

uint64_t cache_stamp(const struct cache *cache) {
    return cache->stops + cache->sums[SUM_frees];
}

PLACED uintptr_t cache_key(const struct pool *pool, CUcontext handle) {
    return (uintptr_t)handle ^ (uintptr_t)pool;
}

PLACED struct pool_block *cache_pop(struct cache_bin *bin) {
    struct pool_block *block = bin->head;
    bin->head = block->next;
    block->cached = false;
    return block;
}

PLACED void cache_push_listed(struct cache_bin *bin, struct pool_block *block) {
    block->next = bin->head;
    block->state = BLOCK_IDLE;
    block->cached = true;
    bin->head = block;
}

void cache_push(struct cache *cache, struct cache_bin *bin, struct pool_block *block) {
    cache_table_list(&cache->table, bin);
    cache_push_listed(bin, block);
}

PLACED void cache_note_bin(const struct cache *cache, const struct cache_bin *bin,
                           struct pool_block *block) {
    block->bin = (uint16_t)(bin - cache->table.bins);
}

PLACED void cache_count(struct cache *cache, enum stats_sum sum, uint64_t more) {
    cache->sums[sum] += more;
    stats_grow(&cache->shard->sums[sum], more);
}

PLACED void cache_count_growth(struct cache *cache, struct stats_site *site, size_t bytes,
                               size_t size) {
    stats_grow(&site->allocated_bytes, bytes);
    stats_grow(&site->live_blocks, 1);
    stats_grow(&site->live_bytes, size);
    stats_raise(&site->peak_live_bytes, &site->live_bytes);
    cache_count(cache, SUM_in_use, bytes);
    cache_count(cache, SUM_live, size);
    if ((int64_t)cache->sums[SUM_in_use] > (int64_t)cache->peak_in_use)
        cache->peak_in_use = cache->sums[SUM_in_use];
    if ((int64_t)cache->sums[SUM_live] > (int64_t)cache->peak_live)
        cache->peak_live = cache->sums[SUM_live];
}

PLACED void cache_make_live(struct pool_block *block, size_t bytes) {
    block->state = BLOCK_LIVE;
    block->quick_freeable = true;
    block->taints = 0; /* they are 0 already: but so `state` to `taints` are one store */
    block->requested = bytes;
}

PLACED void cache_count_hit(struct cache *cache, const struct cache_bin *bin, size_t bytes,
                            size_t size) {
    stats_grow(&bin->stats->hits, 1);
    cache_count(cache, SUM_hits, 1);
    cache_count_growth(cache, bin->stats, bytes, size);
}

PLACED bool cache_claim(struct pool_block *block) {
    return __atomic_exchange_n(&block->quick_freeable, false, __ATOMIC_ACQUIRE);
}

PLACED void cache_count_free(struct cache *cache, const struct cache_bin *bin, size_t bytes) {
    struct stats_site *site = bin->stats;
    size_t size = bin->size;
    stats_grow(&site->live_blocks, (uint64_t)-1);
    stats_grow(&site->live_bytes, 0 - size);
    __atomic_store_n(&cache->sums[SUM_frees], cache->sums[SUM_frees] + 1,
                     __ATOMIC_RELAXED); /* others look */
    stats_grow(&cache->shard->sums[SUM_frees], 1);
    cache_count(cache, SUM_in_use, 0 - bytes);
    cache_count(cache, SUM_live, 0 - size);
    if (__builtin_expect(size - bytes >= ROUND_SMALL, 0)) { /* else the block is no larger */
        cache->sums[SUM_over] -= size - round_physical(bytes);
        stats_site_serves(bin->site->stats, round_physical(bytes));
    }
}

struct cache_bin *cache_find_bin_for(struct cache *cache, struct pool_block *block) {
    cache_check_locked(cache);
    struct cache_bin *bin = cache_table_find(&cache->table, block->site->id, block->size);
    if (!bin || bin->site != block->site)
        return NULL;
    cache_note_bin(cache, bin, block);
    cache_table_list(&cache->table, bin);
    return bin;
}

PLACED struct cache_bin *cache_bin_of(struct cache *cache, struct pool_block *block, bool whole) {
    cache_check_locked(cache);
    struct cache_table *table = &cache->table;
    struct cache_bin *bin =
        (struct cache_bin *)((char *)table->bins + (block->bin * sizeof *bin & table->mask));
    if (__builtin_expect(bin->listed == block->site && bin->size == block->size, 1))
        return bin;
    if (bin->site != block->site || bin->size != block->size) {
        if (whole)
            return cache_find_bin_for(cache, block);
        bin = cache_table_find_near(table, block->site->id, block->size);
        if (!bin || bin->site != block->site)
            return NULL;
        cache_note_bin(cache, bin, block);
    }
    return bin;
}
