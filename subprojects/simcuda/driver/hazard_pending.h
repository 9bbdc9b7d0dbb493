/* Work whose accesses are known only when it has run: kernels that run as their PTX says. Until
 * then the detector keeps what it would otherwise forget. All below: lock held, unless it says
 * otherwise. */
#ifndef SIMCUDA_HAZARD_PENDING_H
#define SIMCUDA_HAZARD_PENDING_H

#include "op.h"
#include "stream.h"
#include "vclock.h"

/* Such work, submitted when so many generations of owners had begun. */
struct pending {
    struct work *work;   /* a reference */
    struct vclock clock; /* what it comes after */
    uint64_t generations;
    struct pending *prev, *next;
};

void pending_begin(const struct op *op, const struct work *work, const struct vclock *clock,
                   uint64_t generations);
struct pending *pending_of(const struct work *work); /* NULL: its accesses were known before */
void pending_end(struct pending *pending);

bool pending_any(void);
/* Whether some was submitted while an owner had memory from the first to the last of these. */
bool pending_within(uint64_t first, uint64_t last);

/* What a kernel has accessed that has run on this thread. */
struct found {
    const char *name; /* of the operation */
    struct access *accesses;
    size_t count;
    const struct op *op;
    struct found *next;
};

/* Takes the accesses, which are on the heap. Lock not needed. */
void found_add(const struct op *op, struct access *accesses, size_t count);
/* What this thread has added since it was asked last; the caller's. Lock not needed. */
struct found *found_take(void);
void found_drop(struct found *found); /* Lock not needed. */

#endif
