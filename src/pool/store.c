/* A context's store of idle blocks: its beginning and end. What is in it is the policy's. */
#include "policy/async.h"
#include "policy/region.h"
#include "policy/vmm.h"
#include "pool/internal.h"

#include <stdlib.h>

bool store_init(struct pool *pool, const struct policy *policy, struct store *store) {
    *store = (struct store){.by_size = RB_INITIALIZER(&store->by_size), .pool = pool};
    if (policy == &policy_bins)
        store->bins = calloc(1, sizeof *store->bins);
    if (policy->cuts)
        store->regions = regions_new();
    if (policy == &policy_vmm)
        store->vmm = vmm_new();
    if (policy == &policy_async)
        store->async = async_new();
    return (policy != &policy_vmm || store->vmm) && (policy != &policy_async || store->async) &&
           (policy != &policy_bins || store->bins) && (!policy->cuts || store->regions);
}

void store_free(struct store *store) {
    free(store->bins);
    store->bins = NULL;
    free(store->async);
    store->async = NULL;
    vmm_free(store->vmm);
    store->vmm = NULL;
    regions_free(store->regions);
    store->regions = NULL;
}
