/* Giving idle memory back: to stay within the bounds, and when the driver has no more. */
#include "observe/call_timer.h"
#include "policy/region.h"
#include "pool/internal.h"

static const uint64_t idle_slack = 64 << 20;

/* By the pool's own rule at most so much lies idle. Host memory is locked: no other process can
 * have it, and the system cannot ask for it back. Managed memory may lie on the device, where the
 * driver copies it to the host for whoever needs room: that costs time, and no call tells of it. */
static uint64_t most_idle(const struct device *device) {
    enum { HOST_SHARE = 16 };
    switch (device->memory) {
    case POOL_HOST:
        return device->total / HOST_SHARE;
    case POOL_MANAGED:
        return idle_slack;
    case POOL_DEVICE:
        break;
    }
    return UINT64_MAX;
}

void release_list_add(struct pool *pool, struct release_list *releases, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_remove(pool, block);
    if (block->context->policy->cuts)
        region_detach(&block->context->store, block);
    block->by_size.rbe_left = releases->first;
    releases->first = block;
    releases->bytes += block->size;
    releases->count++;
    releases->device->releasing++;
}

/* Sets *mode to what the thread's mode was. In relaxed mode a free neither fails nor invalidates a
 * capture, whichever thread makes that one [cuda.h, cuThreadExchangeStreamCaptureMode]: the
 * allocation for which idle memory is released may be one that captures do not prohibit. */
void pressure_exchange_capture_mode(struct pool *pool, CUstreamCaptureMode *mode) {
    if (pool->driver->thread_exchange_capture_mode)
        pool->driver->thread_exchange_capture_mode(mode);
}

/* Whether a block that was to be released may have been waiting for a fence. */
static bool may_have_waited(const struct pool *pool) {
    return pool->config.free_mode == POOL_FREE_DEFER || pool->config.ordered;
}

/* Removes the records before the driver frees: another thread may be given an address at once. A
 * block that the driver refuses to free (a capture forbids it, say) comes back as idle. */
size_t release_list_free(struct pool *pool, struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    size_t released = 0;
    struct pool_block *block = releases->first, *next;
    if (!block && !releases->unused)
        return 0;
    releases->device->releasing++; /* counts what is unused */
    pool_unlock_between(pool);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pressure_exchange_capture_mode(pool, &mode);
    if (releases->unused) {
        released = pool->policy->release_unused(pool, releases->unused);
        releases->unused = NULL;
    }
    const struct context *quiet = releases->quiet; /* its frees have nothing to wait for */
    for (; block; block = block->by_size.rbe_left) {
        const struct context *context = block->context;
        bool by_policy = context->policy->surrender != NULL;
        CUresult result = by_policy ? context->policy->surrender(pool, block)
                          : quiet == context && !call_timer_rests(STATS_CALL_FREE)
                              ? source_free_timed(pool, block)
                              : source_free(pool, context->kind.memory, block->pointer);
        block->taints = result != CUDA_SUCCESS; /* an idle block has no taints: a free flag */
        context_note_error(pool, block->context, result);
        if (result == CUDA_SUCCESS) {
            quiet = context; /* this free has waited */
            released += block->size;
            stats_add(STATS_driver_frees, !by_policy);
        }
    }
    pressure_exchange_capture_mode(pool, &mode);
    pool_lock(pool);
    for (block = releases->first; block; block = next) {
        next = block->by_size.rbe_left;
        bool refused = block->taints;
        block->taints = 0;
        if (block->context->policy->cuts)
            suballocation_released(block, refused);
        if (refused)
            ledger_restore(pool, block, may_have_waited(pool) ? BLOCK_DEFERRED : BLOCK_IDLE);
        else
            ledger_recycle(pool, block);
    }
    pool_count_released(pool, releases->device, (int)releases->count + 1);
    releases->first = NULL;
    return released;
}

/* Says whose idle blocks are given up. */
struct scope {
    struct device *device;
    struct context *only; /* NULL: every context of the device */
    bool deferred;        /* also blocks that work may still use: their free waits for it */
};

static struct pool_block *largest_of(struct pool *pool, struct context *context, bool deferred) {
    cache_drain(pool, context);
    struct pool_block *ready = context->policy->victim(&context->store);
    return ready || !deferred || !policy_driver_waits(context->policy) ? ready
                                                                       : fence_largest(context);
}

