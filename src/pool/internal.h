/* What the pool's own files share. */
#ifndef POOLCUDA_POOL_INTERNAL_H
#define POOLCUDA_POOL_INTERNAL_H

#include "clock.h"
#include "futex.h"
#include "lock.h"
#include "order/order.h"
#include "planted.h"
#include "policy/policy.h"
#include "pool/block.h"
#include "pool/cache.h"
#include "pool/fence.h"
#include "pool/pointer_map.h"
#include "pool/pool.h"
#include "pool/release.h"
#include "round.h"

#include <pthread.h>
#include <stdatomic.h>

struct pitch;

/* A place among the records of blocks. A zeroed one is before all of them. */
struct ledger_place {
    struct record_slab *slab;
    size_t index;
    bool begun;
};

/* What stands still as long as the pool is locked: threads' caches. The lock knows no more of them.
 * with_own: what was the calling thread's goes on as well. */
struct lock_follower {
    void (*stop)(struct pool *pool);
    void (*resume)(struct pool *pool, bool with_own);
};

/* Invariant (with the lock free): in use + idle + waste = held, where in use sums requested and
 * waste sums size - requested over live and waiting blocks, and idle sums size over idle ones. */
struct pool {
    pthread_mutex_t lock;
    struct lock_follower follower;
    atomic_int
        release_rounds; /* another number whenever some device's `releasing` has reached zero */
    struct pool_config config;
    const struct driver *driver;
    const struct policy *policy; /* of device memory; what concerns a block asks its context's */
    bool caches_serve;           /* as far as policy and config go */
    atomic_int captures, begun, gate_users; /* capture_gate.c */
    atomic_bool close_turn;                 /* gate_closing.c */
    int gate_lost;                          /* gate_closing.c, for whoever has the turn */

    /* captured_streams.c. captures_asked: a thread asks them without the lock; none must end
     * meanwhile. */
    LIST_HEAD(, capture) named_captures;
    LIST_HEAD(, unasked_capture) unasked_captures;
    int unnamed_captures;
    bool captures_asked;
    atomic_uint passed_calls; /* without the lock */

    atomic_bool down;       /* the driver has shut down: everything passes through */
    bool indexed;           /* whether the index by address is there (address_index.h) */
    unsigned leaving_since; /* context_ends.c: inside.h's */
    struct pointer_map map;
    struct pool_block *spare; /* unused records, linked through next */
    struct record_slab *slabs;
    size_t record_count; /* in all slabs */
    LIST_HEAD(, context) contexts;
    LIST_HEAD(, context) ended, leaving; /* context_ends.c */
    LIST_HEAD(, device) devices;
    struct site_record *site_records;
    struct pitch *pitches;

    /* wait.c. order: what is owed; owed_number: by how many frees so far. reasons: how many things
     * there are just now because of which none may be owed; pending and pending_seen differ while
     * work may run that one wait has to cover. */
    struct order order;
    uint64_t owed_number, pending, pending_seen;
    uint64_t reasons[WAIT_REASONS], reason_sum;
    uint64_t reached_devices; /* their memory other contexts may reach: a bit each, see wait.c */
    atomic_bool lasting[WAIT_REASONS];
    atomic_bool host_reached; /* kernels may have been given addresses of plain host memory */

    /* fence_streams.c. streams_lost: some stream's work can be in no fence, so frees have to wait.
     */
    LIST_HEAD(, free_stream) free_streams;
    LIST_HEAD(, left_event) left_events;
    uint64_t left_number;
    uint64_t blocking_streams; /* that the program has made, where that is looked at */
    uint64_t fences;           /* fence.c: how many were begun */
    uint64_t ends;             /* of contexts: how many calls of the driver's have begun */
    unsigned ends_under_way;
    int fences_recording; /* of them, that are not yet recorded */
    bool streams_lost;
    atomic_bool per_thread_used; /* without the lock */

    struct created_context *created;       /* context.c */
    LIST_HEAD(, memory_pool) memory_pools; /* memory_pools.c: those that the program has made */
    uint64_t in_use, idle, waste, peak_live, peak_held; /* of device memory */
    uint64_t live_blocks, idle_blocks;
    uint64_t identities; /* given to suballocations so far */

