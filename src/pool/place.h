/* Where a device's memory lies, and whether one of the process's control groups limits it: what the
 * system's files say. */
#ifndef POOLCUDA_POOL_PLACE_H
#define POOLCUDA_POOL_PLACE_H

#include "pool/pool.h"

enum { PLACE_TEXT = 2048, PLACE_PATH = 512 }; /* bytes of a file's text, and of a path */

/* Reads a file of the system's. False: it is not there. */
bool place_read_file(const struct pool *pool, const char *path, char *text);
/* The number that the text begins with; UINT64_MAX for anything else ("max"). */
uint64_t place_number_at(const char *text);
/* The length of the text up to that letter, or the line's or the text's end. */
size_t place_span(const char *text, char letter);
/* The process's group in version 2 of control groups, without a slash at its end. */
bool place_find_group(const struct pool *pool, char *group);
/* What one of the group's files says; `of`: of a device, NULL: in all. */
uint64_t place_read_limit(const struct pool *pool, const char *group, const char *name,
                          const char *of);
/* The group around it; false: that was the outermost. */
bool place_leave_group(char *group);

#endif
