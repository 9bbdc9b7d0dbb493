#include "blocks/pointer_map.h"

#include "base/placed.h"

#include <stdlib.h>

enum { FIRST_BITS = 6 };

static uint64_t no_slots[2];
const struct pointer_table pointer_table_empty = {no_slots, 1, 63};

/* The driver's addresses are multiples of 256. */
static uint64_t hash_pointer(uint64_t pointer) {
    return (pointer >> 8) * 0x9e3779b97f4a7c15u;
}

/* The block of an entry, or NULL of an empty slot. */
static struct pool_block *block_of(uint64_t entry) {
    return (struct pool_block *)(uintptr_t)(entry << 16 >> 16);
}

static size_t home(const struct pointer_table *table, const struct pool_block *block) {
    return hash_pointer(block->pointer) >> table->shift;
}

static void put(const struct pointer_table *table, uint64_t entry) {
    size_t i = home(table, block_of(entry));
    while (table->slots[i])
        i = (i + 1) & table->mask;
    table->slots[i] = entry;
}

PLACED struct pool_block *pointer_table_find(const struct pointer_table *table, uint64_t pointer) {
    uint64_t hash = hash_pointer(pointer), tag = hash << POINTER_TAG_SHIFT, entry;
    for (size_t i = hash >> table->shift; (entry = table->slots[i]); i = (i + 1) & table->mask) {
        entry ^= tag;
        struct pool_block *block = (struct pool_block *)(uintptr_t)entry;
        if (!(entry >> POINTER_TAG_SHIFT) && block->pointer == pointer)
            return block;
    }
    return NULL;
}

struct pool_block *pointer_map_find(const struct pointer_map *map, uint64_t pointer) {
    return pointer_table_find(&map->table, pointer);
}

/* False without host memory. */
static bool grow(struct pointer_map *map) {
    const struct pointer_table *table = &map->table;
    bool first = table->slots == no_slots;
    unsigned bits = first ? FIRST_BITS : 64 - table->shift + 2; /* four times as many */
    struct pointer_table larger = {NULL, ((size_t)1 << bits) - 1, 64 - bits};
    larger.slots = calloc(larger.mask + 1, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i <= table->mask; i++)
        if (table->slots[i])
            put(&larger, table->slots[i]);
    if (!first)
        free(table->slots);
    map->table = larger;
    map->most = larger.mask / 8 * 5;
    return true;
}

void pointer_map_init(struct pointer_map *map) {
    *map = (struct pointer_map){.table = pointer_table_empty};
}

bool pointer_map_add(struct pointer_map *map, struct pool_block *block,
                     struct pool_block **replaced) {
    *replaced = NULL;
    if (__builtin_expect(map->count >= map->most, 0) && !grow(map))
        return false;
    uint64_t pointer = block->pointer, hash = hash_pointer(pointer), entry;
    uint64_t tagged = (uint64_t)(uintptr_t)block | hash << POINTER_TAG_SHIFT;
    size_t i = hash >> map->table.shift;
    for (; (entry = map->table.slots[i]); i = (i + 1) & map->table.mask) {
        struct pool_block *other = block_of(entry);
        if (!((entry ^ tagged) >> POINTER_TAG_SHIFT) && other->pointer == pointer) {
            *replaced = other;
            map->count--;
            break;
        }
    }
    map->count++;
    map->table.slots[i] = tagged;
    return true;
}

/* Entries behind the gap move up as far as they may, so that no marks of removed ones collect. */
void pointer_map_remove(struct pointer_map *map, const struct pool_block *block) {
    const struct pointer_table *table = &map->table;
    size_t mask = table->mask, gap = home(table, block);
    while (block_of(table->slots[gap]) != block)
        gap = (gap + 1) & mask;
    for (size_t i = (gap + 1) & mask; table->slots[i]; i = (i + 1) & mask) {
        size_t wanted = home(table, block_of(table->slots[i]));
        if (((i - wanted) & mask) >= ((i - gap) & mask)) {
            table->slots[gap] = table->slots[i];
            gap = i;
        }
    }
    table->slots[gap] = 0;
    map->count--;
}

void pointer_map_destroy(struct pointer_map *map) {
    if (map->table.slots != no_slots)
        free(map->table.slots);
    pointer_map_init(map);
}
