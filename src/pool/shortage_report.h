/* The facts behind an out-of-memory error, for whoever reports it. */
#ifndef POOLCUDA_POOL_SHORTAGE_REPORT_H
#define POOLCUDA_POOL_SHORTAGE_REPORT_H

#include "base/call_site.h"

#include <stddef.h>
#include <stdint.h>

enum { SHORTAGE_SITES = 3 };

/* Sizes in bytes. The sites are those with most live memory, largest first. */
struct shortage {
    const char *call; /* the driver function */
    size_t requested; /* 0: not known */
    int device;
    uint64_t capacity, available; /* cuDeviceTotalMem; what cuMemGetInfo says is free */
    uint64_t live, idle;          /* held by the pool on this device */
    uint64_t waste;               /* in live blocks of the process, beyond what was requested */
    uint64_t oversize; /* of which they exceed what the driver would have given instead */
    unsigned site_count;
    struct {
        struct call_site key;
        uint64_t bytes, blocks;
    } sites[SHORTAGE_SITES];
};

#endif
