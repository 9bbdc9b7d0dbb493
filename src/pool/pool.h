/* The pool: hands out device memory, takes it back, keeps it idle for reuse.
 *
 * One pool serves all contexts of the process. It calls CUDA only through its struct driver, reads
 * no environment, knows no hook. Every function is thread-safe; no lock is held across a driver
 * call. Functions that stand for a driver function return what that function would return.
 *
 * Glossary. Code, messages and documents use each word for this one thing.
 *
 * Memory
 *   block          one allocation of the driver's, or a suballocation
 *   region         an allocation of the driver's that is cut into suballocations
 *   live           the program owns the block
 *   waiting        the program has freed the block; the free waits for the device's work
 *   deferred       the program has freed the block; it may serve again once a fence has passed
 *   idle           the pool keeps the block for reuse
 *   stranded       idle, but the driver cannot have it back: others of its region are live
 *   in use         bytes that the program has asked for, over live blocks
 *   waste          bytes of live blocks beyond what is in use
 *   held           bytes that the driver has given: in use + waste + idle
 *   kind           device memory (cuMemAlloc), host memory (pinned: cuMemHostAlloc) or managed
 *                  memory (cuMemAllocManaged)
 *   source         the driver's functions for one kind
 *   driver's pool  a memory pool of the driver's (CUmemoryPool)
 *   stream-ordered cuMemAllocAsync, cuMemFreeAsync and what belongs to them
 *
 * Records
 *   site           where the program asked: a return address, or several, or a tag
 *   ledger         the records of all blocks, and the sums over them
 *   idle store     a context's idle blocks, kept as its keeper wants
 *   cache          a thread's own idle blocks, which it reuses without the pool's lock. What it has
 *                  counted is merged into the ledger, and published in the stats page
 *   sentinel       a live block that no cache may free: while it lives, no free is a context's last
 *   usage          bytes and blocks at one moment; stats: what is counted over the whole run
 *   taint          a state that the driver ties to a block, which must then be released when freed
 *
 * What is done
 *   malloc, free   in names: stands for a call of the program's
 *   allocate       obtain memory from the driver
 *   release        give memory back to the driver; give up: choose what is released
 *   take, give     out of an idle store or a cache, and back into it
 *   destroy        free the host memory of our own records
 *   wait           what a free owes: all work submitted before it is done. It is made at once, owed
 *                  and paid before a call that could show the difference, or replaced by a fence
 *   fence          events after which all work is done that was submitted before a free
 *   gate           what stops the pool's own calls while a stream is captured. Threads enter and
 *                  leave it around such calls; a capture that begins closes it
 *   push, pop      make another context current, and undo that
 *   pressure       a device has no memory for a call that is under way
 */
#ifndef POOLCUDA_POOL_POOL_H
#define POOLCUDA_POOL_POOL_H

#include "base/call_site.h"
#include "blocks/kind.h"
#include "counters/stats.h"
#include "driver/driver.h"
#include "options/option_columns.h"
#include "pool/shortage_report.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a free does about its wait: the words of POOLCUDA_FREE, in their order. */
enum pool_free_mode { POOL_FREE_SYNC, POOL_FREE_AUTO, POOL_FREE_DEFER };

/* What makes frees wait where kernels reach plain host memory: the words of POOLCUDA_PAGEABLE, in
 * their order. */
enum pool_pageable { POOL_PAGEABLE_WAIT, POOL_PAGEABLE_LOOK };

struct policy;
struct pool;

/* What asking other processes for memory has come to. COMES: one of them has ended, and the driver
 * has what it had, now or in a moment. */
enum pool_help { POOL_HELP_NONE, POOL_HELP_GIVEN, POOL_HELP_COMES };

struct pool_config {
    /* What users may set: the fields that options.def names, and says what they mean. (Without a
     * throttle_ratio, 0, no share of the device is kept free.) */
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_POOL_##when(OPTION_TYPE_##type field;)
#include "options/options.def"
#undef OPTION

