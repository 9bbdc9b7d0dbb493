/* Files that no command writes over: a program's run cannot be had again. */
#ifndef POOLCUDA_CLI_KEPT_FILE_H
#define POOLCUDA_CLI_KEPT_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* What the file is, of those that are kept, in words; NULL: it is none. */
const char *kept_file_kind(const char *path);

/* Whether it is packed, so that what is appended would make it unreadable. */
bool kept_file_is_compressed(const char *path);

/* Whether a report or a recorded trace would be lost if a command wrote its output to `path`, with
 * a line in error: bad usage, to be asked before the work. */
bool kept_file_is_lost(const char *path, char *error, size_t error_size);

#endif
