/* Nothing is kept: what is given is surplus at once. For memory that the driver itself keeps. */
#include "base/sizes.h"
#include "keep/keeper.h"

static size_t round_to_unit(size_t bytes) {
    return round_up(bytes, ROUND_SMALL);
}

static struct pool_block *take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how) {
    lock_check_held(LOCK_POOL);
    (void)store;
    (void)site;
    (void)fit;
    (void)how;
    return NULL;
}

static void give(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    LIST_INSERT_HEAD(&store->leaving, block, in_list);
    store->count++;
    store->bytes += block->size;
}

static void remove_block(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    LIST_REMOVE(block, in_list);
    store->count--;
    store->bytes -= block->size;
}

static struct pool_block *victim(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    return LIST_FIRST(&store->leaving);
}

static struct pool_block *surplus(struct idle_store *store, struct site *site, size_t keep) {
    lock_check_held(LOCK_POOL);
    (void)site;
    (void)keep;
    return victim(store);
}

static bool is_valid(const struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    const struct pool_block *block;
    size_t count = 0, bytes = 0;
    LIST_FOREACH (block, &store->leaving, in_list) {
        count++;
        bytes += block->size;
    }
    return count == store->count && bytes == store->bytes;
}

const struct keeper keeper_none = {
    .keeps_nothing = true,
    .round = round_to_unit,
    .take = take,
    .give = give,
    .remove = remove_block,
    .surplus = surplus,
    .victim = victim,
    .largest = victim,
    .is_valid = is_valid,
};
