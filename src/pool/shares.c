/* What requests ask of the driver that may be more than they need: until a record tells of it
 * (take.c), those that are refused because of it wait (out_of_memory.c). */
#include "pool/internal.h"

void source_shares(struct device *device, struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    obtained->share = ++device->shares;
    LIST_INSERT_HEAD(&device->sharing, obtained, link);
}

void source_shares_nothing(struct pool *pool, struct obtained *obtained) {
    lock_check_none();
    if (!obtained->share)
        return;
    pool_lock(pool);
    LIST_REMOVE(obtained, link);
    pool_unlock(pool);
    obtained->share = 0;
}

void attempt_begins(struct device *device, struct attempt *attempt) {
    lock_check_held(LOCK_POOL);
    device->attempting++;
    source_shares(device, &attempt->share);
}

void attempt_takes(struct device *device, struct attempt *attempt) {
    lock_check_held(LOCK_POOL);
    device->releasing += !attempt->took;
    attempt->took = true;
}

void attempt_ends(struct pool *pool, struct device *device, const struct attempt *attempt,
                  bool undone) {
    lock_check_held(LOCK_POOL);
    device->attempting--;
    LIST_REMOVE(&attempt->share, link);
    if (attempt->took)
        pool_count_released(pool, device, 1);
    else if (undone || pool->awaiting)
        futex_change(&pool->release_rounds);
}
