/* Operations of a random program that allocate device memory; see program.h. */
#ifndef TESTS_DIFFERENTIAL_MEMORY_OPERATIONS_H
#define TESTS_DIFFERENTIAL_MEMORY_OPERATIONS_H

#include "world.h"

void do_alloc(struct world *world, const struct operation *operation);
void do_alloc_large(struct world *world, const struct operation *operation);
void do_alloc_pitch(struct world *world, const struct operation *operation);
void do_temporaries(struct world *world, const struct operation *operation);

#endif