    /* cache_life.c, cache_stop.c */
    struct cache *caches[CACHES], *active[CACHES]; /* active: those that are not parked */
    int cache_count, active_count;
    atomic_int resumes, resume_waiters; /* without the lock: threads that wait until caches go on */
    _Atomic uint64_t renew_ns, waited_ns; /* without the lock: see STOP_SHARE in cache_stop.c */
    struct ledger_place sentinel_place;   /* where the next sentinel is looked for */
    struct stats_sums published;          /* what caches themselves have published */
};

/* The clock in nanoseconds. No other clock decides anything, but for how long threads wait for each
 * other. */
static inline uint64_t pool_now(const struct pool *pool) {
    return pool->config.clock ? pool->config.clock() : clock_ns(CLOCK_MONOTONIC_COARSE);
}

static inline void pool_lock(struct pool *pool) {
    lock_take(&pool->lock, LOCK_POOL);
    pool->follower.stop(pool);
}

static inline void pool_unlock(struct pool *pool) {
    pool->follower.resume(pool, true);
    lock_drop(&pool->lock, LOCK_POOL);
}

/* For a call that takes the lock again and needs no cache until then: to start its thread's and
 * stop it again would cost more than what is done in between. */
static inline void pool_unlock_between(struct pool *pool) {
    pool->follower.resume(pool, false);
    lock_drop(&pool->lock, LOCK_POOL);
    if (PLANTED(slow_between))
        futex_pause();
}

/* Until some device's `releasing` has reached zero, or for no reason. Lock held on entry and
 * return, not in between. */
static inline void pool_await_releases(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    int seen = atomic_load(&pool->release_rounds);
    pool_unlock(pool);
    futex_wait(&pool->release_rounds, seen, NULL);
    pool_lock(pool);
}

/* Counts blocks of the device that are no longer on their way. Lock held. */
static inline void pool_count_released(struct pool *pool, struct device *device, int count) {
    lock_check_held(LOCK_POOL);
    device->releasing -= count;
    if (device->releasing == 0)
        futex_change(&pool->release_rounds);
}

/* Whether the driver's own free waits for the work that may use a block, as cuMemFree of what
 * cuMemAlloc gave does. Where it does not, the pool waits. */
static inline bool policy_driver_waits(const struct policy *policy) {
    return !policy->cuts && !policy->keeps_nothing;
}

/* Whether that holds for device memory of any context. */
static inline bool pool_driver_waits(const struct pool *pool) {
    return policy_driver_waits(pool->policy); /* of host memory it does */
}

/* source.c: the driver's functions for what is no device memory. The host's address stands for a
 * block of host memory. Lock not held. */
CUresult source_allocate_other(const struct driver *driver, const struct pool_kind *kind,
                               size_t size, CUdeviceptr *pointer);
/* The driver's functions for a kind of memory. Lock not held. */
static inline CUresult source_allocate(const struct pool *pool, const struct pool_kind *kind,
                                       size_t size, CUdeviceptr *pointer) {
    lock_check_none();
    return kind->memory == POOL_DEVICE ? pool->driver->mem_alloc(pointer, size)
                                       : source_allocate_other(pool->driver, kind, size, pointer);
}
/* Allocates so and counts it: also for policies, where their own way is barred. Lock not held. */
static inline CUresult source_obtain(struct pool *pool, const struct pool_kind *kind, size_t size,
                                     struct obtained *obtained) {
    lock_check_none();
    *obtained = (struct obtained){.size = size};
    CUresult result = source_allocate(pool, kind, size, &obtained->pointer);
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    return result;
}
/* Lock not held. */
static inline CUresult source_release(const struct pool *pool, enum pool_memory memory,
                                      CUdeviceptr pointer) {
    lock_check_none();
    return memory == POOL_HOST ? pool->driver->mem_free_host((void *)(uintptr_t)pointer)
                               : pool->driver->mem_free(pointer);
}
/* Whether calls about such memory are timed for the report: where the policy has another way to
 * obtain memory, they are not like those that pooling avoids. */
static inline bool source_is_timed(const struct pool *pool, enum pool_memory memory) {
    return memory != POOL_DEVICE || !pool->policy->obtain;
}
/* A request that is served from idle memory, or freed, for the least of its site: as the driver
 * would have rounded it, whatever the pool asks for in its place. Lock held. */
