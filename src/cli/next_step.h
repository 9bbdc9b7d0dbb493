/* The command to type next, which commands name at their end: a shell that is given it runs exactly
 * what is meant. Texts are printable, NULL without memory, and the caller frees them. */
#ifndef POOLCUDA_CLI_NEXT_STEP_H
#define POOLCUDA_CLI_NEXT_STEP_H

#include "base/command_line.h"

#include <stdio.h>

/* What this command is to be called by: as it was. */
char *next_step_self(void);

/* A file's name as an argument. */
char *next_step_file(const char *path);

/* `poolcuda run` of the program that had this command line, in the folder that it was started in.
 * options: of `poolcuda run`, in the shell's words, each followed by a blank. PROGRAM stands for a
 * command line that is not known. */
char *next_step_run(const char *options, const struct command_line *line);

/* Prints that as the last line of a report, behind one that says what PROGRAM stands for if it is
 * in it. executable: whose command line it is, NULL: unknown. */
void next_step_tell_run(FILE *out, const char *options, const struct command_line *line,
                        const char *executable);

#endif