    const struct policy *policy;                          /* NULL: of policies[0] */
    void (*on_shortage)(const struct shortage *shortage); /* NULL: nobody asks */
    /* Called at frees, now and then, to look for reasons not to owe waits. May be NULL. */
    void (*look_around)(struct pool *pool);
    /* pthread_setcancelstate; NULL: a thread that is cancelled in the driver stays there */
    int (*set_cancel_state)(int state, int *former);
    void (*say)(const char *line); /* a limitation that the user should know of; may be NULL */
    /* Blocks come here later than the program frees them, and so do their fences: no allocation is
     * to wait for one, which may lie behind work of after the free. */
    bool late_frees;
    bool close_fit;           /* no block serves that is much larger, however empty the device */
    bool map;                 /* keep a map of each device's memory for the report */
    const char *system_files; /* the folder that /proc and /sys are looked for in; NULL: the root */
    uint64_t host_memory; /* bytes of memory that the machine has, of which a share may lie idle */
    /* The clock in nanoseconds, by which idle memory decays and caches are merged. NULL:
     * CLOCK_MONOTONIC_COARSE. */
    uint64_t (*clock)(void);
    /* Asks others that use the device with this UUID for `bytes`, waiting no longer than until
     * then, by CLOCK_MONOTONIC. Called without a lock, never during a stream capture. NULL: there
     * is nobody to ask. */
    enum pool_help (*ask_others)(struct pool *pool, const uint8_t uuid[STATS_UUID], size_t bytes,
                                 uint64_t until_ns);
};

/* Why a block may not be reused (docs/semantics.md): the driver ties state to it. */
enum pool_taint {
    POOL_TAINT_IPC,
    POOL_TAINT_DMA_BUF,
    POOL_TAINT_P2P_TOKEN,
    POOL_TAINT_BUFFER_ID,
    POOL_TAINT_SYNC_MEMOPS,
    POOL_TAINT_MANAGED, /* a state of managed memory that cannot be undone */
    POOL_TAINT_CHECK,   /* work of the check that no fence of the pool's covers */
    POOL_TAINT_COUNT
};

/* Returns a new pool, or NULL without memory. `driver` must outlive it. */
struct pool *pool_create(const struct pool_config *config, const struct driver *driver);

/* A bit for each option that may change while the pool runs. */
enum pool_setting_number {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_LIVE_##when(POOL_SETTING_##field, )
#include "options/options.def"
#undef OPTION
    POOL_SETTINGS
};
enum pool_setting {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_LIVE_##when(POOL_SET_##field = 1 << POOL_SETTING_##field, )
#include "options/options.def"
#undef OPTION
    POOL_SET_ALL = (1 << POOL_SETTINGS) - 1
};
_Static_assert(POOL_SETTINGS < 31, "a setting is a bit of an int");

/* The named `settings` (bits of enum pool_setting) become what *config says, all at once; nothing
 * else of *config is looked at. In effect from the next allocation or free on, which is also when
 * idle memory that is now too much goes. Makes no CUDA call. */
void pool_set_config(struct pool *pool, const struct pool_config *config, unsigned settings);
/* Copies the named settings from one struct to another; no pool is concerned. */
void pool_config_copy(struct pool_config *to, const struct pool_config *from, unsigned settings);
/* Copies the settings that are in effect now. */
void pool_get_config(struct pool *pool, struct pool_config *config);

/* Frees the pool's own records; makes no CUDA call, so device memory still held stays allocated.
 * For tests: a preloaded pool lives as long as its process. */
void pool_destroy(struct pool *pool);

/* cuMemAlloc_v2 / cuMemAllocPitch_v2 on behalf of `site`. */
CUresult pool_malloc(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                     const struct call_site *site);
CUresult pool_malloc_pitch(struct pool *pool, CUdeviceptr *pointer, size_t *pitch,
                           size_t width_bytes, size_t height, unsigned int element_bytes,
                           const struct call_site *site);

/* cuMemHostAlloc, or cuMemAllocHost for POOL_HOST_PLAIN, on behalf of `site`; and cuMemFreeHost,
 * which forwards pointers that are not the pool's. */
