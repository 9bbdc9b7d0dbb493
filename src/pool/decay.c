/* Decay: what nobody needed for a while goes back to the driver.
 *
 * The least idle memory that there was throughout a period is what the program could have done
 * without: at the period's end that much is given up, whole blocks only, largest first. So no block
 * has an age of its own, and the sums are kept in passing. Checked now and then in malloc and free;
 * a program that makes neither call decays at its next. */
#include "pool/internal.h"

enum { LOOK_EVERY = 16 }; /* changes between two looks at the clock */

uint64_t decay_due(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    if (pool->config.idle_decay <= 0 || device->changes - device->looked < LOOK_EVERY)
        return 0;
    device->looked = device->changes;
    uint64_t now = pool_now(pool), due = 0;
    bool over = (double)(now - device->period_began) >= pool->config.idle_decay * 1e9;
    if (!over)
        return 0;
    if (device->period_began)
        due = device->least_idle;
    device->period_began = now;
    device->least_idle = device->idle;
    return due;
}
