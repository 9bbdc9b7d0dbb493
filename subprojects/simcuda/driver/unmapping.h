/* Memory of the host that goes while work may still touch it. Work finds out where its memory is
 * with the lock and touches it without: what is unmapped in between stays until that work is done,
 * so that work which is too late faults in its context and does not end the process. */
#ifndef SIMCUDA_UNMAPPING_H
#define SIMCUDA_UNMAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Work that is being executed. Invariant: in the list of all, the oldest first. */
struct toucher {
    uint64_t number;
    struct toucher *prev, *next;
};

/* All below: Lock held. */
void unmapping_work_begins(struct toucher *toucher);
void unmapping_work_ended(struct toucher *toucher);
bool unmapping_is_touched(void); /* some work is being executed */

/* As munmap(), once nothing can touch it any more. */
void unmapping_add(void *memory, size_t size);

#endif
