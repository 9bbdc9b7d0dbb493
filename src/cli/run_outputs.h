/* What `poolcuda run` is asked to have its program write, and whether it can be had. */
#ifndef POOLCUDA_CLI_RUN_OUTPUTS_H
#define POOLCUDA_CLI_RUN_OUTPUTS_H

#include "options/options.h"

#include <stdbool.h>

/* Whether what is written to the path makes no file: a device, a pipe or a descriptor of the
 * program's own. */
bool run_outputs_stream(const char *path);

/* Decides which of the options for figures hold: one that was typed goes before a variable. Ends
 * the process with EXIT_USAGE after one line where two that were typed exclude each other. Returns
 * whether figures are wanted. */
bool run_outputs_decide(const struct options *options);

/* An option that was typed and of which nothing comes without the pool, without its dashes; or
 * NULL. */
const char *run_outputs_vain(const struct options *options);

/* Ends the process with EXIT_USAGE after one line if two outputs of the program are one file, or if
 * a log would be appended to a report, a recorded trace or compressed data. Tells of
 * options of the check without it. To be called once relative names are absolute. */
void run_outputs_check(const struct options *options);

#endif
