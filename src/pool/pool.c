/* Allocation and free: what is served from idle memory, what is kept, what goes to the driver. */
#include "pool/pool.h"

#include "planted.h"
#include "policy/async.h"
#include "pool/history.h"
#include "pool/internal.h"
#include "pool/quick.h"

#include <stdlib.h>

static const uint64_t waste_slack = 32 << 20;

static void reset_locks(struct pool *pool) {
    pool->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pool->left = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

struct pool *pool_create(const struct pool_config *config, const struct driver *driver) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    reset_locks(pool);
    pointer_map_init(&pool->map);
    pool->config = *config;
    pool->driver = driver;
    pool->policy = config->policy ? config->policy : &policy_site;
    pool->owed_flag = config->owed_flag ? config->owed_flag : &pool->own_owed_flag;
    return pool;
}

uint64_t pool_waste_left(const struct pool *pool, const struct device *device) {
    if (PLANTED(oversize))
        return UINT64_MAX;
    uint64_t share = device->total / 100, peak = device->peak_in_use / 50 + waste_slack;
    uint64_t allowed = pressure_limit(&pool->config.max_waste, device, share < peak ? share : peak);
    return allowed > device->over_size ? allowed - device->over_size : 0;
}

struct fit pool_fit(struct pool *pool, const struct context *context, size_t bytes, size_t size) {
    double ratio = PLANTED(oversize) ? 1e9 : pool->config.reuse_ratio;
    return (struct fit){bytes, size, ratio, pool_waste_left(pool, context->device),
                        pool->config.steal};
}

static void count_hit(struct device *device, struct site *site) {
    stats_grow(&site->stats->hits, 1);
    stats_grow(&site->stats->misses, (uint64_t)-1); /* as which it was counted until now */
    device->hits++;
    stats_add(STATS_malloc_hits, 1);
}

struct pool_block *pool_take(struct pool *pool, struct context *context, struct site *site,
                             size_t bytes, size_t size) {
    bool stolen = false;
    struct pool_block *block = cache_take(pool, context, site, size);
    if (!block) { /* what others have idle, or of other sizes */
        struct fit fit = pool_fit(pool, context, bytes, size);
        cache_offer(pool, context, site, size);
        block = pool->policy->take(&context->store, site, &fit, &stolen);
    }
    if (!block)
        return NULL;
    count_hit(context->device, site); /* before the history is noted, as the allocation was */
    books_make_live(pool, block, site, bytes);
    stats_grow(&site->stats->allocated_bytes, bytes);
    if (stolen)
        stats_add(STATS_malloc_stolen, 1);
    return block;
}

static CUresult ask_driver(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                           const struct pitch_request *pitch) {
    return pitch ? pool->driver->mem_alloc_pitch(pointer, pitch->pitch, pitch->width, pitch->height,
                                                 pitch->element)
                 : pool->driver->mem_alloc(pointer, bytes);
}

/* Past the pool: no record is made, so the free will go to the driver as well. Idle memory must
 * still not be the reason for an error. */
static CUresult malloc_past_pool(struct pool *pool, struct context *context, CUdeviceptr *pointer,
                                 size_t bytes, const struct pitch_request *pitch) {
    struct request request = {context, NULL, bytes, bytes, pitch};
    struct pool_block *block;
    struct obtained obtained;
    CUresult result;
    if (context) {
        result = pressure_allocate(pool, &request, &block, &obtained);
        if (result == CUDA_SUCCESS)
            *pointer = obtained.pointer;
        return result;
    }
    result = ask_driver(pool, pointer, bytes, pitch);
    for (unsigned attempt = 0;
         result == CUDA_ERROR_OUT_OF_MEMORY && pool_make_room(pool, "cuMemAlloc", attempt, true);
         attempt++)
        result = ask_driver(pool, pointer, bytes, pitch);
    context_note_error(pool, NULL, result);
    return result;
}

/* Before live memory grows: idle memory beyond the bound, and what the policy keeps for no other
 * request than the site's, is released if that needs no waiting. The native call does not wait, and
 * a program may count on that while a kernel of its runs. Lock held. */
