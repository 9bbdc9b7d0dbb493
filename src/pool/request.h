/* What an allocation asks for, and how it is served. */
#ifndef POOLCUDA_POOL_REQUEST_H
#define POOLCUDA_POOL_REQUEST_H

#include "pool/context.h"
#include "pool/policy.h"

/* What is asked of the driver. pitch: NULL, or where cuMemAllocPitch is to be used. */
struct request {
    struct context *context;
    struct site *site;  /* NULL: do not look in the pool (the call passes through) */
    size_t bytes, size; /* both 0 while the pitch is not known */
    struct pitch_request *pitch;
    CUstream stream; /* of a stream-ordered allocation; NULL: it is none, or not of one order */
};
struct pitch_request {
    size_t *pitch;
    size_t known; /* the pitch that the driver has given before, 0 if it has not */
    size_t width, height;
    unsigned int element;
};
/* out_of_memory.c: asks again for a request that was refused, after room is made. round: the pool's
 * release_rounds before the driver was asked. Another error stays it. On success either *block is a
 * block found in the pool meanwhile, or *obtained is the driver's; obtained->pointer is the address
 * of either. Lock not held. */
CUresult make_room_and_allocate(struct pool *pool, const struct request *request, CUresult refusal,
                                int round, struct pool_block **block, struct obtained *obtained);

/* take.c. many: 1, or -1 for a hit that is none after all. Before a hit the request is counted as a
 * miss. Lock held. */
void take_count_hits(const struct context *context, struct site *site, int many);
/* Takes a fitting idle block for a request, now live; NULL if there is none. Lock held. */
struct pool_block *pool_take(struct pool *pool, struct context *context, struct site *site,
                             size_t bytes, size_t size);
/* Two steps of it. What the keeper takes out for the request, *how as it says; and a block that is
 * kept nowhere any more goes live. Lock held. */
struct pool_block *take_kept(struct pool *pool, struct context *context, struct site *site,
                             const struct fit *fit, unsigned *how);
void take_hand_out(struct pool *pool, struct pool_block *block, struct site *site, size_t bytes,
                   unsigned how); /* Lock held. */
/* The size to ask the driver for first: the request's, or within the bounds the largest that may
 * serve it, for a site whose sizes only grow: its next ones may fit. *falls: whether the site's
 * only fall, and this one is smaller than all before. Called once a miss. Lock held.
 */
size_t take_size_to_ask(struct pool *pool, struct request *request, bool *falls);
/* rounding.c. The request's size, which becomes what it takes in pages where rounding to more may
 * waste nothing more. Lock held. */
size_t rounding_size(struct pool *pool, struct request *request);
/* What it is decided by: how many misses in a row are each for the site's largest size so far, with
 * one for that size. A row ends where there were more hits than a few since the last: sizes without
 * an order miss in rows as well at first, as the smaller ones hit. take_learn: the miss is one of
 * that row. For whom the site counts.
 */
unsigned take_row_with(const struct site *site, size_t size);
void take_learn(struct site *site, size_t size, unsigned row);
/* Whether the next ones are taken to be so, too. */
bool take_row_grows(unsigned row, size_t size);
/* What the site's request found unfit and is better given up than kept beside `growth` bytes more.
 * falls: as take_size_to_ask says. Lock held. */
struct pool_block *take_find_misfit(struct pool *pool, const struct request *request, size_t growth,
                                    bool falls);
/* Records what the driver has given as a live block, unless the context has ended. Lock held. */
void take_obtained(struct pool *pool, const struct request *request,
                   const struct obtained *obtained);
/* The driver's answer to one request, and what was obtained. Lock not held. */
CUresult allocate_from_driver(struct pool *pool, const struct request *request, size_t size,
                              struct obtained *obtained);

/* take_otherwise.c. Takes a deferred block, live again. Lock held on entry and return, not in
 * between. */
struct pool_block *take_deferred(struct pool *pool, const struct request *request);
/* Takes an idle block for a request that the driver has no memory for, whoever has freed it, by
 * whatever ratio it is larger: within the bound on waste or, with `wastes`, of any size. Lock held.
 */
struct pool_block *pool_take_larger(struct pool *pool, const struct request *request, bool wastes);
/* After a miss whose cache could not count it: the driver had no memory (pointer 0), or a
 * capture, a setting, the context's end barred the cache meanwhile. `meant`, the record for it, has
 * its sizes, context and site, and is given back. Lock not held. */
void take_late(struct pool *pool, struct pool_block *meant, CUdeviceptr pointer);

/* clear.c: clears memory that was used, for programs that count on fresh memory being zero. False:
 * a capture goes on, which forbids it. Lock not held. */
bool clear_memory(struct pool *pool, struct context *context, CUdeviceptr pointer, size_t bytes);
/* Clears the block, whose address is *pointer then. False: a capture has begun meanwhile, which
 * forbids it: the block is idle again, and the driver's memory serves. Lock held on entry, and on
 * return if false. */
bool clear_block(struct pool *pool, struct pool_block *block, CUdeviceptr *pointer);

/* malloc.c, of the current context, which is set in the request with the site. Its size: bytes as
 * the kind's keeper rounds them, not 0, or with a pitch 0. stream: malloc_in_stream's. Lock not
 * held. */
CUresult malloc_kind(struct pool *pool, const struct pool_kind *kind, CUdeviceptr *pointer,
                     struct request *request, const struct call_site *key);
/* malloc_past.c: no record is made, so the free will go to the driver as well. Idle memory is given
 * back before an error is returned. pitch: NULL, or cuMemAllocPitch is used. Lock not held. */
CUresult malloc_without_context(struct pool *pool, const struct pool_kind *kind,
                                CUdeviceptr *pointer, size_t bytes,
                                const struct pitch_request *pitch);
/* cuMemAlloc where quick.c has not served the call. stream: as malloc_in_stream says. */
CUresult malloc_in_order(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                         const struct call_site *key, CUstream stream);
/* cuMemAlloc and a free for stream_ordered.c. stream: the order that holds among its calls; NULL:
 * none. malloc: gate entered. free: false: nothing has happened, the driver has to see to it. */
CUresult malloc_in_stream(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                          const struct call_site *key, CUstream stream);
bool free_in_stream(struct pool *pool, CUdeviceptr pointer, CUstream stream, CUresult *result);

#endif
