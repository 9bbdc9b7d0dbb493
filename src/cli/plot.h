/* A drawing of what `poolcuda tune` found. */
#ifndef POOLCUDA_CLI_PLOT_H
#define POOLCUDA_CLI_PLOT_H

#include "cli/plot_canvas.h"
#include "cli/tune.h"

#include <stdbool.h>
#include <stdint.h>

struct plot_input {
    const struct tune *tune;            /* judged */
    const struct replay_result *native; /* without the pool */
    const char *title, *subtitle;       /* in UTF-8 */
    uint64_t live_bytes;                /* the limit that nothing passes */
};

/* Writes BASE.svg and BASE.png: driver calls against memory held, the front joined by a line. What
 * holds more than all that is worth having is an arrow at the edge. False after one line in error.
 */
bool plot_write(const char *base, const struct plot_input *input, char error[OUTPUT_ERROR]);

#endif
