/* Waiting for a device that is out of memory and busy. */
#ifndef POOLCUDA_POOL_PATIENCE_H
#define POOLCUDA_POOL_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* How long a call that found no memory has waited for the device. */
struct patience {
    uint64_t began; /* nanoseconds; 0: it has not waited */
    unsigned step;
    bool counted;
};
/* BRIEFLY: for the device, which is neither told nor counted. */
enum patience_for { PATIENCE_FOR_DEVICE, PATIENCE_FOR_THREAD, PATIENCE_BRIEFLY };
/* Waits a moment. False: it has waited for `seconds`, POOLCUDA_OOM_WAIT, or what a thread may take
 * to give memory back. Lock not held. */
bool patience_wait(struct pool *pool, struct patience *patience, enum patience_for what,
                   double seconds);
void patience_end(const struct patience *patience); /* counts the time */

#endif
