/* Whether the driver is newer than the pool's table of its functions: seen in the file of its
 * library, which is not loaded. */
#ifndef POOLCUDA_CLI_DOCTOR_DRIVER_FUNCTIONS_H
#define POOLCUDA_CLI_DOCTOR_DRIVER_FUNCTIONS_H

#include <stddef.h>

/* CUDA versions are 1000 * major + 10 * minor. unknown: exported functions of the driver API that
 * the table does not have. Older drivers export some that no header ever declared, so that only a
 * driver that has all that is newest in the table, too, is newer than it: driver == table. */
struct driver_functions {
    unsigned driver; /* of the newest function that it exports and the table has; 0: none */
    unsigned table;  /* of the newest in the table */
    size_t unknown;
};

struct driver_functions driver_functions_look(const char *path);

#endif
