/* Idle memory on its way back to the driver: which block is the next, and how it is given back. */
#include "keep/region.h"
#include "pool/internal.h"
#include "pool/suballocation.h"
#include "pool/uncancelled.h"

void release_list_add(struct pool *pool, struct release_list *releases, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_remove(pool, block);
    if (block->context->keeper->cuts)
        region_detach(&block->context->store, block);
    block->next_leaving = releases->first;
    releases->first = block;
    releases->bytes += block->size;
    releases->physical += round_physical(block->size);
    releases->count++;
    releases->device->releasing++;
    block->context->users++;
}

/* Whether a block that was to be released may have been waiting for a fence. */
static bool may_have_waited(const struct pool *pool) {
    return pool->config.free_mode == POOL_FREE_DEFER || pool->config.ordered;
}

/* What is known while a list is given back. quiet: has no work, by what was seen since the last
 * free. busy: has some, so it is not asked again. */
struct giving {
    struct pool *pool;
    enum release_waits waits;
    bool ends; /* the context of all blocks, by this thread */
    const struct context *own, *quiet, *busy;
};

/* Whether the block goes by a call that waits for its context: it is neither in a memory pool of
 * the driver's nor mapped. */
static bool is_freed_natively(const struct pool_block *block) {
    bool mapped = block->context->keeper->cuts && block->region && block->region->reservation;
    return !block->in_driver_pool && !mapped;
}

/* Whether giving the block back waits for nothing but what may be waited for. Its context is asked
 * anew for each: meanwhile other threads may have submitted what waits for this one. Lock not held.
 */
static bool may_be_freed(struct giving *giving, const struct pool_block *block) {
    lock_check_none();
    struct context *owner = block->context;
    enum rest rest = REST_UNKNOWN;
    if (giving->waits == RELEASE_MAY_WAIT || !is_freed_natively(block) || PLANTED(freed_while_busy))
        return true;
    if (giving->waits == RELEASE_WAITS_ONCE && owner->handle == giving->own->handle) {
        giving->waits = RELEASE_IF_QUIET;
        return true;
    }
    if (giving->busy != owner)
        rest = quiet_ask(giving->pool, owner);
    giving->quiet = rest == REST_QUIET ? owner : NULL;
    if (rest == REST_QUIET)
        return true;
    if (giving->waits == RELEASE_UNLESS_BUSY && rest == REST_UNKNOWN && giving->busy != owner)
        return true;
    giving->busy = owner;
    return false;
}

_Static_assert((int)POOL_DEVICE == (int)STATS_DEVICE && (int)POOL_HOST == (int)STATS_HOST &&
                   (int)POOL_MANAGED == (int)STATS_MANAGED,
               "the report's kinds of memory are the pool's");

CUresult release_timed(const struct pool *pool, const struct pool_block *block) {
    lock_check_none();
    enum pool_memory memory = block->context->kind.memory;
    uint64_t began = call_timer_start(STATS_CALL_FREE);
    CUresult result = source_release(pool, memory, block->pointer);
    if (result == CUDA_SUCCESS && source_is_timed(pool, memory))
        call_timer_stop(STATS_CALL_FREE, (enum stats_memory)memory, block->size, began);
    return result;
}

void release_list_end(struct pool *pool, struct release_list *releases, bool released,
                      const struct context *busy) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block, *next;
    for (block = releases->first; block; block = next) {
        next = block->next_leaving;
        bool refused = block->refused;
        if (refused && busy && block->context == busy)
            block->context->resting = false; /* room_make saw it rest, or could not see it */
        if (block->context->keeper->cuts)
            suballocation_released(block, refused);
        if (refused && block->context->ended)
            context_leaves(block->context);
        if (refused)
            ledger_restore(pool, block, may_have_waited(pool) ? BLOCK_DEFERRED : BLOCK_IDLE);
        else
            ledger_recycle(pool, block);
    }
    releases->device->saves = releases->device->saves || released;
    releases->first = NULL;
}

/* The program may end the context of a block on another thread meanwhile: then the driver frees the
 * block, and may have given its address to others by the time of our call. So that is made under a
 * visit, for which the end waits. Not where the end itself gives the block back. Lock not held. */
static bool visit_begins(const struct giving *giving, const struct context *owner) {
    lock_check_none();
    if (giving->ends)
        return true;
    if (!order_visit_begins(&giving->pool->order, owner->handle))
        return false;
    if (!owner->ended)
        return true;
    order_visit_ends(&giving->pool->order, owner->handle); /* it is another one's by now */
    return false;
}

static void visit_ends(const struct giving *giving, const struct context *owner) {
    if (!giving->ends)
        order_visit_ends(&giving->pool->order, owner->handle);
}

