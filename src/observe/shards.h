/* The sum of a page's counters, its devices' numbers and its shards. */
#ifndef POOLCUDA_OBSERVE_SHARDS_H
#define POOLCUDA_OBSERVE_SHARDS_H

#include "observe/page.h"

/* What the shards of one device add; of all if device is SHARDS_ALL. */
enum { SHARDS_ALL = -1 };
struct stats_sums shards_sum(const struct stats_shard *shards, int device);
/* Adds those of one shard to *sum. */
void shards_add(struct stats_sums *sum, const struct stats_shard *shard);

/* What the shards add to a counter. */
uint64_t shards_count(const struct stats_sums *sum, enum stats_counter counter);

/* Brings all shards of a copied page into the counters (of a head: into these alone) and into the
 * devices' numbers, and empties them. */
void shards_fold_counters(_Atomic uint64_t *counters, const struct stats_shard *shards);
void shards_fold(struct stats_page *page);

#endif
