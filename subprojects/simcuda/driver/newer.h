/* A driver newer than any that there is: the simulated one with functions of a version to come
 * (../newer_driver), to show what becomes of those that a program's tools do not know. */
#ifndef SIMCUDA_NEWER_H
#define SIMCUDA_NEWER_H

enum { NEWER_VERSION = 99990 };

/* What cuGetProcAddress finds for that version, NULL if nothing is newer. Itself NULL in the driver
 * that has no such functions. */
__attribute__((weak)) void *newer_function(const char *base);

#endif
