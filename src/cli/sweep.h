/* Running, printing and drawing a sweep. */
#ifndef POOLCUDA_CLI_SWEEP_H
#define POOLCUDA_CLI_SWEEP_H

#include "cli/output.h"
#include "cli/sweep_cliffs.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocations, frees, maps and unmaps of the driver. */
uint64_t sweep_calls(const struct replay_result *result);

/* Replays all of it, which has an allocation at least; options that are set hold in each. progress
 * may be NULL. False after one line in `error`. */
bool sweep_run(const struct trace *trace, struct sweep *sweep,
               void (*progress)(double share, const char *doing), char *error, size_t error_size);

void sweep_print(const struct sweep *sweep, const char *file);

/* A new reference; NULL without memory. */
json_t *sweep_to_json(const struct sweep *sweep, const char *file, const char *options);

/* Writes BASE.svg and BASE.png: hits, driver calls and failures over memory, a line for each row.
 * False after one line in `error`. */
bool sweep_plot(const char *base, const struct sweep *sweep, const char *title,
                char error[OUTPUT_ERROR]);

#endif
