#include "pool/pointer_map.h"

#include <stdlib.h>

enum { TAG_BITS = 16, ADDRESS_BITS = 64 - TAG_BITS, FIRST_BITS = 6 };

static size_t capacity(const struct pointer_map *map) {
    return map->bits ? (size_t)1 << map->bits : 0;
}

static size_t home(const struct pointer_map *map, uint64_t hash) {
    return hash >> (64 - map->bits);
}

static struct pool_block *block_of(uint64_t entry) {
    return (struct pool_block *)(uintptr_t)(entry & (((uint64_t)1 << ADDRESS_BITS) - 1));
}

static void put(struct pointer_map *map, uint64_t entry, uint64_t hash) {
    size_t i = home(map, hash);
    while (map->slots[i])
        i = (i + 1) & (capacity(map) - 1);
    map->slots[i] = entry;
}

static bool grow(struct pointer_map *map) {
    struct pointer_map larger = {.bits = map->bits ? map->bits + 1 : FIRST_BITS,
                                 .count = map->count};
    larger.slots = calloc(capacity(&larger), sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < capacity(map); i++)
        if (map->slots[i])
            put(&larger, map->slots[i], pointer_map_hash(block_of(map->slots[i])->pointer));
    free(map->slots);
    *map = larger;
    return true;
}

bool pointer_map_add(struct pointer_map *map, struct pool_block *block) {
    uint64_t hash = pointer_map_hash(block->pointer);
    uint64_t entry = (uint64_t)(uintptr_t)block | hash << 32 >> ADDRESS_BITS << ADDRESS_BITS;
    size_t most = capacity(map) - capacity(map) / 8 * 3; /* rather long before the last eighth */
    if ((uintptr_t)block >> ADDRESS_BITS || (map->count >= most && !grow(map)))
        return false;
    put(map, entry, hash);
    map->count++;
    return true;
}

/* Entries behind the gap move up as far as they may, so that no marks of removed ones collect. */
void pointer_map_remove(struct pointer_map *map, const struct pool_block *block) {
    size_t mask = capacity(map) - 1, gap = home(map, pointer_map_hash(block->pointer));
    while (block_of(map->slots[gap]) != block)
        gap = (gap + 1) & mask;
    for (size_t i = (gap + 1) & mask; map->slots[i]; i = (i + 1) & mask) {
        size_t wanted = home(map, pointer_map_hash(block_of(map->slots[i])->pointer));
        if (((i - wanted) & mask) >= ((i - gap) & mask)) {
            map->slots[gap] = map->slots[i];
            gap = i;
        }
    }
    map->slots[gap] = 0;
    map->count--;
}

void pointer_map_free(struct pointer_map *map) {
    free(map->slots);
    *map = (struct pointer_map){NULL, 0, 0};
}
