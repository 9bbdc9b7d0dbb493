/* Physical memory in chunks under one range of addresses, in the manner of PyTorch's expandable
 * segments and of GMLake.
 *
 * A context reserves addresses for more than its device has, and maps chunks of physical memory
 * there, one behind the other: what is mapped is a region (keep/region.h) that grows at its end,
 * cut and merged as `bfc` does, so that a block may lie in several chunks. A request that no idle
 * block fits begins in the idle block at that end, if there is one; what it lacks then is mapped
 * behind. That is
 *
 *  1. idle chunks, unmapped where they are, if they are as many as it lacks, or if the driver or
 * the bound on idle memory has no room for others (stitching);
 *  2. for the rest a new chunk, and with it what the next requests will need (growth).
 *
 * A chunk can be unmapped only as a whole, and one that a live block lies in not at all. So none is
 * larger than a share of the device, few are larger than 256 MiB, and what a device that is nearly
 * full still gives comes in small ones.
 *
 * Chunks are unmapped when the work that used them is over: a wait that is owed is made first, and
 * deferred blocks are not idle. What a block is to the program is not what it is to the driver: see
 * docs/policies.md. */
#include "base/by_pointer.h"
#include "keep/region.h"
#include "pool/mapped_growth.h"
#include "pool/suballocation.h"
#include "sources/mapped.h"

#include <stdlib.h>

enum { PAGE = ROUND_PAGE };

/* A request on its way to be a block. */
struct growing {
    struct pool *pool;
    const struct request *request;
    struct context *context;
    struct reservation *reservation;
    struct claim claim;       /* of its addresses: where the chunks are mapped, and what may be */
    struct claim *known;      /* the same for others, who may outlive this thread and its stack */
    struct pool_block *tail;  /* the request begins in it, NULL: in the claim. WAITING */
    struct pool_block *taken; /* idle blocks to be unmapped, linked as in a release list */
    struct chunks chunks;     /* to be mapped where the claim begins */
    struct attempt attempt;   /* begun, until what has come of it can be seen */
    size_t size;              /* of the request */
    size_t lacking;           /* bytes of it behind the tail */
    size_t more;              /* bytes beyond it, for what comes next */
    size_t page;     /* expandable segments: what each chunk is as large as; 0: it varies */
    bool small;      /* of which kind the request is, where there are two */
    bool created;    /* some chunks are new */
    unsigned undone; /* chunks that the driver has got back */
};

/* What no chunk is larger than. */
static size_t most_of_chunk(const struct device *device) {
    enum { SHARE = 64 };
    size_t share = device->total / SHARE / PAGE * PAGE;
    return share > PAGE ? share : PAGE;
}

/* What no chunk for the request is larger than. */
static size_t most_of_request(const struct growing *growing) {
    enum { SHARE = 16, LARGE = 256 << 20 };
    size_t most = most_of_chunk(growing->context->device), share = growing->size / SHARE;
    if (growing->page)
        return growing->page;
    share = share > LARGE ? round_up(share, PAGE) : LARGE;
    return share < most ? share : most;
}

/* What is claimed beyond a request at most. */
static size_t most_of_growth(const struct device *device) {
    return round_up(device->total / 8, PAGE) + MAPPED_SLACK + most_of_chunk(device);
}

/* --- the store's side. All below: lock held --- */

/* Idle memory of whole chunks that may be mapped elsewhere: what an attribute bars loses that when
 * it is unmapped, and is worth it where the driver has nothing else. */
static struct pool_block *next_idle(struct idle_store *store, bool barred) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = region_largest_releasable(store, true);
    return block || !barred ? block : region_largest_barred(store, BAR_ATTRIBUTE);
}

/* Takes idle blocks of whole chunks out, largest first, until `bytes` of them are taken: they are
 * regions of their own then. */
