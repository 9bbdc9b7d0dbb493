/* A drawing of what `poolcuda tune` found. */
#ifndef POOLCUDA_CLI_PLOT_H
#define POOLCUDA_CLI_PLOT_H

#include "cli/tune.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes BASE.svg and BASE.png: driver calls against memory held, the front joined by a line,
 * live_bytes as the limit that nothing passes. title: the trace's name, in UTF-8. False after one
 * line in error. */
bool plot_write(const char *base, const struct tune *tune, const char *title, uint64_t live_bytes,
                char *error, size_t error_size);

#endif
