/* The hazard detector: docs/simulation.md defines what it reports. All below: lock held. */
#ifndef SIMCUDA_HAZARD_H
#define SIMCUDA_HAZARD_H

#include "memory.h"
#include "op.h"
#include "stream.h"

/* The driver's own allocation and release begin and end ownership of whole blocks. */
void hazard_block_begin(struct block *block, uintptr_t site);
void hazard_block_end(struct block *block, const struct vclock *order, uintptr_t site);

/* `op` was submitted as `work`, which comes after what `clock` covers: checks and records its
 * accesses. */
void hazard_submitted(const struct op *op, const struct work *work, const struct vclock *clock);

/* `work` has run, or will not: what this thread found it to access is checked and recorded as of
 * when it was submitted. */
void hazard_done(const struct work *work);

/* Notes in op's accesses whose memory they are, for operations that run later: graph nodes. */
void hazard_note_owners(struct op *op);

#endif