static void take_idle(struct growing *growing, size_t bytes, bool barred) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = growing->pool;
    struct idle_store *store = &growing->context->store;
    struct pool_block *block;
    size_t room = growing->claim.bytes - growing->chunks.bytes;
    while (bytes > 0 && (block = next_idle(store, barred)) &&
           suballocation_part_bytes(block, bytes) <= room) { /* else the driver may take it first */
        if (!(block = suballocation_take_out(pool, block, bytes))) /* no host memory */
            break;
        attempt_takes(growing->context, &growing->attempt);
        bytes -= block->size < bytes ? block->size : bytes;
        room -= block->size;
        ledger_remove(pool, block);
        region_detach(store, block);
        block->next_leaving = growing->taken;
        growing->taken = block;
    }
}

/* The idle block in front of these addresses, whose chunks are no other thread's, that the request
 * may begin in; NULL: there is none. */
static struct pool_block *tail_before(const struct growing *growing,
                                      const struct reservation *reservation, uint64_t address) {
    lock_check_held(LOCK_POOL);
    struct pool_block *tail = region_tail(&growing->context->store, reservation, address);
    bool begins = LIST_EMPTY(&reservation->claims) && tail && tail->size < growing->size;
    return begins ? tail : NULL;
}

/* Makes the idle block in front of the claim's addresses the beginning of the request's. */
static void take_tail(struct growing *growing) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = growing->pool;
    struct pool_block *tail = tail_before(growing, growing->reservation, growing->claim.base);
    if (!tail)
        return;
    ledger_take_out(pool, tail);
    tail->identity = 0;
    size_t bytes = growing->request->bytes;
    ledger_make_live(pool, tail, growing->request->site, tail->size < bytes ? tail->size : bytes);
    ledger_set_state(tail, BLOCK_WAITING);
    attempt_takes(growing->context, &growing->attempt);
    growing->context->device->lent += tail->requested;
    growing->tail = tail;
    growing->lacking -= tail->size;
}

/* The tail is idle again, and kept nowhere. */
static struct pool_block *free_tail(struct growing *growing) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = growing->pool;
    struct pool_block *tail = growing->tail;
    if (tail) {
        growing->context->device->lent -= tail->requested;
        ledger_make_deferred(pool, tail);
        tail->state = BLOCK_IDLE;
    }
    return tail;
}

/* The reservation may have lost its last chunk. It is given back then, without the lock. */
static bool is_to_go(struct reservation *reservation) {
    lock_check_held(LOCK_POOL);
    bool empty = reservation_is_empty(reservation);
    if (empty)
        LIST_REMOVE(reservation, link);
    return empty;
}

/* Adds chunks side by side, which are unmapped now, to the list. */
static void take_chunks(struct reservation *reservation, uint64_t from, size_t bytes,
                        struct chunks *chunks) {
    lock_check_held(LOCK_POOL);
    for (uint64_t at = from; at < from + bytes; at += chunks->last->size)
        chunks_add(chunks, reservation_take(reservation, at));
}

/* Whether a chunk that the tail lies in serves no request any more: while memory was mapped behind
 * it, a block of the chunk was freed in which the driver keeps state for others. */
static bool is_tail_barred(const struct growing *growing) {
    lock_check_held(LOCK_POOL);
    return growing->tail && suballocation_is_barred(growing->tail);
}

/* Where a hole has been filled, what lies behind it belongs together with the block, and with the
 * idle rest of what was mapped. */
static void connect(struct growing *growing, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    region_connect(&growing->context->store, block->region);
    struct pool_block *rest = region_next(block);
    if (rest && rest->state == BLOCK_IDLE) {
        ledger_take_out(growing->pool, rest);
        ledger_keep(growing->pool, rest);
    }
}

/* Makes the block that the request is to have of what has been mapped. NULL without host
 * memory, or if it cannot begin in the tail. */
