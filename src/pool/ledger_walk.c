/* Walks along all records of blocks, for what concerns each of them. */
#include "pool/ledger_parts.h"

#include <stdlib.h>

void ledger_destroy_records(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    pointer_map_destroy(&pool->map);
    while (pool->slabs) {
        struct record_slab *next = pool->slabs->next;
        free(pool->slabs->memory);
        pool->slabs = next;
    }
    pool->spare = NULL;
    pool->record_count = 0;
    pool->sentinel_place = (struct ledger_place){0};
}

struct pool_block *ledger_next(const struct pool *pool, struct ledger_place *place) {
    lock_check_held(LOCK_POOL);
    if (!place->begun)
        *place = (struct ledger_place){pool->slabs, 0, true};
    for (; place->slab; place->slab = place->slab->next, place->index = 0)
        while (place->index < place->slab->count) {
            struct pool_block *block = &place->slab->blocks[place->index++];
            if (block->state != BLOCK_GONE)
                return block;
        }
    return NULL;
}

bool ledger_index(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    struct ledger_place place = {0};
    if (pool->indexed)
        return true;
    pool->indexed = true;
    while (pool->indexed && (block = ledger_next(pool, &place)))
        address_index_add(pool, block);
    return pool->indexed;
}
