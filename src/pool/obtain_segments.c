/* Regions by the driver's function, in the manner of PyTorch's CUDACachingAllocator: of 2 MiB for
 * requests of up to 1 MiB, of 20 MiB for those below 10 MiB, for larger ones of just that in whole
 * 2 MiB. If the driver refuses one, what idle regions there are go back and it is asked again.
 * Different from its origin: a region beyond the request keeps within the bound on idle memory, and
 * becomes as small as the request before that fails. */
#include "by_pointer.h"
#include "keep/region.h"
#include "pool/internal.h"
#include "pool/release.h"

static const size_t packed_below = 10 << 20;
static const size_t small_region = 2 << 20, packed_region = 20 << 20;

static size_t region_size(size_t least) {
    if (least <= REGION_SMALL_MOST)
        return small_region;
    if (least < packed_below)
        return packed_region;
    size_t size = round_up(least, ROUND_PAGE);
    return size ? size : least;
}

static size_t within_bound(struct pool *pool, const struct request *request, size_t size,
                           size_t least) {
    pool_lock(pool);
    uint64_t room = idle_bound_room(pool, request->context->device);
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
    obtained->size = within_bound(pool, request, region_size(least), least);
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
    return result;
}

const struct source source_segments = {.obtain = obtain};
