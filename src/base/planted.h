/* Deliberate faults, for the proof that the tests would find them. A build for use has none: there
 * PLANTED(name) is the constant false. A build with POOLCUDA_PLANTED_FAULTS has the one that
 * $POOLCUDA_PLANT names. Those called slow_... are pauses where a race would show. */
#ifndef POOLCUDA_BASE_PLANTED_H
#define POOLCUDA_BASE_PLANTED_H

#include <stdbool.h>

#ifdef POOLCUDA_PLANTED_FAULTS
bool planted(const char *name);
#define PLANTED(name) planted(#name)
#else
#define PLANTED(name) false
#endif

#endif