CUresult pool_malloc_host(struct pool *pool, void **pointer, size_t bytes, unsigned int flags,
                          const struct call_site *site);
CUresult pool_free_host(struct pool *pool, void *pointer);

/* cuMemAllocManaged on behalf of `site`; cuMemFree takes it back. */
CUresult pool_malloc_managed(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                             unsigned int flags, const struct call_site *site);

/* What a program can do to managed memory, and a next owner must find nothing of. */
enum pool_managed_mark {
    POOL_MANAGED_READ_MOSTLY = 1 << 0, /* cuMemAdvise: set or unset */
    POOL_MANAGED_PREFERRED = 1 << 1,
    POOL_MANAGED_ACCESSED = 1 << 2,
    POOL_MANAGED_ATTACHED = 1 << 3, /* cuStreamAttachMemAsync */
    POOL_MANAGED_PREFETCHED = 1 << 4,
};
/* The program has done this to `bytes` at `base` + offset, `base` being where the driver's
 * allocation begins. Nothing happens for what is no live managed block. */
void pool_managed_note(struct pool *pool, CUdeviceptr base, enum pool_managed_mark mark,
                       size_t offset, size_t bytes);
/* Whether the driver, asked where the live block was prefetched to, can only tell of a former
 * owner's prefetch. */
bool pool_managed_prefetch_is_old(struct pool *pool, CUdeviceptr base);

/* An address that is never memory: what the driver says of it, it would natively say of any pointer
 * into memory that does not exist. */
enum { POOL_NOWHERE = 8 };

/* cuMemFree_v2. Pointers that are not the pool's are forwarded to the driver. */
CUresult pool_free(struct pool *pool, CUdeviceptr pointer);

/* Whether the driver permits this thread no free, of whatever memory: it is in a host function.
 * Asks the driver, in most threads for their context alone. */
bool pool_permits_no_free(struct pool *pool);
/* What the driver refuses any free of this thread's with, of whatever memory: it is in a host
 * function, or its current context has been destroyed. Such a free must leave all records and the
 * memory alone: another thread may rightly free the block at that time, or use it. CUDA_SUCCESS: it
 * does not. Where the pool does not know the current context, the driver is asked by a free of
 * nothing. */
CUresult pool_refuses_frees(struct pool *pool);

/* cuMemFree_v2 of a live block in two steps, for callers that keep it from reuse in between. The
 * first makes the wait that a free makes at once, if it makes one, and leaves the block live.
 * NOT_SUPPORTED: this free is the driver's business (pool_free). Any other error: its wait failed,
 * or the block's context has ended meanwhile; pool_free will say what becomes of the free. */
CUresult pool_free_wait(struct pool *pool, CUdeviceptr pointer);
/* The second step. waited: that wait has been made for all work that the program may do with the
 * block; else a fence stands for it. */
CUresult pool_free_waited(struct pool *pool, CUdeviceptr pointer, bool waited);

/* cuMemAllocAsync, or with a memory pool cuMemAllocFromPoolAsync, in `stream`, which is not NULL:
 * the caller says what NULL means. False: nothing has happened, the call is the driver's to
 * serve. */
bool pool_malloc_async(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                       CUmemoryPool memory_pool, CUstream stream, const struct call_site *site);
/* cuMemFreeAsync in `stream`, not NULL. False: nothing has happened, the call is the driver's to
 * serve. True: *result is what the call returns. */
bool pool_free_async(struct pool *pool, CUdeviceptr pointer, CUstream stream, CUresult *result);

/* quick.c: hits and frees that need nothing but the calling thread's cache, in two forms: `whole`,
 * and one for the hooks, which leaves to `whole` what happens now and then. */
enum quick {
    QUICK_DONE,
    QUICK_NO,  /* nothing has happened: the call is not for the cache */
    QUICK_TRY, /* nothing has happened: the call may be for the whole form */
    QUICK_MISS /* of quick_malloc: nothing idle serves; cache_miss is next, the cache is locked */
};
/* cuMemAlloc_v2 for the site of that site_id(). */
enum quick quick_malloc(struct pool *pool, CUdeviceptr *pointer, size_t bytes, uintptr_t site,
                        bool whole);