static void trim_before_growth(struct pool *pool, struct context *context, struct site *site,
                               size_t size) {
    struct leaving leaving = {.device = context->device};
    if (context->ended) /* while a fence was waited for: the site is gone */
        return;
    struct pool_block *misfit = pool->policy->misfit ? pool->policy->misfit(site) : NULL;
    uint64_t due = decay_due(pool, context->device);
    if (!misfit && !due && !pressure_exceeds(pool, context->device, size))
        return;
    pool_unlock(pool);
    bool quiet = context_is_quiet(pool, context);
    pool_lock(pool);
    if (!quiet) {
        stats_add(STATS_bound_postponed, 1);
        return;
    }
    while (!context->ended && pool->policy->misfit && (misfit = pool->policy->misfit(site))) {
        books_take_out(pool, misfit);
        leaving_take(pool, &leaving, misfit);
    }
    if (!context->ended) {
        pressure_trim(pool, context->device, context, size, &leaving);
        pressure_decay(pool, context->device, context, due, &leaving);
    }
    leaving_free(pool, &leaving);
}

/* A live block of what the driver has given. Lock held. */
static void record(struct pool *pool, const struct request *request,
                   const struct obtained *obtained) {
    size_t bytes = request->pitch ? obtained->size : request->bytes;
    if (obtained->stitched) {
        count_hit(request->context->device, request->site);
        stats_add(STATS_malloc_stitched, 1);
    }
    if (pool->policy->cuts) {
        part_adopt(pool, request, obtained);
    } else {
        struct pool_block *block = books_add(pool, request->context, request->site,
                                             obtained->pointer, obtained->size, bytes);
        if (block)
            block->pooled = obtained->pooled;
    }
    stats_grow(&request->site->stats->allocated_bytes, bytes);
    history_map(pool, request->context->device);
    cache_prepare_miss(pool, request->context, request->site);
}

/* For programs that count on fresh memory being zero. The memset is in the legacy stream; only what
 * may use another stream has to be kept from overtaking it. Memory that cannot be cleared (a
 * capture has begun meanwhile) is handed out as it is: its contents are undefined anyway. */
static void clear(struct pool *pool, struct context *context, CUdeviceptr pointer, size_t bytes) {
    if (!gate_enter(pool))
        return;
    CUresult result = pool->driver->memset_d8(pointer, 0, bytes);
    if (result == CUDA_SUCCESS &&
        (pool->reasons[WAIT_REASON_stream] || pool->reasons[WAIT_REASON_per_thread_stream]))
        result = pool->driver->ctx_synchronize();
    context_note_error(pool, context, result);
    gate_leave(pool);
}

/* Whether what a policy has obtained may be, or hold, memory that was used before. */
static bool is_used(const struct obtained *obtained) {
    return obtained->stitched || obtained->pooled || obtained->reservation;
}

/* A miss: asks the driver and records what it gives. Lock held on entry, not on return. */
static CUresult malloc_from_driver(struct pool *pool, const struct request *request,
                                   CUdeviceptr *pointer) {
    struct context *context = request->context;
    struct pool_block *block;
    struct obtained obtained;
    /* Idle pages that are mapped anew make live memory grow, but not what is held. */
    size_t growth = pool->policy->take_unused ? 0 : request->size;
    trim_before_growth(pool, context, request->site, growth);
    pool_unlock(pool);
    CUresult result = pressure_allocate(pool, request, &block, &obtained);
    if (result != CUDA_SUCCESS) {
        context_note_error(pool, context, result);
        return result;
    }
    pool_lock(pool);
    if (!block && !context->ended)
        record(pool, request, &obtained);
    if (request->pitch && !block && !context->ended)
        pitch_learn(pool, context->device->ordinal, request->pitch->width, request->pitch->element,
                    *request->pitch->pitch);
    bool zero = pool->config.zero;
    pool_unlock(pool);
    *pointer = block ? block->pointer : obtained.pointer;
    if (zero && (block || is_used(&obtained)))
        clear(pool, context, *pointer, block ? block->requested : request->bytes);
    if (!block && !obtained.stitched)
        pressure_keep_headroom(pool, context, obtained.size);
    return CUDA_SUCCESS;
}

void pool_miss_late(struct pool *pool, struct pool_block *unused, struct context *context,
                    CUdeviceptr pointer, size_t bytes, const struct call_site *key) {
    const struct obtained obtained = {.pointer = pointer, .size = pool->policy->round(bytes)};
    struct request request = {context, NULL, bytes, obtained.size, NULL};
    pool_lock(pool);
    books_recycle(pool, unused);
    if (pointer) {
        stats_add(STATS_malloc_calls, 1);
        stats_add(STATS_driver_allocs, 1);
    }
    if (pointer && !context->ended)
        request.site = context_site(pool, context, key);
    if (request.site) {
        stats_grow(&request.site->stats->misses, 1);
        context->device->allocations++;
        record(pool, &request, &obtained);
    }
    pool_unlock(pool);
}

