/* The records of blocks: made by slabs, and put into the map. */
#include "pool/ledger_parts.h"

#include <stdlib.h>

static struct record_slab *new_slab(size_t count) {
    const size_t alignment = _Alignof(struct record_slab);
    size_t size = sizeof(struct record_slab) + count * sizeof(struct pool_block);
    char *memory = malloc(size + alignment);
    if (!memory || (uintptr_t)(memory + size + alignment) >> POINTER_TAG_SHIFT) {
        free(memory);
        return NULL;
    }
    struct record_slab *slab =
        (struct record_slab *)(void *)(memory + alignment - (uintptr_t)memory % alignment);
    slab->memory = memory;
    slab->count = count;
    return slab;
}

/* A quarter more than there are, within bounds: whoever misses often then rarely waits for more. */
static size_t slab_size(const struct pool *pool) {
    size_t count = pool->record_count / 4;
    return count < SLAB_LEAST ? SLAB_LEAST : count > SLAB_MOST ? SLAB_MOST : count;
}

/* Records that the thread's cache has taken and not used come first: else a thread whose cache is
 * granted little, and takes all that there are at each miss, has a slab made at each miss, too. */
static bool has_spare(struct pool *pool) {
    if (!pool->spare)
        pool->spare = cache_give_spares(pool);
    struct record_slab *slab = pool->spare ? NULL : new_slab(slab_size(pool));
    if (slab) {
        slab->next = pool->slabs;
        pool->slabs = slab;
        pool->record_count += slab->count;
        for (size_t i = 0; i < slab->count; i++) {
            slab->blocks[i].state = BLOCK_GONE;
            slab->blocks[i].next = &slab->blocks[i + 1];
        }
        slab->blocks[slab->count - 1].next = NULL;
        pool->spare = slab->blocks;
    }
    return pool->spare != NULL;
}

/* All unused records, unless ended contexts have left more than a slab may have: ledger_gone.c. */
struct pool_block *ledger_take_records(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct pool_block *blocks = has_spare(pool) ? pool->spare : NULL;
    pool->spare = blocks && pool->recycled > SLAB_MOST ? ledger_part_spares(pool) : NULL;
    pool->recycled = pool->spare ? pool->recycled : 0;
    return blocks;
}

struct pool_block *ledger_look(const struct pool *pool, struct ledger_place *place) {
    lock_check_held(LOCK_POOL);
    if (!place->slab)
        *place = (struct ledger_place){pool->slabs, 0, true};
    if (!place->slab)
        return NULL;
    struct pool_block *block = &place->slab->blocks[place->index++];
    if (place->index == place->slab->count)
        *place = (struct ledger_place){place->slab->next, 0, true};
    return block->state == BLOCK_GONE ? NULL : block;
}

/* As ledger_insert, in place: misses of threads' caches come in crowds. */
static inline bool insert(struct pool *pool, struct pool_block *block) {
    struct pool_block *stale;
    if (!pointer_map_add(&pool->map, block, &stale))
        return false;
    if (__builtin_expect(stale != NULL, 0))
        ledger_forget_stale(pool, stale);
    if (__builtin_expect(pool->indexed, 0))
        address_index_add(pool, block);
    return true;
}

bool ledger_insert(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return insert(pool, block);
}

struct pool_block *ledger_add_record(struct pool *pool, const struct pool_block *described) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = has_spare(pool) ? pool->spare : NULL;
    if (block) {
        pool->spare = block->next;
        *block = *described;
        if (insert(pool, block))
            return block;
        ledger_recycle(pool, block);
    }
    stats_add(STATS_no_memory_for_records, 1);
    return NULL;
}

void ledger_adopt(struct pool *pool, struct pool_block *fresh) {
    lock_check_held(LOCK_POOL);
    while (fresh) {
        struct pool_block *block = fresh;
        fresh = block->next;
        if (insert(pool, block))
            continue;
        ledger_count_live(block, (uint64_t)-1);
        ledger_count_block(block, (uint64_t)-1);
        ledger_recycle(pool, block);
        stats_add(STATS_no_memory_for_records, 1);
    }
}
