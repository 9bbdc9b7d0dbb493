/* PyOpenCL's and PyCUDA's memory pool: sixteen bins per octave, requests rounded up to the upper
 * end of their bin, which is the next one's lower end and belongs to that, the block freed last
 * serves first, nothing is given up before the device runs out, then one block of the largest bin
 * at a time.
 *
 * Kept of its origin: the bins, the order within and among them. Different: bins are ends of whole
 * 512 bytes, so the smallest requests share one; sites are only counted. */
#include "base/sizes.h"
#include "keep/keeper.h"

#include <stdlib.h>

enum { STEPS = 16, STEP_BITS = 4 };

/* The bin's upper end: above the request, also where that is a bin's lower end. 0: too large. */
static size_t round_to_bin(size_t bytes) {
    int highest = 63 - __builtin_clzll(bytes);
    size_t unit = highest > STEP_BITS ? (size_t)1 << (highest - STEP_BITS) : 1;
    size_t size = (bytes & ~(unit - 1)) + unit; /* what overflows is 0 */
    return size ? round_up(size, ROUND_SMALL) : 0;
}

/* Sizes are bins' ends, so each has a bin of its own; order is kept. */
static unsigned bin_of(size_t size) {
    int highest = 63 - __builtin_clzll(size);
    unsigned below = highest > STEP_BITS ? (unsigned)(size >> (highest - STEP_BITS)) & (STEPS - 1)
                                         : (unsigned)size & (STEPS - 1);
    return (unsigned)highest * STEPS + below;
}

static void remove_block(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    unsigned bin = bin_of(block->size);
    LIST_REMOVE(block, in_list);
    if (LIST_EMPTY(&store->bins->blocks[bin]))
        store->bins->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    store->count--;
    store->bytes -= block->size;
}

static void give(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    unsigned bin = bin_of(block->size);
    LIST_INSERT_HEAD(&store->bins->blocks[bin], block, in_list);
    store->bins->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    store->count++;
    store->bytes += block->size;
}

static struct pool_block *take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how) {
    lock_check_held(LOCK_POOL);
    size_t size = fit->size;
    struct pool_block *block = LIST_FIRST(&store->bins->blocks[bin_of(size)]);
    if ((!block || block->size < size) && fit->exact) { /* those are in the bin below */
        size = round_up(fit->bytes, ROUND_SMALL);
        block = LIST_FIRST(&store->bins->blocks[bin_of(size)]);
    }
    if (!block || block->size < size)
        return NULL;
    *how = block->site != site ? TAKEN_STOLEN : 0;
    remove_block(store, block);
    return block;
}

static struct pool_block *surplus(struct idle_store *store, struct site *site, size_t keep) {
    lock_check_held(LOCK_POOL);
    (void)store;
    (void)site;
    (void)keep;
    return NULL;
}

static struct pool_block *victim(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    for (int word = STORE_BINS / 64 - 1; word >= 0; word--)
        if (store->bins->filled[word])
            return LIST_FIRST(
                &store->bins->blocks[word * 64 + 63 - __builtin_clzll(store->bins->filled[word])]);
    return NULL;
}

static bool is_valid(const struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    size_t count = 0, bytes = 0;
    for (unsigned bin = 0; bin < STORE_BINS; bin++) {
        struct pool_block *block;
        bool filled = store->bins->filled[bin / 64] >> bin % 64 & 1;
        if (filled == LIST_EMPTY(&store->bins->blocks[bin]))
            return false;
        LIST_FOREACH (block, &store->bins->blocks[bin], in_list) {
            if (bin_of(block->size) != bin)
                return false;
            count++;
            bytes += block->size;
        }
    }
    return count == store->count && bytes == store->bytes;
}

static bool open_store(struct idle_store *store) {
    store->bins = calloc(1, sizeof *store->bins);
    return store->bins;
}

static void close_store(struct idle_store *store) {
    free(store->bins);
    store->bins = NULL;
}

const struct keeper keeper_bins = {
    .same_size = true,
    .open = open_store,
    .close = close_store,
    .round = round_to_bin,
    .take = take,
    .give = give,
    .remove = remove_block,
    .surplus = surplus,
    .victim = victim,
    .largest = victim,
    .is_valid = is_valid,
};