/* An idle block for the request, live and with the lock released; NULL with the lock held. */
static struct pool_block *serve(struct pool *pool, const struct request *request) {
    struct context *context = request->context;
    struct pool_block *block =
        pool_take(pool, context, request->site, request->bytes, request->size);
    if (!block && pool->config.free_mode == POOL_FREE_DEFER)
        block = fence_take(pool, context, request->site, request->bytes, request->size);
    if (block) {
        bool zero = pool->config.zero;
        pool_unlock(pool);
        if (zero)
            clear(pool, context, block->pointer, block->requested);
    }
    return block;
}

/* The site of a request in the current context, with the lock held; or NULL, without the lock, if
 * the call is to go past the pool. *context may be NULL then. */
static struct site *open_request(struct pool *pool, const struct call_site *key,
                                 struct context **context) {
    bool capturing = atomic_load_explicit(&pool->captures, memory_order_acquire);
    bool down = atomic_load_explicit(&pool->down, memory_order_relaxed);
    *context = context_enter(pool);
    stats_add(STATS_malloc_calls, 1);
    if (capturing && *context && PLANTED(query_in_capture)) {
        pool_unlock(pool);
        context_is_quiet(pool, *context);
        pool_lock(pool);
    }
    bool broken = *context && (*context)->broken;
    struct site *site =
        *context && !capturing && !down && !broken ? context_site(pool, *context, key) : NULL;
    if (*context)
        (*context)->device->allocations++;
    if (site) {
        stats_grow(&site->stats->misses, 1);
        return site;
    }
    if (*context)
        pool_unlock(pool);
    if (capturing)
        stats_add(STATS_capture_passed, 1);
    else if (down || broken)
        stats_add(STATS_passed_errors, 1);
    return NULL;
}

CUresult pool_malloc(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                     const struct call_site *key) {
    enum quick quick = quick_malloc(pool, pointer, bytes, site_id(key), true);
    if (quick == QUICK_DONE || (quick == QUICK_NO && cache_miss(pool, pointer, bytes, key)))
        return CUDA_SUCCESS;
    return pool_malloc_rest(pool, pointer, bytes, key);
}

CUresult pool_malloc_rest(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                          const struct call_site *key) {
    size_t size = bytes ? pool->policy->round(bytes) : 0;
    if (!pointer || !size) {
        stats_add(STATS_malloc_calls, 1);
        return pool->driver->mem_alloc(pointer, bytes);
    }
    struct context *context;
    struct site *site = open_request(pool, key, &context);
    if (!site)
        return malloc_past_pool(pool, context, pointer, bytes, NULL);
    struct request request = {context, site, bytes, size, NULL};
    struct pool_block *block = serve(pool, &request);
    if (!block)
        return malloc_from_driver(pool, &request, pointer);
    *pointer = block->pointer;
    return CUDA_SUCCESS;
}

CUresult pool_malloc_pitch(struct pool *pool, CUdeviceptr *pointer, size_t *pitch, size_t width,
                           size_t height, unsigned int element, const struct call_site *key) {
    struct pitch_request pitched = {pitch, 0, width, height, element};
    if (!pointer || !pitch) {
        stats_add(STATS_malloc_calls, 1);
        return pool->driver->mem_alloc_pitch(pointer, pitch, width, height, element);
    }
    struct context *context;
    struct site *site = open_request(pool, key, &context);
    if (!site)
        return malloc_past_pool(pool, context, pointer, 0, &pitched);
    pitched.known = pitch_known(pool, context->device->ordinal, width, element);
    size_t bytes;
    if (__builtin_mul_overflow(pitched.known, height, &bytes))
        bytes = 0;
    size_t size = bytes ? pool->policy->round(bytes) : 0;
    struct request request = {context, site, bytes, size, &pitched};
    struct pool_block *block = size ? serve(pool, &request) : NULL;
    if (!block)
        return malloc_from_driver(pool, &request, pointer);
    *pitch = pitched.known;
    *pointer = block->pointer;
    return CUDA_SUCCESS;
}

