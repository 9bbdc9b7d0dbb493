/* The bound on what a keeper's rounding wastes, where that is more than the driver's own.
 *
 * Rounding lets requests of almost one size share blocks. On a device that is nearly full it makes
 * allocations fail that the driver alone would serve: so once live blocks waste more than the
 * bound, the driver is asked for no more pages than a request takes. Blocks of such a size serve
 * their like, too. */
#include "pool/internal.h"

/* The bound is POOLCUDA_MAX_WASTE, else half a percent of the device. Lock held. */
static bool is_reached(const struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    return device->live - device->in_use >
           limit_in_bytes(&pool->config.max_waste, device->total, device->total / 200);
}

size_t rounding_size(struct pool *pool, struct request *request) {
    lock_check_held(LOCK_POOL);
    struct device *device = request->context->device;
    size_t pages = round_physical(request->bytes);
    if (!request->pitch && round_physical(request->size) > pages && is_reached(pool, device)) {
        request->size = pages;
        device->exact = true;
    }
    return request->size;
}
