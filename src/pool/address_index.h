/* Blocks by address, for questions about addresses inside them.
 *
 * The map finds a block by where it begins, and that is all that most programs need. So the index
 * is made when the first question is asked that needs it, and kept up to date from then on. Blocks
 * of policies that cut regions are not in it: regions know theirs. Not thread-safe. */
#ifndef POOLCUDA_POOL_ADDRESS_INDEX_H
#define POOLCUDA_POOL_ADDRESS_INDEX_H

#include "pool/block.h"

struct index_entry;

/* Invariant: while it is there, `blocks` has the `count` blocks of the map that no policy has cut.
 * Zeroed: not there. */
struct address_index {
    RB_HEAD(index_tree, index_entry) blocks;
    size_t count;
    bool there;
};

/* To be called when a block enters or leaves the map, while the index is there. Without host memory
 * it is no longer there. */
void address_index_add(struct address_index *index, struct pool_block *block);
void address_index_remove(struct address_index *index, const struct pool_block *block);
/* The block that the address lies in, or NULL. The index must be there. */
struct pool_block *address_index_find(const struct address_index *index, uint64_t address);
void address_index_destroy(struct address_index *index); /* it is no longer there */

#endif