/* Gives the block to the driver: NOT_READY if its context ends. Lock not held. */
static CUresult free_natively(struct giving *giving, const struct pool_block *block) {
    lock_check_none();
    const struct context *owner = block->context;
    if (!visit_begins(giving, owner)) {
        giving->busy = owner;
        return CUDA_ERROR_NOT_READY;
    }
    CUresult result = giving->quiet == owner && !call_timer_rests(STATS_CALL_FREE)
                          ? release_timed(giving->pool, block)
                          : source_release(giving->pool, owner->kind.memory, block->pointer);
    visit_ends(giving, owner);
    return result;
}

/* Removes the records before the driver frees: another thread may be given an address at once. A
 * block that the driver refuses to free (a capture forbids it, say), or that may not be freed now,
 * comes back as idle. One that the driver does not know is gone: the program has freed it for a
 * second time, while its record was out. */
size_t release_list_give_back(struct pool *pool, struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    size_t released = 0;
    struct pool_block *first = releases->first, *block = first;
    if (!block && !releases->unused)
        return 0;
    releases->device->releasing++; /* counts what is unused */
    pool_unlock_between(pool);
    int cancelling = uncancelled_begins(pool);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    capture_mode_exchange(pool, &mode);
    if (releases->unused) {
        released = pool->source->release_unused(pool, releases->unused);
        releases->unused = NULL;
    }
    struct giving giving = {.pool = pool,
                            .waits = releases->waits,
                            .ends = releases->ends,
                            .own = releases->own,
                            .quiet = releases->quiet};
    for (; block; block = block->next_leaving) {
        struct context *context = block->context;
        if (!(giving.quiet && giving.quiet == context) && !may_be_freed(&giving, block)) {
            block->refused = true;
            continue;
        }
        bool by_source = context->source->surrender != NULL;
        CUresult result =
            by_source ? context->source->surrender(pool, block) : free_natively(&giving, block);
        bool gone = result == CUDA_ERROR_INVALID_VALUE && !by_source;
        block->refused = result != CUDA_SUCCESS && !gone;
        pool_note_error(pool, result);
        if (result == CUDA_SUCCESS) {
            giving.quiet = giving.waits == RELEASE_MAY_WAIT ? context : NULL; /* has waited */
            released += block->size;
            stats_add(STATS_driver_frees, !by_source);
        }
    }
    capture_mode_exchange(pool, &mode);
    pool_lock(pool);
    for (block = first; block; block = block->next_leaving)
        context_user_leaves(pool, block->context);
    release_list_end(pool, releases, released, giving.busy);
    pool_count_released(pool, releases->device, (int)releases->count + 1);
    uncancelled_ends(pool, cancelling);
    return released;
}

static struct pool_block *victim_of(struct pool *pool, struct context *context, bool deferred) {
    cache_offer_largest(pool, context);
    struct pool_block *ready = context->keeper->victim(&context->store);
    return ready || !deferred || !keeper_driver_waits(context->keeper) ? ready
                                                                       : fence_largest(context);
}

/* Takes a victim out, `most` bytes of it if it can be cut. False without host memory. */
static bool add_victim(struct pool *pool, struct release_list *releases, struct pool_block *block,
                       size_t most) {
    if (block->context->keeper->cuts)
        block = suballocation_take_out(pool, block, most);
    else
        ledger_take_out(pool, block);
    if (block)
        release_list_add(pool, releases, block);
    return block;
}

/* Whether what add_victim would take is at most `most` bytes. */
static bool fits_into(const struct pool_block *block, size_t most) {
    size_t bytes =
        block->context->keeper->cuts ? suballocation_part_bytes(block, most) : block->size;
    return bytes <= most;
}

struct pool_block *release_next_victim(struct pool *pool, const struct release_scope *scope) {
    lock_check_held(LOCK_POOL);
    struct pool_block *found = NULL;
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->device != scope->device || context->broken || context->closing ||
            (scope->only && context != scope->only))
            continue;
        struct pool_block *candidate = victim_of(pool, context, scope->deferred);
        if (candidate && (!found || candidate->size > found->size))
            found = candidate;
    }
    return found;
}

size_t release_collect_unused(struct pool *pool, const struct device *device, size_t bytes,
                              struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    size_t taken = 0;
    struct context *context;
    if (!pool->source->take_unused) /* nor has any other */
        return 0;
    LIST_FOREACH (context, &pool->contexts, link) {
        const struct source *source = context->source;
        if (source->take_unused && context->device == device && !context->closing && taken < bytes)
            taken += source->take_unused(pool, context, bytes - taken, &releases->unused);
    }
    releases->bytes += taken;
    releases->physical += taken;
    return taken;
}

