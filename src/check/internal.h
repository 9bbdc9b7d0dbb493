/* What the files of src/check share. */
#ifndef POOLCUDA_CHECK_INTERNAL_H
#define POOLCUDA_CHECK_INTERNAL_H

#include "base/lock.h"
#include "base/output_file.h"
#include "check/check.h"
#include "check/kernel.h"

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

enum {
    CHECK_ZONE = 512,                      /* bytes before and behind a block, at least */
    CHECK_ZONE_BYTE = 0xa7,                /* what zones are filled with */
    CHECK_POISON_BYTE = 0xdb,              /* what freed blocks are filled with */
    CHECK_STRIPES = 64,                    /* the parts of a large block that are filled */
    CHECK_STRIPE = 16 << 10,               /* bytes of each */
    CHECK_TASKS = 256,                     /* of one launch */
    CHECK_ZONE_SOURCE = 4096,              /* bytes of zones that are copied at a time */
    CHECK_BLOCK_TASKS = CHECK_STRIPES + 2, /* of one block, at most */
    CHECK_LAUNCHES = 64,                   /* of one context, at most */
    CHECK_LAUNCHES_FOR_ZONES = 8,          /* of these */
    CHECK_KERNEL_NAME_SIZE = 128,
};

/* LIVE: the program's. FREEING: a thread frees it just now. QUARANTINED: freed, filled. LEAVING: to
 * be given to the pool as soon as no launch uses it any more. DETACHED: the program's, but not
 * checked any more; only its address differs from what the pool knows. GONE: in no table. */
enum check_state {
    CHECK_LIVE,
    CHECK_FREEING,
    CHECK_QUARANTINED,
    CHECK_LEAVING,
    CHECK_DETACHED,
    CHECK_GONE
};

/* BARE: the zones are not filled. FILLING: a thread is about to submit a launch that fills them.
 * ZONED: it has been submitted, so that launches to come find them filled. */
enum check_zones { CHECK_BARE, CHECK_FILLING, CHECK_ZONED };

/* One block of the program's: [user, user + bytes), in the pool's [base, base + size). The rest is
 * its zones. Guarded by the lock.
 * Invariant: all but GONE ones are in the tree and do not overlap. LIVE ones whose zones are BARE
 * are in their context's `bare` list, QUARANTINED ones in its `quarantine`, LEAVING ones without
 * uses in its `left`. The record stays while it is held or has uses, the memory while it has uses.
 */
struct check_block {
    RB_ENTRY(check_block) by_address;
    TAILQ_ENTRY(check_block) in_list;
    CUdeviceptr base, user;
    size_t size, bytes;
    struct check_context *context;
    struct call_site allocated, freed; /* freed: depth 0 while it is not */
    enum check_state state;
    enum check_zones zones;
    bool reported; /* and is not reported again */
    bool held;     /* by a thread that frees it */
    bool unwaited; /* LEAVING: its free has not waited */
    uint32_t uses; /* tasks on it in launches that are not finished */
    uint64_t
        verified; /* all of the context's work up to this number is known to have done no harm */
};
TAILQ_HEAD(check_list, check_block);
RB_HEAD(check_tree, check_block);

/* When a wrong byte was found. */
enum check_moment {
    CHECK_AT_FREE,   /* at the free of the block itself, or of another */
    CHECK_AT_WAIT,   /* a call that waits for the GPU */
    CHECK_AT_LAUNCH, /* after_launches: the call that has just been made */
    CHECK_AT_REUSE,  /* before the memory is used again */
    CHECK_AT_END     /* of the context */
};
struct check_occasion {
    enum check_moment moment;
    CUdeviceptr freed;                   /* FREE: the base of the block */
    const char *call;                    /* WAIT, LAUNCH: the driver function */
    char kernel[CHECK_KERNEL_NAME_SIZE]; /* LAUNCH: "" if not known */
    struct call_site at;                 /* LAUNCH */
};