static inline void source_note_size(const struct context *context, const struct site *site,
                                    size_t bytes) {
    lock_check_held(LOCK_POOL);
    uint64_t least = stats_site_least(site->stats);
    if (__builtin_expect(!least || bytes < least, 0))
        stats_site_serves(site->stats, context->kind.memory == POOL_DEVICE
                                           ? round_physical(bytes)
                                           : context->policy->round(bytes));
}
/* The driver's free of a block whose work is done, timed: it does not wait for the device. Lock
 * not held. */
CUresult source_release_timed(const struct pool *pool, const struct pool_block *block);
/* The driver function that allocates, for reports; and how idle memory of the kind is kept. */
const char *source_call_name(const struct pool_kind *kind);
const struct policy *kind_policy(const struct pool *pool, const struct pool_kind *kind);
/* Trims a memory pool of the driver's by `bytes`, as far as that can be done without waiting.
 * Returns what the driver has got back: less than was unused, where live memory shares its pages.
 * Gate entered. Lock not held. */
size_t memory_pool_trim(const struct driver *driver, CUmemoryPool handle, size_t bytes);
/* Counts a call of that kind of memory: device memory has no counters of its own. */
static inline void count_by_kind(enum pool_memory memory, enum stats_counter host,
                                 enum stats_counter managed) {
    if (__builtin_expect(memory != POOL_DEVICE, 0))
        stats_add(memory == POOL_HOST ? host : managed, 1);
}

/* managed.c. All below: lock held. */

/* Whether the state of any block has to be undone. */
bool managed_is_marked(const struct pool_block *block);
/* Undoes it. No work uses the block, whose state is WAITING. False: it could not be done, or the
 * block is GONE, and must not serve again. Lock held on entry and return, not in between. */
bool managed_reset(struct pool *pool, struct pool_block *block);
void managed_begin_life(struct pool_block *block); /* of an idle block of managed memory */

/* ledger.c: records and sums. All below: lock held. */

/* A new LIVE block in the table. NULL without host memory (counted). An older record of the same
 * address goes. */
struct pool_block *ledger_add(struct pool *pool, struct context *context, struct site *site,
                              CUdeviceptr pointer, size_t size, size_t requested);
static inline struct pool_block *ledger_find(const struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    return pointer_map_find(&pool->map, pointer);
}
/* All blocks of the table, in no order: begin with a zeroed place; NULL: no more. What it returned
 * may be removed. */
struct pool_block *ledger_next(const struct pool *pool, struct ledger_place *place);
/* Has all blocks of the table, now and later, in the index by address. False without host memory.
 */
bool ledger_index(struct pool *pool);
/* The record at the place, which moves on and begins anew behind the last. NULL: it is unused. */
struct pool_block *ledger_look(const struct pool *pool, struct ledger_place *place);
/* Puts live blocks that a cache has made, linked through `next`, into the table: they are in the
 * sums already. Without host memory they leave them. */
void ledger_adopt(struct pool *pool, struct pool_block *fresh);
/* Some unused records, linked through `next`, nothing else of which is set; NULL without host
 * memory.
 */
struct pool_block *ledger_take_records(struct pool *pool);
/* Adds a region that a policy is to cut: an idle block that is kept nowhere yet. */
struct pool_block *ledger_add_region(struct pool *pool, struct context *context, struct site *site,
                                     CUdeviceptr pointer, size_t size);
/* Cuts an idle block to `size` bytes; returns the rest, an idle block that is kept nowhere yet, or
 * NULL without host memory. ledger_coalesce undoes it: `next`, which follows in memory, is gone. */
struct pool_block *ledger_split(struct pool *pool, struct pool_block *block, size_t size);
void ledger_coalesce(struct pool *pool, struct pool_block *block, struct pool_block *next);
/* Takes the block out of the table and all sums; the record stays valid, GONE, until
 * ledger_recycle. */
void ledger_remove(struct pool *pool, struct pool_block *block);
void ledger_recycle(struct pool *pool, struct pool_block *block);
/* Puts the block back into table and sums in the state given, after ledger_remove. Recycles it if
 * that cannot be done. */
void ledger_restore(struct pool *pool, struct pool_block *block, enum block_state state);
/* A live block is freed: no longer live, and idle (ledger_make_idle) or to be put into a list of
 * fence_lists.c's (ledger_make_deferred), from which ledger_end_deferral brings it to the idle
 * ones. */
