/* The least, the middle and the most of any number of figures, in a few kilobytes. */
#ifndef POOLCUDA_CLI_SPREAD_H
#define POOLCUDA_CLI_SPREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Invariant: the bins' counts add up to `count`; they are sorted by their keys, of which there are
 * less than a thousand: the figures of a bin differ by a sixteenth at most. All zeros: empty. */
struct spread {
    uint64_t least, most;
    size_t most_of; /* the figure that is `most`, as spread_add had it; of equals the first */
    size_t count;
    struct spread_bin *bins;
    uint32_t bin_count;
};

/* Adds the figure of `whose`. False without memory: it is then not in it. */
bool spread_add(struct spread *spread, uint64_t figure, size_t whose);

/* The middle one, of two the lower: too low by a sixteenth at most, and exact where all figures of
 * its bin are the same. 0: empty. */
uint64_t spread_median(const struct spread *spread);

void spread_free(struct spread *spread);

#endif
