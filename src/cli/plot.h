/* A drawing of what `poolcuda tune` found. */
#ifndef POOLCUDA_CLI_PLOT_H
#define POOLCUDA_CLI_PLOT_H

#include "cli/output.h"
#include "cli/tune.h"

#include <stdbool.h>
#include <stdint.h>

/* Writes BASE.svg and BASE.png: driver calls against memory held, the front joined by a line,
 * live_bytes as the limit that nothing passes. title: the trace's name, in UTF-8. False after one
 * line in error. */
bool plot_write(const char *base, const struct tune *tune, const char *title, uint64_t live_bytes,
                char error[OUTPUT_ERROR]);

/* To be asked before the work: false after one line in `error` if a drawing would take the place of
 * the file `input`, or cannot be written. */
bool plot_check(const char *base, const char *input, char error[OUTPUT_ERROR]);

#endif
