#ifndef POOLCUDA_BLOCKS_KIND_H
#define POOLCUDA_BLOCKS_KIND_H

/* What memory blocks are made of. The driver has functions of its own for each kind, and a block
 * serves requests of its kind alone, flags included. */
enum pool_memory { POOL_DEVICE, POOL_HOST, POOL_MANAGED };
enum { POOL_HOST_PLAIN = 1 << 30 }; /* cuMemAllocHost, which takes no flags */
struct pool_kind {
    enum pool_memory memory;
    unsigned int flags; /* as given to the driver's function */
};

#endif
