/* What a command prints: if it is lost, one line says so and the command fails, whichever command
 * it is. */
#ifndef POOLCUDA_CLI_STANDARD_OUTPUT_H
#define POOLCUDA_CLI_STANDARD_OUTPUT_H

#include <stdbool.h>

/* From now on the process's exit looks whether everything was printed: if not, one line on standard
 * error says why, and 0 becomes 1. If a pipe's reader is gone, nothing is said. Standard files that
 * are closed are from now on such that reading and writing fails, and no file that is opened later
 * becomes one of them; programs that are started find them closed. A file that would grow beyond
 * its limit (ulimit -f) fails as a full disk does, and is no signal. */
void standard_output_watch(void);

/* In a child, before it starts a program: what standard_output_watch has changed of its signals. */
void standard_output_forget(void);

/* Who says so; "poolcuda" by default. */
void standard_output_owner(const char *name);

/* With what the process ends if something was lost, whatever else it would have ended with: for a
 * command whose other codes, 1 among them, are answers. */
void standard_output_loss_status(int status);

/* Prints what is still in the buffer. False: not all was printed, as a line will say at exit. */
bool standard_output_flush(void);

#endif
