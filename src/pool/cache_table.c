#include "pool/cache_table.h"

#include <stdlib.h>

bool cache_table_init(struct cache_table *table, unsigned count) {
    enum { ALIGNMENT = 2 * sizeof(struct cache_bin) };
    size_t bytes = count * (sizeof *table->bins + sizeof *table->used);
    char *memory = calloc(1, bytes + ALIGNMENT);
    if (!memory)
        return false;
    char *aligned = memory + ALIGNMENT - (uintptr_t)memory % ALIGNMENT;
    *table = (struct cache_table){.bins = (struct cache_bin *)(void *)aligned,
                                  .mask = (count - 1) * sizeof *table->bins,
                                  .count = count,
                                  .memory = memory};
    table->used = (uint16_t *)(void *)(table->bins + count);
    return true;
}

bool cache_table_reaches(const struct cache_table *table, size_t size) {
    return size <= table->most &&
           cache_table_next_class(table, cache_class(size), CACHE_CLASSES - 1) < CACHE_CLASSES;
}