static struct pool_block *largest(struct pool *pool, const struct scope *scope) {
    struct pool_block *found = NULL;
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->device != scope->device || context->broken ||
            (scope->only && context != scope->only))
            continue;
        struct pool_block *candidate = largest_of(pool, context, scope->deferred);
        if (candidate && (!found || candidate->size > found->size))
            found = candidate;
    }
    return found;
}

/* Takes out up to `bytes` of idle memory that is in no block. Returns how much that was. */
static size_t collect_unused(struct pool *pool, const struct device *device, size_t bytes,
                             struct release_list *releases) {
    size_t taken = 0;
    struct context *context;
    if (pool->policy->take_unused && device->memory == POOL_DEVICE)
        LIST_FOREACH (context, &pool->contexts, link)
            if (context->device == device && taken < bytes)
                taken += pool->policy->take_unused(pool, context, bytes - taken, &releases->unused);
    releases->bytes += taken;
    return taken;
}

void pressure_refresh(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->device != device || !context->policy->refresh)
            continue;
        pool_unlock(pool);
        context->policy->refresh(pool, context);
        pool_lock(pool);
        if (context->ended) /* then it is in another list */
            return;
    }
}

static void collect(struct pool *pool, const struct scope *scope, size_t bytes,
                    struct release_list *releases) {
    struct pool_block *block;
    size_t before = releases->bytes;
    collect_unused(pool, scope->device, bytes, releases);
    while (releases->bytes - before < bytes && (block = largest(pool, scope))) {
        ledger_take_out(pool, block);
        release_list_add(pool, releases, block);
    }
}

void pressure_collect(struct pool *pool, struct device *device, size_t bytes,
                      struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    collect(pool, &(struct scope){device, NULL, true}, bytes, releases);
}

void pressure_collect_from(struct pool *pool, struct context *context, size_t bytes,
                           struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    collect(pool, &(struct scope){context->device, context, true}, bytes, releases);
}

/* The pool's own rule: held memory stays under 1.2 x peak in use + 64 MiB. */
static uint64_t most_held(const struct device *device, uint64_t in_use) {
    uint64_t peak = in_use > device->peak_in_use ? in_use : device->peak_in_use;
    return peak + peak / 5 + idle_slack;
}

uint64_t pressure_room_to_grow(const struct device *device) {
    lock_check_held(LOCK_POOL);
    uint64_t held = device->live + device->idle, most = most_held(device, device->in_use);
    uint64_t room = most > held ? most - held : 0;
    return !device->idle || room < device->until_asked ? room : device->until_asked;
}

static uint64_t allowed_idle(const struct pool *pool, const struct device *device, size_t growth) {
    uint64_t live = device->live + growth, held = most_held(device, device->in_use + growth);
    uint64_t automatic = held > live ? held - live : 0, most = most_idle(device);
    return limit_in_bytes(&pool->config.max_idle, device->total,
                          automatic < most ? automatic : most);
}

/* Bytes of idle suballocations that live ones keep from the driver. */
static uint64_t stranded_idle(const struct pool *pool, const struct device *device) {
    const struct context *context;
    uint64_t bytes = 0;
    LIST_FOREACH (context, &pool->contexts, link)
        bytes += context->device == device ? context->store.stranded : 0;
    return bytes;
}

/* Bytes of idle memory to be given up. Where the bound is the pool's own and what is stranded takes
 * most of it, a little of the rest may stay all the same: giving all of it up would bring the bound
 * no nearer, and cost every allocation a call of the driver's. */
static uint64_t excess_idle(const struct pool *pool, const struct device *device, size_t growth) {
    uint64_t allowed = allowed_idle(pool, device, growth);
    if (device->idle <= allowed)
        return 0;
    if (pool->config.max_idle.kind != LIMIT_AUTO)
        return device->idle - allowed;
    uint64_t pinned = stranded_idle(pool, device),
             little = device->peak_in_use / 16 + idle_slack / 4;
    uint64_t rest = device->idle - pinned, stays = allowed > pinned ? allowed - pinned : 0;
    if (pinned && stays < little)
        stays = little;
    return rest > stays ? rest - stays : 0;
}

uint64_t pressure_idle_room(const struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    uint64_t allowed = allowed_idle(pool, device, 0);
    return allowed > device->idle ? allowed - device->idle : 0;
}

bool pressure_exceeds(const struct pool *pool, const struct device *device, size_t growth) {
    lock_check_held(LOCK_POOL);
    return excess_idle(pool, device, growth) > 0;
}

