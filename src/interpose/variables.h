/* Libraries that have variables of the driver's names, as CUEW and other wranglers do: pointers to
 * functions, which they fill once they have opened the driver. The loader takes our functions for
 * these variables, since it looks for names alone. So before the driver is opened each such library
 * gets its own variables back. */
#ifndef POOLCUDA_INTERPOSE_VARIABLES_H
#define POOLCUDA_INTERPOSE_VARIABLES_H

/* To be called before dlopen, with its path. */
void variables_before_open(const char *path) __attribute__((visibility("hidden")));

#endif
