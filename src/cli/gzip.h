/* gzip's form of what a command writes. */
#ifndef POOLCUDA_CLI_GZIP_H
#define POOLCUDA_CLI_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Writes the bytes compressed, as well as gzip can. Returns false without memory; faults of the
 * file are to be asked from the file (ferror). */
bool gzip_write(FILE *file, const void *bytes, size_t size);

#endif
