/* How much a context that maps chunks asks the driver for beyond what a request lacks. */
#ifndef POOLCUDA_POOL_MAPPED_GROWTH_H
#define POOLCUDA_POOL_MAPPED_GROWTH_H

#include "pool/internal.h"

/* Bytes that are held beyond use however little that is. */
enum { MAPPED_SLACK = 64 << 20 };

/* Bytes, whole pages, so that the next requests need not ask. in_use: with the request, which lacks
 * `lacking` bytes; the driver has `available` left. Lock held. */
size_t mapped_growth(struct pool *pool, const struct context *context, uint64_t in_use,
                     size_t lacking, size_t available);

#endif
