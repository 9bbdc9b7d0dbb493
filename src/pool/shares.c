/* What requests ask of the driver that may be more than they need: until a record tells of it
 * (take.c), those that are refused because of it wait (out_of_memory.c). It is not noted on the
 * asking thread's stack, which is gone if the thread is cancelled in the driver. */
#include "pool/internal.h"

#include <stdlib.h>

struct share {
    uint64_t number;
    LIST_ENTRY(share) link;
};

void source_shares(struct device *device, struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    struct share *share = malloc(sizeof *share);
    if (!share)
        return;
    share->number = ++device->shares;
    LIST_INSERT_HEAD(&device->sharing, share, link);
    obtained->share = share;
}

void source_share_ends(struct share *share) {
    lock_check_held(LOCK_POOL);
    LIST_REMOVE(share, link);
    free(share);
}

void source_shares_nothing(struct pool *pool, struct obtained *obtained) {
    lock_check_none();
    if (!obtained->share)
        return;
    pool_lock(pool);
    source_share_ends(obtained->share);
    pool_unlock(pool);
    obtained->share = NULL;
}

bool source_is_shared(const struct device *device, uint64_t last) {
    lock_check_held(LOCK_POOL);
    const struct share *share;
    LIST_FOREACH (share, &device->sharing, link)
        if (share->number <= last)
            return true;
    return false;
}

void source_forget_shares(struct device *device) {
    lock_check_held(LOCK_POOL);
    struct share *share;
    while ((share = LIST_FIRST(&device->sharing)))
        source_share_ends(share);
}
