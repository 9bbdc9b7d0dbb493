/* Device and host memory of the simulated machine. All below: lock held.
 *
 * A device address can never be dereferenced by the CPU: each device reserves its address range
 * without access. The bytes behind it live in a sparse file in memory that is mapped elsewhere, the
 * shadow, and reads as zero where nothing has been written since the page was last released. */
#ifndef SIMCUDA_MEMORY_H
#define SIMCUDA_MEMORY_H

#include "entry.h"
#include "op.h"
#include "vclock.h"

#include <bsd/sys/tree.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMORY_GRANULE = 512 };
static const size_t memory_page = (size_t)2 << 20;  /* what a device's memory is mapped in */
static const size_t memory_small = (size_t)1 << 20; /* up to this, allocations share pages */

enum memory_kind {
    MEMORY_DEVICE, /* cuMemAlloc */
    MEMORY_POOL,   /* cuMemAllocAsync */
    MEMORY_MANAGED,
    MEMORY_HOST,       /* cuMemHostAlloc */
    MEMORY_REGISTERED, /* cuMemHostRegister */
    MEMORY_IMPORTED,   /* cuIpcOpenMemHandle */
    MEMORY_MAPPED,     /* cuMemMap, once cuMemSetAccess made it accessible */
    MEMORY_GRAPH       /* cuMemAllocAsync while capturing */
};

struct tenancy;
struct graph_allocation;
struct managed;
struct CUmemPoolHandle_st;

/* One allocation. Invariant: [address, address + extent) overlaps no other block; size <= extent;
 * shadow is where the CPU reaches its first byte (address itself for host and managed memory). */
struct block {
    RB_ENTRY(block) node;
    CUdeviceptr address;
    size_t size;   /* as asked for */
    size_t extent; /* as taken */
    unsigned char *shadow;
    enum memory_kind kind;
    unsigned int flags;       /* as given to the allocating function */
    struct CUctx_st *context; /* NULL: MEMORY_MAPPED and MEMORY_GRAPH belong to none */
    CUdevice device;
    uint64_t id;         /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    bool sync_memops;    /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    bool external;       /* of imported memory: cuExternalMemoryGetMappedBuffer's */
    bool of_object;      /* a module's variable, an array's memory: no free takes it */
    bool freeing;        /* a stream-ordered free is queued */
    unsigned int opens;  /* of imported memory */
    struct chunk *chunk; /* the shared page that a small block lies in */
    struct CUmemPoolHandle_st *pool;
    struct graph_allocation *graph; /* of MEMORY_GRAPH */
    struct managed *managed;        /* managed.c: NULL until the program says something of it */
    uint64_t export_serial;         /* not 0: an IPC handle was made, or opened */
    uint32_t export_slot;           /* where other processes see that it still exists */
    int32_t export_process;         /* of imported memory: the process that it belongs to */
    struct tenancy *current;        /* owners, non-overlapping, covering the block */
    struct tenancy *past;           /* former owners whose accesses may still be under way */
    uint64_t first_generation;      /* hazard.c: of its first owner */
};

struct block *memory_at(CUdeviceptr address); /* the block that starts here */
struct block *memory_containing(CUdeviceptr address);
struct memory_home
memory_home(CUdeviceptr address); /* of any address; an array's is not told apart */
/* Whether [address, address + size) lies in one block, or in mappings side by side in one
 * reservation: then it can be used as one. */
bool memory_spans(CUdeviceptr address, size_t size);
bool memory_overlaps(CUdeviceptr address, size_t size);        /* some block */
struct block *memory_next(struct block *after);                /* in address order; NULL starts */
bool memory_is_device_range(CUdeviceptr address, size_t size); /* not host memory */

/* CUDA_ERROR_INVALID_VALUE for size 0, OUT_OF_MEMORY, otherwise *block owned by `site`.
 * *cost_ns is what the caller is to spend once it has released the lock. */
CUresult memory_allocate(struct CUctx_st *context, size_t size, enum memory_kind kind,
                         uintptr_t site, struct block **block, uint64_t *cost_ns);

/* Releases a block of any kind; the caller has done whatever waiting is due. `order` is what the
 * release is ordered after: accesses that it does not cover are hazards. */
void memory_release(struct block *block, const struct vclock *order, uintptr_t site,
                    uint64_t *cost_ns);

/* Maps memory of the process that kernels reach too: MEMORY_HOST or MEMORY_MANAGED. Errors as
 * memory_allocate. */
CUresult memory_allocate_visible(struct CUctx_st *context, size_t size, enum memory_kind kind,
                                 uintptr_t site, struct block **block);

/* Counts, atomically, what memory is released. Lock not needed. */
const uint64_t *memory_changes(void);

/* Whether so many more bytes of host memory can be pinned. */
bool memory_can_pin(size_t size);

/* Records memory that the CPU may touch: host, registered and managed memory. */
struct block *memory_adopt(struct CUctx_st *context, void *host, size_t size, size_t extent,
                           enum memory_kind kind, uintptr_t site);

/* Lets [address, address + size), which is reserved in whole pages, name the bytes at `shadow`. */
struct block *memory_map(enum memory_kind kind, CUdevice device, CUdeviceptr address,
                         unsigned char *shadow, size_t size, uintptr_t site);

/* Gives device addresses to memory of another process, mapped at `shadow`. NULL: no room. */
struct block *memory_import(struct CUctx_st *context, unsigned char *shadow, size_t size);

/* As memory_import, for bytes of a file. NULL: they cannot be mapped, either. */
struct block *memory_import_file(struct CUctx_st *context, int file, uint64_t offset, size_t size);

/* Releases what the end of a context destroys: not what cuMemAllocAsync or cuMemCreate made. */
void memory_release_all(struct CUctx_st *context);

/* Bytes; whole pages, but for SIMCUDA_COUNTED_MEMORY. Lock not needed. */
size_t memory_capacity(CUdevice device);
size_t memory_available(CUdevice device);

/* Take pages with addresses and zeroed bytes, and return them. */
bool memory_take_pages(CUdevice device, size_t pages, CUdeviceptr *address);
void memory_give_pages(CUdevice device, CUdeviceptr address, size_t pages);

/* Take pages that no address names: the driver's own. False: the device has not so many. */
bool memory_take_unaddressed(CUdevice device, size_t pages);
void memory_give_unaddressed(CUdevice device, size_t pages);

/* The file behind a device's memory and a shadow address's offset in it. */
CUresult memory_backing(const struct block *block, int *file, uint64_t *offset);

/* Where the CPU reaches [address, address + size), NULL if that does not lie in one allocation
 * (nor, where the device may touch that, in the process's own memory).
 * Lock not held. */
unsigned char *memory_reach(CUdeviceptr address, size_t size);
unsigned char *memory_reach_locked(CUdeviceptr address, size_t size);

#endif
