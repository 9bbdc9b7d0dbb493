/* Whether a table of bins is what it says of itself. */
#include "pool/cache_table.h"

/* Counts the bins that are listed, each in its class and by size. SIZE_MAX: one is not. */
static size_t count_listed(const struct cache_table *table) {
    size_t listed = 0;
    for (unsigned class = 0; class < CACHE_CLASSES; class ++) {
        bool some = table->classes[class / 64] >> class % 64 & 1;
        size_t before = 0;
        for (uint16_t at = some ? table->first[class] : CACHE_NO_BIN; at != CACHE_NO_BIN;
             at = table->bins[at].next) {
            const struct cache_bin *bin = &table->bins[at];
            if (!bin->site || bin->listed != bin->site || cache_class(bin->size) != class ||
                bin->class != class || bin->size < before || bin->size > table->most ||
                ++listed > table->used_count)
                return SIZE_MAX;
            before = bin->size;
        }
    }
    return listed;
}

bool cache_table_is_valid(const struct cache_table *table) {
    unsigned with_site = 0, displaced = 0;
    size_t listed = 0;
    for (unsigned i = 0; i < table->count; i++)
        with_site += table->bins[i].site != NULL;
    for (unsigned at = 0; at < table->used_count; at++) {
        const struct cache_bin *bin = cache_table_at(table, at);
        if (!bin->site || cache_table_find(table, bin->id, bin->size) != bin ||
            (bin->head && !bin->listed))
            return false;
        listed += bin->listed != NULL;
        displaced += cache_table_find_near(table, bin->id, bin->size) != bin;
    }
    return with_site == table->used_count && displaced == table->displaced &&
           count_listed(table) == listed;
}
