/* What the pool's own files share. */
#ifndef POOLCUDA_POOL_INTERNAL_H
#define POOLCUDA_POOL_INTERNAL_H

#include "policy/site.h"
#include "pool/block.h"
#include "pool/pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct pitch;

/* Invariant (with the lock free): in use + idle + waste = held, where in use sums requested and
 * waste sums size - requested over live and waiting blocks, and idle sums size over idle ones. */
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t left; /* some device's leaving has reached zero */
    struct pool_config config;
    const struct driver *driver;
    atomic_int captures;
    atomic_bool down;          /* the driver has shut down: everything passes through */
    struct pool_block *blocks; /* uthash by pointer */
    struct pool_block *spare;  /* unused records, linked through by_size.rbe_left */
    struct record_slab *slabs;
    LIST_HEAD(, context) contexts, ended;
    LIST_HEAD(, device) devices;
    struct site_record *site_records;
    struct pitch *pitches;
    uint64_t in_use, idle, waste, peak_live, peak_held;
    uint64_t live_blocks, idle_blocks;
};

/* books.c: records and sums. All with the lock held. */

/* A new LIVE block in the table. NULL without host memory (counted). An older record of the same
 * address is dropped: the driver would not have given it again while that block existed. */
struct pool_block *books_add(struct pool *pool, struct context *context, struct site *site,
                             CUdeviceptr pointer, size_t size, size_t requested);
struct pool_block *books_find(struct pool *pool, CUdeviceptr pointer);
/* Out of the table and all sums; the record stays valid, GONE, until books_recycle. */
void books_remove(struct pool *pool, struct pool_block *block);
void books_recycle(struct pool *pool, struct pool_block *block);
/* Back into table and sums in the state given, after books_remove. Recycled if it cannot be. */
void books_restore(struct pool *pool, struct pool_block *block, enum block_state state);
void books_make_idle(struct pool *pool, struct pool_block *block);
/* An idle block, already taken out of the idle blocks, goes live for `site`. */
void books_make_live(struct pool *pool, struct pool_block *block, struct site *site,
                     size_t requested);
void books_free_records(struct pool *pool);
size_t books_round(size_t bytes); /* 0: too large to round */

/* context.c */

/* The current context's record, learnt if new. NULL if there is none or the driver does not say;
 * the lock is held on return if and only if the result is not NULL. */
struct context *context_enter(struct pool *pool);
struct device *context_find_device(struct pool *pool, CUdevice ordinal);
void context_free_sites(struct context *context);
struct site *context_site(struct pool *pool, struct context *context, const struct call_site *key);
/* Makes `context` current for a while. Returns false, with nothing changed, if that fails. */
struct context_visit {
    bool pushed;
};
bool context_visit(struct pool *pool, CUcontext context, struct context_visit *visit);
void context_leave(struct pool *pool, struct context_visit *visit);
/* Waits for all work that the native free would wait for. NOT_SUPPORTED: for more contexts than it
 * can; the block must then really be freed. Lock not held. */
CUresult context_wait(struct pool *pool, struct context *owner);
/* Whether all work of the current context is known to be complete; asks without waiting. */
bool context_is_quiet(struct pool *pool, struct context *context);
/* Notes what an error of the driver means for later calls. */
void context_note_error(struct pool *pool, struct context *context, CUresult result);

/* pressure.c: giving memory back */

/* Blocks taken out for release, linked through by_size.rbe_left; free_all gives them to the driver
 * without the lock, and takes it again. Returns the bytes that the driver accepted. */
struct leaving {
    struct pool_block *first;
    struct device *device;
    size_t bytes, count;
};
void leaving_take(struct pool *pool, struct leaving *leaving, struct pool_block *idle_block);
size_t leaving_free(struct pool *pool, struct leaving *leaving);

/* Takes out idle blocks of the device, largest first, until `bytes` or nothing is left. */
void pressure_collect(struct pool *pool, struct device *device, size_t bytes,
                      struct leaving *leaving);
/* Takes out what exceeds the bounds on idle memory; `growth` bytes are about to be added to live
 * memory. `only`: from this context alone, NULL: from all of the device. */
void pressure_trim(struct pool *pool, struct device *device, struct context *only, size_t growth,
                   struct leaving *leaving);
bool pressure_exceeds(const struct pool *pool, const struct device *device, size_t growth);
/* A configured limit in bytes, `automatic` if it is left to the pool. */
uint64_t pressure_limit(const struct limit *limit, const struct device *device, uint64_t automatic);
/* Allocates from the driver, releasing idle memory while it is out of memory. On success either
 * *block is a block found in the pool meanwhile, or *pointer and *size are the driver's. Lock not
 * held. pitch: NULL, or where cuMemAllocPitch is to be used. */
struct request {
    struct context *context;
    struct site *site;  /* NULL: do not look in the pool (the call passes through) */
    size_t bytes, size; /* both 0 while the pitch is not known */
    const struct pitch_request *pitch;
};
struct pitch_request {
    size_t *pitch;
    size_t known; /* the pitch that the driver has given before, 0 if it has not */
    size_t width, height;
    unsigned int element;
};
CUresult pressure_allocate(struct pool *pool, const struct request *request,
                           struct pool_block **block, CUdeviceptr *pointer, size_t *size);

/* pool.c: a fitting idle block for a request, now live; NULL if there is none. Lock held. */
struct pool_block *pool_take(struct pool *pool, struct context *context, struct site *site,
                             size_t bytes, size_t size);

/* pitch.c. Lock held. */
size_t pitch_known(struct pool *pool, CUdevice device, size_t width, unsigned int element);
void pitch_learn(struct pool *pool, CUdevice device, size_t width, unsigned int element,
                 size_t pitch);
void pitch_forget_all(struct pool *pool);

/* For tests: whether every invariant above holds. Takes the lock. */
bool pool_is_valid(struct pool *pool);

#endif