/* Serves a miss of the site with that site_id(), where nothing idle serves: asks the driver, and
 * leaves the record to the ledger for later; may give an idle block back before. False: nothing has
 * happened to the request. To be called right after quick_malloc has answered QUICK_MISS. Lock not
 * held. */
bool cache_miss(struct pool *pool, CUdeviceptr *pointer, size_t bytes, uintptr_t site);
/* cuMemFree_v2. */
enum quick quick_free(struct pool *pool, CUdeviceptr pointer, bool whole);
/* cuMemAlloc_v2 and cuMemFree_v2 where none of these has served the call. */
CUresult pool_malloc_rest(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                          const struct call_site *site);
CUresult pool_free_rest(struct pool *pool, CUdeviceptr pointer);

/* cuMemGetInfo_v2: idle memory of the current device counts as free. */
CUresult pool_mem_get_info(struct pool *pool, size_t *free_bytes, size_t *total_bytes);

/* What the program may know of an allocation that starts at `base`. */
enum pool_pointer_state { POOL_POINTER_UNKNOWN, POOL_POINTER_LIVE, POOL_POINTER_IDLE };
enum pool_pointer_state pool_pointer_state(struct pool *pool, CUdeviceptr base,
                                           size_t *requested_bytes);

/* What lies at a pointer, the inside of blocks included. Natively neither an idle block exists nor
 * the part of a block beyond the program's request: both are IDLE. UNKNOWN: the pool has nothing
 * there, and the driver knows best. Makes no CUDA call. */
struct pool_place {
    enum pool_pointer_state state;
    CUdeviceptr base; /* of the block */
    size_t requested; /* bytes, 0 unless its block is live */
    bool part;        /* the block is no allocation of the driver's by itself */
    CUcontext context;
    bool alone; /* a handle of it would stand for it alone, as of what cuMemAlloc gives */
};
struct pool_place pool_find_place(struct pool *pool, CUdeviceptr pointer);
/* Whether a block that was cut from a region begins there. */
bool pool_is_suballocation(struct pool *pool, CUdeviceptr pointer);
/* cuMemFreeAsync of the live suballocation at `pointer`: as cuMemFree, except that a capture does
 * not stop it. */
CUresult pool_free_suballocation(struct pool *pool, CUdeviceptr pointer);
/* A BUFFER_ID for the live suballocation at `base`: other than any driver's and any other
 * block's. */
unsigned long long pool_suballocation_identity(struct pool *pool, CUdeviceptr base);

/* The driver has tied state to the live block at or around `pointer`: it will really be freed. */
void pool_taint(struct pool *pool, CUdeviceptr pointer, enum pool_taint reason);

/* Drops the record of the live block at `pointer`, whose memory something else will free
 * (cuMemFreeAsync). Returns an opaque token to undo it with pool_readopt, NULL if unknown, or where
 * this thread may free nothing. */
struct pool_block *pool_disown(struct pool *pool, CUdeviceptr pointer);
void pool_readopt(struct pool *pool, struct pool_block *block); /* the free failed: live again */
void pool_disown_done(struct pool *pool, struct pool_block *block); /* it succeeded */

/* The driver function `call` has found no memory for the `attempt`-th time, from 0: releases
 * idle memory, of the current context's device first. Returns whether the call is worth another
 * try. Calls that ask for no memory are left alone while a stream is being captured. */
enum pool_asks {
    POOL_ASKS_NO_MEMORY, /* it takes some all the same */
    POOL_ASKS_DEVICE_MEMORY,
    POOL_ASKS_OTHER_MEMORY, /* of the host, or addresses */
};
bool pool_make_room(struct pool *pool, const char *call, unsigned attempt, enum pool_asks asks);

