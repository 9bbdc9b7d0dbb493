/* The driver functions that have no hook of their own: what each means for the waits that frees
 * owe, and whether it can run out of memory. The table is entry_points.def. */
#ifndef POOLCUDA_INTERPOSE_STUBS_H
#define POOLCUDA_INTERPOSE_STUBS_H

#include <stdbool.h>

/* What to hand out instead of `found`, the driver's function that dlsym found as `name`, or that
 * cuGetProcAddress found as `base`, in its per-thread form or not: a stub, or `found` itself if
 * nothing needs to stand before it. Of names that the table does not know, only those that `known`
 * says are the driver's get one. */
void *stubs_replace_symbol(const char *name, void *found);
void *stubs_replace_base(const char *base, void *found, bool per_thread);

/* In a forked child: what the pool has been notified of so far it must hear again. */
void stubs_forget_after_fork(void);

#endif
