#include "blocks/pointer_map.h"

#include <stdlib.h>

enum { FIRST_BITS = 6 };

static uint64_t no_slots[2];
const struct pointer_table pointer_table_empty = {no_slots, 1, 63};

static size_t home(const struct pointer_table *table, const struct pool_block *block) {
    return pointer_hash(block->pointer) >> table->shift;
}

static void put(const struct pointer_table *table, uint64_t entry) {
    size_t i = home(table, pointer_table_block(entry));
    while (table->slots[i])
        i = (i + 1) & table->mask;
    table->slots[i] = entry;
}

bool pointer_map_grow(struct pointer_map *map) {
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

/* Entries behind the gap move up as far as they may, so that no marks of removed ones collect. */
void pointer_map_remove(struct pointer_map *map, const struct pool_block *block) {
    const struct pointer_table *table = &map->table;
    size_t mask = table->mask, gap = home(table, block);
    while (pointer_table_block(table->slots[gap]) != block)
        gap = (gap + 1) & mask;
    for (size_t i = (gap + 1) & mask; table->slots[i]; i = (i + 1) & mask) {
        size_t wanted = home(table, pointer_table_block(table->slots[i]));
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