/* A launch of the kernel, from when it is filled until its result was read. The tasks and the
 * result lie in pinned host memory, which goes with the context.
 * Invariant: in the context's `idle` or `running` list, or held by the thread that fills it or
 * reads its result; count is 0 in the idle list. blocks[i] is task i's. number, freed_by, free_over
 * and given_up are guarded by the lock. */
struct check_launch {
    TAILQ_ENTRY(check_launch) in_list;
    LIST_ENTRY(check_launch) in_every;
    uint64_t number;   /* of all of the context's, when it was submitted; 0: it is not under way */
    bool copies;       /* zones: it has nothing to find */
    uint32_t freed_by; /* it fills what the thread of that number has freed; 0: nothing */
    bool free_over;    /* that free has returned */
    bool given_up;     /* some other thread has waited for it for long enough */
    struct check_task *tasks;
    struct check_failure *failure;
    const unsigned char *zone; /* CHECK_ZONE_SOURCE bytes of one, pinned */
    CUdeviceptr device_tasks, device_failure;
    CUevent done;
    bool ordered; /* the program's later work comes behind it */
    unsigned count;
    uint64_t work; /* of the context when it was submitted */
    struct check_occasion occasion;
    struct check_block *blocks[CHECK_TASKS];
};
TAILQ_HEAD(launch_list, check_launch);

/* Pinned memory that a context's launches lie in. Guarded by the lock, and kept until the check
 * knows that the context has ended. */
struct check_own {
    LIST_ENTRY(check_own) link;
    const struct check_context *context;
    CUdeviceptr address;
    size_t bytes;
};

/* One context in which the program allocates. The record stays until check_destroy.
 * Invariant: the streams, kernel and events are valid if `ready`, and do not change then. lost: the
 * context has had an error that it does not survive, or checking cannot work there: nothing is
 * checked any more. users: threads that may be touching its launches, which lie in its memory: the
 * driver does not end it meanwhile (closing.c). */
struct check_context {
    LIST_ENTRY(check_context) link;
    CUcontext handle;
    CUdevice device;
    bool created; /* by cuCtxCreate and the like; else it ends with its device's primary context */
    bool ready, lost;
    int closing; /* ends that are under way, which may not come: nobody begins to use it */
    bool shut;   /* nobody uses it any more: the driver may free what it has */
    bool ended;  /* the driver has */
    int users;
    CUstream stream, filling; /* filling: for the zones of new blocks alone */
    CUfunction kernel;
    CUevent order, filled;
    bool slow; /* a fill has not ended in the time that is waited for one */
    struct launch_list idle, running;
    LIST_HEAD(, check_launch) every;
    unsigned launches, made; /* asked for so far, and those that there are */
    unsigned spare;          /* in `idle` */
    uint64_t submissions;
    struct check_list bare, quarantine, left;
    struct check_block *cursor;  /* in the quarantine: where to go on verifying; NULL: its first */
    uint64_t leaving;            /* bytes of LEAVING blocks */
    uint64_t quarantined, limit; /* bytes of memory in the quarantine, and how many may be */
    uint64_t work;               /* calls so far that may have written to memory */
};

struct check {
    struct check_config config;
    struct pool *pool;
    const struct driver *driver;
    pthread_mutex_t lock;
    struct check_tree blocks;
    LIST_HEAD(, check_context) contexts;
    LIST_HEAD(, check_own) own;
    /* Another number whenever some users, or `makers`, have reached 0, or an end is over. */
    atomic_int resting;
    int makers; /* threads that are making a context's record */
    int ends;   /* of contexts, which are under way: no record is made */
    uint64_t ends_begun;
    struct known_file log;                 /* its file may be REPORT_NO_LOG; under the lock */
    uint64_t quarantined;                  /* of all contexts */
    uint64_t errors, leaked, leaked_bytes; /* reported */
};

static inline void check_lock(struct check *check) {
    lock_take(&check->lock, LOCK_CHECK);
}

static inline void check_unlock(struct check *check) {
    lock_drop(&check->lock, LOCK_CHECK);
}

