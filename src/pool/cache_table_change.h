/* How tables of bins come and change: all is called with all caches stopped. */
#ifndef POOLCUDA_POOL_CACHE_TABLE_CHANGE_H
#define POOLCUDA_POOL_CACHE_TABLE_CHANGE_H

#include "pool/cache_table.h"

/* Whether there may be more places. */
bool cache_table_may_grow(const struct cache_table *table);
/* Makes twice as many places; an empty table's first ones. False without host memory. */
bool cache_table_grow(struct cache_table *table);
/* Copies the bin, which has a site and no blocks, to an unused place; NULL: there is none within
 * reach, or none at all. */
struct cache_bin *cache_table_add(struct cache_table *table, const struct cache_bin *bin);
/* Makes the bin unused, which has no blocks, if it is one of the last that were added. */
void cache_table_remove_late(struct cache_table *table, struct cache_bin *bin);
/* Makes the bins unused for which keeps() is false. */
void cache_table_filter(struct cache_table *table, bool (*keeps)(struct cache_bin *, void *),
                        void *data);

#endif
