/* The end of a primary context on the simulated GPU, as the hooks make it. */
#ifndef POOLCUDA_TEST_WHOLE_END_H
#define POOLCUDA_TEST_WHOLE_END_H

#include "pool/internal.h"

/* Returns what the driver's reset of device 0 returned. */
static inline CUresult end_primary_wholly(struct pool *pool) {
    pool_end_begins(pool);
    pool_primary_ending(pool, 0);
    CUresult result = cuDevicePrimaryCtxReset_v2(0);
    pool_end_is_over(pool, result == CUDA_SUCCESS);
    return result;
}

/* Ends it for the last time: what outlived it is freed in the current one, which is new. */
static inline CUresult end_primary_for_good(struct pool *pool) {
    struct device *device = TAILQ_FIRST(&pool->devices);
    CUresult result = end_primary_wholly(pool);
    if (result != CUDA_SUCCESS || !device || !device->stranded)
        return result;
    stranded_free(pool, device);
    return device->stranded ? CUDA_ERROR_UNKNOWN : cuDevicePrimaryCtxReset_v2(0);
}

#endif