void ledger_make_idle(struct pool *pool, struct pool_block *block);
void ledger_make_deferred(struct pool *pool, struct pool_block *block);
void ledger_end_deferral(struct pool *pool, struct pool_block *block);
/* Takes an idle or deferred block out of where it is kept; its state stays. */
void ledger_take_out(struct pool *pool, struct pool_block *block);
/* Makes an idle block, already taken out of the idle blocks, live for `site`. */
void ledger_make_live(struct pool *pool, struct pool_block *block, struct site *site,
                      size_t requested);
/* Idle memory that is in no block grows by `change` bytes, in unsigned arithmetic that may wrap. */
void ledger_count_unused(struct pool *pool, struct context *context, size_t change);
/* Sets the state to LIVE or WAITING, for changes that no other function of the ledger makes. */
void ledger_set_state(struct pool_block *block, enum block_state state);
/* Publishes the sums in the stats page. */
void ledger_publish(struct pool *pool, struct device *device);
void ledger_destroy_records(struct pool *pool);

/* context.c */

/* The current context, NULL if there is none. Asked again if that fails, for a passing reason. Lock
 * not held. */
CUresult context_current(struct pool *pool, CUcontext *handle);
/* The current context's record for memory of that kind, learnt if new. NULL if there is none or the
 * driver does not say. Lock not held on entry, but on return if the result is not NULL. */
struct context *context_lock_current(struct pool *pool, const struct pool_kind *kind);
extern const struct pool_kind kind_device;
/* Whether this is the first of one CUDA context's records, the one that counts where only the
 * context matters. */
bool context_is_first(const struct pool *pool, const struct context *context);
bool context_is_known(const struct pool *pool, CUcontext handle); /* and alive. Lock held */
/* Any record of the context, the same one each time; and that of its memory of one kind. NULL:
 * there is none. */
struct context *context_find(const struct pool *pool, CUcontext handle);
struct context *context_find_kind(const struct pool *pool, CUcontext handle,
                                  const struct pool_kind *kind);
/* What tells the context from any other, one under the same handle too; NULL: the current one. An
 * error may be one of earlier work, told once. */
CUresult context_ask_id(struct pool *pool, CUcontext handle, unsigned long long *id);
struct device *context_find_device(struct pool *pool, CUdevice ordinal);

/* host_access.c: how the device reaches plain host memory. Calls the driver and returns its error;
 * a device that it says nothing of is taken to reach none. */
CUresult host_access_of(const struct pool *pool, CUdevice ordinal, enum host_access *access);

void context_destroy_sites(struct context *context);
void context_forget_created(struct pool *pool, CUcontext handle);
void context_forget_all_created(struct pool *pool);
struct site *context_site(struct pool *pool, struct context *context, const struct call_site *key);
/* Makes `context` current for a while. Returns false, with nothing changed, if that fails twice. */
struct context_push {
    bool pushed;
};
bool context_push(struct pool *pool, CUcontext context, struct context_push *visit);
void context_pop(struct pool *pool, struct context_push *visit);
/* context_push by the thread that ends the context. */
bool context_push_ending(struct pool *pool, CUcontext context, struct context_push *visit);
/* Before the driver may end the device's primary context: nobody uses it by its handle any more.
 * _stays: it has not ended. Lock not held. */
void visits_close_primary(struct pool *pool, CUdevice ordinal);
void visits_primary_stays(struct pool *pool, CUdevice ordinal); /* Lock not held. */
/* Waits for all work that the native free would wait for. NOT_SUPPORTED: for more contexts than it
 * can, or while a stream is being captured; the block must then really be freed. Lock not held. */
CUresult context_wait(struct pool *pool, struct context *owner);
/* Notes what an error of the driver means for later calls. */
void context_note_error(struct pool *pool, struct context *context, CUresult result);
void context_note_error_of(struct pool *pool, CUcontext handle, CUresult error);

/* headroom.c: after `grown` bytes were allocated, whether the driver may lack memory for launches.
 * Lock held. */
bool headroom_may_lack(struct device *device, uint64_t grown);
/* Sees to it that the driver has memory for launches in the current context, once `growth` bytes
 * more are live. Lock not held. */
void headroom_keep(struct pool *pool, struct context *context, size_t growth);

