/* Allocations and frees while memory is checked. */
#include "check/internal.h"

#include "counters/stats.h"
#include "thread_marks.h"

#include <stdlib.h>

struct check *check_create(const struct check_config *config, struct pool *pool,
                           const struct driver *driver) {
    struct check *check = calloc(1, sizeof *check);
    if (!check)
        return NULL;
    check->config = *config;
    check->pool = pool;
    check->driver = driver;
    check->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    check->log.file = REPORT_NO_LOG;
    return check;
}

/* Lock held. */
static void forget_everything(struct check *check) {
    lock_check_held(LOCK_CHECK);
    struct check_block *block;
    struct check_context *context;
    while ((block = block_from(check, 0))) {
        block_detach(check, block);
        block->held = false;
        block_remove(check, block);
    }
    while ((context = LIST_FIRST(&check->contexts))) {
        LIST_REMOVE(context, link);
        gpu_forget(context);
        free(context);
    }
}

void check_destroy(struct check *check) {
    if (!check)
        return;
    check_lock(check);
    forget_everything(check);
    check_unlock(check);
    own_forget(check, NULL);
    free(check);
}

void check_leave_after_fork(struct check *check) {
    if (check)
        check->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* --- allocations --- */

/* Memory of `bytes` with a zone on both sides, in units in which the driver aligns. */
static size_t with_zones(size_t bytes) {
    return CHECK_ZONE + (bytes + CHECK_ZONE + CHECK_ZONE - 1) / CHECK_ZONE * CHECK_ZONE;
}

/* Makes a record, and finds the context to check its block in. NULL: it cannot be checked. */
static struct check_block *begin(struct check *check, const struct call_site *site) {
    struct check_context *context = NULL;
    if (!pool_is_capturing(check->pool))
        context = context_to_check(check);
    struct check_block *block = context ? calloc(1, sizeof *block) : NULL;
    if (!block)
        return NULL;
    block->context = context;
    block->allocated = *site;
    return block;
}

/* While its context may be ending, the block is known for what it is, and not checked. False: it
 * has ended, and nothing is registered. */
static bool register_unchecked(struct check *check, struct check_block *block) {
    stats_add(STATS_check_unchecked_blocks, 1);
    check_lock(check);
    bool there = !block->context->ended;
    if (there) {
        block_add(check, block);
        block_detach(check, block);
    } else {
        block_remove_all(check, block->base, block->size);
    }
    check_unlock(check);
    return there;
}

/* Registers the block as the program's. This thread has its zones filled, before the program has
 * it; where no launch is to be had without a wait, they are filled later. False: its context has
 * ended, and nothing is registered. */
static bool register_block(struct check *check, struct check_block *block) {
    struct check_context *context = block->context;
    if (!context_begin_use(check, context))
        return register_unchecked(check, block);
    struct check_launch *launch = results_take_for_zones(check, context);
    check_lock(check);
    block->verified = context->work;
    block_add(check, block);
    if (launch)
        quarantine_fill_zones(context, launch);
    check_unlock(check);
    if (launch) /* what the pool has cleared for POOLCUDA_ZERO the host has waited for */
        gpu_fill(check, context, launch);
    context_end_use(check, context);
    return true;
}

/* The caller is given `bytes` without any check. What is on record there is of a context that has
 * ended: its end goes on in another thread. */
static CUresult hand_out_unchecked(struct check *check, CUdeviceptr pointer, size_t bytes) {
    check_given(check, pointer, bytes);
    stats_add(STATS_check_unchecked_blocks, 1);
    check_lock(check);
    block_remove_all(check, pointer, bytes);
    check_unlock(check);
    return CUDA_SUCCESS;
}

/* Hands out memory of which `before` bytes are a zone: what has been allocated for the block. */
static CUresult hand_out(struct check *check, struct check_block *block, size_t before,
                         CUdeviceptr *pointer) {
    *pointer = block->user = block->base + before;
    check_given(check, block->base, block->size);
    if (register_block(check, block))
        return CUDA_SUCCESS;
    *pointer = block->base;
    free(block);
    return CUDA_SUCCESS;
}

/* What is to be allocated, with or without zones. */
struct wish {
    bool pitched; /* `height` rows of `bytes`, else just these */
    CUdeviceptr *pointer;
    size_t *pitch;
    size_t bytes, height;
    unsigned int element_bytes;
};

static CUresult allocate_once(struct pool *pool, const struct wish *wish,
                              const struct call_site *site) {
    return wish->pitched ? pool_malloc_pitch(pool, wish->pointer, wish->pitch, wish->bytes,
                                             wish->height, wish->element_bytes, site)
                         : pool_malloc(pool, wish->pointer, wish->bytes, site);
}

/* What is kept from reuse must not keep the program from memory. Other threads may take what is
 * made room for. */
static CUresult allocate(struct check *check, const struct wish *wish,
                         const struct call_site *site) {
    enum { TRIES = 8 };
    CUresult result = allocate_once(check->pool, wish, site);
    for (int i = 0; i < TRIES && driver_refused(result) && check_make_room(check); i++)
        result = allocate_once(check->pool, wish, site);
    return result;
}

CUresult check_malloc(struct check *check, CUdeviceptr *pointer, size_t bytes,
                      const struct call_site *site) {
    bool plain = !pointer || !bytes || bytes > SIZE_MAX / 2;
    struct check_block *block = plain ? NULL : begin(check, site);
    if (block) {
        block->size = with_zones(bytes);
        block->bytes = bytes;
        const struct wish zoned = {.pointer = &block->base, .bytes = block->size};
        if (allocate(check, &zoned, site) == CUDA_SUCCESS)
            return hand_out(check, block, CHECK_ZONE, pointer);
        free(block);
    }
    CUresult result = allocate(check, &(struct wish){.pointer = pointer, .bytes = bytes}, site);
    bool given = result == CUDA_SUCCESS && pointer;
    return given ? hand_out_unchecked(check, *pointer, bytes) : result;
}

/* Zones are of whole rows, so that all rows begin where the driver has them begin. How long a row
 * is only the driver knows; of narrow ones it takes two to make a zone where it aligns to 256. */
CUresult check_malloc_pitch(struct check *check, CUdeviceptr *pointer, size_t *pitch,
                            size_t width_bytes, size_t height, unsigned int element_bytes,
                            const struct call_site *site) {
    size_t rows = width_bytes >= CHECK_ZONE ? 1 : 2;
    bool plain = !pointer || !pitch || !width_bytes || !height || height > SIZE_MAX / 2;
    struct check_block *block = plain ? NULL : begin(check, site);
    struct wish wish = {
        .pitched = true, .pitch = pitch, .bytes = width_bytes, .element_bytes = element_bytes};
    if (block) {
        wish.pointer = &block->base;
        wish.height = height + 2 * rows;
        if (allocate(check, &wish, site) == CUDA_SUCCESS) {
            block->size = *pitch * wish.height;
            block->bytes = *pitch * height;
            return hand_out(check, block, *pitch * rows, pointer);
        }
        free(block);
    }
    wish.pointer = pointer;
    wish.height = height;
    CUresult result = allocate(check, &wish, site);
    bool given = result == CUDA_SUCCESS && pointer && pitch;
    return given ? hand_out_unchecked(check, *pointer, *pitch * height) : result;
}

/* --- frees --- */

CUdeviceptr check_as_freed(struct check *check, CUdeviceptr pointer) {
    return check_owns(check, pointer) ? POOL_NOWHERE : pointer;
}

CUresult check_free_host(struct check *check, void *memory) {
    CUdeviceptr freed = check_as_freed(check, (CUdeviceptr)(uintptr_t)memory);
    return pool_free_host(check->pool, (void *)(uintptr_t)freed);
}

/* Answers a free of what is not, or no longer, checked. A pointer into a block's memory begins no
 * allocation that the program knows, whatever the pool knows. */
static CUresult free_unchecked(struct check *check, CUdeviceptr pointer,
                               const struct call_site *at) {
    struct check_block copy;
    check_lock(check);
    const struct check_block *block = block_around(check, pointer);
    if (block)
        copy = *block;
    check_unlock(check);
    CUresult result = block ? check->driver->mem_free(copy.base + 1)
                            : pool_free(check->pool, check_as_freed(check, pointer));
    if (result == CUDA_ERROR_INVALID_VALUE && pointer)
        report_free(check, block ? &copy : NULL, pointer, at);
    return result;
}

/* The live block at `pointer`, which no other thread frees; NULL: there is none. Lock held. */
static struct check_block *live_at(struct check *check, CUdeviceptr pointer) {
    lock_check_held(LOCK_CHECK);
    struct check_block *block = block_at(check, pointer);
    bool live = block && (block->state == CHECK_LIVE || block->state == CHECK_DETACHED);
    return live && !block->held ? block : NULL;
}

/* Takes the block at `pointer` for a free of this thread's; NULL: there is none to be freed. *used:
 * its context is in use, and the block is FREEING; if not, it is not checked any more. */
static struct check_block *take(struct check *check, CUdeviceptr pointer, bool *used) {
    check_lock(check);
    struct check_block *block = live_at(check, pointer);
    if (block) {
        *used = block->state == CHECK_LIVE && context_use(check, block->context);
        block_set_state(check, block, *used ? CHECK_FREEING : CHECK_DETACHED);
        block->held = true;
    }
    check_unlock(check);
    return block;
}

/* What the GPU does at a free: looks at the block, fills it, and looks at some others. Returns
 * whether it was asked to. Where no event covers all of the program's streams, what it does to the
 * block in one of them must have ended: it would come after the filling, as a write after the free.
 */
static bool submit_free(struct check *check, struct check_block *block) {
    struct check_context *context = block->context;
    if (!check->driver->ctx_record_event && !gpu_wait_for_context(check, context))
        return false;
    struct check_launch *launch = results_take_for_free(check, context);
    if (!launch)
        return false;
    check_lock(check);
    launch->freed_by = thread_number();
    launch->occasion = (struct check_occasion){.moment = CHECK_AT_FREE, .freed = block->base};
    if (block->zones != CHECK_FILLING)
        tasks_zones(launch, block, block->zones == CHECK_ZONED ? CHECK_VERIFY : CHECK_FILL);
    tasks_body(launch, block, CHECK_FILL);
    quarantine_fill_zones(context, launch);
    quarantine_verify_some(context, launch);
    check_unlock(check);
    return gpu_submit(check, context, launch);
}

/* Forgets the block before the pool has its memory, as then another thread may be given it. False:
 * the block has to leave later, as another thread may be about to submit tasks on it. Where tasks
 * have been submitted, only the driver's own free waits for them: no fence knows their stream. */
static bool forget(struct check *check, struct check_block *block, bool *known) {
    CUdeviceptr base = block->base;
    check_lock(check);
    bool used = block->uses && !block->context->lost, busy = used && block->context->users;
    *known = block->state != CHECK_GONE;
    if (*known && busy) {
        block->unwaited = true;
        block_set_state(check, block, CHECK_LEAVING);
        block_let_go(block);
    } else if (*known) {
        block_remove(check, block);
    }
    check_unlock(check);
    if (*known && used && !busy)
        pool_taint(check->pool, base, POOL_TAINT_CHECK);
    return !(*known && busy);
}

/* Gives the block's memory to the pool or the driver; where they refuse it, it is still the
 * program's. */
static CUresult free_at_once(struct check *check, struct check_block *block) {
    CUdeviceptr base = block->base;
    bool known;
    stats_add(STATS_check_unchecked_blocks, 1);
    if (!forget(check, block, &known))
        return CUDA_SUCCESS;
    CUresult result = pool_free(check->pool, base);
    check_lock(check);
    if (known && result != CUDA_SUCCESS)
        block_take_back(check, block);
    block_let_go(block);
    check_unlock(check);
    return result;
}

/* Keeps a block whose free has been waited for: filled, or just until nothing uses it. False: its
 * context has ended meanwhile. */
static bool keep(struct check *check, struct check_block *block, bool filled,
                 const struct call_site *at) {
    struct check_context *context = block->context;
    check_lock(check);
    bool known = block->state == CHECK_FREEING;
    if (known) {
        block->freed = *at;
        block_set_state(check, block, filled ? CHECK_QUARANTINED : CHECK_LEAVING);
        block_let_go(block);
    }
    uint64_t kept = context->quarantined, limit = context->limit;
    bool used = known && context_use(check, context);
    check_unlock(check);
    if (!used)
        return known;
    results_finish(check, context);
    if (kept > limit)
        quarantine_shrink(check, context, limit - limit / 8);
    context_end_use(check, context);
    return true;
}

/* Frees a block that take has found. */
static CUresult free_taken(struct check *check, struct check_block *block, bool used,
                           const struct call_site *at) {
    bool filled = false;
    if (used) {
        filled = !pool_is_capturing(check->pool) && submit_free(check, block);
        context_end_use(check, block->context); /* the context's end waits for no wait of ours */
    }
    if (used && pool_free_wait(check->pool, block->base) == CUDA_SUCCESS &&
        keep(check, block, filled, at)) {
        if (!filled)
            stats_add(STATS_check_unchecked_blocks, 1);
        return CUDA_SUCCESS;
    }
    return free_at_once(check, block);
}

CUresult check_free(struct check *check, CUdeviceptr pointer, const struct call_site *at) {
    bool used = false;
    CUresult refusal = pointer ? pool_refuses_frees(check->pool) : CUDA_SUCCESS;
    if (refusal != CUDA_SUCCESS)
        return refusal;
    struct check_block *block = pointer ? take(check, pointer, &used) : NULL;
    if (!block)
        return free_unchecked(check, pointer, at);
    struct check_context *context = block->context;
    CUresult result = free_taken(check, block, used, at);
    fills_free_is_over(check, context);
    return result;
}

/* --- frees beside a capture --- */

bool check_free_later(struct check *check, CUdeviceptr pointer) {
    check_lock(check);
    struct check_block *block = live_at(check, pointer);
    bool used = block && block->uses && !block->context->lost;
    if (used) {
        block->unwaited = true;
        block_set_state(check, block, CHECK_LEAVING);
    }
    check_unlock(check);
    return used;
}

struct check_block *check_disown(struct check *check, CUdeviceptr *pointer) {
    check_lock(check);
    struct check_block *block = live_at(check, *pointer);
    *pointer = block ? block->base : POOL_NOWHERE;
    if (block) {
        block->held = true;
        block_remove(check, block);
    }
    check_unlock(check);
    return block;
}

void check_disowned(struct check *check, struct check_block *block, CUresult result) {
    check_lock(check);
    if (result != CUDA_SUCCESS)
        block_take_back(check, block);
    block_let_go(block);
    check_unlock(check);
}
