/* Blocks by address: for questions about addresses inside them, and about the pages that they
 * share.
 *
 * The map finds a block by where it begins, and that is all that most programs need. So the index
 * is made when the first question is asked that needs it (ledger_index), and kept up to date from
 * then on. Blocks of policies that cut regions are not in it: regions know theirs. */
#ifndef POOLCUDA_POOL_ADDRESS_INDEX_H
#define POOLCUDA_POOL_ADDRESS_INDEX_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index_entry;
struct pool;
struct pool_block;

RB_HEAD(index_tree, index_entry);

/* Blocks of one size class. Invariant: the tree has `count` blocks with so many `bytes` together,
 * by address. */
struct index_blocks {
    struct index_tree tree;
    size_t count, bytes;
};

/* What the ledger has in one device's memory, or in another kind of memory. The driver gives blocks
 * of up to 1 MiB out of pages of 2 MiB that they share, and larger ones pages of their own [assumed
 * from pytorch#17120].
 * Invariant: `pages` is how many pages the small blocks lie in, crossing how many of these blocks
 * lie in more than one. */
struct address_index {
    struct index_blocks small, large;
    size_t pages, crossing;
};

/* All below: lock held. */

/* To be called when a block enters or leaves the map, while the index is there. Without host memory
 * it is no longer there. */
void address_index_add(struct pool *pool, struct pool_block *block);
void address_index_remove(struct pool *pool, const struct pool_block *block);
void address_index_destroy(struct pool *pool); /* it is no longer there */

/* The block that the address lies in, or NULL. The index must be there. */
struct pool_block *address_index_find(const struct pool *pool, uint64_t address);
/* All blocks of one size class, by address, while the index is there: begin with *place NULL; NULL:
 * no more. */
struct pool_block *address_index_next(const struct index_blocks *blocks,
                                      struct index_entry **place);

#endif