void pressure_trim(struct pool *pool, struct device *device, struct context *quiet, size_t growth,
                   struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    uint64_t excess = excess_idle(pool, device, growth);
    if (!excess)
        return;
    size_t before = releases->count;
    collect(pool, &(struct scope){device, quiet, quiet != NULL}, excess, releases);
    stats_add(STATS_bound_released_blocks, releases->count - before);
}

void pressure_decay(struct pool *pool, struct device *device, struct context *quiet, size_t bytes,
                    struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    const struct scope scope = {device, quiet, quiet != NULL};
    struct pool_block *block;
    size_t count = releases->count;
    size_t unused = collect_unused(pool, device, bytes, releases);
    bytes -= unused < bytes ? unused : bytes;
    while (bytes > 0 && (block = largest(pool, &scope)) && block->size <= bytes) {
        bytes -= block->size;
        ledger_take_out(pool, block);
        release_list_add(pool, releases, block);
    }
    stats_add(STATS_decayed_blocks, releases->count - count);
}

CUresult pressure_obtain_plain(struct pool *pool, const struct pool_kind *kind, size_t size,
                               struct obtained *obtained) {
    lock_check_none();
    *obtained = (struct obtained){.size = size};
    CUresult result = source_allocate(pool, kind, size, &obtained->pointer);
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    return result;
}

/* Whether the policy obtains the memory. It needs to know how much, so not while the pitch is
 * unknown. */
static bool obtains(const struct request *request) {
    return request->context->policy->obtain && request->site &&
           (!request->pitch || request->pitch->known);
}

__attribute__((always_inline)) static inline CUresult ask_untimed(struct pool *pool,
                                                                  const struct request *request,
                                                                  size_t size,
                                                                  struct obtained *obtained) {
    const struct pitch_request *pitch = request->pitch;
    CUresult result;
    *obtained = (struct obtained){.size = size};
    if (obtains(request)) {
        if (pitch)
            *pitch->pitch = pitch->known;
        return request->context->policy->obtain(pool, request, size, obtained);
    }
    if (!pitch)
        return pressure_obtain_plain(pool, &request->context->kind, size, obtained);
    result = pool->driver->mem_alloc_pitch(&obtained->pointer, pitch->pitch, pitch->width,
                                           pitch->height, pitch->element);
    obtained->size = *pitch->pitch * pitch->height;
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    return result;
}

/* Kept out of the way of calls that go untimed. */
__attribute__((noinline)) static CUresult ask_timed(struct pool *pool,
                                                    const struct request *request, size_t size,
                                                    struct obtained *obtained) {
    enum pool_memory memory = request->context->kind.memory;
    uint64_t began = call_timer_start(STATS_CALL_ALLOC);
    CUresult result = ask_untimed(pool, request, size, obtained);
    if (result == CUDA_SUCCESS && source_is_timed(pool, memory))
        call_timer_stop(STATS_CALL_ALLOC, (enum stats_memory)memory, obtained->size, began);
    return result;
}

static CUresult allocate_from_driver(struct pool *pool, const struct request *request, size_t size,
                                     struct obtained *obtained) {
    return call_timer_rests(STATS_CALL_ALLOC) ? ask_untimed(pool, request, size, obtained)
                                              : ask_timed(pool, request, size, obtained);
}

/* Collects regions whose blocks are deferred: where no fence can be waited for, the driver's own
 * free waits. */
static void collect_deferred_regions(struct pool *pool, const struct device *device,
                                     struct release_list *releases) {
    struct context *context;
    struct pool_block *block;
    LIST_FOREACH (context, &pool->contexts, link)
        while (context->device == device && context->policy->cuts && !context->broken &&
               (block = region_without_live(&context->store)))
            release_list_add(pool, releases, block);
}

/* Releases idle blocks. Returns whether the driver has taken any back. Lock held. */
static bool release_idle(struct pool *pool, struct device *device, size_t bytes, bool *any) {
    lock_check_held(LOCK_POOL);
    struct release_list releases = {.device = device};
    if (!pool_driver_waits(pool))
        fence_drain(pool, device);
    pressure_refresh(pool, device);
    pressure_collect(pool, device, bytes, &releases);
    if (releases.bytes < bytes)
        collect_deferred_regions(pool, device, &releases);
    size_t count = releases.count;
    *any = count > 0 || releases.unused;
    if (!release_list_free(pool, &releases))
        return false;
    stats_add(STATS_oom_released_blocks, count);
    return true;
}

/* One round after a failure: releases idle blocks or waits for those that other threads release.
 * Returns whether anything may have changed since. Lock held. */
