/* The pitches that the driver has given rows. All below: lock held. */
#ifndef POOLCUDA_POOL_PITCH_H
#define POOLCUDA_POOL_PITCH_H

#include "pool/pool.h"

size_t pitch_known(struct pool *pool, CUdevice device, size_t width, unsigned int element);
void pitch_learn(struct pool *pool, CUdevice device, size_t width, unsigned int element,
                 size_t pitch);
void pitch_forget_all(struct pool *pool);

#endif
