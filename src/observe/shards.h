/* The sum of a page's counters, its devices' numbers and its shards. */
#ifndef POOLCUDA_OBSERVE_SHARDS_H
#define POOLCUDA_OBSERVE_SHARDS_H

#include "observe/page.h"

/* What the shards of one device add; of all if device is SHARDS_ALL. */
enum { SHARDS_ALL = -1 };
struct stats_sums shards_sum(const struct stats_shard *shards, int device);
/* Adds those of one shard to *sum. */
void shards_add(struct stats_sums *sum, const struct stats_shard *shard);

/* What a counter's word lacks: what the sum of all shards, and the devices with a bit in `used`,
 * add. */
uint64_t shards_count(const struct stats_sums *sum, const struct stats_device *devices,
                      uint32_t used, enum stats_counter counter);

/* Brings all of a page's shards into a copy of its head, as far as it has the figures, or into all
 * of a copied page, where the shards are emptied. */
void shards_fold_head(struct stats_head *head, const struct stats_page *page);
void shards_fold(struct stats_page *page);

#endif
