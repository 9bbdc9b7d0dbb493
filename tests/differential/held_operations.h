/* Operations beside a kernel that runs until the host sets a flag, and others that a pool's waits,
 * locks and answers could spoil; see program.h. */
#ifndef TESTS_DIFFERENTIAL_HELD_OPERATIONS_H
#define TESTS_DIFFERENTIAL_HELD_OPERATIONS_H

#include "world.h"

void do_hold(struct world *world, const struct operation *operation);
void do_let_go(struct world *world, const struct operation *operation);
void do_ask_held(struct world *world, const struct operation *operation);
void do_work_beside(struct world *world, const struct operation *operation);
void do_call_beside(struct world *world, const struct operation *operation);
void do_capture_held(struct world *world, const struct operation *operation);
void do_threads_held(struct world *world, const struct operation *operation);
void do_host_work(struct world *world, const struct operation *operation);
void do_early(struct world *world, const struct operation *operation);
void do_overlap(struct world *world, const struct operation *operation);
void do_ask_inside(struct world *world, const struct operation *operation);
void do_churn(struct world *world, const struct operation *operation);
void do_forks(struct world *world, const struct operation *operation);
void do_plugin(struct world *world, const struct operation *operation);

/* Before any operation: lets go where it would natively wait for what is held. */
void held_before(struct world *world, enum operation_kind kind);

/* The flags are gone with the context; and at the program's end they are freed. */
void held_context_ending(struct world *world, int context);
void held_end(struct world *world);

#endif
