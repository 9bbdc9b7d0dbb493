/* Operations on pinned host memory; see program.h. */
#ifndef TESTS_DIFFERENTIAL_HOST_OPERATIONS_H
#define TESTS_DIFFERENTIAL_HOST_OPERATIONS_H

#include "world.h"

void do_host_alloc(struct world *world, const struct operation *operation);
void do_host_fill(struct world *world, const struct operation *operation);
void do_host_copy(struct world *world, const struct operation *operation);
void do_host_read(struct world *world, const struct operation *operation);
void do_host_release(struct world *world, const struct operation *operation);
void do_host_wrong(struct world *world, const struct operation *operation);

/* All of it is gone with the context; and at the program's end it is freed. */
void host_context_ending(struct world *world, int context);
void host_end(struct world *world);

#endif
