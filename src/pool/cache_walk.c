/* Walks along the bins with blocks, by size. */
#include "pool/cache_table.h"

/* The bin that the link leads to, with a block: empty ones are taken out of the list. NULL: the
 * list ends there. */
static inline struct cache_bin *follow(struct cache_table *table, unsigned class, uint16_t *link) {
    while (*link != CACHE_NO_BIN) {
        struct cache_bin *bin = &table->bins[*link];
        if (bin->head)
            return bin;
        *link = bin->next;
        bin->listed = NULL;
    }
    if (link == &table->first[class])
        table->classes[class / 64] &= ~((uint64_t)1 << class % 64);
    return NULL;
}

struct cache_bin *cache_table_first(struct cache_table *table, unsigned class, size_t size) {
    struct cache_bin *found = NULL;
    unsigned last = CACHE_CLASSES - 1;
    for (; !found && (class = cache_table_next_class(table, class, last)) <= last; class ++) {
        found = follow(table, class, &table->first[class]);
        while (found && found->size < size)
            found = follow(table, class, &found->next);
    }
    return found;
}

struct cache_bin *cache_table_walk(struct cache_table *table, struct cache_walk *walk) {
    unsigned last = cache_class(walk->most);
    if (!walk->link)
        walk->class = cache_class(walk->least);
    while (walk->tries) {
        if (!walk->link) {
            walk->class = cache_table_next_class(table, walk->class, last);
            if (walk->class > last)
                return NULL;
            walk->link = &table->first[walk->class];
        }
        struct cache_bin *bin = follow(table, walk->class, walk->link);
        walk->link = bin ? &bin->next : NULL;
        walk->class += !bin;
        if (bin && bin->size < walk->least)
            continue;
        walk->tries--;
        if (bin)
            return bin->size <= walk->most ? bin : NULL;
    }
    return NULL;
}

/* The last bin with a block of the class; NULL: none has any. *alike: as cache_table_largest. */
static struct cache_bin *last_of(struct cache_table *table, unsigned class, bool *alike) {
    struct cache_bin *bin, *found = NULL;
    uint16_t *link = &table->first[class];
    *alike = false;
    for (; (bin = follow(table, class, link)); link = &bin->next) {
        *alike = found && found->size == bin->size;
        found = bin;
    }
    return found;
}

struct cache_bin *cache_table_largest(struct cache_table *table, bool *alike) {
    struct cache_bin *found = NULL;
    for (unsigned word = cache_class(table->most) / 64 + 1; word-- > 0 && !found;)
        for (uint64_t classes; (classes = table->classes[word]) && !found;)
            found = last_of(table, word * 64 + 63 - (unsigned)__builtin_clzll(classes), alike);
    table->most = found ? found->size : 0;
    return found;
}
