/* Records of blocks, and the sums over them (ledger*.c). */
#ifndef POOLCUDA_POOL_LEDGER_H
#define POOLCUDA_POOL_LEDGER_H

#include "pool/context.h"

struct region;
struct record_slab;

/* A place among the records of blocks. A zeroed one is before all of them. */
struct ledger_place {
    struct record_slab *slab;
    size_t index;
    bool begun;
};

/* All below: lock held. */

/* The block at exactly this address. */
struct pool_block *ledger_find(const struct pool *pool, CUdeviceptr pointer);
/* Whether cuMemFree would do less for the block than for what cuMemAlloc gives. */
bool is_suballocation(const struct pool_block *block);
/* A request that is served from idle memory, or freed, for the least of its site: as the driver
 * would have rounded it, whatever the pool asks for in its place. */
void ledger_note_size(const struct context *context, const struct site *site, size_t bytes);
/* A new LIVE block in the table. NULL without host memory (counted). An older record of the same
 * address goes. */
struct pool_block *ledger_add(struct pool *pool, struct context *context, struct site *site,
                              CUdeviceptr pointer, size_t size, size_t requested);
/* All blocks of the table, in no order: begin with a zeroed place; NULL: no more. What it returned
 * may be removed. */
struct pool_block *ledger_next(const struct pool *pool, struct ledger_place *place);
/* Has all blocks of the table, now and later, in the index by address. False without host memory.
 */
bool ledger_index(struct pool *pool);
/* The record at the place, which moves on and begins anew behind the last. NULL: it is unused. */
struct pool_block *ledger_look(const struct pool *pool, struct ledger_place *place);
/* Puts live blocks that a cache has made, linked through `next`, into the table: they are in the
 * sums already. Without host memory they leave them. */
void ledger_adopt(struct pool *pool, struct pool_block *fresh);
/* Some unused records, linked through `next`, nothing else of which is set; NULL without host
 * memory.
 */
struct pool_block *ledger_take_records(struct pool *pool);
/* Adds a region that a policy is to cut: an idle block that is kept nowhere yet. */
struct pool_block *ledger_add_region(struct pool *pool, struct context *context, struct site *site,
                                     CUdeviceptr pointer, size_t size);
/* Cuts an idle block to `size` bytes; returns the rest, an idle block that is kept nowhere yet, or
 * NULL without host memory. ledger_coalesce undoes it: `next`, which follows in memory, is gone. */
struct pool_block *ledger_split(struct pool *pool, struct pool_block *block, size_t size);
void ledger_coalesce(struct pool *pool, struct pool_block *block, struct pool_block *next);
/* The driver has given addresses of the region again: all of it is gone without our knowledge. */
void ledger_forget_region(struct pool *pool, struct idle_store *store, struct region *region);
/* Puts an idle block that is kept nowhere into its store, merged with what belongs to it. */
void ledger_keep(struct pool *pool, struct pool_block *block);
/* Takes the block out of the table and all sums; the record stays valid, GONE, until
 * ledger_recycle. */
void ledger_remove(struct pool *pool, struct pool_block *block);
/* The same without a note in the history. */
void ledger_remove_unnoted(struct pool *pool, struct pool_block *block);
void ledger_recycle(struct pool *pool, struct pool_block *block);
/* Puts the block back into table and sums in the state given, after ledger_remove. Recycles it if
 * that cannot be done. */
void ledger_restore(struct pool *pool, struct pool_block *block, enum block_state state);
/* A live block is freed: no longer live, and idle (ledger_make_idle) or to be put into a list of
 * fence_lists.c's (ledger_make_deferred), from which ledger_end_deferral brings it to the idle
 * ones. */
void ledger_make_idle(struct pool *pool, struct pool_block *block);
void ledger_make_deferred(struct pool *pool, struct pool_block *block);
void ledger_end_deferral(struct pool *pool, struct pool_block *block);
/* Takes an idle or deferred block out of where it is kept; its state stays. */
void ledger_take_out(struct pool *pool, struct pool_block *block);
/* Makes an idle block, already taken out of the idle blocks, live for `site`. */
void ledger_make_live(struct pool *pool, struct pool_block *block, struct site *site,
                      size_t requested);
/* Idle memory that is in no block grows by `change` bytes, in unsigned arithmetic that may wrap. */
void ledger_count_unused(struct pool *pool, struct context *context, size_t change);
/* Sets the state to LIVE or WAITING, for changes that no other function of the ledger makes. */
void ledger_set_state(struct pool_block *block, enum block_state state);
/* Raises the device's and the pool's peaks to what the figures are: to be called before the
 * device's are grown by a cache's, which at its most had so much more in use and live, and took so
 * much more of what was idle. */
void ledger_note_peaks(struct pool *pool, struct device *device, uint64_t in_use, uint64_t live,
                       uint64_t taken);
/* To be called after a change, or several that are one: notes peaks and the history. */
void ledger_publish(struct pool *pool, struct device *device);
/* How a device's memory was over time, for the report. To be called after the device's sums have
 * changed: looks at the clock only now and then; _sample: at once. */
void history_note(struct device *device);
void history_sample(struct device *device);
void ledger_destroy_records(struct pool *pool);

#endif