static struct pool_block *make_block(struct growing *growing) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = growing->pool;
    struct context *context = growing->context;
    const struct request *request = growing->request;
    if (is_tail_barred(growing))
        return NULL;
    struct pool_block *block =
        ledger_add_region(pool, context, request->site, growing->claim.base, growing->chunks.bytes);
    if (!block)
        return NULL;
    if (!region_extend(&context->store, growing->reservation, block)) {
        ledger_remove(pool, block);
        ledger_recycle(pool, block);
        return NULL;
    }
    struct pool_block *tail = free_tail(growing);
    if (tail) {
        region_leave(block);
        ledger_coalesce(pool, tail, block);
        block = tail;
    }
    suballocation_cut(pool, block, block->size - growing->size);
    ledger_make_live(pool, block, request->site, request->bytes ? request->bytes : block->size);
    ledger_set_state(block, BLOCK_WAITING);
    connect(growing, block);
    return block;
}

/* --- how much --- */

/* What is in use with the request. Lock held. */
static uint64_t in_use_with(const struct growing *growing) {
    lock_check_held(LOCK_POOL);
    uint64_t of_tail = growing->tail ? growing->tail->requested : 0; /* the request has it, too */
    return growing->context->device->in_use + growing->request->bytes - of_tail;
}

/* How much is asked for beyond what the request lacks, where all chunks are whole pages. The bound
 * on idle memory is kept. Lock held. */
static size_t whole_pages(const struct growing *growing) {
    lock_check_held(LOCK_POOL);
    size_t more = (growing->lacking + growing->page - 1) / growing->page * growing->page -
                  round_up(growing->lacking, PAGE);
    return more <= idle_bound_room(growing->pool, growing->context->device) ? more : 0;
}

/* --- what is done without the lock --- */

/* Unmaps what was taken, or keeps it if that cannot be done now. */
static void unmap_taken(struct growing *growing) {
    struct pool *pool = growing->pool;
    lock_check_none();
    struct pool_block *taken = growing->taken, *next;
    bool paid = !taken || wait_try_pay(pool, "cuMemUnmap");
    growing->taken = NULL;
    for (; taken; taken = next) {
        next = taken->next_leaving;
        struct reservation *reservation = taken->region->reservation;
        bool unmapped = paid && chunks_unmap(pool->driver, taken->pointer, taken->size), gone;
        pool_lock(pool);
        suballocation_released(taken, !unmapped);
        if (!unmapped)
            ledger_restore(pool, taken, BLOCK_IDLE);
        if (unmapped)
            take_chunks(reservation, taken->pointer, taken->size, &growing->chunks);
        gone = unmapped && is_to_go(reservation);
        if (unmapped)
            ledger_recycle(pool, taken);
        pool_unlock(pool);
        if (gone)
            reservation_give_back(pool->driver, reservation);
    }
}

/* Takes the end of a reservation for the request, if there are so many bytes. Where all chunks are
 * whole pages, what the request lacks is known: the idle block that it begins in counts, as far as
 * it is whole pages, for another thread's chunks may come behind the claim. Lock held. */
static bool take_end(struct growing *growing, struct reservation *reservation, size_t bytes) {
    lock_check_held(LOCK_POOL);
    const struct pool_block *tail =
        growing->page ? tail_before(growing, reservation, reservation->end) : NULL;
    bytes -= tail ? tail->size / PAGE * PAGE : 0;
    if (reservation->small != growing->small || reservation_room(reservation) < bytes)
        return false;
    growing->reservation = reservation;
    growing->claim = (struct claim){.base = reservation->end, .bytes = bytes};
    return true;
}

/* Takes the smallest hole that is large enough: chunks have left it that were unmapped. Lock
 * held. */
static bool take_hole(struct growing *growing) {
    lock_check_held(LOCK_POOL);
    struct reservation *reservation;
    struct whole hole;
    growing->claim.bytes = 0;
    LIST_FOREACH (reservation, &growing->context->mapped->reservations, link) {
        hole = reservation_hole(reservation, round_up(growing->size, PAGE));
        if (reservation->small == growing->small && hole.bytes &&
            (!growing->claim.bytes || hole.bytes < growing->claim.bytes)) {
            growing->reservation = reservation;
            growing->claim = (struct claim){.base = hole.from, .bytes = hole.bytes};
        }
    }
    return growing->claim.bytes;
}

