/* What else is in the process that matters to the pool: tools, libraries that reach device memory
 * past the driver, code that calls the driver past us. */
#ifndef POOLCUDA_INTERPOSE_SURROUNDINGS_H
#define POOLCUDA_INTERPOSE_SURROUNDINGS_H

#include "interpose/loader.h"
#include "pool/pool.h"

#include <stdatomic.h>

/* The name of the memory checker that watches this process, NULL if none is seen. */
const char *surroundings_memory_checker(char *const *environment);

/* Notes for the report which other tools there are. */
void surroundings_note_tools(char *const *environment);

/* Tells the pool of libraries and code because of which no wait may be owed. Looks again whenever
 * modules have been loaded since; else it asks the loader whether that is so, and nothing more. */
void surroundings_look(struct pool *pool);

extern _Atomic uint64_t surroundings_seen
    __attribute__((visibility("hidden"))); /* of loader_opens */

/* Whether dlopen has been called since surroundings_look last saw what came of it. Libraries that
 * get into the process in other ways are for the pool's own looks, now and then. */
static inline bool surroundings_change(void) {
    return atomic_load_explicit(&surroundings_seen, memory_order_relaxed) != loader_opens;
}

/* Whether the loader finds us before what we hook: not if we were loaded while the program ran or
 * linked behind the driver, nor if another dlsym comes before ours, which may pass by us. */
bool surroundings_hooked(void);

#endif
