/* From device addresses to blocks: an open-addressed table with linear probing.
 *
 * Purpose-built, because every free looks a pointer up: eight bytes a slot, of which sixteen bits
 * tell most other blocks apart without touching them. A lookup that finds reads one cache line of
 * the table and one of the block. Not thread-safe: any number may find while nobody changes it. */
#ifndef POOLCUDA_POOL_POINTER_MAP_H
#define POOLCUDA_POOL_POINTER_MAP_H

#include "pool/block.h"

/* Invariant: `slots` has 2^bits entries, at least an eighth of them empty (0), or is NULL and bits
 * is 0. An entry is a block's address with sixteen bits of its key's hash above it; between an
 * entry's place and where its hash points no slot is empty. */
struct pointer_map {
    uint64_t *slots;
    size_t count;
    unsigned bits;
};

static inline uint64_t pointer_map_hash(uint64_t pointer) {
    return pointer * 0x9e3779b97f4a7c15u;
}

/* The block at exactly this address, NULL if there is none. */
static inline struct pool_block *pointer_map_find(const struct pointer_map *map, uint64_t pointer) {
    enum { TAG_BITS = 16, ADDRESS_BITS = 64 - TAG_BITS };
    uint64_t hash = pointer_map_hash(pointer), tag = hash << 32 >> ADDRESS_BITS;
    if (!map->bits)
        return NULL;
    for (uint64_t i = hash >> (64 - map->bits), mask = ((uint64_t)1 << map->bits) - 1;;
         i = (i + 1) & mask) {
        uint64_t entry = map->slots[i];
        if (!entry)
            return NULL;
        struct pool_block *block =
            (struct pool_block *)(uintptr_t)(entry & (((uint64_t)1 << ADDRESS_BITS) - 1));
        if (entry >> ADDRESS_BITS == tag && block->pointer == pointer)
            return block;
    }
}

/* The block in some slot: any number will do. NULL: that slot is empty. */
static inline struct pool_block *pointer_map_at(const struct pointer_map *map, size_t number) {
    uint64_t entry = map->bits ? map->slots[number & (((uint64_t)1 << map->bits) - 1)] : 0;
    return (struct pool_block *)(uintptr_t)(entry & (UINT64_MAX >> 16));
}

/* The block's address must not be in the map. False without host memory: nothing has changed. */
bool pointer_map_add(struct pointer_map *map, struct pool_block *block);
/* The block must be in the map. Never fails. */
void pointer_map_remove(struct pointer_map *map, const struct pool_block *block);
void pointer_map_free(struct pointer_map *map);

#endif
