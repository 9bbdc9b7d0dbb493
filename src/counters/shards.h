/* The sum of a page's counters, its devices' numbers and its shards. */
#ifndef POOLCUDA_COUNTERS_SHARDS_H
#define POOLCUDA_COUNTERS_SHARDS_H

#include "counters/page.h"

/* What the shards of one device add; of all if device is SHARDS_ALL. */
enum { SHARDS_ALL = -1 };
struct stats_sums shards_sum(const struct stats_shard *shards, int device);
/* Adds those of one shard to *sum. */
void shards_add(struct stats_sums *sum, const struct stats_shard *shard);

/* The figures of one device, by its index, with what its caches add; and the sums over those with a
 * bit in `used`. */
struct stats_figures shards_device(const struct stats_shard *shards,
                                   const struct stats_device *devices, int device);
struct stats_figures shards_devices(const struct stats_shard *shards,
                                    const struct stats_device *devices, uint32_t used);

/* What a counter's word lacks, by the sums of all shards and all devices. */
uint64_t shards_count(const struct stats_sums *sum, const struct stats_figures *all,
                      enum stats_counter counter);

/* Brings the shards and a page's devices into the counters of a copied head; or all of a copied
 * page's shards to where they belong, and empties them. */
void shards_fold_head(struct stats_head *head, const struct stats_device *devices);
void shards_fold(struct stats_page *page);

#endif
