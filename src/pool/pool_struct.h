/* The pool, as its own files see it: which of them has what. */
#ifndef POOLCUDA_POOL_POOL_STRUCT_H
#define POOLCUDA_POOL_POOL_STRUCT_H

#include "blocks/pointer_map.h"
#include "order/order.h"
#include "pool/cache.h"
#include "pool/context.h"
#include "pool/ledger.h"
#include "pool/policy.h"
#include "pool/pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct pitch;

/* create.c: derives from the configuration what is kept of it. */
void pool_config_changed(struct pool *pool);

/* What stands still as long as the pool is locked: threads' caches. The lock knows no more of them.
 * with_own: what was the calling thread's goes on as well. */
struct lock_follower {
    void (*stop)(struct pool *pool);
    void (*resume)(struct pool *pool, bool with_own);
};

struct pool {
    pthread_mutex_t lock;
    struct lock_follower follower;
    /* Another number whenever some device's `releasing`, or a closing context's `users`, have
     * reached zero. */
    atomic_int release_rounds;
    struct pool_config config;
    const struct driver *driver;
    const struct keeper *keeper; /* of device memory; what concerns a block asks its context's */
    const struct source *source;
    bool caches_serve;                      /* as far as keeper and config go */
    atomic_int captures, begun, gate_users; /* lock.c */
    atomic_bool close_turn;                 /* gate_closing.c */
    int gate_lost;                          /* gate_closing.c, for whoever has the turn */

    /* captured_streams.c. captures_asked: a thread asks them without the lock; none must end
     * meanwhile. */
    LIST_HEAD(, capture) named_captures;
    LIST_HEAD(, unasked_capture) unasked_captures;
    int unnamed_captures;
    bool captures_asked;
    atomic_uint passed_calls; /* without the lock */
    atomic_uint vain_errors;  /* context_errors.c: in a row */

    atomic_bool down;       /* the driver has shut down: everything passes through */
    bool indexed;           /* whether the index by address is there (address_index.h) */
    unsigned leaving_since; /* context_ends.c: inside.h's */
    struct pointer_map map;
    struct pool_block *spare; /* unused records, linked through next */
    size_t recycled;          /* how many of them came back since a thread last took all */
    struct record_slab *slabs;
    size_t record_count; /* in all slabs */
    LIST_HEAD(, context) contexts;
    LIST_HEAD(context_list, context) ended, leaving; /* context_ends.c */
    TAILQ_HEAD(, device) devices;
    struct site_record *site_records;
    struct pitch *pitches;

    /* wait.c, wait_reasons.c. order: what is owed; owed_number: by how many frees so far. reasons:
     * how many things there are just now because of which none may be owed; pending and
     * pending_seen differ while work may run that one wait has to cover. */
    struct order order;
    uint64_t owed_number, pending, pending_seen;
    uint64_t reasons[WAIT_REASONS], reason_sum;
    uint64_t
        reached_devices; /* their memory other contexts may reach: a bit each: wait_reasons.c */
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

    struct context_owner *owners;          /* context_owners.h */
    LIST_HEAD(, memory_pool) memory_pools; /* memory_pools.c: those that the program has made */
    uint64_t peak_live, peak_held;         /* of device memory, all devices' together */
    uint64_t identities;                   /* given to suballocations so far */

    /* cache.c, cache_stop.c */
    struct cache *caches[CACHES], *active[CACHES]; /* active: those that are not parked */
    int cache_count, active_count;
    _Atomic uint64_t
        undone; /* blocks that sources gave back of what was too little for a request */
    atomic_int resumes, resume_waiters; /* without the lock: threads that wait until caches go on */
    _Atomic uint64_t renew_ns, waited_ns; /* without the lock: see STOP_SHARE in cache_stop.c */
    struct ledger_place sentinel_place;   /* where the next sentinel is looked for */
};

#endif
