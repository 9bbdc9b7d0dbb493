/* Regions by the driver's function, in the manner of PyTorch's CUDACachingAllocator: of 2 MiB for
 * requests of up to 1 MiB, of POOLCUDA_SEGMENT_SIZE (20 MiB) for those below half of it, for larger
 * ones of just that in whole 2 MiB. If the driver refuses one, what idle regions there are go back
 * and it is asked again. Different from its origin: a region beyond the request keeps within the
 * bound on idle memory, and becomes as small as the request before that fails. */
#include "base/by_pointer.h"
#include "keep/region.h"
#include "pool/internal.h"
#include "pool/release.h"

static size_t region_size(const struct pool *pool, const struct request *request, size_t least) {
    size_t segment =
        region_segment_size(&pool->config.segment_size, request->context->device->total);
    if (least <= REGION_SMALL_MOST)
        return ROUND_PAGE;
    if (least < segment / 2)
        return segment;
    size_t size = round_up(least, ROUND_PAGE);
    return size ? size : least;
}

static size_t within_bound(struct pool *pool, const struct request *request, size_t size,
                           size_t least, struct obtained *obtained) {
    pool_lock(pool);
    uint64_t room = idle_bound_room(pool, request->context->device);
    source_shares(request->context->device, obtained);
    pool_unlock(pool);
    return size - least > room ? least + room / ROUND_PAGE * ROUND_PAGE : size;
}

/* Asks again once idle memory has gone back: some, then all that needs no wait. *result: the
 * driver's last answer. Lock not held. */
static void ask_again(struct pool *pool, const struct request *request, struct obtained *obtained,
                      CUresult *result) {
    lock_check_none();
    size_t bytes = obtained->size;
    for (bool made = true; made && driver_refused(*result); bytes = SIZE_MAX) {
        pool_lock(pool);
        made = room_make(pool, request->context->device, bytes) == ROOM_MADE;
        pool_unlock(pool);
        if (made)
            *result = pool->driver->mem_alloc(&obtained->pointer, obtained->size);
    }
}

/* What a region for the block alone takes; no less than the request where no multiple of a page is
 * as large as that. */
static size_t alone(size_t least) {
    size_t size = round_physical(least);
    return size ? size : least;
}

BY_POINTER static CUresult obtain(struct pool *pool, const struct request *request, size_t least,
                                  struct obtained *obtained) {
    lock_check_none();
    obtained->size =
        within_bound(pool, request, region_size(pool, request, least), least, obtained);
    if (obtained->size == least)
        source_shares_nothing(pool, obtained);
    CUresult result = pool->driver->mem_alloc(&obtained->pointer, obtained->size);
    if (driver_refused(result) && obtained->size > alone(least)) {
        ask_again(pool, request, obtained, &result);
        if (driver_refused(result)) {
            obtained->size = alone(least);
            result = pool->driver->mem_alloc(&obtained->pointer, obtained->size);
        }
    }
    if (driver_refused(result) && obtained->size > least) {
        obtained->size = least;
        result = pool->driver->mem_alloc(&obtained->pointer, least);
    }
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    else
        source_shares_nothing(pool, obtained);
    return result;
}

const struct source source_segments = {.obtain = obtain};
