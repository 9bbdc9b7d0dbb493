/* The ends of contexts: what is idle goes back to the driver, and everything else is forgotten. A
 * thread that was inside the pool meanwhile may still look at their records, so these are freed
 * when all such threads have left.
 *
 * Records go through two lists: those that wait for the same threads are leaving together, and the
 * ones that end meanwhile wait in the other list for their turn. So the cost of an end does not
 * grow with the number of those before it. */
#include "pool/context_owners.h"
#include "pool/inside.h"
#include "pool/internal.h"
#include "pool/uncancelled.h"
#include "thread_marks.h"

#include "sources/driver_pool.h"
#include "sources/mapped.h"

#include <stdlib.h>

struct inside_shard inside_shards[INSIDE_SHARDS];
_Thread_local char inside_thread;

bool inside_have_left(unsigned *since) {
    unsigned own = inside_own_shard();
    if (atomic_load_explicit(&inside_shards[own].threads, memory_order_relaxed) < 1)
        return false;
    for (unsigned i = 0; i < INSIDE_SHARDS; i++)
        if (*since & 1u << i &&
            atomic_load_explicit(&inside_shards[i].threads, memory_order_acquire) == (i == own))
            *since &= ~(1u << i);
    return *since == 0;
}

void inside_forget(void) {
    for (int i = 0; i < INSIDE_SHARDS; i++)
        atomic_store(&inside_shards[i].threads, 0);
}

/* Until some device's `unvisited` or some closing context's `users` may have reached zero, or a
 * moment is over. Lock held on entry and return, not in between. */
static void await_others(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    static const struct timespec moment = {.tv_nsec = 500 * 1000 * 1000};
    int seen = atomic_load(&pool->release_rounds);
    pool_unlock(pool);
    futex_wait(&pool->release_rounds, seen, &moment);
    pool_lock(pool);
}

/* A free of cache_making_room.c waits for nothing: a thread that does not come back from it was
 * cancelled there. Lock held on entry and return, not in between. */
static void await_unvisited(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    static const uint64_t LOST_NS = UINT64_C(5000000000);
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    while (device->unvisited && clock_ns(CLOCK_MONOTONIC) - began < LOST_NS)
        await_others(pool);
    device->releasing -= device->unvisited;
    device->unvisited = 0;
}

/* The free of a block waits in another thread, which holds its record and could free nothing of the
 * context afterwards: what the record named is given to the driver with a record of its own, and
 * that free is then one of nothing. Without host memory it is lost. Lock held. */
static struct pool_block *take_over(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_remove(pool, block);
    struct pool_block *taken = ledger_add(pool, block->context, block->site, block->pointer,
                                          block->size, block->requested);
    if (taken) {
        taken->in_driver_pool = true;
        block->pointer = 0;
    }
    return taken;
}

/* The driver does not free the block with the context, or may have it freed before that together
 * with others. Until the context has ended other threads may submit work that uses the block. Lock
 * held. */
static void outlive(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (block->state == BLOCK_WAITING)
        block = take_over(pool, block);
    if (!block)
        return;
    ledger_remove(pool, block);
    stranded_keep(pool, block);
}

/* From here on nobody begins to use what the context's source has; others that lack memory wait for
 * what is idle of it, until end_context's caller has given that back. Lock held. */
static void close_source(struct context *context) {
    lock_check_held(LOCK_POOL);
    if (context->closing)
        return;
    context->closing = true;
    context->device->releasing++;
    context->device->ending++;
}

/* Nobody has to wait for that any more. Lock held. */
static void count_closed(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    device->ending--;
    pool_count_released(pool, device, 1);
}

/* Takes the context out of service. Lock held; what has to be released goes to *releases, or is
 * forgotten as the rest is if that is NULL; what else it had to *mapped and *async. False: another
 * thread has done it. */
static bool end_context(struct pool *pool, struct context *context, struct release_list *releases,
                        struct mapped **mapped, struct driver_pool **async) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    struct ledger_place place = {0};
    struct device *device = context->device;
    bool leaves = false;
    /* Other threads may be at its chunks, at its memory pool, or at the free of a block that the
     * driver is about to free, too. From here on all is done at once. */
    close_source(context);
    while (context->source->reuses && context->users)
        await_others(pool);
    if (!context->source->reuses)
        await_unvisited(pool, device);
    if (context->ended)
        return false;
    context->ended_by = thread_number();
    context->over = !releases;
    cache_close(pool, context);
    while ((block = ledger_next(pool, &place))) {
        if (block->context != context)
            continue;
        bool waited_for = block->state == BLOCK_WAITING;
        bool idle = block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED;
        if (idle)
            ledger_take_out(pool, block);
        if (releases && idle && !context->keeper->cuts) {
            release_list_add(pool, releases, block);
        } else if ((block->in_driver_pool && !PLANTED(waiting_forgotten)) ||
                   (block->state == BLOCK_LIVE && context->keeper->cuts)) {
            outlive(pool, block);
        } else {
            leaves = leaves || idle;
            ledger_remove(pool, block);
            if (!waited_for) /* else the thread that waits still holds it */
                ledger_recycle(pool, block);
        }
    }
    ledger_count_unused(pool, context, 0 - context->store.unused);
    context->ended = true;
    if (leaves)
        context_leaves(context);
    LIST_REMOVE(context, link);
    LIST_INSERT_HEAD(&pool->ended, context, link);
    order_context_ends(&pool->order, context->handle);
    fence_context_ended(pool, context);
    stats_add(STATS_contexts_ended, 1);
    *mapped = context->mapped;
    *async = context->driver_pool;
    context->mapped = NULL;
    context->driver_pool = NULL;
    return true;
}