/* blocks.c: records. All below: lock held. */

/* The block whose memory, zones included, the address lies in; NULL: none. */
struct check_block *block_around(struct check *check, CUdeviceptr address);
/* The block that begins at `user`, whatever its state. */
struct check_block *block_at(struct check *check, CUdeviceptr user);
/* The block with the lowest base from `base` on. */
struct check_block *block_from(struct check *check, CUdeviceptr base);
/* Adds a LIVE block, whose other members are set. DETACHED ones that it overlaps are gone. */
void block_add(struct check *check, struct check_block *block);
/* The free of a GONE block, held by its thread, has failed: it is the program's still, and
 * DETACHED; but one that has gone with its context stays GONE. */
void block_take_back(struct check *check, struct check_block *block);
/* Takes the block out of the tree and of the list that it is in: it is GONE, and the record with it
 * if it may go. */
void block_remove(struct check *check, struct check_block *block);
/* All that overlap this memory. */
void block_remove_all(struct check *check, CUdeviceptr base, size_t size);
/* Ends what keeps the record: a task's use, or that a thread holds it. */
void block_drop_use(struct check_block *block);
/* Makes the block DETACHED, whatever it was; its launches are never read again. */
void block_detach(struct check *check, struct check_block *block);
void block_let_go(struct check_block *block);
/* Moves the block from one state to another, and from list to list. */
void block_set_state(struct check *check, struct check_block *block, enum check_state state);
void block_set_zones(struct check_block *block, enum check_zones zones);
/* Whether work has been submitted since it was last verified. */
static inline bool block_is_unverified(const struct check_block *block) {
    lock_check_held(LOCK_CHECK);
    return !block->reported && !block->context->lost && block->verified < block->context->work;
}

/* own.c. All below: lock not held. */

/* Notes that pinned memory of the context is the check's own. False without host memory. */
bool own_note(struct check *check, struct check_context *context, CUdeviceptr address,
              size_t bytes);
/* Whether the pointer lies there. */
bool check_owns(struct check *check, CUdeviceptr pointer);
/* Forgets what the driver has freed with the context, or what is used no more as the record is
 * thrown away; NULL: everything. */
void own_forget(struct check *check, const struct check_context *context);

/* contexts.c. All below: lock not held. */

/* The current context's record, NULL if there is none. */
struct check_context *context_of_current(struct check *check);
/* The current context's record, made and made ready if need be. NULL: nothing can be checked there.
 * Lock not held. */
struct check_context *context_to_check(struct check *check);
/* Keeps the context from ending. The thread is cancelled after that at the earliest. False: it has
 * ended, is lost, or is about to end. Lock held. */
bool context_use(struct check *check, struct check_context *context);
/* Whether its streams and its memory are there, for who uses it: it is neither lost, nor has
 * anybody given up waiting for its users. Lock held. */
static inline bool context_is_there(const struct check_context *context) {
    lock_check_held(LOCK_CHECK);
    return !context->lost && !context->shut && !context->ended;
}
/* As context_use. Lock not held, as everywhere below. */
bool context_begin_use(struct check *check, struct check_context *context);
/* Keeps the current context from ending; NULL: nothing is checked there. */
struct check_context *context_use_current(struct check *check);
void context_end_use(struct check *check, struct check_context *context); /* closing.c */
/* Forgets the context, which nobody uses, and its blocks. */
void context_end(struct check *check, struct check_context *context);

/* closing.c. All below: lock not held. */

/* Which context is about to end. */
struct check_end {
    CUcontext handle; /* NULL: the device's primary one */
    CUdevice device;
    bool at_once; /* by a call that waits for no work */
};
/* From here on nobody begins to use what is about to end, but by closing_use, and no record of a
 * context is made. */
void closing_begins(struct check *check, const struct check_end *end);
/* The next context that is about to end; after NULL the first. They never leave the list. */
struct check_context *closing_next(struct check *check, struct check_context *after,
                                   const struct check_end *end);
