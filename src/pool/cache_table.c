#include "pool/cache_table_change.h"

#include <stdlib.h>

bool cache_table_init(struct cache_table *table, unsigned count) {
    enum { ALIGNMENT = 2 * sizeof(struct cache_bin) };
    size_t bytes = count * (sizeof *table->bins + sizeof *table->used);
    char *memory = calloc(1, bytes + ALIGNMENT);
    if (!memory)
        return false;
    char *aligned = memory + ALIGNMENT - (uintptr_t)memory % ALIGNMENT;
    *table = (struct cache_table){.bins = (struct cache_bin *)(void *)aligned,
                                  .mask = (count - 1) * sizeof *table->bins,
                                  .count = count,
                                  .memory = memory};
    table->used = (uint16_t *)(void *)(table->bins + count);
    return true;
}

bool cache_table_reaches(const struct cache_table *table, size_t size) {
    return size <= table->most &&
           cache_table_next_class(table, cache_class(size), CACHE_CLASSES - 1) < CACHE_CLASSES;
}

/* Adds to the site's what the bin has counted apart, and sets that to zero. */
static void merge_count(_Atomic uint64_t *of_site, _Atomic uint64_t *apart) {
    stats_grow(of_site, stats_read(apart));
    *apart = 0;
}

void cache_merge_counts(struct cache_bin *bin) {
    lock_check_held(LOCK_POOL);
    if (bin->stats == bin->site->stats)
        return;
    struct stats_site *own = bin->stats, *site = bin->site->stats;
    uint64_t before = stats_read(&site->live_bytes);
    bin->seen_hits -= (uint32_t)stats_read(&own->hits);
    merge_count(&site->hits, &own->hits);
    merge_count(&site->allocated_bytes, &own->allocated_bytes);
    merge_count(&site->live_blocks, &own->live_blocks);
    merge_count(&site->live_bytes, &own->live_bytes);
    merge_count(&site->held_blocks, &own->held_blocks);
    merge_count(&site->held_bytes, &own->held_bytes);
    uint64_t peak = before + stats_read(&own->peak_live_bytes);
    own->peak_live_bytes = 0;
    if ((int64_t)(peak - stats_read(&site->peak_live_bytes)) > 0)
        site->peak_live_bytes = peak;
}
