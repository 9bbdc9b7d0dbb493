/* What the files of the ledger share: sums below records, records below states. */
#ifndef POOLCUDA_POOL_LEDGER_PARTS_H
#define POOLCUDA_POOL_LEDGER_PARTS_H

#include "pool/internal.h"

/* Records that were made together, as many or fewer. */
enum { SLAB_LEAST = 128, SLAB_MOST = 512 };
struct record_slab {
    struct record_slab *next;
    void *memory; /* that malloc gave: it aligns to less */
    size_t count;
    struct pool_block blocks[];
};

/* ledger_sums.c. All below: lock held. */

/* The block becomes live, or is that no longer. sign is 1 or -1, in unsigned arithmetic that may
 * wrap. */
void ledger_count_live(struct pool_block *block, uint64_t sign);
/* The device has that many more blocks, or bytes: they are idle until ledger_count_live has them.
 */
void ledger_count_held(struct device *device, uint64_t blocks, uint64_t bytes);
/* The site has. */
void ledger_count_of_site(const struct site *site, uint64_t blocks, uint64_t bytes);
/* The block is there, or is no longer; sign as above. */
void ledger_count_block(const struct pool_block *block, uint64_t sign);
/* Publishes memory that is no device's. */
void ledger_publish_kind(const struct device *device);

/* ledger_gone.c. All below: lock held. */

/* Forgets an older record of an address, which is in the map no more: the driver would not have
 * given that again while its block existed. */
void ledger_forget_stale(struct pool *pool, struct pool_block *stale);
/* Leaves a small slab's as pool->spare, which has some, and returns those behind. */
struct pool_block *ledger_part_spares(struct pool *pool);

/* ledger_records.c. All below: lock held. */

/* Puts the block into the map. False without host memory. */
bool ledger_insert(struct pool *pool, struct pool_block *block);
/* Makes a record in the table, in no sums and of no state yet. NULL without host memory (counted).
 */
struct pool_block *ledger_add_record(struct pool *pool, const struct pool_block *described);

/* ledger_regions.c. All below: lock held. */

void ledger_keep_suballocation(struct pool *pool, struct pool_block *block);

#endif
