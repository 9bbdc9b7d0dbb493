/* The default keeper: whole blocks, best fit, the site's own preferred.
 *
 * A freed block stays with the site that allocated it last. The smallest idle block that fits
 * serves, the site's own first where sizes are equal: a site's next request tends to be for what it
 * freed, and what another frees suits better only if it wastes less. */
#include "keep/site.h"
#include "base/sizes.h"

/* Blocks up to this size serve every smaller request: what that wastes is not worth a call. */
static const size_t any_below = 4096;

enum {
    FOR_OTHERS = 5,   /* this part of what the bound on waste leaves is not one request's to take */
    LITTLE_WASTE = 6, /* any block serves that wastes this part, or less, of what one may take */
    MOST_GROWTH = 4,
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

/* Bytes that one request may waste. */
static size_t most_waste(const struct fit *fit) {
    return fit->surplus - fit->surplus / FOR_OTHERS;
}

/* Bytes that may be wasted whatever the ratio is, but the fewer the nearer it is to 1. */
static size_t little_waste(const struct fit *fit) {
    double part = (fit->ratio < 2 ? fit->ratio - 1 : 1) / LITTLE_WASTE;
    return fit->little ? (size_t)(part * (double)most_waste(fit)) : 0;
}

/* Only the smallest block of sufficient size is looked at: in every order that matters the others
 * exceed the request by more. */
static bool fits(const struct pool_block *block, const struct fit *fit) {
    if (!block || block->size == fit->size)
        return block;
    size_t more = block->size - fit->size;
    bool near = (double)block->size <= fit->ratio * (double)fit->size ||
                (double)block->asked <= fit->ratio * (double)fit->bytes ||
                block->size <= any_below || more <= little_waste(fit);
    return near && more <= most_waste(fit);
}

static size_t most(const struct fit *fit) {
    double near = fit->ratio * (double)fit->size;
    size_t rounded = near < (double)(SIZE_MAX / 2) ? round_physical((size_t)near) : SIZE_MAX;
    size_t wasting = fit->size + little_waste(fit); /* wraps only where `rounded` is the most */
    size_t least = wasting > any_below ? wasting : any_below;
    return rounded > least ? rounded : least;
}

static size_t reach(const struct fit *fit) {
    lock_check_held(LOCK_POOL);
    size_t size = most(fit), bounded = fit->size + most_waste(fit);
    if (fit->ratio <= 1 || fit->size > SIZE_MAX / MOST_GROWTH)
        return fit->size;
    if (bounded >= fit->size && size > bounded)
        size = bounded;
    if (size > MOST_GROWTH * fit->size)
        size = MOST_GROWTH * fit->size;
    size -= size % (size >= ROUND_PAGE ? ROUND_PAGE : ROUND_SMALL);
    return size > fit->size ? size : fit->size;
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
    if (!fits(found, fit))
        found = NULL;
    other = fit->steal ? RB_NFIND(size_tree, &store->by_size, &least) : NULL;
    if (fits(other, fit) && (!found || other->size < found->size))
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
    .serves = fits,
    .most = most,
    .least = least_size,
    .reach = reach,
    .give = site_give,
    .remove = site_remove,
    .surplus = site_surplus,
    .misfit = misfit,
    .victim = site_largest,
    .largest = site_largest,
    .is_valid = site_is_valid,
};
