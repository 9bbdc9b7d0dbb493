/* What a command prints: if it is lost, one line says so and the command fails, whichever command
 * it is. */
#ifndef POOLCUDA_CLI_STANDARD_OUTPUT_H
#define POOLCUDA_CLI_STANDARD_OUTPUT_H

#include <stdbool.h>

/* From now on the process's exit looks whether everything was printed: if not, one line on standard
 * error says why, and 0 becomes 1. If a pipe's reader is gone, nothing is said. Standard files that
 * are closed are from now on such that reading and writing fails, and no file that is opened later
 * becomes one of them; programs that are started find them closed. */
void standard_output_watch(void);

/* Who says so; "poolcuda" by default. */
void standard_output_owner(const char *name);

/* Prints what is still in the buffer. False: not all was printed, as a line will say at exit. */
bool standard_output_flush(void);

#endif
