/* Kernels of one known text, which the host computes by code of its own instead of interpreting
 * them: the same results and accesses, some hundred times as fast. */
#ifndef SIMCUDA_SHORTCUTS_H
#define SIMCUDA_SHORTCUTS_H

#include "image.h"
#include "kernels.h"

/* NULL: the kernel is to be interpreted. */
const struct builtin_kernel *shortcut_find(const struct image *image, const char *name);

#endif
