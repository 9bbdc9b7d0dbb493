/* Regions by the driver's function, in TensorFlow's manner: each twice as large as the one before,
 * from 2 MiB, with back-pedalling by 0.9 when the device refuses. Different from its origin: a
 * region beyond the request leaves an eighth of what the device has left. What a block is to the
 * program is not what it is to the driver: see docs/policies.md. */
#include "by_pointer.h"
#include "keep/region.h"
#include "pool/internal.h"

void source_shares(struct device *device, struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    device->sharing++;
    obtained->shares = true;
}

void source_shares_nothing(struct pool *pool, struct device *device, struct obtained *obtained) {
    lock_check_none();
    if (!obtained->shares)
        return;
    pool_lock(pool);
    device->sharing--;
    pool_unlock(pool);
    obtained->shares = false;
}

/* What regions are multiples of. A device without a whole page has smaller ones. */
static size_t unit_of(const struct device *device) {
    return device->total && device->total < ROUND_PAGE ? ROUND_SMALL : ROUND_PAGE;
}

/* The size of the next region doubles until it suffices, or once it has been used, as far as the
 * bound on idle memory allows. A region that is needed only until deferred blocks are idle is no
 * larger than that takes. */
static size_t region_size(struct pool *pool, const struct request *request, size_t least,
                          struct obtained *obtained) {
    const struct context *context = request->context;
    const size_t unit = unit_of(context->device);
    pool_lock(pool);
    bool deferred = device_idle(context->device) > context->store.bytes;
    size_t size = !context->ended && !deferred ? context->next_region : least;
    uint64_t room = idle_bound_room(pool, context->device);
    source_shares(context->device, obtained);
    pool_unlock(pool);
    while (size < least && size <= SIZE_MAX / 2)
        size *= 2;
    if (size > least && size - least > room)
        size = (least + room) / unit * unit;
    return size > least ? size : least;
}

/* A region leaves an eighth of what the device has beyond the request: less, and launches and
 * others would find nothing; more, and the next request that fits into none has a region of its
 * own, with ends that strand memory, where it fails at all. */
static size_t within_free(struct pool *pool, const struct device *device, size_t size,
                          size_t least) {
    size_t available = size == least ? SIZE_MAX : available_by_driver(pool);
    if (available == SIZE_MAX)
        return size;
    bool more = available > least;
    size_t spare = more ? (available - least) / 8 * 7 : 0, page = round_up(least, ROUND_PAGE);
    size_t most = (least + spare) / ROUND_PAGE * ROUND_PAGE;
    size_t unit = unit_of(device), all = device->total / unit * unit;
    if (all > least && all < page) /* it has no whole one */
        page = all;
    if (most < page) /* the rest of its last page is of use to nobody else */
        most = more && page <= available ? page : least;
    return size < most ? size : most;
}

/* Whether what the device has left is no more than the next two regions would take. */
static bool is_scarce(size_t next, size_t available) {
    return available / 3 < next;
}

static void grow(struct pool *pool, struct context *context, size_t size) {
    size_t available = available_by_driver(pool);
    pool_lock(pool);
    if (!context->ended && size >= context->next_region && size <= SIZE_MAX / 2)
        context->next_region = size > context->next_region ? size : size * 2;
    if (!context->ended && available != SIZE_MAX)
        context->store.regions->scarce = is_scarce(context->next_region, available);
    pool_unlock(pool);
}

BY_POINTER static CUresult obtain(struct pool *pool, const struct request *request, size_t least,
                                  struct obtained *obtained) {
    lock_check_none();
    struct device *device = request->context->device;
    size_t size = within_free(pool, device, region_size(pool, request, least, obtained), least);
    if (size == least)
        source_shares_nothing(pool, device, obtained);
    CUresult result = pool->driver->mem_alloc(&obtained->pointer, size);
    while (driver_refused(result) && size > least) {
        size = size / 10 * 9 / ROUND_PAGE * ROUND_PAGE;
        if (size < least)
            size = least;
        result = pool->driver->mem_alloc(&obtained->pointer, size);
    }
    if (result == CUDA_SUCCESS) {
        grow(pool, request->context, size);
        stats_add(STATS_driver_allocs, 1);
    } else {
        source_shares_nothing(pool, device, obtained);
    }
    obtained->size = size;
    return result;
}

const struct source source_regions = {.obtain = obtain};
