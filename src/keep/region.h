/* Regions: ranges of device memory obtained at once and cut into blocks. Finding, splitting and
 * merging them; the ledger has the blocks' records. Every operation is O(log n) in the blocks of
 * the store.
 *
 * Idle neighbours are merged at once, so no two idle blocks of a region touch. A region whose
 * blocks the driver keeps state in for others (taint) serves no request any more: it goes back as
 * soon as all of it is idle.
 *
 * A region of policy vmm consists of chunks (blocks/reservation.h), grows at its end, and is split
 * where chunks of it are to be unmapped. It is never tainted: its chunks are barred one by one
 * (pool/suballocation_bar.c), each goes back as soon as all of it is idle, and an idle block ends
 * where the bar changes. */
#ifndef POOLCUDA_KEEP_REGION_H
#define POOLCUDA_KEEP_REGION_H

#include "base/sizes.h"
#include "blocks/reservation.h"
#include "keep/keeper.h"

/* REGION_SMALL_MOST: the largest request that has small regions, where there are such. */
enum { REGION_BINS = 21, REGION_SMALLEST_BIN = 256, REGION_SMALL_MOST = 1 << 20 };

/* What is asked for at once for larger requests, of a device with `total`; at most an eighth of it,
 * lest a setting that is too large be refused each time. */
static inline size_t region_segment_size(const struct limit *limit, uint64_t total) {
    static const uint64_t origins = 20 << 20;
    uint64_t size = limit_in_bytes(limit, total, origins);
    uint64_t most = total / 8 > origins ? total / 8 : origins;
    if (size > most)
        size = most;
    return size < ROUND_PAGE ? ROUND_PAGE : size / ROUND_PAGE * ROUND_PAGE;
}

RB_HEAD(address_tree, pool_block);
RB_HEAD(base_tree, region);
RB_HEAD(region_size_tree, region);

/* Invariant: blocks, in the order of their addresses, cover [base, base + size) without a gap.
 * small: made for a request of at most the store's small_most bytes, and kept for such.
 * In the store's idle_regions if and only if its one block is idle and it is not tainted. */
struct region {
    uint64_t base; /* a CUdeviceptr */
    struct reservation
        *reservation; /* vmm: whose chunks these are, NULL: an allocation of its own */
    size_t size;
    struct address_tree blocks;
    size_t block_count;
    bool small, tainted;
    bool in_idle_regions, condemned;
    const struct regions *among; /* those that it is one of */
    RB_ENTRY(region) by_base, by_size;
};

/* The regions of one store. Invariant: every idle block without a bar of an untainted region is in
 * the bin of its size, among small_bins if the region is small; in barred those with a bar that
 * hold a whole chunk; small_most: requests up to that size have regions of their own, 0: none have;
 * condemned: the wholly idle tainted regions, which are to be released; scarce: the device has no
 * room for regions to double on, so that what a block keeps beyond its request is missed.
 */
struct regions {
    struct base_tree by_base;
    struct region_size_tree idle_regions;
    struct size_tree bins[REGION_BINS], small_bins[REGION_BINS];
    size_t small_most;
    struct region_size_tree condemned;
    struct size_tree barred;
    size_t count;
    bool scarce;
};

/* Adds a region with one idle block, whose record has been made and which is in no bin yet, and
 * overlaps no other, for a request of `wanted` bytes. False without host memory. */
bool region_add(struct idle_store *store, struct pool_block *block, size_t wanted);
/* A region that overlaps this range: the driver has given its addresses again. Lock held. */
struct region *region_overlapping(struct idle_store *store, uint64_t base, size_t size);
/* Forgets a region, which has no block any more. Lock held. */
void region_forget(struct idle_store *store, struct region *region);
/* The first of its blocks and the one behind another; NULL: there is none. */
struct pool_block *region_first(struct region *region);
struct pool_block *region_next(struct pool_block *block);
/* A block that is in no bin is no more one of its region's. Lock held. */
void region_leave(struct pool_block *block);

/* Adds a block as region_add does, which has just been mapped in the reservation: if it lies behind
 * a region there, it becomes a part of that. */
bool region_extend(struct idle_store *store, struct reservation *reservation,
                   struct pool_block *block);
/* The idle block that ends at an address of a reservation, where more is to be mapped; NULL: there
 * is none. */
struct pool_block *region_tail(struct idle_store *store, const struct reservation *reservation,
                               uint64_t end);
/* Makes a region of a reservation and the one right behind it, if there is one, one region. O(n) in
 * the blocks of the smaller one. Lock held. */