/* Waits for the current context's work, which may use deferred blocks. False: a capture is under
 * way, or the driver cannot. */
static bool wait_at_end(struct pool *pool) {
    if (!pool_gate_enter(pool))
        return false;
    bool waited = pool->driver->ctx_synchronize() == CUDA_SUCCESS;
    if (!waited)
        waited = pool->driver->ctx_synchronize() == CUDA_SUCCESS;
    pool_gate_leave(pool);
    return waited;
}

/* What work may yet use stays until the driver has ended the context, as what is live. Lock held.
 */
static void keep_all(struct pool *pool, struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    for (block = releases->first; block; block = block->next_leaving) {
        block->refused = true;
        context_user_leaves(pool, block->context);
    }
    release_list_end(pool, releases, false, NULL);
    pool_count_released(pool, releases->device, (int)releases->count);
}

/* Gives back what is idle of an ended context, and its memory pool, which goes with its last
 * allocation. Lock not held. */
static void give_back(struct pool *pool, const struct context *context, struct driver_pool *async,
                      struct release_list *releases) {
    lock_check_none();
    struct context_push visit;
    bool visiting = releases->count && context_push_ending(pool, context->handle, &visit);
    bool over = !async || (visiting && wait_at_end(pool));
    pool_lock(pool);
    if (over)
        release_list_give_back(pool, releases);
    else
        keep_all(pool, releases);
    pool_unlock(pool);
    driver_pool_end(pool->driver, async, false);
    if (visiting)
        context_pop(pool, &visit);
}

/* What is mapped stays so until the driver has ended the context: other threads may submit work
 * until then. Lock held on entry and return, not in between. */
static void end_and_release(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct device *device = context->device;
    struct release_list releases = {.device = device, .ends = true};
    struct mapped *mapped;
    struct driver_pool *async;
    if (!end_context(pool, context, &releases, &mapped, &async))
        return;
    if (mapped)
        context_leaves(context);
    pool_unlock(pool);
    give_back(pool, context, async, &releases);
    pool_lock(pool);
    count_closed(pool, device);
    context_destroy_sites(context);
    context->mapped = mapped;
}

/* The driver has freed its memory. Lock held on entry and return, not in between. */
static void end_and_forget(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct device *device = context->device;
    struct mapped *mapped;
    struct driver_pool *async;
    if (!end_context(pool, context, NULL, &mapped, &async))
        return;
    context_destroy_sites(context);
    pool_unlock(pool);
    mapped_release(pool->driver, mapped);
    driver_pool_end(pool->driver, async, true);
    pool_lock(pool);
    count_closed(pool, device);
}

/* Frees those that are leaving; ones whose memory the driver is about to free, or that is mapped
 * yet, or whose events stand in others' fences, wait for another turn. */
static void free_leaving(struct pool *pool) {
    struct context *context;
    while ((context = LIST_FIRST(&pool->leaving))) {
        LIST_REMOVE(context, link);
        if (context->left || context->mapped || stranded_refers_to(context) ||
            fence_refers_to(pool, context))
            LIST_INSERT_HEAD(&pool->ended, context, link);
        else
            free(context);
    }
}

/* Frees what nobody can look at any more, and what lives on does not refer to. At the beginning of
 * a call, and not while cache_is_asking: those threads are not counted as inside. Lock held. */
static void free_ended(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    if (cache_is_asking(pool))
        return;
    if (!LIST_EMPTY(&pool->leaving) && inside_have_left(&pool->leaving_since))
        free_leaving(pool);
    if (!LIST_EMPTY(&pool->leaving) || LIST_EMPTY(&pool->ended))
        return;
    pool->leaving_since = INSIDE_ALL;
    while ((context = LIST_FIRST(&pool->ended))) {
        LIST_REMOVE(context, link);
        LIST_INSERT_HEAD(&pool->leaving, context, link);
    }
}

