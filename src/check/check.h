/* Memory checking: stands between the hooks and the pool, which knows nothing of it.
 *
 * Each block of cuMemAlloc and cuMemAllocPitch lies between two zones of a known pattern. A freed
 * block is filled with another and kept from reuse for a while (the quarantine). A kernel of ours
 * compares both when a block is freed, when it leaves the quarantine, when the program waits for
 * the GPU, and when a context ends; with `after_launches`, after everything that writes to memory.
 * What differs was written out of bounds, or after the free, and is reported (report.c).
 *
 * What cannot be checked is handed out and taken back as without checking, and counted: the program
 * notices nothing. Every function is thread-safe; no lock is held across a driver call. Functions
 * that stand for a driver function return what that function would return. */
#ifndef POOLCUDA_CHECK_CHECK_H
#define POOLCUDA_CHECK_CHECK_H

#include "base/call_site.h"
#include "options/option_columns.h"
#include "pool/pool.h"

struct check;
struct check_block;

struct check_config {
    /* What users may set: the fields that options.def names, and says what they mean. */
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_CHECK_##when(OPTION_TYPE_##type field;)
#include "options/options.def"
#undef OPTION

    bool after_launches;           /* wait after each launch, and verify everything */
    void (*say)(const char *line); /* reports that the log cannot be opened */
};

/* NULL without memory. The pool and the driver must outlive it. */
struct check *check_create(const struct check_config *config, struct pool *pool,
                           const struct driver *driver);
/* Frees the records; makes no CUDA call. For tests. */
void check_destroy(struct check *check);

/* In a forked child's handler: another thread may have had the lock, and a call that a signal's
 * handler has forked in goes on in the child. Makes no call of malloc's. */
void check_leave_after_fork(struct check *check);

/* cuMemAlloc_v2 and cuMemAllocPitch_v2 on behalf of `site`. */
CUresult check_malloc(struct check *check, CUdeviceptr *pointer, size_t bytes,
                      const struct call_site *site);
CUresult check_malloc_pitch(struct check *check, CUdeviceptr *pointer, size_t *pitch,
                            size_t width_bytes, size_t height, unsigned int element_bytes,
                            const struct call_site *site);

/* cuMemFree_v2, called at `at`. */
CUresult check_free(struct check *check, CUdeviceptr pointer, const struct call_site *at);
/* cuMemFreeHost. Nothing is reported of it. */
CUresult check_free_host(struct check *check, void *memory);

/* cuMemFreeAsync of the live block at `pointer` beside a capture, in a stream that takes no part in
 * one. True: launches of the check's use the block, which becomes the pool's once they are over,
 * and nothing waits for that. False: it is to be disowned, or there is none. */
bool check_free_later(struct check *check, CUdeviceptr pointer);
/* Takes the live block at *pointer out of the check, as a free beside a capture is about to be left
 * to the pool or the driver: once they have the memory, other threads may be given it. *pointer
 * becomes the one that they know; POOL_NOWHERE: there is no such block. Returns a token for
 * check_disowned, NULL where there is no block. */
struct check_block *check_disown(struct check *check, CUdeviceptr *pointer);
/* That free has had this result. If it has failed, the block is the program's still, unchecked. */
void check_disowned(struct check *check, struct check_block *block, CUresult result);

/* What is to be freed for a program that frees what lies in nothing that is checked: the pointer,
 * or POOL_NOWHERE if it lies in memory of the check's own, where natively nothing is. */
CUdeviceptr check_as_freed(struct check *check, CUdeviceptr pointer);
/* To be called when the program has been given memory there that it may free: what the check had
 * there the driver has freed, as it ends that context in another thread. */
void check_given(struct check *check, CUdeviceptr address, size_t bytes);
/* What the program may know of a pointer. UNKNOWN: it lies in nothing that is checked; IDLE: in a
 * zone, in freed memory, or in memory of the check's own. */
enum pool_pointer_state check_find(struct check *check, CUdeviceptr pointer, CUdeviceptr *base,
                                   size_t *bytes);

/* Bytes of the current device that are freed and kept from reuse. */
size_t check_quarantined(struct check *check);
/* Gives them back to the pool, after a wait for the GPU. Returns whether there were any. */
bool check_make_room(struct check *check);

/* To be called before the program submits work that may write to the current context's memory. */
void check_work(struct check *check);
/* To be called when a call of the driver function `call`, at `at`, has submitted it. kernel: what
 * it launches, NULL if it is none. */
void check_after_work(struct check *check, const char *call, CUfunction kernel,
                      const struct call_site *at);
/* To be called around a call of the driver function `call` that waits for work of the current
 * context. */
void check_before_wait(struct check *check, const char *call);
void check_after_wait(struct check *check);

/* To be called before the pool learns that a context is about to end, or (_primary) that a device's
 * primary context is or may be: verifies all that is left in it. From here on nothing is checked in
 * it, and no other context begins to be checked. */
void check_context_ending(struct check *check, CUcontext context);
void check_primary_ending(struct check *check, CUdevice device);
/* As check_primary_ending, before a green context ends: that is a release, and waits for no work.
 * So it is verified only where none is under way. */
void check_green_ending(struct check *check, CUdevice device);
/* To be called once after each of these, when driver and pool know whether it has ended: it is
 * forgotten, or goes on to be checked. */
void check_context_ended(struct check *check, CUcontext context, bool ended);
void check_primary_ended(struct check *check, CUdevice device, bool ended);

/* Writes the summary at exit, without a CUDA call. Returns the number of errors reported. */
uint64_t check_finish(struct check *check);
/* Whether no thread has the records just now. try_lock: pthread_mutex_trylock. */
bool check_is_at_rest(struct check *check, int (*try_lock)(pthread_mutex_t *));

#endif