/* Finds addresses for the request, without a claim yet: behind all that is mapped in a reservation,
 * where it may grow by `wished` bytes. Behind holes there is more to cut from than in them: so they
 * are left alone until live blocks that are far between keep many reservations, and come first
 * then. Expandable segments begin with them, as their origin does: a hole that is filled joins what
 * is idle on both sides. False: there are none. Lock held. */
static bool find_addresses(struct growing *growing, size_t wished) {
    lock_check_held(LOCK_POOL);
    enum { MANY = 8 };
    struct reservation *reservation;
    int count = 0;
    LIST_FOREACH (reservation, &growing->context->mapped->reservations, link)
        count++;
    if ((growing->page || count >= MANY) && take_hole(growing))
        return true;
    LIST_FOREACH (reservation, &growing->context->mapped->reservations, link)
        if (take_end(growing, reservation, wished))
            return true;
    return false;
}

/* Makes a reservation of more than the device has, and takes its beginning for the request. False:
 * the driver has no addresses. Lock held on entry and return, not in between. */
static bool reserve(struct growing *growing, size_t bytes) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = growing->pool;
    const struct device *device = growing->context->device;
    pool_unlock(pool);
    struct reservation *made =
        reservation_make(pool->driver, bytes, round_up(device->total + device->total / 4, PAGE));
    pool_lock(pool);
    if (!made)
        return false;
    made->small = growing->small;
    LIST_INSERT_HEAD(&growing->context->mapped->reservations, made, link);
    return take_end(growing, made, bytes);
}

/* Says what is to be mapped where. Lock held. */
static void plan(struct growing *growing, size_t available) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = growing->pool;
    struct context *context = growing->context;
    const struct idle_store *store = &context->store;
    size_t most = most_of_chunk(context->device), room = growing->claim.bytes;
    take_tail(growing);
    bool no_room = available < growing->lacking ||
                   idle_bound_excess(pool, context->device, growing->lacking) > 0;
    if (no_room || (!growing->page && store->bytes - store->stranded >= growing->lacking))
        take_idle(growing, growing->lacking, false);
    growing->more = no_room         ? 0
                    : growing->page ? whole_pages(growing)
                                    : mapped_growth(pool, context, in_use_with(growing),
                                                    growing->lacking, available);
    size_t needed = round_up(growing->lacking, PAGE);
    growing->more = growing->more < room - needed ? growing->more : room - needed;
    growing->claim.bytes =
        needed + growing->more + most < room ? needed + growing->more + most : room;
    *growing->known = growing->claim;
    reservation_claim(growing->reservation, growing->known);
}

/* Until the attempt's end the context does not end for this thread. False: there are no addresses.
 * Lock held on entry and return, not in between. */
static bool take_addresses(struct growing *growing) {
    lock_check_held(LOCK_POOL);
    struct device *device = growing->context->device;
    size_t more = growing->page ? growing->page : most_of_growth(device);
    size_t addresses = round_up(growing->size, PAGE) + more;
    attempt_begins(growing->context, &growing->attempt);
    if (find_addresses(growing, addresses) || reserve(growing, addresses) || take_hole(growing))
        return true;
    attempt_ends(growing->pool, growing->context, &growing->attempt, false);
    return false;
}

/* Begins. False if the context has ended, or without addresses or host memory. */
static bool begin(struct growing *growing) {
    struct pool *pool = growing->pool;
    struct context *context = growing->context;
    size_t available = available_by_driver(pool);
    growing->known = malloc(sizeof *growing->known);
    pool_lock(pool);
    bool open = !context->ended && !context->closing;
    if (open && !context->mapped)
        context->mapped = calloc(1, sizeof *context->mapped);
    bool begun = open && context->mapped && growing->known && take_addresses(growing);
    if (begun)
        plan(growing, available);
    pool_unlock(pool);
    if (!begun)
        free(growing->known);
    return begun;
}