static bool make_room(struct pool *pool, struct device *device, size_t bytes) {
    lock_check_held(LOCK_POOL);
    bool any;
    if (release_idle(pool, device, bytes, &any))
        return true;
    if (any && release_idle(pool, device, bytes, &any)) /* refused for a passing reason */
        return true;
    if (!device->releasing)
        return false;
    while (device->releasing)
        pool_await_releases(pool);
    return true;
}

/* Releases idle blocks of the request's memory, at last all else that may lie in the same place.
 * There are devices that have no memory but the host's, and some from which managed memory does not
 * give way. Device memory is in nobody's way on the host. */
static bool make_room_for(struct pool *pool, const struct request *request, size_t bytes) {
    const struct context *context = request->context;
    const CUdevice others[] = {context->ordinal, ordinal_of_kind(POOL_MANAGED),
                               ordinal_of_kind(POOL_HOST)};
    bool made = make_room(pool, context->device, bytes);
    for (size_t i = context->kind.memory == POOL_HOST; !made && i < sizeof others / sizeof *others;
         i++) {
        struct device *other = context_find_device(pool, others[i]);
        made = other && other != context->device && make_room(pool, other, SIZE_MAX);
    }
    return made;
}

/* Asks for what was refused as rounded: rounding must not make the difference. Lock not held. */
static CUresult allocate_exactly(struct pool *pool, const struct request *request,
                                 struct obtained *obtained) {
    lock_check_none();
    if (request->pitch || request->size == request->bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate_from_driver(pool, request, request->bytes, obtained);
}

/* Asks again until a round begun after the failure has found nothing idle. Lock held on entry and
 * return. */
static CUresult retry(struct pool *pool, const struct request *request, struct pool_block **block,
                      struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    size_t bytes = request->size ? request->size : SIZE_MAX;
    while (make_room_for(pool, request, bytes)) {
        bytes = SIZE_MAX; /* releasing enough for the request did not do: all of it next time */
        if (request->site && request->size && !request->context->ended) {
            *block =
                pool_take(pool, request->context, request->site, request->bytes, request->size);
            if (*block && request->pitch)
                *request->pitch->pitch = request->pitch->known;
            if (*block)
                return CUDA_SUCCESS;
        }
        pool_unlock(pool);
        CUresult result = allocate_from_driver(pool, request, request->size, obtained);
        pool_lock(pool);
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            return result;
    }
    pool_unlock(pool);
    CUresult result = allocate_exactly(pool, request, obtained);
    pool_lock(pool);
    return result;
}

/* Whether the request fits into the device beside the program's own live memory, whatever others
 * give up. */
static bool could_fit(struct pool *pool, const struct device *device, size_t bytes) {
    if (device->memory != POOL_DEVICE) /* others are asked for no other kind */
        return false;
    pool_lock(pool);
    bool fits = device->live < device->total && bytes <= device->total - device->live;
    pool_unlock(pool);
    return fits;
}

/* Asks other processes on the device for memory that they hold idle. Lock not held. */
static bool others_helped(struct pool *pool, const struct device *device, size_t bytes) {
    lock_check_none();
    return pool->config.ask_others && !atomic_load(&pool->captures) &&
           pool->config.ask_others(device->uuid, bytes) > 0;
}

/* Asks twice, the second time for all that they have: what they gave need not lie in one piece. */
static CUresult ask_others_and_retry(struct pool *pool, const struct request *request,
                                     struct obtained *obtained) {
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    size_t bytes = request->size ? request->size : SIZE_MAX;
    if (!could_fit(pool, request->context->device, request->size))
        return result;
    for (int round = 0; round < 2 && result == CUDA_ERROR_OUT_OF_MEMORY &&
                        others_helped(pool, request->context->device, bytes);
         round++) {
        result = allocate_from_driver(pool, request, request->size, obtained);
        bytes = SIZE_MAX;
    }
    return result;
}

static CUresult trim_memory_pools_and_retry(struct pool *pool, const struct request *request,
                                            struct obtained *obtained, const char *call) {
    if (!memory_pools_give(pool, request->context->device->ordinal, call))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = allocate_from_driver(pool, request, request->size, obtained);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? allocate_exactly(pool, request, obtained) : result;
}

CUresult pressure_allocate(struct pool *pool, const struct request *request,
                           struct pool_block **block, struct obtained *obtained) {
    lock_check_none();
    *block = NULL;
    CUresult result = allocate_from_driver(pool, request, request->size, obtained);
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    struct device *device = request->context->device;
    stats_add(STATS_oom_events, 1);
    pool_lock(pool);
    device->pressure++;
    device->oom_events++;
    result = retry(pool, request, block, obtained);
    device->pressure--;
    device->oom_rescued += result == CUDA_SUCCESS;
    pool_unlock(pool);
    const char *call =
        request->pitch ? "cuMemAllocPitch" : source_call_name(&request->context->kind);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        result = trim_memory_pools_and_retry(pool, request, obtained, call);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        result = ask_others_and_retry(pool, request, obtained);
    if (result == CUDA_SUCCESS)
        stats_add(STATS_oom_rescued, 1);
    else if (result == CUDA_ERROR_OUT_OF_MEMORY)
        shortage_report(pool, device, call, request->bytes);
    return result;
}

/* Enough for most of what a call other than an allocation may need. */
static const size_t first_room = 64 << 20;
enum { MOST_ATTEMPTS = 4 }; /* beyond them only our own idle memory is asked for */

/* Releases idle memory of `first` if there is any, else of whatever device has some: the call may
 * be about another device than the current context's. Lock held. */
static bool make_room_anywhere(struct pool *pool, struct device *first, size_t bytes) {
    lock_check_held(LOCK_POOL);
    struct device *device;
    bool made = first && make_room(pool, first, bytes);
    if (!made)
        LIST_FOREACH (device, &pool->devices, link)
            made |= make_room(pool, device, bytes);
    return made;
}

bool pool_make_room(struct pool *pool, const char *call, unsigned attempt, enum pool_asks asks) {
    CUdevice ordinal;
    if (atomic_load(&pool->down) || (asks == POOL_ASKS_NO_MEMORY && atomic_load(&pool->captures)))
        return false;
    if (pool->driver->ctx_get_device(&ordinal) != CUDA_SUCCESS)
        ordinal = -1;
    if (!attempt)
        stats_add(STATS_oom_events, 1);
    pool_lock(pool);
    struct device *device = context_find_device(pool, ordinal);
    if (device && !attempt)
        device->oom_events++;
    bool made = make_room_anywhere(pool, device, attempt ? SIZE_MAX : first_room);
    if (!device)
        device = LIST_FIRST(&pool->devices);
    pool_unlock(pool);
    /* Others give up device memory, which helps no call that asks for other memory. */
    bool takes = attempt < MOST_ATTEMPTS && asks != POOL_ASKS_OTHER_MEMORY;
    if (!made && takes)
        made = memory_pools_give(pool, ordinal, call);
    if (!made && device && takes)
        made = others_helped(pool, device, attempt ? SIZE_MAX : first_room);
    if (!made && device)
        shortage_report(pool, device, call, 0);
    return made;
}

/* The bytes kept free: for launches and all else that takes memory without being asked for it, and
 * for others that share the device (throttle_ratio). Lock held. */
static uint64_t headroom(const struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    static const uint64_t most = 256 << 20;
    double ratio = pool->config.throttle_ratio;
    uint64_t least = device->total / 100 < most ? device->total / 100 : most;
    uint64_t throttle = ratio > 0 ? (uint64_t)((1 - ratio) * (double)device->total) : 0;
    return throttle > least ? throttle : least;
}

/* Asking the driver what is free costs more than an allocation. So after each answer half of what
 * there is above the headroom may be allocated before it is asked again. */
bool pressure_may_lack_headroom(struct device *device, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    if (!device->idle || device->memory != POOL_DEVICE)
        return false;
    if (grown >= device->until_asked)
        return true;
    device->until_asked -= grown;
    return false;
}

void pressure_keep_headroom(struct pool *pool, struct context *context) {
    lock_check_none();
    struct device *device = context->device;
    struct release_list releases = {.device = device};
    size_t available = 0, total = 0;
    if (!gate_enter(pool))
        return;
    pool_lock(pool);
    uint64_t wanted = headroom(pool, device);
    pool_unlock_between(pool);
    CUresult result = pool->driver->mem_get_info(&available, &total);
    gate_leave(pool);
    bool short_of = result == CUDA_SUCCESS && available < wanted;
    bool release = short_of && context_is_quiet(pool, context); /* a free would wait */
    pool_lock(pool);
    uint64_t kept = headroom(pool, device); /* it may have been set anew */
    device->until_asked = available > kept ? (available - kept) / 2 : 0;
    if (release && !context->ended) {
        releases.quiet = context;
        collect(pool, &(struct scope){device, context, true}, wanted - available, &releases);
        stats_add(STATS_headroom_released_blocks, releases.count);
        release_list_free(pool, &releases);
    }
    pool_unlock(pool);
}
