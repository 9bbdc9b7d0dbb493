/* Which files have been read, so that none counts twice under several names. */
#ifndef POOLCUDA_CLI_SEEN_FILES_H
#define POOLCUDA_CLI_SEEN_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: none yet. Files are told apart by device and number. */
struct seen_files {
    void *tree; /* of search.h */
    size_t again;
};

/* Whether the file was seen before; then it is counted in `again`. A file that cannot be asked for
 * is new each time. */
bool seen_files_again(struct seen_files *seen, const char *path);
/* One line of `command` to standard error where some were. Frees what is kept. */
void seen_files_end(struct seen_files *seen, const char *command);

#endif
