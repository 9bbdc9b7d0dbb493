/* Vector clocks: which work is known to come before which.
 *
 * A timeline is one stream; its counter numbers the work submitted to it. A clock says, for every
 * timeline, up to which number work is ordered before the clock's owner. */
#ifndef SIMCUDA_VCLOCK_H
#define SIMCUDA_VCLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* counts[length..] are zero by definition, so an empty clock precedes everything. */
struct vclock {
    uint64_t *counts;
    uint32_t length;
};

void vclock_join(struct vclock *into, const struct vclock *from);
void vclock_raise(struct vclock *clock, uint32_t timeline, uint64_t count);
bool vclock_covers(const struct vclock *clock, uint32_t timeline, uint64_t count);
void vclock_clear(struct vclock *clock);

#endif