void ended_contexts_forget(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    while ((context = LIST_FIRST(&pool->leaving)) || (context = LIST_FIRST(&pool->ended))) {
        LIST_REMOVE(context, link);
        mapped_destroy(context->mapped);
        free(context);
    }
}

/* Whether that is the context: by its handle, or NULL for the device's primary one. */
static bool is_meant(const struct context *context, CUcontext handle, CUdevice ordinal) {
    return handle ? context->handle == handle : context->ordinal == ordinal && !context->created;
}

/* The driver has refused to end these before. Lock held. */
static void end_again(struct context_list *contexts, CUcontext handle, CUdevice ordinal) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    LIST_FOREACH (context, contexts, link)
        if (context->refused && is_meant(context, handle, ordinal)) {
            context->refused = false;
            context->ended_by = thread_number();
        }
}

/* As is_meant: such a context is about to end. Nobody else is to begin to use what its sources
 * have. */
static void begin_end(struct pool *pool, CUcontext handle, CUdevice ordinal) {
    struct context *context;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link)
        if (is_meant(context, handle, ordinal))
            close_source(context);
    end_again(&pool->ended, handle, ordinal);
    end_again(&pool->leaving, handle, ordinal);
    pool_unlock(pool);
}

void pool_context_ending(struct pool *pool, CUcontext handle) {
    captures_end(pool, handle, -1);
    if (handle)
        begin_end(pool, handle, -1);
    order_context_closes(&pool->order, handle);
    if (PLANTED(stale_context))
        return;
    pool_lock(pool);
    struct context *context;
    free_ended(pool);
    while ((context = context_find(pool, handle)))
        end_and_release(pool, context);
    order_context_ends(&pool->order, handle);
    context_forget_owner(pool, handle);
    pool_unlock(pool);
}

/* Lock not held. */
CUdevice pool_green_ending(struct pool *pool, CUcontext handle) {
    lock_check_none();
    CUdevice device = -1;
    struct context_push visit;
    if (context_push_ending(pool, handle, &visit)) {
        if (pool->driver->ctx_get_device(&device) != CUDA_SUCCESS)
            device = -1;
        context_pop(pool, &visit);
    }
    pool_context_ending(pool, handle);
    return device;
}

static struct context *find_primary(struct pool *pool, CUdevice ordinal) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (is_meant(context, NULL, ordinal))
            return context;
    return NULL;
}

enum { LONG_PAUSE = 40 }; /* a busy machine lets another thread in late */

void pool_primary_ending(struct pool *pool, CUdevice ordinal) {
    struct context *context;
    captures_end(pool, NULL, ordinal);
    begin_end(pool, NULL, ordinal);
    visits_close_primary(pool, ordinal);
    if (PLANTED(stale_context))
        return;
    pool_lock(pool);
    context_forget_learnt_owners(pool); /* those end with their primary ones */
    free_ended(pool);
    while ((context = find_primary(pool, ordinal)))
        end_and_release(pool, context);
    order_primary_ends(&pool->order, ordinal);
    pool_unlock(pool);
    for (int i = 0; i < LONG_PAUSE && (PLANTED(slow_end) || PLANTED(recorded_while_ending)); i++)
        futex_pause();
}

static void count_release(struct pool *pool, CUcontext handle, CUdevice ordinal, bool begins) {
    struct context *context;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link)
        if (is_meant(context, handle, ordinal))
            context->releases += begins ? 1 : context->releases ? -1U : 0;
    pool_unlock(pool);
}

void pool_primary_releasing(struct pool *pool, CUdevice ordinal) {
    captures_may_end(pool, NULL, ordinal, true);
    visits_close_primary(pool, ordinal);
    count_release(pool, NULL, ordinal, true);
}

bool pool_context_releasing(struct pool *pool, CUcontext handle) {
    CUcontext current;
    captures_may_end(pool, handle, -1, true);
    order_context_closes(&pool->order, handle);
    count_release(pool, handle, -1, true);
    return context_current(pool, &current) == CUDA_SUCCESS && current == handle;
}

/* Whether the primary context is another than that of the pool's records: between this release and
 * the question another thread has retained it anew. */
static bool is_replaced(struct pool *pool, CUdevice ordinal) {
    pool_lock(pool);
    const struct context *context = find_primary(pool, ordinal);
    CUcontext handle = context ? context->handle : NULL;
    unsigned long long id = context ? context->id : 0, now;
    pool_unlock(pool);
    if (!id || PLANTED(released_and_retained))
        return false;
    CUresult result = context_ask_id(pool, handle, &now);
    return result == CUDA_SUCCESS
               ? now != id
               : result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT;
}

