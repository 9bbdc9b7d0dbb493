/* What else is in the process that matters to the pool: tools, libraries that reach device memory
 * past the driver, code that calls the driver past us. */
#ifndef POOLCUDA_INTERPOSE_SURROUNDINGS_H
#define POOLCUDA_INTERPOSE_SURROUNDINGS_H

#include "pool/pool.h"

/* The name of the memory checker that watches this process, NULL if none is seen. */
const char *surroundings_memory_checker(char *const *environment);

/* Notes for the report which other tools there are. */
void surroundings_note_tools(char *const *environment);

/* Tells the pool of libraries and code because of which no wait may be owed. Looks again whenever
 * modules have been loaded since; cheap otherwise. */
void surroundings_look(struct pool *pool);

/* Whether the loader finds us before what we hook: not if we were loaded while the program ran or
 * linked behind the driver, nor if another dlsym comes before ours, which may pass by us. */
bool surroundings_hooked(void);

#endif
