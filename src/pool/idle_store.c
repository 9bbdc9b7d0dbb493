/* A context's store of idle blocks: its beginning and end. What is in it is the policy's. */
#include "pool/internal.h"

bool idle_store_init(struct pool *pool, const struct policy *policy, struct idle_store *store) {
    *store = (struct idle_store){.by_size = RB_INITIALIZER(&store->by_size), .pool = pool};
    return !policy->open || policy->open(store);
}

void idle_store_destroy(const struct policy *policy, struct idle_store *store) {
    if (policy->close)
        policy->close(store);
}
