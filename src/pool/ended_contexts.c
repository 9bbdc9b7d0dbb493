/* Contexts that have ended. A thread that was inside the pool meanwhile may still look at their
 * records, so these are freed when all such threads have left.
 *
 * Records go through two lists: those that wait for the same threads are leaving together, and the
 * ones that end meanwhile wait in the other list for their turn. So the cost of an end does not
 * grow with the number of those before it. */
#include "pool/inside.h"
#include "pool/internal.h"

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

void ended_contexts_add(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    LIST_INSERT_HEAD(&pool->ended, context, link);
}

/* Frees those that are leaving; ones whose events stand in others' fences wait for another turn. */
static void free_leaving(struct pool *pool, context_predicate *is_referred_to) {
    struct context *context;
    while ((context = LIST_FIRST(&pool->leaving))) {
        LIST_REMOVE(context, link);
        if (is_referred_to(pool, context))
            LIST_INSERT_HEAD(&pool->ended, context, link);
        else
            free(context);
    }
}

void ended_contexts_free(struct pool *pool, context_predicate *is_referred_to) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    if (!LIST_EMPTY(&pool->leaving) && inside_have_left(&pool->leaving_since))
        free_leaving(pool, is_referred_to);
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
    while ((context = LIST_FIRST(&pool->leaving))) {
        LIST_REMOVE(context, link);
        free(context);
    }
    while ((context = LIST_FIRST(&pool->ended))) {
        LIST_REMOVE(context, link);
        free(context);
    }
}