/* A call of the driver's has answered `error`, or CUDA_SUCCESS. Contexts that such an error has
 * cost the program go on telling it, and nothing is pooled there any more: every call goes to the
 * driver and gets its answer. Nothing is, once the driver has shut down. Lock not held. */
void pool_note_error(struct pool *pool, CUresult error);

/* Whether the pool's lock and all caches' can be had. For a signal's handler, which may have
 * interrupted its own thread with one of them: it would wait for itself. try_lock:
 * pthread_mutex_trylock. */
bool pool_is_at_rest(struct pool *pool, int (*try_lock)(pthread_mutex_t *));

/* For the report at the end: the last sample of each device, and how the idle memory of all
 * contexts lies (its largest block becomes the gauge largest_idle_bytes). */
void pool_note_end(struct pool *pool);

/* What a device, or all of them (POOL_ALL_DEVICES), holds at one moment: bytes and blocks now
 * and at their largest, calls so far. Invariant: in_use + idle + waste = held. */
struct pool_usage {
    uint64_t in_use, idle, waste, held;
    uint64_t peak_live, peak_held; /* live: in use + waste */
    uint64_t live_blocks, idle_blocks;
    uint64_t allocations, hits, frees, oom_events, oom_rescued;
};
enum { POOL_ALL_DEVICES = -1 };
/* All zero for a device on which nothing was allocated. */
void pool_usage(struct pool *pool, CUdevice device, struct pool_usage *usage);

/* Gives idle memory of `device` back to the driver, largest blocks first, until `bytes` of it are
 * released or nothing is idle. Returns the bytes released. */
size_t pool_release(struct pool *pool, CUdevice device, size_t bytes);

/* Sees to it that the thread's current context is one of `device`: the one that is current, else
 * the device's primary context, which is made current until pool_pop_device. False, with nothing
 * changed: the pool knows no such context, since nothing was allocated there. Never retains one. */
bool pool_push_device(struct pool *pool, CUdevice device, bool *pushed);
/* Makes `context` current until pool_pop_device. False: the driver refuses, or the pool does not
 * know it: it has ended. */
bool pool_push_context(struct pool *pool, CUcontext context, bool *pushed);
void pool_pop_device(struct pool *pool, bool pushed);
/* Gives up to `bytes` of idle memory of `device` (-1: of all) back to the driver, for somebody
 * else. Gives nothing where a free would wait for work under way, unless may_wait says that the
 * program expects a wait for the current context just now. *released: the bytes. Returns whether
 * that is all there is; if not, another try later is worth it. Not to be called during a stream
 * capture. */
bool pool_give_up(struct pool *pool, int device, size_t bytes, bool may_wait, size_t *released);
bool pool_uses_device(struct pool *pool, CUdevice ordinal); /* something was allocated there */

/* Around a call by which the driver ends a context, before those below and after the call: memory
 * that other threads get meanwhile may go with the context, so none is recorded in contexts that
 * the pool does not know yet. ended: the driver has not refused. */
void pool_end_begins(struct pool *pool);
void pool_end_is_over(struct pool *pool, bool ended);
/* To be called before the driver destroys or resets contexts: gives their idle memory back, forgets
 * their live blocks (their frees then go to the driver) and makes other threads' operations that
 * are under way forget them as well. */
void pool_context_ending(struct pool *pool, CUcontext context);
void pool_primary_ending(struct pool *pool, CUdevice device); /* its primary context */
/* To be called before a green context ends: its memory outlives it, as its primary context's. The
 * end is a release of that one [cuda.h, cuGreenCtxDestroy]: returns its device, for the two calls
 * below; -1 if the driver does not say which. */
CUdevice pool_green_ending(struct pool *pool, CUcontext context);
/* Before and after a release of a primary context, whatever that returned: whether it was the last
 * one only the driver can tell. */
void pool_primary_releasing(struct pool *pool, CUdevice device);
bool pool_primary_released(struct pool *pool, CUdevice device); /* Returns whether it was. */
/* As these, around a call that may end the context: which ends one use of it, or which the driver
 * refuses for a context that cuCtxCreate has not made. The first returns whether that is current.
 */
