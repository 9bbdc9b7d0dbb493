/* The bins of a table come and go, and the table grows. */
#include "pool/cache_table_change.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BINS = 4096, FIRST_BINS = 64 };

static _Alignas(2 * sizeof(struct cache_bin)) struct cache_bin no_bins[2];
const struct cache_table cache_table_empty = {.bins = no_bins, .mask = sizeof *no_bins, .count = 2};

/* A table of so many places. False without host memory. */
static bool make_places(struct cache_table *table, unsigned count) {
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

static bool is_near(const struct cache_table *table, const struct cache_bin *bin) {
    const struct cache_bin *home = cache_table_home(table, bin->id, bin->size);
    return bin == home || bin == cache_table_beside(home);
}

static unsigned number_of(const struct cache_table *table, const struct cache_bin *bin) {
    return (unsigned)(bin - table->bins);
}

static const struct cache_walk along_all = {.most = SIZE_MAX, .tries = UINT_MAX};

/* Takes all empty bins out of the lists: a walk does so. */
static void drop_empty(struct cache_table *table) {
    struct cache_walk walk = along_all;
    while (cache_table_walk(table, &walk))
        continue;
}

/* Lists the bins of `larger`, which are those of the table, in the table's order. */
static void list_as(struct cache_table *table, struct cache_table *larger) {
    struct cache_walk walk = along_all;
    const struct cache_bin *bin;
    unsigned class = CACHE_CLASSES;
    uint16_t *link = larger->first;
    while ((bin = cache_table_walk(table, &walk))) {
        struct cache_bin *same = cache_table_find(larger, bin->id, bin->size);
        link = walk.class == class ? link : &larger->first[walk.class];
        class = walk.class;
        *link = (uint16_t)number_of(larger, same);
        link = &same->next;
        *link = CACHE_NO_BIN;
        same->listed = same->site;
    }
    memcpy(larger->classes, table->classes, sizeof larger->classes);
    larger->most = table->most;
}

static struct cache_bin *find_place(const struct cache_table *table, const struct cache_bin *bin) {
    struct cache_bin *home = cache_table_home(table, bin->id, bin->size);
    if (!home->site)
        return home;
    for (unsigned i = 0; i < CACHE_REACH; i++)
        if (!cache_table_reach(table, home, i)->site)
            return cache_table_reach(table, home, i);
    return NULL;
}

static struct cache_bin *put(struct cache_table *table, const struct cache_bin *bin) {
    struct cache_bin *place = find_place(table, bin);
    if (!place)
        return NULL;
    bool spills = place->spills;
    *place = *bin;
    place->class = (uint16_t)cache_class(bin->size);
    place->spills = spills;
    place->listed = NULL;
    if (!is_near(table, place)) {
        cache_table_reach(table, cache_table_home(table, bin->id, bin->size), 0)->spills = true;
        table->displaced++;
    }
    return place;
}

bool cache_table_may_grow(const struct cache_table *table) {
    return table->count < MOST_BINS;
}

bool cache_table_grow(struct cache_table *table) {
    struct cache_table larger;
    if (!cache_table_may_grow(table) ||
        !make_places(&larger, table->memory ? 2 * table->count : FIRST_BINS))
        return false;
    for (unsigned i = 0; i < table->used_count; i++) {
        const struct cache_bin *place = put(&larger, &table->bins[table->used[i]]);
        if (!place) {
            free(larger.memory);
            return false;
        }
        larger.used[larger.used_count++] = (uint16_t)number_of(&larger, place);
    }
    list_as(table, &larger);
    free(table->memory);
    *table = larger;
    return true;
}

struct cache_bin *cache_table_add(struct cache_table *table, const struct cache_bin *bin) {
    struct cache_bin *place = table->memory ? put(table, bin) : NULL;
    if (!place)
        return NULL;
    table->used[table->used_count++] = (uint16_t)number_of(table, place);
    return place;
}

/* Once no bin is displaced. */
static void forget_spills(struct cache_table *table) {
    for (unsigned i = 0; i < table->count; i++)
        table->bins[i].spills = false;
}

static void unlist(struct cache_table *table, const struct cache_bin *bin) {
    unsigned class = bin->class;
    uint16_t *link = &table->first[class];
    while (*link != number_of(table, bin))
        link = &table->bins[*link].next;
    *link = bin->next;
    if (table->first[class] == CACHE_NO_BIN)
        table->classes[class / 64] &= ~((uint64_t)1 << class % 64);
}

void cache_table_remove_late(struct cache_table *table, struct cache_bin *bin) {
    enum { TRIES = 8 };
    unsigned i = table->used_count, least = i > TRIES ? i - TRIES : 0;
    while (i-- > least && table->used[i] != number_of(table, bin))
        continue;
    if (i + 1 == least)
        return;
    if (bin->listed)
        unlist(table, bin);
    if (table->displaced && !is_near(table, bin) && !--table->displaced)
        forget_spills(table);
    *bin = (struct cache_bin){.spills = bin->spills};
    table->used[i] = table->used[--table->used_count];
}

void cache_table_filter(struct cache_table *table, bool (*keeps)(struct cache_bin *, void *),
                        void *data) {
    unsigned kept = 0;
    if (!table->used_count)
        return;
    for (unsigned i = 0; i < table->used_count; i++) {
        struct cache_bin *bin = &table->bins[table->used[i]];
        if (keeps(bin, data)) {
            table->used[kept++] = table->used[i];
            continue;
        }
        table->displaced -= !is_near(table, bin);
        *bin = (struct cache_bin){.spills = bin->spills, .next = bin->next};
    }
    table->used_count = kept;
    drop_empty(table); /* before their places are used again */
    if (!table->displaced)
        forget_spills(table);
}
