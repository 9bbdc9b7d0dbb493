/* Stream-ordered memory pools. All below: lock held. */
#ifndef SIMCUDA_MEMPOOL_H
#define SIMCUDA_MEMPOOL_H

#include "memory.h"

struct CUmemPoolHandle_st {
    CUdevice device;
    bool by_default;    /* a device's own, which lives as long as the process */
    bool can_be_shared; /* with other processes */
    bool imported;      /* from another process: it gives no new memory */
    cuuint64_t threshold;
    int reuse[3]; /* REUSE_FOLLOW_EVENT_DEPENDENCIES and the two that follow it */
    cuuint64_t used, used_high;
    size_t kept;     /* pages: taken from the device, and used by nothing */
    uint64_t id;     /* in the process that made it */
    int32_t process; /* of an imported one: that process */
    int file;        /* of an imported one: its device's memory there; otherwise -1 */
    struct CUmemPoolHandle_st *next;
};

struct CUmemPoolHandle_st *mempool_create(CUdevice device, bool by_default);
bool mempool_known(CUmemoryPool handle);

/* To be called when a block of `size` bytes has been released, however. */
void mempool_block_ended(struct CUmemPoolHandle_st *pool, size_t size);

/* Whether the block was imported from a pool, so that frees of stream-ordered memory take it. */
bool mempool_imported(const struct block *block);

#endif