bool pool_context_releasing(struct pool *pool, CUcontext context);
void pool_context_released(struct pool *pool, CUcontext context, bool ended);
/* Whether the context goes on once one use of it has ended; current: it was before. One that has
 * ended is current no more, or every call there fails [cuda.h, cuCtxDestroy]. A driver that ends
 * uses of one that is not current, though its documents say otherwise, looks at handles. */
bool pool_context_goes_on(struct pool *pool, CUcontext context, bool current);
bool pool_knows_context(struct pool *pool, CUcontext context); /* and it has not ended */
/* cuCtxCreate or the like has made a context, which is no device's primary one. */
void pool_context_created(struct pool *pool, CUcontext context);
bool pool_context_is_created(struct pool *pool, CUcontext context); /* in that way */
/* The current context, of a green one its primary one, to which all belongs that is made there but
 * streams. NULL: none is current, or, with green contexts, the driver (before 12.5) does not say.
 */
CUcontext pool_owner_of_current(struct pool *pool);
/* Makes an owner current until pool_pop_device, and known to the pool. False: it cannot be. */
bool pool_push_owner(struct pool *pool, CUcontext owner, bool *pushed);

/* Makes the waits that frees still owe. To be called before every driver call that could tell
 * whether they were made; `call` is that call's name. Cheap when nothing is owed, and not needed
 * then: order_word (order/order.h) tells. */
void pool_pay(struct pool *pool, const char *call);
/* To be called before work is submitted: to `stream`, which is not NULL, of the current context if
 * it is the legacy one. Not needed while order_word (order/order.h) is 0. _somewhere: nobody knows
 * to which stream, or to several; a wait that is owed has to be paid as well. */
void pool_submits(struct pool *pool, CUstream stream, const char *call);
/* To be called before an event is recorded in that stream, as pool_submits before work. */
void pool_records(struct pool *pool, CUstream stream, const char *call);
/* To be called after work was submitted without pool_submits, as there were no streams. */
void pool_submitted_unnoted(struct pool *pool);
void pool_submits_somewhere(struct pool *pool, const char *call);
/* To be called before the program waits for a stream: pays unless that wait is one for all that is
 * owed. */
void pool_waits_for_stream(struct pool *pool, CUstream stream, const char *call);
/* To be called before a copy or a memset is submitted to `stream` whose addresses may be another
 * context's: `pointers` are those that are known, NULL for none; all_known: there are no others.
 * Returns whether they may; then _crossed is to be called once it has been submitted. */
bool pool_reaches(struct pool *pool, CUstream stream, const CUdeviceptr *pointers, size_t count,
                  bool all_known, const char *call);
void pool_crossed(struct pool *pool, CUstream stream);
/* Around the program's own wait for all work of the current context, in which what is owed there is
 * paid if it succeeds. begins returns what ended wants to know. */
struct pool_context_wait {
    CUcontext context;
    uint64_t owed_number, fences;
};
struct pool_context_wait pool_context_wait_begins(struct pool *pool);
void pool_context_wait_ended(struct pool *pool, const struct pool_context_wait *wait);

/* Something that forbids owing a wait begins or ends: in between, frees wait at once. To be called
 * before the driver call that begins it (and pool_pay after), and after the one that ends it.
 * _stays: it begins and never ends. */
void pool_reason_begins(struct pool *pool, enum wait_reason reason);
void pool_reason_ends(struct pool *pool, enum wait_reason reason);
void pool_reason_stays(struct pool *pool, enum wait_reason reason);
/* As pool_reason_stays(pool, WAIT_REASON_peer), where it is memory of this context's device alone
 * that another context gets access to. Calls the driver. */
void pool_peer_reaches(struct pool *pool, CUcontext owner);
/* Work has been or is about to be submitted that only a wait can cover: the next free makes it. */
void pool_work_pending(struct pool *pool);

