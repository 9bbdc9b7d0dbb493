/* Looks at what the program gives to the device, where kernels reach plain host memory: from the
 * first address of such memory on frees wait (pool_host_address_given), and nobody looks any more.
 * It is a judgement: docs/semantics.md says what it misses. */
#ifndef POOLCUDA_INTERPOSE_GIVEN_ADDRESSES_H
#define POOLCUDA_INTERPOSE_GIVEN_ADDRESSES_H

#include "interpose/call_arguments.h"
#include "interpose/entry_points.h"
#include "pool/pool.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { GIVEN_UNKNOWN = ENTRIES }; /* the row of a function that the table does not have */

/* Whether calls of the function are to be looked at, each of them: never on machines whose kernels
 * reach no plain host memory, once the driver has said so. row: of entry_points. */
extern atomic_bool given_nobody_looks __attribute__((visibility("hidden")));
bool given_is_of(unsigned row);
static inline bool given_looks_at(unsigned row) {
    return !atomic_load_explicit(&given_nobody_looks, memory_order_relaxed) && given_is_of(row);
}

/* Before such a call. */
void given_look(struct pool *pool, unsigned row, const struct call_arguments *arguments);

/* Addresses and functions may mean something else from now on: memory or modules have gone. */
void given_forget(void);
/* In a forked child, which has given nothing yet. */
void given_forget_after_fork(void);

#endif
