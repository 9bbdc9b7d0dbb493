/* The values that an option of the library takes, in words. */
#ifndef POOLCUDA_CLI_OPTION_VALUES_H
#define POOLCUDA_CLI_OPTION_VALUES_H

#include "options/options.h"

/* Passes them to put(), in pieces: "0 or 1", "sync, auto, defer". */
void option_values(const struct option_info *info, void (*put)(const char *text));

#endif
