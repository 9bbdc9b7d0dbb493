/* Operations on managed memory; see program.h. */
#ifndef TESTS_DIFFERENTIAL_MANAGED_OPERATIONS_H
#define TESTS_DIFFERENTIAL_MANAGED_OPERATIONS_H

#include "world.h"

void do_managed_alloc(struct world *world, const struct operation *operation);
void do_managed_fill(struct world *world, const struct operation *operation);
void do_managed_read(struct world *world, const struct operation *operation);
void do_managed_advise(struct world *world, const struct operation *operation);
void do_managed_prefetch(struct world *world, const struct operation *operation);
void do_managed_attach(struct world *world, const struct operation *operation);
void do_managed_ask(struct world *world, const struct operation *operation);
void do_managed_release(struct world *world, const struct operation *operation);
void do_managed_wrong(struct world *world, const struct operation *operation);

/* All of it is gone with the context; and at the program's end it is freed. */
void managed_context_ending(struct world *world, int context);
void managed_end(struct world *world);

#endif
