/* Files that the command line names for output. Every command writes them by these functions, which
 * damage none:
 *
 * - A regular file is replaced as a whole: it has its old content or the new one, never a part, and
 *   keeps its mode, and its owner where that is allowed. Through a link the file that it leads to
 * is replaced; the link stays. Where the folder takes no new file, or the file cannot be exchanged
 *   (it is a mount point), it is written in place.
 * - A device, a pipe, /dev/stdout or /dev/fd/N is written to as it is.
 * - "-" is standard output. */
#ifndef POOLCUDA_CLI_OUTPUT_H
#define POOLCUDA_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

enum { OUTPUT_ERROR = 1024 };

bool output_is_standard(const char *path);

/* To be asked before the work begins, and bad usage (EXIT_USAGE). Returns true, with a line in
 * `error`, if `path` is the file `input`, also by another name. */
bool output_is_input(const char *path, const char *input, char error[OUTPUT_ERROR]);

/* Whether two files to write are one file, with a line about `one` in `error`. A device takes
 * both. */
bool output_is_output(const char *one, const char *other, char error[OUTPUT_ERROR]);

/* To be asked before the work begins. Returns false, with a line in `error`, if `path` cannot be a
 * file to write. */
bool output_check(const char *path, char error[OUTPUT_ERROR]);

/* Writes the whole content. Returns false, with a line in `error`, if it could not be written.
 * Faults of standard output are reported when the command ends (standard_output.h). */
bool output_write(const char *path, const void *bytes, size_t size, char error[OUTPUT_ERROR]);

#endif
