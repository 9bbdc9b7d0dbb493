#include "policy/site.h"

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

void site_idle_init(struct idle_blocks *idle) {
    *idle = (struct idle_blocks){.by_size = RB_INITIALIZER(&idle->by_size)};
}

void site_remove(struct idle_blocks *idle, struct pool_block *block) {
    RB_REMOVE(size_tree, &idle->by_size, block);
    RB_REMOVE(site_tree, &block->site->idle, block);
    TAILQ_REMOVE(&block->site->oldest_first, block, by_age);
    block->site->idle_count--;
    idle->count--;
    idle->bytes -= block->size;
}

void site_give(struct idle_blocks *idle, struct pool_block *block) {
    RB_INSERT(size_tree, &idle->by_size, block);
    RB_INSERT(site_tree, &block->site->idle, block);
    TAILQ_INSERT_TAIL(&block->site->oldest_first, block, by_age);
    block->site->idle_count++;
    idle->count++;
    idle->bytes += block->size;
}

/* The smallest block of sufficient size is the only one to look at: in every order that matters the
 * others exceed the request by more. */
static bool fits(const struct pool_block *block, const struct fit *fit) {
    if (!block)
        return false;
    if (block->size == fit->size)
        return true;
    bool near = (double)block->size <= fit->ratio * (double)fit->size ||
                (double)block->asked <= fit->ratio * (double)fit->bytes;
    return near && block->size - fit->size <= fit->surplus;
}

struct pool_block *site_take(struct idle_blocks *idle, struct site *site, const struct fit *fit,
                             bool steal, bool *stolen) {
    struct pool_block least = {.size = fit->size};
    struct pool_block *found = RB_NFIND(site_tree, &site->idle, &least);
    *stolen = !fits(found, fit);
    if (*stolen) {
        found = steal ? RB_NFIND(size_tree, &idle->by_size, &least) : NULL;
        if (!fits(found, fit))
            return NULL;
    }
    site_remove(idle, found);
    return found;
}

struct pool_block *site_surplus(struct site *site, size_t keep) {
    return keep && site->idle_count > keep ? TAILQ_FIRST(&site->oldest_first) : NULL;
}

struct pool_block *site_largest(struct idle_blocks *idle) {
    return RB_MAX(size_tree, &idle->by_size);
}

bool site_is_valid(const struct idle_blocks *idle) {
    struct idle_blocks *walked = (struct idle_blocks *)(uintptr_t)idle;
    struct pool_block *block, *previous = NULL;
    size_t count = 0, bytes = 0;
    RB_FOREACH (block, size_tree, &walked->by_size) {
        if (previous && compare(previous, block) >= 0)
            return false;
        if (RB_FIND(site_tree, &block->site->idle, block) != block)
            return false;
        struct pool_block *aged;
        size_t of_site = 0;
        TAILQ_FOREACH (aged, &block->site->oldest_first, by_age)
            of_site++;
        if (of_site != block->site->idle_count)
            return false;
        count++;
        bytes += block->size;
        previous = block;
    }
    return count == idle->count && bytes == idle->bytes;
}
