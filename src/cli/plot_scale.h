/* The scales of a plot: round values at even steps, and how they are written. */
#ifndef POOLCUDA_CLI_PLOT_SCALE_H
#define POOLCUDA_CLI_PLOT_SCALE_H

#include <stdint.h>

/* Steps of 1, 2 or 5 times a power of ten, in the largest unit that is not larger than the whole.
 */
struct plot_scale {
    double unit, step; /* bytes; units */
    const char *name;  /* of the unit */
};

/* With at most `steps` steps up to `most` bytes. */
struct plot_scale plot_scale(double most, unsigned steps);

/* The bytes that lie `steps` steps from 0. */
double plot_scale_bytes(const struct plot_scale *scale, unsigned steps);

struct plot_text {
    char text[32];
};
struct plot_text plot_scale_text(const struct plot_scale *scale, unsigned steps);

/* The value after `calls` on a logarithmic scale: 1, 10, 100, ... or, if it ends below 100, 1, 2,
 * 5, 10, ... */
uint64_t plot_next_calls(uint64_t calls, uint64_t most);

/* With commas between thousands. */
struct plot_text plot_count(uint64_t count);

#endif
