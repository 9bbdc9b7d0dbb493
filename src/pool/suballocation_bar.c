/* Idle memory that serves no request, since the driver keeps state for others in what a block
 * leaves behind: all of a region that is an allocation of the driver's, of mapped memory just the
 * chunks that the block lay in. As soon as no live block lies in one of these, it is unmapped.
 *
 * An idle block ends where the bar changes, so that each is in the store for what it is. What
 * cannot be cut there, without host memory, has the strictest bar of its chunks.
 *
 * The bar of an attribute (SYNC_MEMOPS) is lifted where a request would fail else: then another
 * block has the attribute, and its copies wait. */
#include "sources/mapped.h"

#include "keep/region.h"
#include "pool/suballocation.h"

bool suballocation_is_barred(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    uint64_t until;
    return reservation_bar(block->region->reservation, block->pointer, block->size, &until);
}

/* All below: lock held. */

/* Sees to it that no idle block lies on both sides of the address. */
static void cut_idle_at(struct pool *pool, struct idle_store *store, uint64_t address) {
    lock_check_held(LOCK_POOL);
    struct pool_block *around = region_find(store, address);
    if (around && around->state == BLOCK_IDLE && around->pointer != address)
        suballocation_cut_at(pool, around, address);
}

/* Sets the bar of a chunk, and keeps its idle blocks as that says. */
static void set_bar(struct pool *pool, struct idle_store *store, struct reservation *reservation,
                    struct chunk *chunk, enum chunk_bar bar) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    uint64_t end = chunk->base + chunk->size, next;
    cut_idle_at(pool, store, chunk->base);
    cut_idle_at(pool, store, end);
    reservation_set_bar(reservation, chunk, bar);
    for (uint64_t at = chunk->base; at < end && (block = region_find(store, at)); at = next) {
        next = block->pointer + block->size;
        if (block->state != BLOCK_IDLE)
            continue;
        ledger_take_out(pool, block);
        ledger_keep(pool, block);
    }
}

static void bar_chunks(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct reservation *reservation = block->region->reservation;
    const enum chunk_bar bar =
        block->taints == 1u << POOL_TAINT_SYNC_MEMOPS ? BAR_ATTRIBUTE : BAR_SHARED;
    struct chunk *chunk = reservation_at(reservation, block->pointer);
    for (; chunk && chunk->base < block->pointer + block->size; chunk = reservation_next(chunk))
        if (chunk->bar < bar)
            set_bar(pool, &block->context->store, reservation, chunk, bar);
}

void suballocation_taint(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (!block->taints)
        return;
    if (block->region->reservation)
        bar_chunks(pool, block);
    else
        region_taint(&block->context->store, block->region);
}

bool suballocation_lift_bars(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct reservation *reservation;
    struct chunk *chunk;
    bool any = false;
    if (context->ended || !context->mapped)
        return false;
    LIST_FOREACH (reservation, &context->mapped->reservations, link)
        for (chunk = reservation->barred ? reservation_first(reservation) : NULL; chunk;
             chunk = reservation_next(chunk))
            if (chunk->bar == BAR_ATTRIBUTE) {
                set_bar(pool, &context->store, reservation, chunk, BAR_NONE);
                any = true;
            }
    return any;
}
