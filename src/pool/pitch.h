/* The pitches that the driver has given rows. All below: lock held. */
#ifndef POOLCUDA_POOL_PITCH_H
#define POOLCUDA_POOL_PITCH_H

#include "pool/pool.h"

struct request;

/* Sets the pitch that the request would be given, and its sizes by that; all are 0 while the driver
 * has given none. */
void pitch_apply(struct pool *pool, struct request *request);
/* The driver has served the request. */
void pitch_learn(struct pool *pool, const struct request *request);
void pitch_forget_all(struct pool *pool);

#endif
