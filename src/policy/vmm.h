/* Physical pages and the ranges of addresses that they are mapped at: what the policy `vmm` has
 * beside its regions. */
#ifndef POOLCUDA_POLICY_VMM_H
#define POOLCUDA_POLICY_VMM_H

#include "policy/policy.h"

#include <bsd/sys/queue.h>

/* A range of addresses, reserved at once. Invariant: handle[i] is the page mapped at base + i
 * pages, 0 where none is; mapped counts the others. */
struct reservation {
    uint64_t base; /* a CUdeviceptr */
    size_t pages, mapped;
    LIST_ENTRY(reservation) link;
    CUmemGenericAllocationHandle handle[];
};

/* What one store has. Invariant: the store's `unused` bytes are those of `cached`. */
struct vmm {
    LIST_HEAD(, reservation) reservations;
    struct page *cached; /* mapped nowhere */
};

/* Forgets everything; makes no CUDA call. */
void vmm_destroy(struct vmm *vmm);

/* Takes all of a store that ends; vmm_release gives it to the driver. The work of its context must
 * be over or lost. Lock held. */
struct vmm *vmm_detach(struct idle_store *store);
/* Lock not held. */
void vmm_release(struct pool *pool, struct vmm *detached);

#endif
