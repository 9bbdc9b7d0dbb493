/* The sum of a page's counters, its devices' numbers and its shards. */
#ifndef POOLCUDA_OBSERVE_SHARDS_H
#define POOLCUDA_OBSERVE_SHARDS_H

#include "observe/page.h"

/* What the shards of one device add; of all if device is SHARDS_ALL. */
struct shards_sum {
    uint64_t hits, frees, fresh, held, in_use, live;
};
enum { SHARDS_ALL = -1 };
struct shards_sum shards_sum(const struct stats_shard *shards, int device);

/* What the shards add to a counter. */
uint64_t shards_count(const struct shards_sum *sum, enum stats_counter counter);

/* Brings all shards of a copied page into the counters (of a head: into these alone) and into the
 * devices' numbers, and empties them. */
void shards_fold_counters(_Atomic uint64_t *counters, const struct stats_shard *shards);
void shards_fold(struct stats_page *page);

#endif
