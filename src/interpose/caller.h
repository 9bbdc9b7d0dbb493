/* Who asked for memory: finds the application's frame behind a driver hook. */
#ifndef POOLCUDA_INTERPOSE_CALLER_H
#define POOLCUDA_INTERPOSE_CALLER_H

#include "call_site.h"

#include <stdint.h>

/* The allocation site of the driver call whose hook was entered with the return address
 * `return_address` and the canonical frame address `frame` (the stack pointer before the call).
 * depth: frames wanted, 1 to CALL_SITE_MAX_DEPTH. Never fails: a site that cannot be found is the
 * return address itself. */
void caller_find(struct call_site *site, uintptr_t return_address, uintptr_t frame, unsigned depth);

/* A runtime hook passes the application's return address down to the driver hook below it on the
 * same thread. Returns the note it replaces, to be put back afterwards. */
uintptr_t caller_note(uintptr_t return_address);

/* A lookup of the driver function `name` returned to `return_address`. Modules that make lookups
 * may hold a CUDA runtime; "" is the probe by which one is recognised [seen: CUDA 12 and 13
 * runtimes probe the driver's lookup with an empty name before they use it]. */
void caller_note_lookup(uintptr_t return_address, const char *name);

#endif
