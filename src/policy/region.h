/* Regions: ranges of device memory obtained at once and cut into blocks. What the policies `bfc`
 * and `vmm` share: finding, splitting, merging. Every operation is O(log n) in the blocks of the
 * store.
 *
 * Idle neighbours are merged at once, so no two idle blocks of a region touch, but where whole
 * pages meet a part of one (vmm: only whole pages can be unmapped). A region whose blocks the
 * driver keeps state in for others (taint) serves no request any more: it goes back as soon as all
 * of it is idle. */
#ifndef POOLCUDA_POLICY_REGION_H
#define POOLCUDA_POLICY_REGION_H

#include "policy/policy.h"

enum { REGION_BINS = 21, REGION_SMALLEST_BIN = 256 };

RB_HEAD(address_tree, pool_block);
RB_HEAD(base_tree, region);
RB_HEAD(region_size_tree, region);

/* Invariant: blocks, in the order of their addresses, cover [base, base + size) without a gap.
 * In the store's idle_regions if and only if its one block is idle and it is not tainted. */
struct region {
    uint64_t base; /* a CUdeviceptr */
    struct reservation
        *reservation; /* vmm: whose pages these are, NULL: an allocation of its own */
    size_t size;
    struct address_tree blocks;
    size_t block_count;
    bool tainted;
    bool in_idle_regions, condemned;
    RB_ENTRY(region) by_base, by_size;
};

/* The regions of one store. Invariant: every idle block of an untainted region is in the bin of its
 * size; condemned: the wholly idle tainted regions, which are to be released. */
struct regions {
    struct base_tree by_base;
    struct region_size_tree idle_regions;
    struct size_tree bins[REGION_BINS];
    size_t next_size; /* of the next region to be obtained */
    struct region_size_tree condemned;
    size_t count;
};

/* False without host memory. Lock not needed. */
bool regions_open(struct idle_store *store);
/* Forgets all regions; their blocks' records must be gone, or never be looked at again. Lock not
 * needed. */
void regions_close(struct idle_store *store);

/* Adds a region with one idle block, whose record has been made and which is in no bin yet. Regions
 * that overlap it can only be stale and are forgotten. False without host memory. */
bool region_add(struct idle_store *store, struct pool_block *block);
/* Forgets the region of a block whose address the driver has given again, and which is in no bin;
 * the block's own record is the ledger's to forget. */
void region_lose(struct idle_store *store, struct pool_block *block);

/* Takes the idle block that fits best, cut to fit; NULL if there is none. */
struct pool_block *region_take(struct idle_store *store, struct site *site, const struct fit *fit,
                               bool *stolen);
/* As region_take, but NULL if the smallest that fits is larger than `most`. */
struct pool_block *region_take_up_to(struct idle_store *store, struct site *site,
                                     const struct fit *fit, size_t most, bool *stolen);
/* The smallest and the largest idle block of at least `least` bytes that lies in a reservation.
 * O(n) in those that do not. */
struct pool_block *region_find_mapped(struct idle_store *store, size_t least);
struct pool_block *region_largest_mapped(struct idle_store *store, size_t least);
/* Makes the block a region of its own. False without host memory. */
bool region_isolate(struct idle_store *store, struct pool_block *block);
/* Cuts a block that is in no bin to `size` if that is worth it; the rest is idle. */
void region_cut(struct idle_store *store, struct pool_block *block, const struct fit *fit);
void region_give(struct idle_store *store, struct pool_block *block);
void region_remove(struct idle_store *store, struct pool_block *block);
/* The largest wholly idle region's block, condemned ones first. */
struct pool_block *region_victim(struct idle_store *store);
/* Makes a region without live blocks one block, which is in no bin: for the driver's own free,
 * which waits for what is deferred, so none whose pages would be unmapped. NULL: there is none.
 * O(n). */
struct pool_block *region_without_live(struct idle_store *store);
struct pool_block *region_surplus(struct idle_store *store, struct site *site, size_t keep);
/* The block, live or not, that contains an address; NULL if no region does. */
struct pool_block *region_find(struct idle_store *store, uint64_t address);
/* Whether the block is all of its region. */
bool region_is_whole(const struct pool_block *block);
/* The driver keeps state for others in the region. */
void region_taint(struct idle_store *store, struct region *region);
/* Takes a region whose one block is on its way to the driver out of the store, since its addresses
 * may have a new owner at once. It comes back if the driver refuses, else its record is freed. */
void region_detach(struct idle_store *store, struct pool_block *block);
void region_return(struct idle_store *store, struct pool_block *block);
void region_destroy(struct pool_block *block);
void region_usage(const struct idle_store *store, struct policy_usage *usage);
bool region_is_valid(const struct idle_store *store);

#endif