/* Adds new chunks for what is lacking yet, and `more` with the last of them. */
static CUresult create(struct growing *growing, size_t more) {
    const struct context *context = growing->context;
    size_t most = most_of_request(growing), room = growing->claim.bytes;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && growing->chunks.bytes < growing->lacking) {
        size_t bytes = round_up(growing->lacking - growing->chunks.bytes, PAGE) + more;
        bytes = bytes < room - growing->chunks.bytes ? bytes : room - growing->chunks.bytes;
        result = chunks_create(growing->pool->driver, context->device->ordinal,
                               bytes < most ? bytes : most, &growing->chunks);
        growing->created = growing->created || result == CUDA_SUCCESS;
    }
    return result;
}

/* All that there is to map, at last from idle memory. */
static CUresult collect(struct growing *growing) {
    struct pool *pool = growing->pool;
    unmap_taken(growing);
    CUresult result = create(growing, growing->more);
    if (driver_refused(result) && growing->more)
        result = create(growing, 0);
    if (!driver_refused(result))
        return result;
    pool_lock(pool);
    take_idle(growing, growing->lacking - growing->chunks.bytes, true);
    bool any = growing->taken;
    pool_unlock(pool);
    unmap_taken(growing);
    return any ? create(growing, 0) : result;
}

/* For other threads the request is on its way until now. Lock held. */
static void finish(struct growing *growing) {
    lock_check_held(LOCK_POOL);
    attempt_ends(growing->pool, growing->context, &growing->attempt, growing->undone > 0);
}

/* Unmaps what no block could be made of, while no other request may have its addresses. Lock held
 * on entry and return, not in between. */
static void unmap_again(struct growing *growing) {
    lock_check_held(LOCK_POOL);
    struct pool *pool = growing->pool;
    size_t bytes = growing->chunks.bytes;
    growing->chunks = (struct chunks){.first = NULL};
    take_chunks(growing->reservation, growing->claim.base, bytes, &growing->chunks);
    pool_unlock(pool);
    if (!chunks_unmap(pool->driver, growing->claim.base, bytes)) /* for a passing reason, say */
        chunks_unmap(pool->driver, growing->claim.base, bytes);
    pool_lock(pool);
}

/* Makes the block, if all has been mapped; else the idle memory is as it was, but for what the
 * driver gets back. NULL: nothing has been made, and the request is not finished. */
static struct pool_block *end(struct growing *growing, bool mapped) {
    struct pool *pool = growing->pool;
    struct reservation *reservation = growing->reservation;
    struct chunk *chunk = mapped ? growing->chunks.first : NULL, *next;
    pool_lock(pool);
    for (; chunk; chunk = next) {
        next = chunk->next;
        reservation_add(reservation, chunk);
    }
    struct pool_block *block = mapped ? make_block(growing) : NULL;
    if (mapped && !block)
        unmap_again(growing);
    if (!block && growing->tail)
        ledger_keep(pool, free_tail(growing));
    reservation_claim_ends(reservation, growing->known);
    free(growing->known);
    bool gone = is_to_go(reservation);
    if (block)
        finish(growing);
    pool_unlock(pool);
    if (gone)
        reservation_give_back(pool->driver, reservation);
    return block;
}

/* The driver gets back what does not suffice. */
static void undo(struct growing *growing) {
    struct pool *pool = growing->pool;
    growing->undone = chunks_release(pool->driver, &growing->chunks);
    pool_lock(pool);
    atomic_fetch_add(&pool->undone, growing->undone);
    finish(growing);
    pool_unlock(pool);
}