/* A planted fault: another thread may have been given the address meanwhile. */
static CUresult free_with_late_removal(struct pool *pool, struct pool_block *block) {
    CUdeviceptr pointer = block->pointer;
    pool_unlock(pool);
    CUresult result = pool->driver->mem_free(pointer);
    gate_pause();
    pool_lock(pool);
    block = books_find(pool, pointer);
    if (block && result == CUDA_SUCCESS) {
        books_remove(pool, block);
        books_recycle(pool, block);
    }
    pool_unlock(pool);
    return result;
}

/* Frees a block for good. The record goes first and comes back if the driver refuses. Lock held on
 * entry, not on return. */
static CUresult free_for_good(struct pool *pool, struct pool_block *block) {
    struct device *device = block->context->device;
    struct context *context = block->context;
    if (PLANTED(record_removed_late))
        return free_with_late_removal(pool, block);
    books_remove(pool, block);
    device->leaving++;
    pool_unlock(pool);
    CUresult result = pool->driver->mem_free(block->pointer);
    context_note_error(pool, context, result);
    pool_lock(pool);
    if (result == CUDA_SUCCESS) {
        books_recycle(pool, block);
        stats_add(STATS_driver_frees, 1);
    } else {
        books_restore(pool, block, BLOCK_LIVE);
    }
    if (--device->leaving == 0)
        pthread_cond_broadcast(&pool->left);
    pool_unlock(pool);
    return result;
}

/* Keeps a block and gives up what is then too much. deferred: work may still use it, and only a
 * fence will tell; else the wait of its free has been made or is owed. Lock held on entry, not on
 * return. */
static void keep(struct pool *pool, struct pool_block *block, bool deferred) {
    struct leaving leaving = {.device = block->context->device};
    struct store *store = &block->context->store;
    struct site *site = block->site;
    struct pool_block *surplus;
    if (pool->policy->cuts)
        part_note_taint(block);
    if (deferred) {
        books_make_deferred(pool, block);
        fence_defer(pool, block);
    } else {
        books_make_idle(pool, block); /* the policy may have merged it: it is gone */
    }
    stats_add(STATS_free_kept, 1);
    if (atomic_load(&pool->captures)) { /* what is too much goes at a later free */
        pool_unlock(pool);
        return;
    }
    while ((surplus = pool->policy->surplus(store, site, pool->config.site_keep))) {
        books_take_out(pool, surplus);
        leaving_take(pool, &leaving, surplus);
    }
    if (pool->policy->keeps_nothing) { /* the surplus is then idle in the driver's pool */
        leaving_free(pool, &leaving);
        leaving = (struct leaving){.device = leaving.device};
    }
    stats_add(STATS_bound_released_blocks, leaving.count);
    pressure_trim(pool, leaving.device, NULL, 0, &leaving);
    pressure_decay(pool, leaving.device, NULL, decay_due(pool, leaving.device), &leaving);
    leaving_free(pool, &leaving);
    pool_unlock(pool);
}

/* Whether cuMemFree would not do for the block what it does for cuMemAlloc's. */
static bool is_part(const struct pool *pool, const struct pool_block *block) {
    return pool->policy->cuts || block->pooled;
}

/* Whether a live block must really be freed now. Lock held. */
static bool leaves(struct pool *pool, const struct pool_block *block, CUcontext current) {
    if (is_part(pool, block))
        return part_passes(pool, block, current);
    bool tainted = block->taints && !PLANTED(taint_recycled);
    return tainted || block->context->broken || block->context->device->pressure ||
           atomic_load(&pool->captures) || atomic_load(&pool->down) ||
           !context_is_known(pool, current);
}

/* Lock held on entry, not on return. */
static CUresult free_past_pool(struct pool *pool, struct pool_block *block, CUcontext current) {
    return is_part(pool, block) ? part_free_past_pool(pool, block, current)
                                : free_for_good(pool, block);
}

/* The context's end was announced during the wait. If the context lives on after all, the block is
 * the driver's to free; if not, the driver says so. */
static CUresult free_forgotten(struct pool *pool, struct pool_block *block) {
    CUdeviceptr pointer = block->pointer;
    bool has_new_owner = books_find(pool, pointer) != NULL;
    books_recycle(pool, block);
    pool_unlock(pool);
    return has_new_owner ? CUDA_SUCCESS : pool->driver->mem_free(pointer);
}