bool pool_primary_released(struct pool *pool, CUdevice ordinal) {
    unsigned int flags;
    int active = 1;
    struct context *context;
    for (int i = 0; i < LONG_PAUSE && (PLANTED(slow_release) || PLANTED(released_and_retained));
         i++)
        futex_pause();
    if (pool->driver->primary_ctx_get_state(ordinal, &flags, &active) != CUDA_SUCCESS ||
        (active && !is_replaced(pool, ordinal))) {
        count_release(pool, NULL, ordinal, false);
        captures_may_end(pool, NULL, ordinal, false);
        visits_primary_stays(pool, ordinal);
        return false;
    }
    captures_end(pool, NULL, ordinal);
    if (PLANTED(stale_context))
        return true;
    begin_end(pool, NULL, ordinal);
    pool_lock(pool);
    context_forget_learnt_owners(pool);
    free_ended(pool);
    while ((context = find_primary(pool, ordinal)))
        end_and_forget(pool, context);
    order_primary_ends(&pool->order, ordinal);
    pool_unlock(pool);
    return true;
}

bool pool_context_goes_on(struct pool *pool, CUcontext handle, bool current) {
    CUcontext now;
    CUdevice device;
    bool pushed;
    if (current && (context_current(pool, &now) != CUDA_SUCCESS || now != handle))
        return false;
    bool there = order_make_current(&pool->order, handle, &pushed) &&
                 pool->driver->ctx_get_device(&device) == CUDA_SUCCESS;
    order_make_former_current(&pool->order, pushed);
    return there;
}

void pool_context_released(struct pool *pool, CUcontext handle, bool ended) {
    struct context *context;
    if (!ended) {
        count_release(pool, handle, -1, false);
        captures_may_end(pool, handle, -1, false);
        order_context_stays(&pool->order, handle);
        return;
    }
    captures_end(pool, handle, -1);
    begin_end(pool, handle, -1);
    pool_lock(pool);
    free_ended(pool);
    while ((context = context_find(pool, handle)))
        end_and_forget(pool, context);
    order_context_ends(&pool->order, handle);
    context_forget_owner(pool, handle);
    pool_unlock(pool);
}

/* How many ends this thread is in, as another tool's function may call a second one; and what
 * uncancelled_ends takes at last. */
static _Thread_local struct {
    int count, cancelling;
} own_ends __attribute__((tls_model("initial-exec")));

void pool_end_begins(struct pool *pool) {
    pool_lock(pool);
    pool->ends++;
    pool->ends_under_way++;
    pool_unlock(pool);
    if (!own_ends.count++)
        own_ends.cancelling = uncancelled_begins(pool);
}

/* The driver has freed what this thread has left to it, or refused to. Lock held. */
static void count_freed(struct pool *pool, struct context_list *contexts, bool ended) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    LIST_FOREACH (context, contexts, link) {
        if (context->over || context->refused || context->ended_by != thread_number())
            continue;
        context->over = context_has_gone(context, ended);
        context->refused = !context->over;
        context->device->ending -= (int)context->left;
        if (context->left)
            pool_count_released(pool, context->device, (int)context->left);
        context->left = 0;
    }
}

/* Lock held. */
static struct mapped *take_mapped_of(struct context_list *contexts, bool ended) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    struct mapped *mapped = NULL;
    LIST_FOREACH (context, contexts, link)
        if (context->mapped && context_has_gone(context, ended))
            break;
    if (context) {
        mapped = context->mapped;
        context->mapped = NULL;
    }
    return mapped;
}

/* What an end of this thread's has left mapped. NULL: nothing more. */
static struct mapped *take_mapped(struct pool *pool, bool ended) {
    pool_lock(pool);
    struct mapped *mapped = take_mapped_of(&pool->ended, ended);
    mapped = mapped ? mapped : take_mapped_of(&pool->leaving, ended);
    pool_unlock(pool);
    return mapped;
}

void pool_end_is_over(struct pool *pool, bool ended) {
    struct mapped *mapped;
    while (own_ends.count == 1 && (mapped = take_mapped(pool, ended)))
        mapped_release(pool->driver, mapped);
    pool_lock(pool);
    if (own_ends.count == 1) {
        stranded_end_is_over(pool, ended);
        count_freed(pool, &pool->ended, ended);
        count_freed(pool, &pool->leaving, ended);
    }
    if (pool->ends_under_way) /* else this is a forked child */
        pool->ends_under_way--;
    pool_unlock(pool);
    if (!--own_ends.count)
        uncancelled_ends(pool, own_ends.cancelling);
}

void context_destroy_sites(struct context *context) {
    struct site *site, *next;
    if (context->keeper->close)
        context->keeper->close(&context->store);
    mapped_destroy(context->mapped);
    context->mapped = NULL;
    free(context->driver_pool);
    context->driver_pool = NULL;
    HASH_ITER (by_key, context->sites, site, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DELETE(by_key, context->sites, site);
        free(site);
    }
}
