/* A context's store of idle blocks: its beginning and end. What is in it is the policy's. */
#include "pool/internal.h"

#include <stdlib.h>

bool store_init(const struct pool *pool, struct store *store) {
    *store = (struct store){.by_size = RB_INITIALIZER(&store->by_size)};
    if (pool->policy == &policy_bins)
        store->bins = calloc(1, sizeof *store->bins);
    return pool->policy != &policy_bins || store->bins;
}

void store_free(struct store *store) {
    free(store->bins);
    store->bins = NULL;
}