void release_collect(struct pool *pool, const struct release_scope *scope, size_t bytes,
                     struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    const size_t *taken = scope->for_driver ? &releases->physical : &releases->bytes;
    size_t before = *taken;
    release_collect_unused(pool, scope->device, bytes, releases);
    while (*taken - before < bytes && (block = release_next_victim(pool, scope)) &&
           add_victim(pool, releases, block, bytes - (*taken - before)))
        continue;
}

void release_excess(struct pool *pool, struct device *device, struct context *quiet, size_t bytes,
                    struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    size_t before = releases->count;
    const struct pool_block *end = releases->first;
    const struct release_scope scope = {.device = device, .only = quiet, .deferred = quiet != NULL};
    release_collect(pool, &scope, bytes, releases);
    stats_add(STATS_bound_released_blocks, releases->count - before);
    given_up_note(device, releases->first, end);
}

void release_decayed(struct pool *pool, struct device *device, struct context *quiet, size_t bytes,
                     struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    const struct release_scope scope = {.device = device, .only = quiet, .deferred = quiet != NULL};
    struct pool_block *block;
    size_t count = releases->count;
    size_t unused = release_collect_unused(pool, device, bytes, releases);
    bytes -= unused < bytes ? unused : bytes;
    size_t wanted = releases->bytes + bytes;
    while (releases->bytes < wanted && (block = release_next_victim(pool, &scope)) &&
           fits_into(block, wanted - releases->bytes) &&
           add_victim(pool, releases, block, wanted - releases->bytes))
        continue;
    stats_add(STATS_decayed_blocks, releases->count - count);
}

void release_before_growth(struct pool *pool, const struct request *request, size_t growth,
                           bool falls, uint64_t due) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    struct device *device = context->device;
    struct release_list releases = {.device = device, .waits = RELEASE_IF_QUIET, .quiet = context};
    struct pool_block *misfit;
    pool_unlock_between(pool);
    bool quiet = context_is_quiet(pool, context);
    pool_lock(pool);
    if (!quiet) {
        stats_add(STATS_bound_postponed, 1);
        return;
    }
    while ((misfit = take_find_misfit(pool, request, growth, falls))) {
        ledger_take_out(pool, misfit);
        release_list_add(pool, &releases, misfit);
    }
    uint64_t excess = context->ended ? 0 : idle_bound_excess(pool, device, growth);
    if (excess)
        release_excess(pool, device, context, excess, &releases);
    if (due && !context->ended)
        release_decayed(pool, device, context, due, &releases);
    release_list_give_back(pool, &releases);
}

/* --- for headroom --- */

static bool ask_left(struct pool *pool, struct device *device, struct available *left) {
    pool_lock(pool);
    uint64_t held = device->held;
    pool_unlock_between(pool);
    return available_ask(pool, device, held, left);
}

/* Idle memory of the context that the driver could have back. Lock held. */
static uint64_t could_give(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    const struct idle_store *store = &context->store;
    cache_drain(pool, context);
    return store->bytes - store->stranded + store->unused;
}

/* How much idle memory is to be given up. left: NULL, if nobody says. */
static uint64_t find_lack(struct pool *pool, struct context *context, const struct available *left,
                          size_t growth) {
    pool_lock(pool);
    uint64_t lack = headroom_lack(&pool->config, context->device, left, growth);
    if (lack && (context->ended || (!headroom_is_urgent(left, growth) &&
                                    (could_give(pool, context) < lack ||
                                     !headroom_is_new_reason(context->device, left)))))
        lack = 0;
    pool_unlock_between(pool);
    return lack;
}

void release_for_launches(struct pool *pool, struct context *context, size_t growth) {
    lock_check_none();
    struct device *device = context->device;
    struct release_list releases = {.device = device, .waits = RELEASE_IF_QUIET, .quiet = context};
    struct available left;
    if (!pool_gate_enter(pool))
        return;
    bool known = ask_left(pool, device, &left);
    pool_gate_leave(pool);
    uint64_t lack = find_lack(pool, context, known ? &left : NULL, growth);
    bool quiet = lack && context_is_quiet(pool, context); /* a free would wait */
    pool_lock(pool);
    if (lack && !quiet)
        headroom_put_off(device);
    if (quiet && !context->ended) {
        release_collect(pool, &(struct release_scope){device, context, true, true}, lack,
                        &releases);
        given_up_note(device, releases.first, NULL);
        stats_add(STATS_headroom_released_blocks, releases.count);
        release_list_give_back(pool, &releases);
    }
    pool_unlock(pool);
}