/* Adds the calling thread to those who use the context, until context_end_use. Lock held. */
void closing_add_user(struct check *check, struct check_context *context);
/* As context_use, by the thread that ends it. */
bool closing_use(struct check *check, struct check_context *context);
/* Waits until nobody uses what is about to end, so that the driver may end it. */
void closing_shut(struct check *check, const struct check_end *end);
/* The contexts that have not ended may be used again. */
void closing_is_over(struct check *check, const struct check_end *end);
/* Waits for the ends of the device's contexts that keep memory from reuse, a second at most. False:
 * there is none, or they last. */
bool closing_await(struct check *check, CUdevice device);
/* To be called before a record is made. False: not now. Lock held. */
bool closing_making_begins(struct check *check, uint64_t *ends);
/* To be called when it is made. Returns whether it may be used; else it may be of a former context.
 * Lock held. */
bool closing_making_is_over(struct check *check, uint64_t ends);

/* gpu.c: the driver's side. All below: lock not held, and the context in use. */

/* Makes stream, kernel, event and the first launches of the context, which is current and nobody's
 * yet. */
void gpu_open(struct check *check, struct check_context *context);
/* Frees the records of its launches: nobody uses the context. Lock not needed. */
void gpu_forget(struct check_context *context);
/* An idle launch, now the caller's; NULL: none is to be had without waiting. Some are kept for
 * zones, whose filling waits for no work: where many others wait, new blocks have zones all the
 * same. */
struct check_launch *gpu_take_launch(struct check *check, struct check_context *context);
struct check_launch *gpu_take_launch_for_zones(struct check *check, struct check_context *context);
/* Submits a launch that is the caller's, behind all work that the program has submitted. Empty ones
 * become idle. False: the driver refused or a stream is being captured; the launch is idle and
 * nothing of it happens. */
bool gpu_submit(struct check *check, struct check_context *context, struct check_launch *launch);
/* Submits a launch that fills zones of new blocks, which nothing has used so far: it runs at once,
 * and the program's later work comes behind it. Where the driver cannot order that, it is waited
 * for, for a while. */
bool gpu_fill(struct check *check, struct check_context *context, struct check_launch *launch);
/* Takes the running launch that was submitted first if it has ended: it becomes the caller's. NULL:
 * it has not. */
struct check_launch *gpu_take_ended(struct check *check, struct check_context *context);
/* As gpu_take_ended, of those that copy zones. */
struct check_launch *gpu_take_copied(struct check *check, struct check_context *context);
/* Waits until the launch of that number has ended. NOT_READY: it has not after so many looks; other
 * errors: that cannot be asked, or not any more. */
enum { GPU_LOOKS_WITHOUT_END = -1 };
CUresult gpu_await(struct check *check, struct check_context *context,
                   const struct check_launch *launch, uint64_t number, int looks);
/* Waits until the launch has ended that was submitted first. False: there is none, or that cannot
 * be asked. */
bool gpu_await_first(struct check *check, struct check_context *context);
void gpu_make_idle(struct check *check, struct check_context *context, struct check_launch *launch);
/* Whether all that was submitted before our last launch is done. */
bool gpu_is_alone(struct check *check, struct check_context *context);
/* Whether all that has been submitted to the context is done. */
bool gpu_is_idle(struct check *check, struct check_context *context);
/* Waits for all launches. False: it cannot. */
bool gpu_wait(struct check *check, struct check_context *context);
/* Waits for the context, as a program would. */
bool gpu_wait_for_context(struct check *check, struct check_context *context);
/* Sets *name to "" if it is not known. */
void gpu_kernel_name(struct check *check, CUfunction kernel, char name[CHECK_KERNEL_NAME_SIZE]);

/* tasks.c: what is to be done for a block. They return the bytes that the tasks cover, 0 if there
 * is no room for them. All below: lock held. */