/* available.c: what is left of the memory that a device uses: of its own, and of what each control
 * group allows. of[0] is the device's. */
enum { AVAILABLE_MOST = 4 };
struct available {
    int count;
    struct available_of {
        uint64_t bytes, total;
    } of[AVAILABLE_MOST];
};
/* held: what the pool holds of it. False: nobody says. Current context, gate entered, lock not
 * held.
 */
bool available_ask(struct pool *pool, const struct device *device, uint64_t held,
                   struct available *left);
/* Lock not held. */
void available_learn(struct pool *pool, CUdevice ordinal, struct device_place *place);

/* patience.c. How long a call that found no memory has waited for the device. */
struct patience {
    uint64_t began; /* nanoseconds; 0: it has not waited */
    unsigned step;
    bool counted;
};
/* BRIEFLY: for the device, which is neither told nor counted. */
enum patience_for { PATIENCE_FOR_DEVICE, PATIENCE_FOR_THREAD, PATIENCE_BRIEFLY };
/* Waits a moment. False: it has waited for `seconds`, POOLCUDA_OOM_WAIT, or what a thread may take
 * to give memory back. Lock not held. */
bool patience_wait(struct pool *pool, struct patience *patience, enum patience_for what,
                   double seconds);
void patience_end(const struct patience *patience); /* counts the time */

/* shortage_report.c: reports a call that failed although nothing idle was left to
 * config.on_shortage. Lock not held. bytes: 0 if not known. */
void shortage_report(struct pool *pool, struct device *device, const char *call, size_t bytes);

/* bounds.c: bytes of idle memory that were not needed of late: to be given up now. Lock held. */
uint64_t decay_due(struct pool *pool, struct device *device);

/* pages.c: bytes of device memory that would be free if all idle blocks were. Lock held. */
uint64_t pages_idle(struct pool *pool, const struct device *device);
/* bounds.c: bytes by which idle memory may still grow. Lock held. */
uint64_t idle_bound_room(const struct pool *pool, const struct device *device);
/* Bytes of idle memory that are to be given up, once `growth` more are live. Lock held. */
uint64_t idle_bound_excess(const struct pool *pool, const struct device *device, size_t growth);
/* Bytes that may be allocated beside what is idle before anything is to be given back, by the
 * pool's own bound, or the driver to be asked what is free. Lock held. */
uint64_t idle_bound_room_to_grow(const struct device *device);
/* history.c, how a device's memory was over time, for the report. To be called after the device's
 * sums have changed: looks at the clock only now and then. Lock held. */
void history_note(struct device *device);
void history_sample(struct device *device); /* at once. Lock held. */
/* block_map.c: to be called after an allocation from the driver: makes a new map of where blocks
 * lie once held memory has grown by an eighth. Lock held. */
void block_map_grow(struct pool *pool, struct device *device);

/* What is asked of the driver. pitch: NULL, or where cuMemAllocPitch is to be used. */
struct request {
    struct context *context;
    struct site *site;  /* NULL: do not look in the pool (the call passes through) */
    size_t bytes, size; /* both 0 while the pitch is not known */
    const struct pitch_request *pitch;
    CUstream stream; /* of a stream-ordered allocation; NULL: it is none, or not of one order */
};
struct pitch_request {
    size_t *pitch;
    size_t known; /* the pitch that the driver has given before, 0 if it has not */
    size_t width, height;
    unsigned int element;
};
/* Allocates from the driver, releasing idle memory while it is out of memory. On success either
 * *block is a block found in the pool meanwhile, or *obtained is the driver's. Lock not held. */
CUresult allocate_or_make_room(struct pool *pool, const struct request *request,
                               struct pool_block **block, struct obtained *obtained);

/* take.c. many: 1, or -1 for a hit that is none after all. Before a hit the request is counted as a
 * miss. Lock held. */
void take_count_hits(const struct context *context, struct site *site, int many);
/* Takes a fitting idle block for a request, now live; NULL if there is none. Lock held. */
struct pool_block *pool_take(struct pool *pool, struct context *context, struct site *site,
                             size_t bytes, size_t size);
/* Takes an idle block for a request that the driver has no memory for, whoever has freed it, by
 * whatever ratio it is larger: within the bound on waste or, with `wastes`, of any size. Lock held.
 */
