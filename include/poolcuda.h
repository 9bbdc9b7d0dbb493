/* poolcuda's own functions, for programs that want to talk to the pool they run under.
 *
 * No program needs them: pooling works on unmodified programs. One that may run with or without
 * libpoolcuda.so preloaded finds them by dlsym(RTLD_DEFAULT, "poolcuda_trim") and the like; one
 * that is linked with it (pkg-config poolcuda) calls them. docs/api.md has examples and says what
 * linking takes.
 *
 * Every function may be called from any thread, at any time, also before CUDA is used, with
 * POOLCUDA_DISABLE=1 and without a driver. None prints, ends the program, or keeps a context alive.
 * Devices are ordinals as cudaSetDevice takes them; sizes are bytes. */
#ifndef POOLCUDA_H
#define POOLCUDA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions that return int return. */
enum poolcuda_status {
    POOLCUDA_OK = 0,
    POOLCUDA_INVALID = -1,  /* an argument is out of its range; nothing was done */
    POOLCUDA_DISABLED = -2, /* POOLCUDA_DISABLE=1, or a memory checker: there is no pool */
    POOLCUDA_NO_CUDA = -3,  /* CUDA's driver is not loaded (yet): there is no pool yet */
    POOLCUDA_LATE = -4      /* libpoolcuda.so was loaded behind what it hooks: see docs/api.md */
};

/* The version of the loaded library, such as "0.4.0". Owned by the library. */
const char *poolcuda_version(void);

/* Gives idle pooled memory of `device` back to the driver, largest blocks first, until at least
 * `bytes` bytes are given back or nothing is idle. Returns the bytes given back: 0 when nothing is
 * pooled there, also when the pool is disabled, CUDA was not used yet, or a stream capture is under
 * way. May wait for the device, as cudaFree does. */
size_t poolcuda_trim(int device, size_t bytes);

/* --- figures --- */

enum { POOLCUDA_ALL_DEVICES = -1 };

/* Later versions append fields; `size` says which ones a caller knows. */
struct poolcuda_stats {
    size_t size; /* set by the caller: sizeof(struct poolcuda_stats) */

    /* Sums of the device, all of one moment: in_use + idle + waste = held. Bytes. */
    uint64_t held;   /* memory that the pool has from the driver */
    uint64_t in_use; /* the program's, as requested */
    uint64_t idle;   /* kept for reuse */
    /* bytes by which the program's blocks are larger than requested */
    uint64_t waste;
    uint64_t peak_live, peak_held; /* the largest in_use + waste, and the largest held, so far */
    uint64_t live_blocks, idle_blocks;

    /* Counts of the device, since the process first used it. */
    uint64_t allocations; /* calls */
    uint64_t hits;        /* of those, served from idle memory */
    uint64_t frees;       /* calls, of pooled memory */
    uint64_t oom_events;  /* times its driver was out of memory */
    uint64_t oom_rescued; /* of those, allocations that succeeded once idle memory was released */

    /* Counts of the whole process, whatever the device. */
    uint64_t driver_allocs, driver_frees; /* allocations and frees asked from the driver */
    uint64_t waits;                       /* waits for the device that frees have needed */
    uint64_t fence_waits; /* allocations that waited for a fence (POOLCUDA_FREE=defer) */
};

/* Fills *stats for `device`, or for all together with POOLCUDA_ALL_DEVICES. A device on which
 * nothing was allocated has zeros. stats->size becomes the number of bytes that this library fills:
 * fields beyond are zero. POOLCUDA_INVALID: stats is NULL, its size is smaller than the struct of
 * version 0.2.0, or device is below -1. With any other status but POOLCUDA_OK and POOLCUDA_LATE all
 * members are zero. */
int poolcuda_stats(int device, struct poolcuda_stats *stats);

/* --- limits --- */

/* What may change while the program runs. Each is an option of the same name (docs/pool.md). */
enum poolcuda_limit {
    POOLCUDA_LIMIT_MAX_IDLE = 1,   /* idle memory of a device: bytes or a share */
    POOLCUDA_LIMIT_MAX_WASTE = 2,  /* what reused blocks may exceed requests by: bytes or a share */
    POOLCUDA_LIMIT_IDLE_DECAY = 3, /* milliseconds until idle memory is given up; 0: never */
    POOLCUDA_LIMIT_THROTTLE = 4    /* share of the device in use beyond which idle memory goes */
};

/* Values: the library's own rule or default, or a share of the device's memory, 0 to 100 percent
 * with up to three decimals. */
#define POOLCUDA_AUTO           UINT64_MAX
#define POOLCUDA_SHARE          ((uint64_t)1 << 63)
#define POOLCUDA_PERCENT(share) (POOLCUDA_SHARE | (uint64_t)((share)*1000.0 + 0.5))

/* poolcuda_set_limit sets and poolcuda_get_limit returns a limit of this process, for all devices.
 * A limit that is set is in effect from the next allocation or free, which may give idle memory
 * back; before CUDA is used it is kept for then. POOLCUDA_INVALID: no such limit, a value of the
 * wrong kind or out of range (decay: at most 86400000), or value is NULL. */
int poolcuda_set_limit(enum poolcuda_limit limit, uint64_t value);
int poolcuda_get_limit(enum poolcuda_limit limit, uint64_t *value);

/* --- tags --- */

/* Names what this thread allocates until the matching poolcuda_site_pop, however it allocates. The
 * name is the allocation's site, instead of the code that allocates: in the report, in traces, and
 * for the pool, which prefers a site's own blocks. Scopes nest, the innermost counts. Equal texts
 * are one site. `tag` is copied: at most 63 bytes of it, control characters as question marks.
 * NULL, "", scopes nested more than 16 deep and what comes after 512 different names give no name;
 * such scopes still need their pop. A pop without a push does nothing. */
void poolcuda_site_push(const char *tag);
void poolcuda_site_pop(void);

/* --- memory, for frameworks that take an allocator --- */

/* Memory of `device` from the pool, for use in any stream; NULL: size is not positive, there is no
 * memory, or no context to allocate in. Neither touches the last error of the CUDA runtime unless a
 * case below says so. The form is that of torch.cuda.memory.CUDAPluggableAllocator.
 *
 * The context is the current one if it is of `device`, else the device's primary context if
 * anything was allocated there already. If the thread has no context at all, the memory is asked
 * from the CUDA runtime that the calling module uses, as its own cudaMalloc would, which makes one;
 * that needs `device` to be the runtime's current device.
 *
 * During a stream capture, with POOLCUDA_DISABLE=1 and for a library that was loaded late
 * (POOLCUDA_LATE) it is the driver's cuMemAlloc. `stream` is recorded in traces. */
void *poolcuda_malloc(ssize_t size, int device, void *stream);

/* Frees what poolcuda_malloc, cudaMalloc or cuMemAlloc gave. `size` is not looked at; NULL is
 * nothing. Work submitted to any stream before the call is done with the memory before anyone else
 * gets it: a wait or a fence sees to that, as POOLCUDA_FREE says; if `stream` is another than the
 * legacy default stream (NULL), an owed wait alone does not do. Does not fail: a pointer that is no
 * live block is left alone. */
void poolcuda_free(void *pointer, ssize_t size, int device, void *stream);

/* poolcuda_malloc and poolcuda_free in the form of cupy.cuda.CFunctionAllocator. `param` is not
 * looked at. */
void *poolcuda_cupy_malloc(void *param, size_t size, int device);
void poolcuda_cupy_free(void *param, void *pointer, int device);

#ifdef __cplusplus
}
#endif

#endif