uint64_t tasks_zones(struct check_launch *launch, struct check_block *block, enum check_op op);
uint64_t tasks_body(struct check_launch *launch, struct check_block *block, enum check_op op);
/* Adds tasks that verify all of a block that has a known content just now. */
uint64_t tasks_verify(struct check_launch *launch, struct check_block *block);
/* Takes the tasks of one block, and all that fill, out of an ended launch; counts what is done. */
void tasks_drop(struct check_launch *launch, const struct check_block *failed);
/* To be called when the launch has been submitted. */
void tasks_submitted(struct check_launch *launch);
/* To be called when all tasks have been done without a failure, or (known: false) are not to be
 * done. */
void tasks_finish(struct check_launch *launch, bool known);

/* verify.c. Verifies all blocks of the context that are unverified, waiting for the results. Lock
 * not held, the context in use. */
void verify_all(struct check *check, struct check_context *context,
                const struct check_occasion *occasion);

/* results.c. All below: lock not held. */

/* Reads the results of launches that have ended, reports failures, and gives blocks that leave the
 * quarantine to the pool. Waits for nothing. The context is in use. */
void results_read(struct check *check, struct check_context *context);
/* As results_read, but gives nothing to the pool, which may have the driver free it, with a wait.
 */
void results_read_and_keep(struct check *check, struct check_context *context);
/* Reads the results after the program has waited for the GPU: if nothing but our launches is left
 * to run, they are waited for. */
void results_finish(struct check *check, struct check_context *context);
/* Reports a failure that the launch has found in that task, unless one of that block has been
 * reported. */
void results_tell(struct check *check, const struct check_launch *launch,
                  const struct check_task *task, const struct check_failure *failure);
/* Reads all results, when all launches have ended. False: they cannot be waited for. */
bool results_await(struct check *check, struct check_context *context);

/* Reads the results, and returns a launch for a free or for zones. NULL: there is none. A free
 * waits for one, if need be: natively it waits for all work that has been submitted. */
struct check_launch *results_take_for_free(struct check *check, struct check_context *context);
struct check_launch *results_take_for_zones(struct check *check, struct check_context *context);

/* fills.c. All below: lock not held. */

/* To be called before the program submits work to the context, which is in use: waits until what
 * has been freed is filled. */
void fills_await(struct check *check, struct check_context *context);
/* To be called when a free of this thread's is about to return. */
void fills_free_is_over(struct check *check, struct check_context *context);

/* quarantine.c. All below: lock held. */

/* Puts blocks whose zones are not filled yet, and then quarantined blocks that are not verified,
 * into the launch, as far as there is room and the bound on the cost allows. */
void quarantine_fill_zones(struct check_context *context, struct check_launch *launch);
void quarantine_verify_some(struct check_context *context, struct check_launch *launch);
/* Has blocks leave until at most `bytes` are left. Lock not held, the context in use. */
void quarantine_shrink(struct check *check, struct check_context *context, uint64_t bytes);
/* Gives all that is kept from reuse back to the pool, waiting for the GPU. Returns whether any was.
 * Lock not held, the context in use. */
bool quarantine_empty(struct check *check, struct check_context *context);

/* report.c. All below: lock not held; the block is a copy. */

enum check_failure_kind {
#define FAILURE(name, before, after) CHECK_FAILURE_##name,
#include "check/failures.def"
#undef FAILURE
};
enum { REPORT_NO_LOG = -1 }; /* no log is open yet */
/* Reports that `count` bytes from `address` on are not what they were. */
void report_write(struct check *check, const struct check_block *block, CUdeviceptr address,
                  uint64_t count, const struct check_occasion *occasion);
/* Reports a bad free. block: NULL if the pointer lies in none. */
void report_free(struct check *check, const struct check_block *block, CUdeviceptr pointer,
                 const struct call_site *at);
void report_leak(struct check *check, const struct check_block *block);
struct check_unverified {
    uint64_t freed, freed_bytes, live; /* blocks, bytes, blocks */
};
/* Writes the summary at exit, if there is anything to report. Returns the number of errors. */
uint64_t report_end(struct check *check, const struct check_unverified *unverified);

#endif
