/* The loaded modules (executable and shared objects) by address, from dl_iterate_phdr. */
#ifndef POOLCUDA_MODULES_H
#define POOLCUDA_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies the path of the module that contains `address` ("" never; the executable's real path) into
 * path, cut to size, and sets *offset to the address minus the module's load base.
 * Returns false, touching neither, if no loaded module contains the address. */
bool modules_describe(uintptr_t address, char *path, size_t size, uint64_t *offset);

#endif