struct pool_block *pool_take_larger(struct pool *pool, const struct request *request, bool wastes);
/* Takes a block that was freed in the order of the request's stream: it need not wait. Lock held.
 */
struct pool_block *pool_take_in_stream(struct pool *pool, const struct request *request);
/* Records what the driver has given as a live block. Lock held. */
void take_obtained(struct pool *pool, const struct request *request,
                   const struct obtained *obtained);
/* After a miss whose cache could not count it: the driver had no memory (pointer 0), or a
 * capture, a setting, the context's end barred the cache meanwhile. `unused` is given back. Lock
 * not held. */
void take_late(struct pool *pool, struct pool_block *unused, struct context *context,
               struct site *site, CUdeviceptr pointer, size_t bytes);

/* cuMemAlloc and a free for stream_ordered.c. stream: the order that holds among its calls; NULL:
 * none. malloc: gate entered. free: false: nothing has happened, the driver has to see to it. */
CUresult malloc_in_stream(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                          const struct call_site *key, CUstream stream);
bool free_in_stream(struct pool *pool, CUdeviceptr pointer, CUstream stream, CUresult *result);

/* quiet.c: whether all work of the current context is known to be complete; asks without waiting.
 */
bool context_is_quiet(struct pool *pool, struct context *context);
/* Whether a context rests, any one, for whoever has nothing better to do than to wait: drivers
 * without cuCtxRecordEvent are asked as well, as far as that can be done. UNKNOWN: they cannot be,
 * or a stream is being captured, or the context is lost. Lock not held. */
enum rest { REST_BUSY, REST_QUIET, REST_UNKNOWN };
enum rest quiet_ask(struct pool *pool, struct context *context);
/* Whether a wait is owed that is over as soon as it is made. Lock not held. */
bool quiet_is_owed_wait_over(struct pool *pool);
/* Notes what all contexts have under way, and asks later whether that is done. Gate closed, and no
 * capture begun. Lock not held. note: false: the driver cannot tell. */
bool quiet_note_work(struct pool *pool);
/* Lock not held. */
bool quiet_is_noted_work_done(struct pool *pool);

/* capture_gate.c. The thread's mode for captures becomes *mode, which tells what it was. */
void gate_exchange_capture_mode(struct pool *pool, CUstreamCaptureMode *mode);
/* gate_closing.c. Whoever is inside has left when gate_close returns, and nobody enters until as
 * many gate_open. */
void gate_close(struct pool *pool);
void gate_open(struct pool *pool);
/* gate_close in two parts: between them no other thread closes the gate, and prohibited calls may
 * be made. begin: false: the gate is closed, and a capture may have begun: no such call, and no
 * end. */
bool gate_close_begin(struct pool *pool);
void gate_close_end(struct pool *pool);

/* wait_choice.c: what becomes of a wait; wait.c: makes it. All below: lock held. */

enum wait_choice { WAIT_NOW, WAIT_OWED, WAIT_DEFERRED };
/* What to do about the wait of a free of `block`; *reason is set for WAIT_NOW. */
enum wait_choice wait_choice(const struct pool *pool, const struct pool_block *block,
                             enum wait_reason *reason);
void wait_owe(struct pool *pool, struct context *context);
/* Counts owed waits of frees that threads' caches have served. */
void wait_owe_more(struct pool *pool, uint64_t frees);
/* Whether a cache of that `thread` may serve frees of the context's blocks, unless they are its
 * last: they owe their wait by saying so in the order's word, or leave it to fences to come. */
bool wait_is_skipped(const struct pool *pool, const struct context *context, uint32_t thread);
/* Makes the wait. Lock held on entry and return, not in between. */
CUresult wait_make(struct pool *pool, struct context *context, enum wait_reason reason);
bool wait_is_owed(void); /* lock not needed */
/* Before the pool itself submits work to the current context's legacy stream that may touch what
 * was freed: puts it behind what is owed. Gate entered. Lock not held. */
void wait_precedes_own_work(struct pool *pool);
/* As above, to a stream of its own, which is put behind what that context's frees owe. Gate
 * entered. Lock not held. */
