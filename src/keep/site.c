/* The default keeper: whole blocks, best fit, the site's own preferred.
 *
 * A freed block stays with the site that allocated it last. The smallest idle block that fits
 * serves, the site's own first where sizes are equal: a site's next request tends to be for what it
 * freed, and what another frees suits better only if it wastes less. */
#include "keep/site.h"
#include "base/sizes.h"

enum {
    MOST_GIVEN_UP = 4 /* a larger one serves others: the request adds little to what is held */
};

static int compare(const struct pool_block *one, const struct pool_block *other) {
    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    if (one->asked != other->asked)
        return one->asked < other->asked ? -1 : 1;
    if (one->pointer != other->pointer)
        return one->pointer < other->pointer ? -1 : 1;
    return 0;
}

#define UNUSED __attribute__((unused))
RB_GENERATE_INTERNAL(size_tree, pool_block, by_size, compare, static UNUSED)
RB_GENERATE_INTERNAL(site_tree, pool_block, by_site_size, compare, static UNUSED)

void site_remove(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    RB_REMOVE(size_tree, &store->by_size, block);
    RB_REMOVE(site_tree, &block->site->idle, block);
    block->site->idle_count--;
    store->count--;
    store->bytes -= block->size;
}

void site_give(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    RB_INSERT(size_tree, &store->by_size, block);
    RB_INSERT(site_tree, &block->site->idle, block);
    block->age = store->clock++;
    block->site->idle_count++;
    store->count++;
    store->bytes += block->size;
}

struct pool_block *site_find(struct site *site, size_t size) {
    struct pool_block least = {.size = size};
    return RB_NFIND(site_tree, &site->idle, &least);
}

struct pool_block *site_take(struct idle_store *store, struct site *site, const struct fit *fit,
                             unsigned *how) {
    lock_check_held(LOCK_POOL);
    struct pool_block least = {.size = fit->size}, *other;
    struct pool_block *found = site_find(site, fit->size);
    if (found && !site_fits(found, fit))
        found = NULL;
    other = fit->steal ? RB_NFIND(size_tree, &store->by_size, &least) : NULL;
    if (other && site_fits(other, fit) && (!found || other->size < found->size))
        found = other;
    if (!found)
        return NULL;
    *how = found->site != site ? TAKEN_STOLEN : 0;
    site_remove(store, found);
    return found;
}

static struct pool_block *take_same(struct idle_store *store, struct site *site, size_t size) {
    lock_check_held(LOCK_POOL);
    struct pool_block *found = site_find(site, size);
    if (!found || found->size != size)
        return NULL;
    site_remove(store, found);
    return found;
}

static size_t least_size(struct idle_store *store, size_t size) {
    struct pool_block least = {.size = size};
    const struct pool_block *found = RB_NFIND(size_tree, &store->by_size, &least);
    return found ? found->size : SIZE_MAX;
}

struct pool_block *site_oldest(struct site *site) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block, *oldest = NULL;
    RB_FOREACH (block, site_tree, &site->idle)
        if (!oldest || block->age < oldest->age)
            oldest = block;
    return oldest;
}

struct pool_block *site_surplus(struct idle_store *store, struct site *site, size_t keep) {
    lock_check_held(LOCK_POOL);
    (void)store;
    return keep && site->idle_count > keep ? site_oldest(site) : NULL;
}

/* A site whose sizes only fall has no use for what was too large for it; of just its size a block
 * may have been freed meanwhile. Less than a page shares one with other blocks: to give it up may
 * free nothing. Lock held. */
static struct pool_block *misfit(struct site *site, size_t size) {
    lock_check_held(LOCK_POOL);
    const size_t page = ROUND_PAGE;
    struct pool_block *found = size ? site_find(site, size < page ? page : size + 1) : NULL;
    return found && found->size / MOST_GIVEN_UP <= size ? found : NULL;
}

struct pool_block *site_largest(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    return RB_MAX(size_tree, &store->by_size);
}

bool site_is_valid(const struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct idle_store *walked = (struct idle_store *)(uintptr_t)store;
    struct pool_block *block, *previous = NULL;
    size_t count = 0, bytes = 0;
    RB_FOREACH (block, size_tree, &walked->by_size) {
        if (previous && compare(previous, block) >= 0)
            return false;
        if (RB_FIND(site_tree, &block->site->idle, block) != block)
            return false;
        struct pool_block *other;
        size_t of_site = 0;
        RB_FOREACH (other, site_tree, &block->site->idle)
            of_site++;
        if (of_site != block->site->idle_count || block->age >= store->clock)
            return false;
        count++;
        bytes += block->size;
        previous = block;
    }
    return count == store->count && bytes == store->bytes;
}

const struct keeper keeper_site = {
    .round = round_physical,
    .take = site_take,
    .take_same = take_same,
    .serves = site_fits,
    .most = site_most,
    .least = least_size,
    .reach = site_reach,
    .give = site_give,
    .remove = site_remove,
    .surplus = site_surplus,
    .misfit = misfit,
    .victim = site_largest,
    .largest = site_largest,
    .is_valid = site_is_valid,
};