void region_connect(struct idle_store *store, struct region *region);
/* The largest idle block of an untainted region that the driver could have something of; mapped:
 * whole chunks of a reservation. NULL: there is none. O(n) in larger ones. */
struct pool_block *region_largest_releasable(struct idle_store *store, bool mapped);
/* The largest idle block of chunks with at most such a bar, one of which could be unmapped; NULL:
 * there is none. O(n) in larger ones with a stricter bar. */
struct pool_block *region_largest_barred(struct idle_store *store, enum chunk_bar most);
/* Notes what bar a block that is kept nowhere has, and returns how many bytes of it, from its
 * beginning on, have no other: it is to be cut there. Lock held. */
size_t region_set_bar(struct pool_block *block);
/* It has been cut there: `rest`, behind it, is kept nowhere either. Lock held. */
void region_part(struct pool_block *block, struct pool_block *rest);
/* Makes all blocks from `block` on a region of their own; or the block. O(n) in the blocks of the
 * smaller part. False without host memory. */
bool region_split(struct idle_store *store, struct pool_block *block);
bool region_isolate(struct idle_store *store, struct pool_block *block);
/* The block has been cut: `rest`, behind it, is idle and kept nowhere yet. Lock held. */
void region_cut(struct idle_store *store, struct pool_block *block, struct pool_block *rest);
/* An idle block that is in no bin and an idle neighbour are to be one, *block: returns the second
 * part, which is no more one of the region's and in no bin either. NULL: there is none. Lock held.
 */
struct pool_block *region_join(struct idle_store *store, struct pool_block **block);
void region_remove(struct idle_store *store, struct pool_block *block); /* Lock held. */
/* A region without live blocks: for the driver's own free, which waits for what is deferred, so
 * none whose pages would be unmapped. NULL: there is none. O(n). */
struct region *region_without_live(struct idle_store *store);
/* The region with the lowest address; or the next one after another. NULL: there is none. */
struct region *region_after(const struct idle_store *store, struct region *region);
/* Whether it has a block that is neither idle nor deferred. O(n). */
bool region_has_live(struct region *region);
/* What the driver has back with the regions without live blocks beyond their bytes: one that is
 * larger than a page has its last page alone, smaller ones share pages. O(n). Lock held. */
uint64_t region_beyond_ends(const struct idle_store *store);
/* The block, live or not, that contains an address; NULL if no region does. */
struct pool_block *region_find(struct idle_store *store, uint64_t address);
/* Whether the block is all of its region. */
static inline bool region_is_whole(const struct pool_block *block) {
    return block->region->block_count == 1;
}
/* The driver keeps state for others in the region. */
void region_taint(struct idle_store *store, struct region *region);
/* Takes a region whose one block is on its way to the driver out of the store, since its addresses
 * may have a new owner at once. It comes back if the driver refuses, else its record is freed. */
void region_detach(struct idle_store *store, struct pool_block *block);
void region_return(struct idle_store *store, struct pool_block *block);
void region_destroy(struct pool_block *block);

/* What keepers of regions have in common: members of struct keeper. */
bool region_open(struct idle_store *store);
bool region_open_kinds(struct idle_store *store); /* small requests have regions of their own */
void region_close(struct idle_store *store);
void region_give(struct idle_store *store, struct pool_block *block); /* Lock held. */
/* Pieces are aligned as the driver's allocations are: textures count on 512 bytes. */
size_t region_round(size_t bytes);
/* All below: lock held. */
struct pool_block *region_surplus(struct idle_store *store, struct site *site, size_t keep);
struct pool_block *region_victim(struct idle_store *store);
struct pool_block *region_largest(struct idle_store *store);
bool region_is_valid(const struct idle_store *store);
/* Whether it is of the request's kind. */
bool region_fits(const struct idle_store *store, const struct pool_block *block, size_t size);
/* Takes out the smallest idle block, the first of these by address, of at least that size, of the
 * request's kind; of the other one where nothing else serves. */
struct pool_block *region_take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how);
/* Takes out such a block of mapped memory: those that can grow serve last. */
struct pool_block *region_take_inside(struct idle_store *store, struct site *site,
                                      const struct fit *fit, unsigned *how);

/* The members that all keepers of regions have alike. */
#define REGION_KEEPER                                                                              \
    .cuts = true, .close = region_close, .round = region_round, .give = region_give,               \
    .remove = region_remove, .surplus = region_surplus, .largest = region_largest,                 \
    .is_valid = region_is_valid

#endif
