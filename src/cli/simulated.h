/* Where the simulated GPU's driver is. */
#ifndef POOLCUDA_CLI_SIMULATED_H
#define POOLCUDA_CLI_SIMULATED_H

#include <stdbool.h>
#include <stddef.h>

/* The path of its libcuda.so.1: beside this program in the build folder, or where it is installed.
 * False if it is in neither place. */
bool simulated_driver(char *path, size_t size);

#endif
