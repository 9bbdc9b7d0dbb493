/* CUDA's names that nobody but this library defines. It exports them for modules that are linked
 * against CUDA; to a program that looks one up, where natively there is none, there is none. */
#ifndef POOLCUDA_INTERPOSE_ABSENT_H
#define POOLCUDA_INTERPOSE_ABSENT_H

#include <stdbool.h>
#include <stdint.h>

/* To be called with the program's arguments: errors of the loader begin with the first. */
void absent_take(char *const *argv);

/* Whether a look-up of the name through a real handle, which found this library's function, would
 * natively have failed. If so, the loader's error is what it would have been. */
bool absent_from_handle(void *handle, const char *name);

/* Whether one through RTLD_DEFAULT or RTLD_NEXT, from code at `caller`, which is still to be made,
 * would natively fail; the error as above. Called by entry.S. */
bool absent_from_scope(void *handle, const char *name, uintptr_t caller);

#endif
