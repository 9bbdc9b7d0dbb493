#include "pool/reach.h"

#include "pool/internal.h"

uint64_t reach_least(const struct request *request) {
    uint64_t bytes = request->bytes;
    if (request->pitch && !bytes &&
        __builtin_mul_overflow(request->pitch->width, request->pitch->height, &bytes))
        bytes = UINT64_MAX;
    return bytes;
}

bool reach_has_room(const struct request *request) {
    lock_check_none();
    const struct device *device = request->context->device;
    return device->memory == POOL_MANAGED || !device->total ||
           reach_least(request) <= device->total;
}

/* Idle memory of other kinds may lie in the same place: see out_of_memory.c. surely: page by page.
 * *coming: another thread gives some of it back. Lock held. */
static uint64_t most_back(struct pool *pool, const struct device *own, bool surely, bool *coming) {
    lock_check_held(LOCK_POOL);
    const struct device *device;
    uint64_t bytes = 0;
    TAILQ_FOREACH (device, &pool->devices, link)
        if (device == own || device->memory != POOL_DEVICE) {
            bytes += surely && device == own ? pages_idle_at_most(pool, device)
                                             : pages_idle_roughly(device);
            *coming = *coming || device->releasing || device->attempting;
        }
    return bytes;
}

/* Idle memory that live blocks of the same regions keep from the driver, if no piece of it is as
 * large as the request. None where requests may begin in one piece and go on in others, nor where
 * deferred blocks may yet join them. Lock held. */
static uint64_t kept_from_driver(const struct pool *pool, const struct request *request) {
    lock_check_held(LOCK_POOL);
    struct context *own = request->context;
    const struct context *context;
    uint64_t kept = 0, bytes = 0;
    if (!own->keeper->cuts || own->source->reuses || own->ended)
        return 0;
    const struct pool_block *largest = own->keeper->largest(&own->store);
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->device == own->device) {
            kept += context->store.stranded;
            bytes += context->store.bytes;
        }
    bool serves = largest && largest->size >= reach_least(request);
    return serves || bytes < device_idle(own->device) ? 0 : kept;
}

/* What the driver keeps for itself, and gives when it is asked for it, is not known. */
static uint64_t slack(const struct device *device) {
    static const uint64_t most = 64 << 20;
    return device->total / 64 < most ? device->total / 64 : most;
}

bool reach_idle_helps(struct pool *pool, const struct request *request, size_t *lack) {
    lock_check_none();
    const struct device *device = request->context->device;
    if (device->memory != POOL_DEVICE || device->unified)
        return true; /* what is available, nobody says */
    int round = atomic_load(&pool->release_rounds);
    size_t told = available_by_driver(pool), available = told == SIZE_MAX ? 0 : told;
    if (PLANTED(slow_refusal))
        futex_pause();
    pool_lock(pool);
    bool coming = round != atomic_load(&pool->release_rounds);
    uint64_t most =
        available + most_back(pool, device, !lack, &coming) + (lack ? slack(device) : 0);
    most -= coming ? 0 : kept_from_driver(pool, request);
    pool_unlock(pool);
    size_t takes = round_physical(request->size); /* bins' sizes are no whole pages */
    if (lack && available < takes && !coming)
        *lack = takes - available;
    return told == SIZE_MAX || coming || reach_least(request) <= most;
}

bool reach_leaves_room(const struct pool *pool, const struct request *request) {
    lock_check_held(LOCK_POOL);
    const struct device *device = request->context->device;
    return device->memory != POOL_DEVICE || device->unified || !device->total ||
           pool->caches_serve ||
           reach_least(request) + device->in_use - device->lent <= device->total;
}

bool reach_others_may_help(struct pool *pool, const struct request *request) {
    lock_check_none();
    const struct device *device = request->context->device;
    if (device->memory != POOL_DEVICE) /* others are asked for no other kind */
        return false;
    pool_lock(pool);
    bool fits = device->live < device->total && request->size <= device->total - device->live;
    pool_unlock(pool);
    return fits;
}