/* Plain host memory, which the process has without CUDA, is reached by the kernels of some devices
 * (HMM). There frees may owe their waits as long as no address of it has been given to the device.
 *
 * pool_awaits_host_addresses: whether the pool is to hear of the first such address
 * (pool_host_address_given); not any more once it has, never where there is no such device.
 * NOT_YET: the driver does not answer so far. Calls the driver, but for nothing that a capture
 * forbids. */
enum pool_awaits { POOL_AWAITS_NOT_YET, POOL_AWAITS_NEVER, POOL_AWAITS_THE_FIRST };
enum pool_awaits pool_awaits_host_addresses(struct pool *pool);
/* An address of plain host memory may be about to be given to the device. */
void pool_host_address_given(struct pool *pool);

/* To be called when a stream has been created and before it is destroyed: fences must cover their
 * work. pool_stream_ends returns whether the stream is being captured, which then ends with it. */
void pool_stream_created(struct pool *pool, CUstream stream, bool non_blocking);
bool pool_stream_ends(struct pool *pool, CUstream stream);
/* Whether it is of interest that the program uses streams of threads' own; that it does. */
extern atomic_bool pool_per_thread_wanted __attribute__((visibility("hidden")));
static inline bool pool_looks_for_per_thread(void) {
    return atomic_load_explicit(&pool_per_thread_wanted, memory_order_relaxed);
}
void pool_per_thread_used(struct pool *pool);
/* Streams may have come or gone that nobody has named: from now on every free waits. */
void pool_streams_lost(struct pool *pool);

/* Memory pools that the program makes (cuMemPoolCreate): to be called after that call, before one
 * is destroyed, and after that, whatever it returned. */
void pool_memory_pool_created(struct pool *pool, CUmemoryPool handle,
                              const CUmemPoolProps *properties);
void pool_memory_pool_ends(struct pool *pool, CUmemoryPool handle);
void pool_memory_pool_ended(struct pool *pool);
/* One of them is about to end, nobody knows which: none of them is used any more. */
void pool_memory_pools_lost(struct pool *pool);

/* Stream captures of this process now under way: while there are any, malloc and free go straight
 * to the driver and the pool makes no CUDA call of its own. To be called before the driver's own
 * call that begins one, named `call`, and after the one that ends it or failed to begin it. */
void pool_capture_began(struct pool *pool, const char *call);
void pool_capture_ended(struct pool *pool);
/* Names the stream in which the capture has begun: it can be asked whether the capture goes on, if
 * no call ends it. pool_capture_ended_in then is its end; _somewhere: in an unknown stream. */
void pool_capture_named(struct pool *pool, CUstream stream);
/* One has begun there that the stream may not tell of when asked. */
void pool_capture_unseen(struct pool *pool, CUstream stream);
void pool_capture_ended_in(struct pool *pool, CUstream stream);
/* The driver has refused to end it, as the current context has been destroyed. */
void pool_capture_end_refused(struct pool *pool, CUstream stream);
/* Streams may have gone that nobody has named: no captured stream is asked any more. */
void pool_captured_streams_lost(struct pool *pool);
void pool_capture_ended_somewhere(struct pool *pool);
bool pool_is_capturing(struct pool *pool); /* now, as far as is known */
/* To be called around calls of the driver that a capture forbids. False: make none, a capture is
 * under way. One that begins waits until all have left, but for those that wait for the device
 * (lock.c). */
bool pool_gate_enter(struct pool *pool);
void pool_gate_leave(struct pool *pool);
bool pool_stream_is_captured(struct pool *pool,
                             CUstream stream); /* work there would be part of it */
/* What a call is answered that the driver does not get, and that uses the stream: an error if that
 * is the legacy one, beside a blocking one that is captured. That ends the capture. */
CUresult pool_stream_refuses(struct pool *pool, CUstream stream);

/* In a forked child's handler: the pool and its blocks are the parent's. Whoever it was forked
 * from, in whatever they were, the child makes a pool of its own, with these settings, and leaves
 * this one as it is. Makes no call of malloc's: another handler may yet hold locks of these. */
void pool_leave_after_fork(struct pool *pool, struct pool_config *config);

#endif