static CUresult grow(struct growing *growing, struct obtained *obtained) {
    const struct driver *driver = growing->pool->driver;
    CUresult result = collect(growing);
    uint64_t at = growing->claim.base;
    for (struct chunk *chunk = growing->chunks.first; chunk; at += chunk->size, chunk = chunk->next)
        chunk->base = at;
    if (result == CUDA_SUCCESS)
        result = chunks_map(driver, growing->context->device->ordinal, &growing->chunks,
                            growing->claim.base);
    bool mapped = result == CUDA_SUCCESS;
    struct pool_block *block = end(growing, mapped);
    if (block) {
        *obtained = (struct obtained){.pointer = block->pointer,
                                      .size = growing->size,
                                      .block = block,
                                      .stitched = !growing->created};
        return result;
    }
    undo(growing);
    return mapped ? CUDA_ERROR_NOT_SUPPORTED : result; /* no block could be made of it */
}

/* Makes the request's block of mapped memory. *undone grows by the chunks that the driver has got
 * back. */
static CUresult map(struct pool *pool, const struct request *request, size_t size,
                    struct obtained *obtained, unsigned *undone) {
    bool kinds = request->context->keeper->fits; /* and so pages for each */
    bool small = kinds && size <= REGION_SMALL_MOST;
    size_t page =
        small ? ROUND_PAGE
              : region_segment_size(&pool->config.segment_size, request->context->device->total);
    struct growing growing = {.pool = pool,
                              .request = request,
                              .context = request->context,
                              .size = size,
                              .lacking = size,
                              .page = kinds ? page : 0,
                              .small = small};
    CUresult result = begin(&growing) ? grow(&growing, obtained) : CUDA_ERROR_NOT_SUPPORTED;
    *undone += growing.undone;
    return result;
}

/* For a request that the driver has refused. Whether more may serve it now: at the end of what is
 * mapped, and by the pool, which is looked at again before the request fails. */
static bool lift_bars(struct pool *pool, struct context *context) {
    pool_lock(pool);
    bool lifted = suballocation_lift_bars(pool, context);
    pool_unlock(pool);
    return lifted;
}

BY_POINTER static CUresult obtain(struct pool *pool, const struct request *request, size_t least,
                                  struct obtained *obtained) {
    lock_check_none();
    struct context *context = request->context;
    const struct driver *driver = pool->driver;
    size_t size = round_up(least, ROUND_SMALL);
    unsigned undone = 0;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (driver->mem_create && driver->mem_address_reserve && driver->mem_set_access &&
        size <= context->device->total) {
        result = map(pool, request, size, obtained, &undone);
        if (driver_refused(result) && lift_bars(pool, context))
            result = map(pool, request, size, obtained, &undone);
    }
    if (result != CUDA_SUCCESS && !driver_refused(result))
        result = source_obtain(pool, &kind_device, least, obtained);
    obtained->undone = undone;
    return result;
}

/* For a block that is a region of its own and out of the store. Lock not held. */
BY_POINTER static CUresult surrender(struct pool *pool, struct pool_block *block) {
    lock_check_none();
    struct reservation *reservation = block->region->reservation;
    if (!reservation) {
        CUresult freed = pool->driver->mem_free(block->pointer);
        stats_add(STATS_driver_frees, freed == CUDA_SUCCESS);
        return freed;
    }
    if (!wait_try_pay(pool, "cuMemUnmap") ||
        !chunks_unmap(pool->driver, block->pointer, block->size))
        return CUDA_ERROR_NOT_READY;
    struct chunks chunks = {.first = NULL};
    pool_lock(pool);
    take_chunks(reservation, block->pointer, block->size, &chunks);
    bool gone = is_to_go(reservation);
    pool_unlock(pool);
    chunks_release(pool->driver, &chunks);
    if (gone)
        reservation_give_back(pool->driver, reservation);
    return CUDA_SUCCESS;
}

const struct source source_mapped = {.reuses = true, .obtain = obtain, .surrender = surrender};
