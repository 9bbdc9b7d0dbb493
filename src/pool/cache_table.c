#include "pool/cache_table.h"

#include <stdlib.h>
#include <string.h>

/* REACH: places that are looked at for a bin, the pair among them: so wherever others are removed,
 * nothing has to move up. */
enum { FIRST_BINS = 64, MOST_BINS = 4096, REACH = 16, ALIGNMENT = 2 * sizeof(struct cache_bin) };

static unsigned number_of(const struct cache_table *table, const struct cache_bin *bin) {
    return (unsigned)(bin - table->bins);
}

static struct cache_bin *reach(const struct cache_table *table, const struct cache_bin *home,
                               unsigned i) {
    return &table->bins[((number_of(table, home) & ~1u) + i) & (table->count - 1)];
}

static bool is_near(const struct cache_table *table, const struct cache_bin *bin) {
    const struct cache_bin *home = cache_table_home(table, bin->id, bin->size);
    return bin == home || bin == cache_table_beside(home);
}

struct cache_bin *cache_table_find(const struct cache_table *table, uintptr_t id, size_t size) {
    struct cache_bin *bin = cache_table_find_near(table, id, size), *home;
    if (bin || !table->displaced)
        return bin;
    home = cache_table_home(table, id, size);
    for (unsigned i = 2; i < REACH; i++)
        if (cache_bin_is(reach(table, home, i), id, size))
            return reach(table, home, i);
    return NULL;
}

static bool init(struct cache_table *table, unsigned count) {
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

bool cache_table_init(struct cache_table *table) {
    return init(table, FIRST_BINS);
}

static struct cache_bin *find_place(const struct cache_table *table, const struct cache_bin *bin) {
    struct cache_bin *home = cache_table_home(table, bin->id, bin->size);
    if (!home->site)
        return home;
    for (unsigned i = 0; i < REACH; i++)
        if (!reach(table, home, i)->site)
            return reach(table, home, i);
    return NULL;
}

static struct cache_bin *put(struct cache_table *table, const struct cache_bin *bin) {
    struct cache_bin *place = find_place(table, bin);
    if (!place)
        return NULL;
    *place = *bin;
    table->displaced += !is_near(table, place);
    return place;
}

bool cache_table_may_grow(const struct cache_table *table) {
    return table->count < MOST_BINS;
}

bool cache_table_grow(struct cache_table *table) {
    struct cache_table larger;
    if (!cache_table_may_grow(table) || !init(&larger, 2 * table->count))
        return false;
    for (unsigned i = 0; i < table->used_count; i++) {
        const struct cache_bin *place = put(&larger, &table->bins[table->used[i]]);
        if (!place) {
            free(larger.memory);
            return false;
        }
        larger.used[larger.used_count++] = (uint16_t)number_of(&larger, place);
    }
    free(table->memory);
    *table = larger;
    return true;
}

unsigned cache_table_from(const struct cache_table *table, size_t size) {
    unsigned low = 0, high = table->used_count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (table->bins[table->used[middle]].size < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct cache_bin *cache_table_add(struct cache_table *table, const struct cache_bin *bin) {
    struct cache_bin *place = put(table, bin);
    if (!place)
        return NULL;
    unsigned at = cache_table_from(table, bin->size);
    memmove(&table->used[at + 1], &table->used[at], (table->used_count - at) * sizeof *table->used);
    table->used[at] = (uint16_t)number_of(table, place);
    table->used_count++;
    return place;
}

void cache_table_filter(struct cache_table *table, bool (*keeps)(struct cache_bin *, void *),
                        void *data) {
    unsigned kept = 0;
    for (unsigned i = 0; i < table->used_count; i++) {
        struct cache_bin *bin = &table->bins[table->used[i]];
        if (keeps(bin, data)) {
            table->used[kept++] = table->used[i];
            continue;
        }
        table->displaced -= !is_near(table, bin);
        *bin = (struct cache_bin){0};
    }
    table->used_count = kept;
}

bool cache_table_is_valid(const struct cache_table *table) {
    unsigned with_site = 0, displaced = 0;
    size_t before = 0;
    for (unsigned i = 0; i < table->count; i++)
        with_site += table->bins[i].site != NULL;
    for (unsigned at = 0; at < table->used_count; at++) {
        const struct cache_bin *bin = cache_table_at(table, at);
        if (!bin->site || bin->size < before || cache_table_find(table, bin->id, bin->size) != bin)
            return false;
        before = bin->size;
        displaced += !is_near(table, bin);
    }
    return with_site == table->used_count && displaced == table->displaced;
}