void pool_keep(struct pool *pool, struct pool_block *block) {
    keep(pool, block, false);
}

void pool_keep_deferred(struct pool *pool, struct pool_block *block) {
    keep(pool, block, true);
}

/* Lock held on entry, not on return. */
static CUresult free_after_wait(struct pool *pool, struct pool_block *block,
                                enum wait_reason reason) {
    books_set_state(pool, block, BLOCK_WAITING);
    CUresult result = wait_make(pool, block->context, reason);
    if (block->state == BLOCK_GONE)
        return free_forgotten(pool, block);
    books_set_state(pool, block, BLOCK_LIVE);
    if (result == CUDA_SUCCESS && !leaves(pool, block, block->context->handle)) {
        keep(pool, block, false);
        return CUDA_SUCCESS;
    }
    /* A failed wait: the driver says what its own free makes of this. */
    return free_past_pool(pool, block, block->context->handle);
}

CUresult pool_free(struct pool *pool, CUdeviceptr pointer) {
    return quick_free(pool, pointer, true) == QUICK_DONE ? CUDA_SUCCESS
                                                         : pool_free_rest(pool, pointer);
}

CUresult pool_free_rest(struct pool *pool, CUdeviceptr pointer) {
    if (!pointer)
        return pool->driver->mem_free(pointer);
    /* Without a current context, or in one that is gone, the driver says what becomes of the free.
     */
    CUcontext current;
    if (context_current(pool, &current) != CUDA_SUCCESS)
        current = NULL;
    stats_add(STATS_free_calls, 1);
    if (pool->config.look_around)
        pool->config.look_around(pool);
    pool_lock(pool);
    struct pool_block *block = books_find(pool, pointer);
    if (!block) {
        pool_unlock(pool);
        stats_add(STATS_free_unknown, 1);
        return pool->driver->mem_free(pointer);
    }
    if (block->state != BLOCK_LIVE) {
        pool_unlock(pool);
        stats_add(STATS_free_double, 1);
        return CUDA_ERROR_INVALID_VALUE;
    }
    block->context->device->frees++;
    if (leaves(pool, block, current)) {
        if (atomic_load(&pool->captures))
            stats_add(STATS_capture_passed, 1);
        return free_past_pool(pool, block, current);
    }
    enum wait_reason reason;
    enum wait_kind kind = wait_kind(pool, block, &reason);
    if (kind == WAIT_NOW)
        return free_after_wait(pool, block, reason);
    if (kind == WAIT_OWED)
        wait_owe(pool, block->context);
    keep(pool, block, kind == WAIT_DEFERRED);
    return CUDA_SUCCESS;
}

/* What the driver knows better than the books, for the current context. */
static void refresh(struct pool *pool) {
    struct context *context = pool->policy->refresh ? context_enter(pool) : NULL;
    if (!context)
        return;
    pool_unlock(pool);
    pool->policy->refresh(pool, context);
}

CUresult pool_mem_get_info(struct pool *pool, size_t *free_bytes, size_t *total_bytes) {
    size_t available = 0, total = 0;
    CUresult result = pool->driver->mem_get_info(&available, &total);
    if (result != CUDA_SUCCESS)
        return result;
    CUdevice ordinal;
    refresh(pool);
    if (pool->driver->ctx_get_device(&ordinal) == CUDA_SUCCESS) {
        pool_lock(pool);
        struct device *device = context_find_device(pool, ordinal);
        if (device && !PLANTED(idle_not_free))
            available += pages_idle(pool, device);
        pool_unlock(pool);
    }
    if (free_bytes)
        *free_bytes = available < total ? available : total;
    if (total_bytes)
        *total_bytes = total;
    return CUDA_SUCCESS;
}

enum pool_pointer_state pool_pointer_state(struct pool *pool, CUdeviceptr base,
                                           size_t *requested_bytes) {
    enum pool_pointer_state state = POOL_POINTER_UNKNOWN;
    pool_lock(pool);
    struct pool_block *block = books_find(pool, base);
    if (block && block->state == BLOCK_LIVE) {
        *requested_bytes = block->requested;
        state = POOL_POINTER_LIVE;
    } else if (block) {
        state = POOL_POINTER_IDLE;
    }
    pool_unlock(pool);
    return state;
}

