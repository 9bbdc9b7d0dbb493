/* Giving idle memory back to the driver: what goes first, and how much (release.c). */
#ifndef POOLCUDA_POOL_RELEASE_H
#define POOLCUDA_POOL_RELEASE_H

#include "base/futex.h"
#include "base/lock.h"
#include "pool/bounds.h"
#include "pool/pool_struct.h"
#include "thread_marks.h"

/* What the driver's free of a block may wait for. Natively the program's own free waits once, for
 * what came before it; all that the pool frees beyond that must not wait for what came later: it
 * may be a kernel that waits for what this very thread does next. */
enum release_waits {
    RELEASE_MAY_WAIT,    /* for everything: the program has asked for that, or its context ends */
    RELEASE_WAITS_ONCE,  /* one free, for the work of `own`; all others have to find it done */
    RELEASE_IF_QUIET,    /* only what waits for nothing goes; what cannot be asked stays */
    RELEASE_UNLESS_BUSY, /* what cannot be asked goes as well: to fail for that would be worse */
};

/* Whether the driver's own free waits for the work that may use a block, as cuMemFree of what
 * cuMemAlloc gave does. Where it does not, the pool waits. */
static inline bool keeper_driver_waits(const struct keeper *keeper) {
    return !keeper->cuts && !keeper->keeps_nothing;
}

/* Whether that holds for device memory of any context. */
static inline bool pool_driver_waits(const struct pool *pool) {
    return keeper_driver_waits(pool->keeper); /* of host memory it does */
}

/* Gives the driver a block of such memory. Lock not held. */
static inline CUresult source_release(const struct pool *pool, enum pool_memory memory,
                                      CUdeviceptr pointer) {
    lock_check_none();
    return memory == POOL_HOST ? pool->driver->mem_free_host((void *)(uintptr_t)pointer)
                               : pool->driver->mem_free(pointer);
}

/* Counts blocks of the device that are no longer on their way. Lock held. */
static inline void pool_count_released(struct pool *pool, struct device *device, int count) {
    lock_check_held(LOCK_POOL);
    device->releasing -= count;
    if (device->releasing <= device->ending) /* what is left is the ends' own */
        futex_change(&pool->release_rounds);
}

/* Counts one of the context's users less. Lock held. */
static inline void context_user_leaves(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    if (!--context->users && context->closing)
        futex_change(&pool->release_rounds);
}

/* Memory of an ended context stays until the driver has ended it, too, which others that lack
 * memory wait for. Lock held. */
static inline void context_leaves(struct context *context) {
    lock_check_held(LOCK_POOL);
    if (context->over)
        return;
    context->left++;
    context->device->releasing++;
    context->device->ending++;
}

/* Whether nothing can use any more what a context had that this thread has ended. ended: the driver
 * says so; in one that is lost nothing runs, and a driver may tell of its error where it ends it.
 * Lock held. */
static inline bool context_has_gone(const struct context *context, bool ended) {
    lock_check_held(LOCK_POOL);
    return !context->refused && context->ended_by == thread_number() && (ended || context->broken);
}

/* Blocks taken out for release, linked through next_leaving; release_list_give_back gives them
 * to the driver, as far as `waits` lets it, and returns the bytes that it accepted. */
struct release_list {
    struct pool_block *first;
    struct page *unused; /* idle memory that was in no block */
    struct device *device;
    enum release_waits waits;
    bool ends;                   /* the context of all these blocks, by this thread */
    const struct context *own;   /* see RELEASE_WAITS_ONCE */
    const struct context *quiet; /* has just been seen to have no work: one free need not ask */
    size_t bytes, count;
    size_t physical; /* bytes that the driver has back with them: in pages, which bins' sizes are no
                        multiples of */
};
/* Blocks that are given up, linked through next_leaving up to `end`. Lock held. */
static inline void given_up_note(struct device *device, const struct pool_block *blocks,
                                 const struct pool_block *end) {
    lock_check_held(LOCK_POOL);
    for (; blocks != end; blocks = blocks->next_leaving)
        *given_up_place(device, blocks->size) = blocks->size;
}

/* Lock held. */
void release_list_add(struct pool *pool, struct release_list *releases,
                      struct pool_block *idle_block);
/* The driver's free of a block whose work is done, timed: it does not wait for the device. Lock not
 * held. */
CUresult release_timed(const struct pool *pool, const struct pool_block *block);
/* Lock held on entry and return, not in between. */
size_t release_list_give_back(struct pool *pool, struct release_list *releases);

/* The rest of it, once the driver has been asked for each block, which may have `refused`: the
 * records serve again, or their blocks are kept again. released: it has taken some. busy: NULL, or
 * a context that has work. Lock held. */
void release_list_end(struct pool *pool, struct release_list *releases, bool released,
                      const struct context *busy);

/* Says whose idle blocks are given up. */
struct release_scope {
    struct device *device;
    struct context *only; /* NULL: every context of the device */
    bool deferred;        /* also blocks that work may still use: their free waits for it */
    bool for_driver;      /* bytes are those that the driver lacks, and so physical ones */
};
/* The block that goes first: the largest of what the contexts' policies would give up first, still
 * kept. NULL: there is none. Lock held. */
struct pool_block *release_next_victim(struct pool *pool, const struct release_scope *scope);
/* Takes out idle memory, blocks one victim after the other, until `bytes` or nothing is left. Lock
 * held. */
void release_collect(struct pool *pool, const struct release_scope *scope, size_t bytes,
                     struct release_list *releases);
/* Takes out up to `bytes` of idle memory that is in no block. Returns how much that was. Lock held.
 */
size_t release_collect_unused(struct pool *pool, const struct device *device, size_t bytes,
                              struct release_list *releases);

/* Takes out `bytes` of idle memory, which exceed the bound. `quiet`: from this context alone, which
 * has no work left, so that its deferred blocks may go as well; NULL: from all of the device. Lock
 * held. */
void release_excess(struct pool *pool, struct device *device, struct context *quiet, size_t bytes,
                    struct release_list *releases);
/* Takes out `bytes` at most, of memory that was not needed of late. Lock held. */
void release_decayed(struct pool *pool, struct device *device, struct context *quiet, size_t bytes,
                     struct release_list *releases);
/* Before live memory grows by so much: what take_find_misfit finds, idle memory beyond the bound,
 * and `due` bytes that were not needed of late are released if this needs no waiting. The native
 * call does not wait, and a program may count on that while a kernel of its runs. Lock held on
 * entry and return, not in between. */
void release_before_growth(struct pool *pool, const struct request *request, size_t growth,
                           bool falls, uint64_t due);
/* Sees to it that the driver has memory for launches in the current context, once `growth` bytes
 * more are live. Lock not held. */
void release_for_launches(struct pool *pool, struct context *context, size_t growth);
/* Idle memory on its way back to the driver because a device is out of memory.
 *
 * The driver's free waits for the work of the block's context, and that may be a kernel which waits
 * for what this very thread does next. So only contexts that rest give anything back. */
enum room {
    ROOM_NONE,   /* nothing is idle */
    ROOM_BUSY,   /* there is something, of contexts whose work is not done */
    ROOM_COMING, /* another thread is giving something back */
    ROOM_MADE,
};
/* Gives back idle memory of the device. Lock held on entry and return, not in between. */
enum room room_make(struct pool *pool, struct device *device, size_t bytes);
/* Looks at the fences of the device's deferred blocks: what has passed is idle then. Lock held on
 * entry and return, not in between. */
void room_poll_fences(struct pool *pool, const struct device *device);

#endif
