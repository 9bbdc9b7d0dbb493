/* Memory without addresses, that programs map themselves. All below: lock held. */
#ifndef SIMCUDA_PHYSICAL_MEMORY_H
#define SIMCUDA_PHYSICAL_MEMORY_H

#include "entry.h"

#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

/* What a CUmemGenericAllocationHandle denotes. Invariant: references + mappings != 0; the memory
 * goes when both are gone. */
struct physical {
    struct physical *self; /* its handle */
    CUmemAllocationProp properties;
    CUdeviceptr home; /* its pages; no program knows these addresses. 0: another process's */
    int file; /* of memory that processes can share, which has the bytes; -1: the device's has */
    size_t size;
    unsigned int references; /* handles not yet released */
    unsigned int mappings;
    UT_hash_handle by_handle;
};

struct physical *physical_find(CUmemGenericAllocationHandle handle);

/* Adds to *cost_ns what that takes. */
void physical_drop_if_unused(struct physical *physical, uint64_t *cost_ns);

/* The file that has its bytes, and where they begin. */
int physical_file(const struct physical *physical, uint64_t *offset);

/* Host pages behind the memory of this process that has a file of its own. */
size_t physical_backed(void);

#endif