/* The block that the address lies in: rare, so no index is kept for it. */
static struct pool_block *find_inside(const struct pool *pool, CUdeviceptr pointer) {
    struct pool_block *block;
    struct books_place place = {0};
    while ((block = books_next(pool, &place)))
        if (pointer > block->pointer && pointer - block->pointer < block->size)
            break;
    return block;
}

void pool_taint(struct pool *pool, CUdeviceptr pointer, enum pool_taint reason) {
    pool_lock(pool);
    struct pool_block *block =
        pool->policy->cuts ? part_find(pool, pointer) : books_find(pool, pointer);
    if (!block && !pool->policy->cuts)
        block = find_inside(pool, pointer);
    if (block && block->state == BLOCK_LIVE) {
        if (!block->taints)
            stats_add(STATS_tainted_blocks, 1);
        if (!(block->taints & 1u << reason))
            stats_add(STATS_tainted_ipc + reason, 1); /* the counters stand in the enum's order */
        block->taints |= (uint8_t)(1u << reason);
        block->ready = 0;
    }
    pool_unlock(pool);
}

struct pool_block *pool_disown(struct pool *pool, CUdeviceptr pointer) {
    pool_lock(pool);
    struct pool_block *block = books_find(pool, pointer);
    if (block && block->state == BLOCK_LIVE)
        books_remove(pool, block);
    else
        block = NULL;
    pool_unlock(pool);
    return block;
}

void pool_readopt(struct pool *pool, struct pool_block *block) {
    pool_lock(pool);
    books_restore(pool, block, BLOCK_LIVE);
    pool_unlock(pool);
}

void pool_disown_done(struct pool *pool, struct pool_block *block) {
    pool_lock(pool);
    if (block->pooled)
        async_gave_back(pool, block->context, block->size);
    books_recycle(pool, block);
    pool_unlock(pool);
}

size_t pool_release(struct pool *pool, CUdevice ordinal, size_t bytes) {
    size_t released = 0;
    if (atomic_load(&pool->captures) || atomic_load(&pool->down))
        return 0;
    pool_lock(pool);
    struct device *device = context_find_device(pool, ordinal);
    if (device) {
        struct leaving leaving = {.device = device};
        if (!pool_driver_waits(pool))
            fence_drain(pool, device);
        pressure_refresh(pool, device);
        pressure_collect(pool, device, bytes, &leaving);
        released = leaving_free(pool, &leaving);
    }
    pool_unlock(pool);
    return released;
}

/* With the lock held, or by a forked child that has inherited it so. */
static void drop_everything(struct pool *pool) {
    cache_forget(pool);
    struct context *context, *next_context;
    struct device *device;
    struct site_record *record, *next_record;
    while ((context = LIST_FIRST(&pool->ended))) {
        LIST_REMOVE(context, link);
        free(context);
    }
    for (context = LIST_FIRST(&pool->contexts); context; context = next_context) {
        next_context = LIST_NEXT(context, link);
        fence_forget(context);
        context_free_sites(context);
        free(context);
    }
    LIST_INIT(&pool->contexts);
    while ((device = LIST_FIRST(&pool->devices))) {
        LIST_REMOVE(device, link);
        free(device);
    }
    HASH_ITER (by_key, pool->site_records, record, next_record) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DELETE(by_key, pool->site_records, record);
        free(record);
    }
    context_forget_all_created(pool);
    fence_forget_streams(pool);
    wait_forget(pool);
    pitch_forget_all(pool);
    books_free_records(pool);
    pool->in_use = pool->idle = pool->waste = pool->peak_live = pool->peak_held = 0;
    pool->live_blocks = pool->idle_blocks = 0;
    pool->told = (struct cache_sums){0};
}

void pool_destroy(struct pool *pool) {
    if (!pool)
        return;
    pool_lock(pool);
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        cache_close(pool, context);
    drop_everything(pool);
    pool_unlock(pool);
    free(pool);
}

void pool_fork_prepare(struct pool *pool) {
    pool_lock(pool);
}

void pool_fork_parent(struct pool *pool) {
    pool_unlock(pool);
}

void pool_forget_after_fork(struct pool *pool) {
    drop_everything(pool);
    atomic_store(&pool->captures, 0);
    atomic_store(&pool->gate_users, 0);
    lock_check_drop(LOCK_POOL);
    reset_locks(pool);
}