void wait_precedes_own_stream(struct pool *pool, const struct context *context, CUstream own);
/* Whether work of other contexts may use a context's memory, so that a free waits for them, too. */
bool wait_reaches_others(const struct pool *pool, const struct context *context);
/* Whether a wait for the context's work would take time, as far as is known. Lock not held. */
bool wait_would_last(struct pool *pool, struct context *context);
/* Makes an owed wait before `call`. False: not now, a stream is being captured. Lock not held. */
bool wait_try_pay(struct pool *pool, const char *call);
void wait_forget(struct pool *pool); /* everything, in a forked child and at the end of a test */

/* context_ends.c: nobody looks at any of them. Lock held. */
void ended_contexts_forget(struct pool *pool);

/* memory_pools.c. All below: lock not held. */

/* Before `call` fails because `device` has no memory (negative: not known, nothing happens): makes
 * a wait that is owed, and has the driver take what lies unused in the program's own memory pools.
 * Returns whether anything has changed. Not during a stream capture. */
bool memory_pools_give(struct pool *pool, CUdevice device, const char *call);
/* Whether it could give more once the wait has been made that is owed. */
bool memory_pools_may_give(struct pool *pool, CUdevice device);
void memory_pools_forget(struct pool *pool); /* lock held */

/* Captures (captured_streams.c). One that begins is not named yet. _stream_ends: whether a capture
 * ends with the stream, which pool_capture_ended is then called for. */
void captures_count_unnamed(struct pool *pool);
bool captures_stream_ends(struct pool *pool, CUstream stream);
void captures_context_ends(struct pool *pool, CUcontext context);
void captures_primary_ends(struct pool *pool, CUdevice ordinal);
void captures_primary_releasing(struct pool *pool, CUdevice ordinal);
void captures_primary_stays(struct pool *pool, CUdevice ordinal);
/* To be called when a call went past the pool because of captures: asks whether there are any. */
void captures_passed(struct pool *pool);
void captures_forget(struct pool *pool); /* lock held */

/* Whether the program has made it: no device owns it. Lock held. */
bool context_is_created(const struct pool *pool, CUcontext handle);

/* suballocation.c: blocks that cuMemFree does not free as the program expects: suballocations
 * (policy->cuts), and what lies in a memory pool of the driver's. All below: lock held. */

/* Whether the driver knows the block as an allocation of its own. */
bool suballocation_is_allocation(const struct pool_block *block);
/* Whether a free cannot be the pool's own just now. */
static inline bool suballocation_passes(struct pool *pool, const struct pool_block *block,
                                        CUcontext current) {
    lock_check_held(LOCK_POOL);
    return !current || block->context->broken || atomic_load(&pool->down);
}
/* A region's block has been given to the driver, which may have refused it. */
void suballocation_released(struct pool_block *block, bool refused);
/* To be called before a block is kept: no request may get what the driver keeps state in for
 * others. */
void suballocation_note_taint(struct pool_block *block);
/* Makes of a region that the driver has just given a live block for the request, and idle memory.
 * NULL without host memory. */
struct pool_block *suballocation_adopt(struct pool *pool, const struct request *request,
                                       const struct obtained *obtained);
/* The block, in whatever state, that contains the address. */
struct pool_block *suballocation_find(struct pool *pool, CUdeviceptr address);
/* Whether a policy has cut the block, and the driver does not know it as an allocation of its own.
 */
bool suballocation_is_part(const struct pool_block *block);

/* free_past.c. Whether cuMemFree would do less for the block than for what cuMemAlloc gives. */
static inline bool is_suballocation(const struct pool_block *block) {
    return block->context->policy->cuts || block->in_driver_pool;
}
/* What is left to do for a block whose free could not be the pool's own: nothing; it is to be kept,
 * as its wait has been made; or until all work is done, as that could not be made. */
enum past { PAST_DONE, PAST_KEPT, PAST_DEFERRED };
/* Frees a live block so. *result is the program's. Lock held on entry, and on return unless it is
 * PAST_DONE. */
enum past free_past(struct pool *pool, struct pool_block *block, CUcontext current,
                    CUresult *result);

/* pitch.c. All below: lock held. */

size_t pitch_known(struct pool *pool, CUdevice device, size_t width, unsigned int element);
void pitch_learn(struct pool *pool, CUdevice device, size_t width, unsigned int element,
                 size_t pitch);
void pitch_forget_all(struct pool *pool);

/* valid.c, for tests: whether every invariant above is true. Lock not held. */
bool pool_is_valid(struct pool *pool);

#endif
