#include "cli/spread.h"

#include <stdlib.h>
#include <string.h>

struct spread_bin {
    uint64_t least;
    uint32_t count;
    uint16_t key;
};

/* Grows with the figure: its highest five bits, and how far they are shifted. */
static uint16_t key_of(uint64_t figure) {
    enum { BITS = 4, STEPS = 1 << BITS };
    if (figure < STEPS)
        return (uint16_t)figure;
    unsigned shift = 63 - BITS - (unsigned)__builtin_clzll(figure);
    return (uint16_t)(shift * STEPS + (unsigned)(figure >> shift));
}

/* The bin of the key, or the place where it is to be. */
static uint32_t find(const struct spread *spread, uint16_t key) {
    uint32_t low = 0, high = spread->bin_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (spread->bins[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool spread_add(struct spread *spread, uint64_t figure, size_t whose) {
    uint16_t key = key_of(figure);
    uint32_t at = find(spread, key);
    if (at == spread->bin_count || spread->bins[at].key != key) {
        struct spread_bin *bins =
            reallocarray(spread->bins, spread->bin_count + 1, sizeof *spread->bins);
        if (!bins)
            return false;
        spread->bins = bins;
        memmove(&bins[at + 1], &bins[at], (spread->bin_count++ - at) * sizeof *bins);
        bins[at] = (struct spread_bin){.least = figure, .key = key};
    }
    struct spread_bin *bin = &spread->bins[at];
    bin->count++;
    if (figure < bin->least)
        bin->least = figure;
    if (!spread->count || figure < spread->least)
        spread->least = figure;
    if (!spread->count || figure > spread->most) {
        spread->most = figure;
        spread->most_of = whose;
    }
    spread->count++;
    return true;
}

uint64_t spread_median(const struct spread *spread) {
    size_t before = 0;
    for (uint32_t i = 0; i < spread->bin_count; i++) {
        before += spread->bins[i].count;
        if (before > (spread->count - 1) / 2)
            return spread->bins[i].least;
    }
    return 0;
}

void spread_free(struct spread *spread) {
    free(spread->bins);
    *spread = (struct spread){.bins = NULL};
}
