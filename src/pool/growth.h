/* What held memory grows by when nothing idle serves, and what is given up in exchange. All below:
 * lock held. */
#ifndef POOLCUDA_POOL_GROWTH_H
#define POOLCUDA_POOL_GROWTH_H

#include "pool/internal.h"

/* The size to ask the driver for first: the request's, or more (see struct keeper, reach), within
 * the bounds. To be called once a miss. */
size_t growth_size(struct pool *pool, const struct request *request);

/* The idle block that is to go before `growth` bytes more are held for a miss of the site, still
 * kept. NULL: none. */
struct pool_block *growth_exchange(struct pool *pool, struct context *context, struct site *site,
                                   size_t growth);
/* It has been taken out. */
void growth_note_exchange(struct device *device, const struct pool_block *block);

/* Bytes that may be allocated beside what is idle before a miss has to come here. *exchanging: when
 * so many of them are left or fewer, a miss has to as well whose site has a page idle. */
uint64_t growth_room(const struct device *device, uint64_t *exchanging);

/* Bytes that the site keeps idle, about. Lock not needed: a cache that counts in it may ask. */
static inline uint64_t growth_idle(const struct site *site) {
    uint64_t held = stats_read(&site->stats->held_bytes);
    uint64_t live = stats_read(&site->stats->live_bytes);
    return held > live ? held - live : 0;
}

#endif
