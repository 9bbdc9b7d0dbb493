/* What held memory grows by when nothing idle serves.
 *
 * A site's sizes may only grow, or only shrink: none of its idle blocks serves it then, and each
 * miss would make held memory grow by another one, up to the bound. Where they grow, the keeper
 * asks for more than the request. Before more is held than was ever live, the site's largest idle
 * block goes in exchange for the new one, if one for one is enough: the program has then gone
 * without it, and nothing is held that it did not use itself.
 *
 * That is wrong for a program whose sizes come again. So the first miss of a size that went so is
 * the last: from then on the device's blocks stay, as far as the bounds let them. */
#include "pool/growth.h"

#include "pool/bounds.h"

/* A size that went in exchange is marked in the table of sizes given up. Requests are for even
 * ones. */
enum { EXCHANGED = 1 };

static void learn(struct device *device, size_t size) {
    uint64_t *place = given_up_place(device, size);
    if (*place != (size | EXCHANGED))
        return;
    *place = 0;
    device->exchange = EXCHANGE_REGRETTED;
}

/* A row of misses ends where there were more requests than a few since the last: sizes without an
 * order miss in rows as well at first, each for the largest so far, as the smaller ones hit. */
static void note_miss(struct site *site) {
    enum { MOST_BETWEEN = 8 };
    uint64_t allocations = stats_site_allocations(site->stats);
    if (allocations - site->missed_at > MOST_BETWEEN)
        site->growing = 0;
    site->missed_at = allocations;
}

size_t growth_size(struct pool *pool, const struct request *request) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    struct device *device = context->device;
    if (!context->keeper->reach || context->ended || !request->size || request->pitch)
        return request->size;
    struct fit fit = waste_bound_fit(&pool->config, device, request->bytes, request->size);
    uint64_t room = idle_bound_room_to_grow(device);
    learn(device, request->size);
    note_miss(request->site);
    fit.little = true;
    room = room > request->size ? room - request->size : 0;
    if (fit.surplus > room)
        fit.surplus = room;
    size_t size = context->keeper->reach(request->site, &fit);
    if (size > request->size)
        device->saves = true;
    return size;
}

/* What is held once `growth` bytes more are. 0: nothing need go for that. */
static uint64_t held_beyond_live(const struct device *device, size_t growth) {
    uint64_t held = device->held + growth, live = device->live + growth;
    return held > (live > device->peak_live ? live : device->peak_live) ? held : 0;
}

struct pool_block *growth_exchange(struct pool *pool, struct context *context, struct site *site,
                                   size_t growth) {
    lock_check_held(LOCK_POOL);
    const struct device *device = context->device;
    const struct keeper *keeper = context->keeper;
    uint64_t held = held_beyond_live(device, growth), idle = growth_idle(site);
    if (!keeper->reach || pool->config.max_idle.kind != LIMIT_AUTO ||
        device->exchange == EXCHANGE_REGRETTED || !held || idle < ROUND_PAGE ||
        held > device->peak_live + idle)
        return NULL;
    cache_drain(pool, context);
    struct pool_block *block = keeper->largest_of(site);
    return block && block->size >= ROUND_PAGE && held <= device->peak_live + block->size ? block
                                                                                         : NULL;
}

void growth_note_exchange(struct device *device, const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    *given_up_place(device, block->size) = block->size | EXCHANGED;
    device->exchange = EXCHANGE_TRIED;
    stats_add(STATS_bound_released_blocks, 1);
}

uint64_t growth_room(const struct device *device, uint64_t *exchanging) {
    lock_check_held(LOCK_POOL);
    uint64_t room = device->exchange == EXCHANGE_TRIED ? 0 : idle_bound_room_to_grow(device);
    uint64_t before = device->peak_live > device->held ? device->peak_live - device->held : 0;
    *exchanging = device->exchange != EXCHANGE_REGRETTED && before < room ? room - before : 0;
    return room;
}
