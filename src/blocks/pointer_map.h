/* From device addresses to blocks: an open-addressed table with linear probing.
 *
 * Purpose-built, because every free looks a pointer up: eight bytes a slot, of which sixteen bits
 * tell most other blocks apart without touching them. A lookup that finds reads one cache line of
 * the table and one of the block. Not thread-safe: any number may find while nobody changes it. */
#ifndef POOLCUDA_BLOCKS_POINTER_MAP_H
#define POOLCUDA_BLOCKS_POINTER_MAP_H

#include "blocks/block.h"

/* What finding needs: others may hold a copy until the map changes.
 * Invariant: `slots` has mask + 1 entries, a power of two, at least one of them empty (0); shift is
 * 64 less their number's logarithm. An entry is a block's address with sixteen bits of its hash
 * above it; between an entry and where its hash points no slot is empty. */
struct pointer_table {
    uint64_t *slots;
    size_t mask;
    unsigned shift;
};

/* Zeroed, it has to be initialised. */
struct pointer_map {
    struct pointer_table table;
    size_t count, most; /* most: before it grows */
};

/* A table without any entry; never written. */
extern const struct pointer_table pointer_table_empty;

enum { POINTER_TAG_SHIFT = 48 }; /* no block's own address has a bit above this */

/* The block at exactly this address, NULL if there is none. */
struct pool_block *pointer_table_find(const struct pointer_table *table, uint64_t pointer);
struct pool_block *pointer_map_find(const struct pointer_map *map, uint64_t pointer);

void pointer_map_init(struct pointer_map *map);
/* False without host memory: nothing has changed. A block of the same address leaves the map:
 * *replaced, NULL if there was none. At most five eighths of the slots are used: so a search looks
 * at two of them, or so. */
bool pointer_map_add(struct pointer_map *map, struct pool_block *block,
                     struct pool_block **replaced);
/* The block must be in the map. Never fails. */
void pointer_map_remove(struct pointer_map *map, const struct pool_block *block);
void pointer_map_destroy(struct pointer_map *map); /* as it was after pointer_map_init */

#endif
