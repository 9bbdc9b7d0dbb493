/* Contexts that the program has made itself, as it makes and ends them. */
#include "pool/internal.h"

#include "thread_marks.h"

#include <stdlib.h>

void pool_context_created(struct pool *pool, CUcontext handle) {
    thread_number(); /* it is current: see order_may_owe */
    order_context_begins(&pool->order, handle, ORDER_NO_DEVICE);
    pool_lock(pool);
    struct created_context *created =
        context_is_created(pool, handle) ? NULL : calloc(1, sizeof *created);
    if (created) {
        *created = (struct created_context){handle, pool->created};
        pool->created = created;
    }
    pool_unlock(pool);
}

bool pool_context_is_created(struct pool *pool, CUcontext handle) {
    pool_lock(pool);
    bool created = context_is_created(pool, handle);
    pool_unlock(pool);
    return created;
}

void context_forget_created(struct pool *pool, CUcontext handle) {
    struct created_context **link = &pool->created;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    struct created_context *gone = *link;
    if (gone)
        *link = gone->next;
    free(gone);
}

void context_forget_all_created(struct pool *pool) {
    while (pool->created)
        context_forget_created(pool, pool->created->handle);
}
