/* What a free does with the block: whether the pool may keep it, how it is kept, and what is then
 * too much. */
#include "pool/free_parts.h"
#include "pool/suballocation.h"

#include "thread_marks.h"

void free_defer(struct pool *pool, struct pool_block *block, CUstream freed_in, uint32_t freed_by) {
    lock_check_held(LOCK_POOL);
    if (block->context->keeper->cuts)
        suballocation_taint(pool, block);
    ledger_make_deferred(pool, block);
    block->freed_by = freed_by;
    fence_defer(pool, block, freed_in);
}

/* Whether what is too much may go, if anything is, at a free that owes no wait: the driver's would
 * wait, and behind a wait that has been made for later work alone. *quiet: the context, if it has
 * just been seen to have none. Lock held on entry and return, not in between. */
static bool may_give_up(struct pool *pool, struct context *context, struct site *site,
                        const struct context **quiet) {
    lock_check_held(LOCK_POOL);
    const struct keeper *keeper = context->keeper;
    if (keeper->keeps_nothing || PLANTED(freed_while_busy) ||
        (!keeper->surplus(&context->store, site, pool->config.site_keep) &&
         !idle_bound_excess(pool, context->device, 0)))
        return true;
    pool_unlock_between(pool);
    bool rests = quiet_ask(pool, context) == REST_QUIET;
    pool_lock(pool);
    *quiet = rests ? context : NULL;
    stats_add(STATS_bound_postponed, !rests);
    return rests && !context->ended;
}

/* Gives up what is too much, if `waits` lets it. Lock held on entry and return, not in between. */
static void give_up(struct pool *pool, struct context *own, struct site *site,
                    struct release_list releases) {
    lock_check_held(LOCK_POOL);
    struct pool_block *surplus;
    while ((surplus = own->keeper->surplus(&own->store, site, pool->config.site_keep))) {
        if (!own->keeper->cuts)
            ledger_take_out(pool, surplus);
        else if (!(surplus = suballocation_take_out(pool, surplus, SIZE_MAX)))
            break;
        release_list_add(pool, &releases, surplus);
    }
    if (own->keeper->keeps_nothing) { /* the surplus is then idle in the driver's pool */
        release_list_give_back(pool, &releases);
        releases.bytes = releases.count = 0;
    }
    stats_add(STATS_bound_released_blocks, releases.count);
    uint64_t excess = idle_bound_excess(pool, releases.device, 0);
    if (excess)
        release_excess(pool, releases.device, NULL, excess, &releases);
    uint64_t due = decay_due(pool, releases.device);
    if (due)
        release_decayed(pool, releases.device, NULL, due, &releases);
    if (releases.first || releases.unused)
        release_list_give_back(pool, &releases);
}

void free_keep(struct pool *pool, struct pool_block *block, enum wait_choice wait) {
    lock_check_held(LOCK_POOL);
    struct context *own = block->context;
    struct site *site = block->site;
    struct release_list releases = {.device = own->device, .own = own};
    releases.waits = wait == WAIT_OWED ? RELEASE_WAITS_ONCE : RELEASE_IF_QUIET;
    if (wait == WAIT_DEFERRED) {
        free_defer(pool, block, NULL, thread_number());
    } else {
        if (block->context->keeper->cuts)
            suballocation_taint(pool, block);
        ledger_make_idle(pool, block); /* it may have been merged with others: it is gone */
    }
    stats_add(STATS_free_kept, 1);
    /* During a capture what is too much goes at a later free. */
    if (!atomic_load(&pool->captures) &&
        (wait == WAIT_OWED || may_give_up(pool, own, site, &releases.quiet)))
        give_up(pool, own, site, releases);
}

bool free_must_give_up(struct pool *pool, const struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    if (is_suballocation(block))
        return suballocation_passes(pool, block, current) || !context_is_known(pool, current);
    bool tainted = block->taints && !PLANTED(taint_recycled);
    return tainted || block->context->broken || block->context->releases ||
           (current != block->context->handle && context_is_lost(pool, current)) ||
           atomic_load(&pool->down) || !context_is_known(pool, current);
}

bool free_is_under_pressure(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return block->context->device->pressure && !is_suballocation(block);
}

bool free_must_release(struct pool *pool, const struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    return atomic_load(&pool->captures) || free_is_under_pressure(block) ||
           free_must_give_up(pool, block, current);
}

void free_count(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    const struct context *context = block->context;
    cache_merge_counts_of(pool, block);
    ledger_note_size(context, block->site, block->requested);
    context->device->frees++;
}