/* --- because a device is out of memory: a round at a time --- */

enum { MOST_CONTEXTS = 64 };

/* The device's contexts, as far as they fit. Records of contexts stay when they end. Lock held. */
static int list_contexts(struct pool *pool, const struct device *device,
                         struct context **contexts) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    int count = 0;
    LIST_FOREACH (context, &pool->contexts, link) {
        context->resting = context->resting && context->device != device;
        if (context->device == device && !context->broken && count < MOST_CONTEXTS)
            contexts[count++] = context;
    }
    return count;
}

/* Asks each context of the device whether it rests. Where that cannot be asked (during a capture,
 * or of an old driver) it counts as resting: to fail for that would be worse. Lock held on entry
 * and return, not in between. */
static void look_at_contexts(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    struct context *contexts[MOST_CONTEXTS];
    bool resting[MOST_CONTEXTS];
    int count = list_contexts(pool, device, contexts);
    pool_unlock_between(pool);
    for (int i = 0; i < count; i++)
        resting[i] = quiet_ask(pool, contexts[i]) != REST_BUSY;
    pool_lock(pool);
    for (int i = 0; i < count; i++)
        contexts[i]->resting = resting[i];
}

/* Whether the context has something that the driver could have back. Lock held. */
static bool has_idle(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    cache_offer_largest(pool, context);
    return context->store.unused || context->keeper->victim(&context->store) ||
           context_may_defer(context);
}

/* Collects regions of resting contexts whose blocks are deferred: their work is done, too. */
static void collect_deferred_regions(struct pool *pool, const struct device *device,
                                     struct release_list *releases) {
    struct context *context;
    struct pool_block *block;
    LIST_FOREACH (context, &pool->contexts, link)
        while (context->device == device && context->keeper->cuts && !context->broken &&
               context->resting && (block = suballocation_without_live(pool, context)))
            release_list_add(pool, releases, block);
}

/* The largest of what the device's resting contexts would give up first. */
static struct pool_block *next_victim(struct pool *pool, struct device *device) {
    struct pool_block *found = NULL;
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (!context->resting || context->device != device)
            continue;
        struct pool_block *block =
            release_next_victim(pool, &(struct release_scope){device, context, true, true});
        if (block && (!found || block->size > found->size))
            found = block;
    }
    return found;
}

/* Returns whether the driver has taken any back. Lock held. */
static bool give_back(struct pool *pool, struct device *device, size_t bytes, bool *any) {
    lock_check_held(LOCK_POOL);
    struct release_list releases = {.device = device, .waits = RELEASE_UNLESS_BUSY};
    struct pool_block *block;
    /* A memory pool of the driver's cannot give back a page that a live block does not fill. */
    size_t doubtful = release_collect_unused(pool, device, bytes, &releases);
    while (releases.physical - doubtful < bytes && (block = next_victim(pool, device)) &&
           add_victim(pool, &releases, block, bytes - (releases.physical - doubtful)))
        continue;
    if (releases.physical < bytes)
        collect_deferred_regions(pool, device, &releases);
    size_t count = releases.count;
    *any = count > 0 || releases.unused;
    if (!release_list_give_back(pool, &releases))
        return false;
    stats_add(STATS_oom_released_blocks, count);
    return true;
}

static bool is_any_busy(struct pool *pool, const struct device *device) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->device == device && !context->broken && !context->resting &&
            has_idle(pool, context))
            return true;
    return false;
}

enum room room_make(struct pool *pool, struct device *device, size_t bytes) {
    lock_check_held(LOCK_POOL);
    bool any = true;
    memory_refresh(pool, device);
    if (device_idle(device))
        look_at_contexts(pool, device);
    if (device_idle(device) && !pool_driver_waits(pool) && !is_any_busy(pool, device))
        fence_drain(pool, device); /* what the driver does not wait for: it is over */
    for (int turn = 0; device_idle(device) && any && turn < 2;
         turn++) /* it may refuse for the moment */
        if (give_back(pool, device, bytes, &any))
            return ROOM_MADE;
    if (device->releasing)
        return ROOM_COMING;
    return is_any_busy(pool, device) ? ROOM_BUSY : ROOM_NONE;
}

void room_poll_fences(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    struct context *contexts[MOST_CONTEXTS];
    int count = 0;
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->device == device && !context->broken && context_may_defer(context) &&
            context->sites && count < MOST_CONTEXTS)
            contexts[count++] = context;
    for (int i = 0; i < count; i++)
        if (!contexts[i]->ended)
            fence_poll(pool, contexts[i]);
}
