/* Files that are installed with this command, found from where it lies: a build folder or an
 * installation may be moved as a whole. */
#ifndef POOLCUDA_CLI_INSTALLED_H
#define POOLCUDA_CLI_INSTALLED_H

#include <stdbool.h>
#include <stddef.h>

/* The first of `places`, relative to this program's folder, that can be read. False, with nothing
 * sensible in path, if none can or the path does not fit. */
bool installed_find(const char *const *places, size_t count, char *path, size_t size);

/* The real path of libpoolcuda.so; path has PATH_MAX bytes. False if it is in neither place. */
bool installed_library(char *path);

/* The path of a document, such as "policies.md"; path has PATH_MAX bytes. Where it was not
 * installed together with this command, its place in the sources. */
void installed_document(const char *name, char *path);

#endif
