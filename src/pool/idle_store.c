/* A context's store of idle blocks: its beginning and end. What is in it is the policy's. */
#include "policy/driver_pool.h"
#include "policy/region.h"
#include "policy/vmm.h"
#include "pool/internal.h"

#include <stdlib.h>

bool idle_store_init(struct pool *pool, const struct policy *policy, struct idle_store *store) {
    *store = (struct idle_store){.by_size = RB_INITIALIZER(&store->by_size), .pool = pool};
    if (policy == &policy_bins)
        store->bins = calloc(1, sizeof *store->bins);
    if (policy->cuts)
        store->regions = regions_new();
    if (policy == &policy_vmm)
        store->vmm = vmm_new();
    if (policy == &policy_driver_pool)
        store->async = driver_pool_new();
    return (policy != &policy_vmm || store->vmm) &&
           (policy != &policy_driver_pool || store->async) &&
           (policy != &policy_bins || store->bins) && (!policy->cuts || store->regions);
}

void idle_store_destroy(struct idle_store *store) {
    free(store->bins);
    store->bins = NULL;
    free(store->async);
    store->async = NULL;
    vmm_destroy(store->vmm);
    store->vmm = NULL;
    regions_destroy(store->regions);
    store->regions = NULL;
}
