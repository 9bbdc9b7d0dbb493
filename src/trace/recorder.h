/* The recorder: every allocation and free of this process, as events in a file (record_format.h,
 * docs/traces.md).
 *
 * Events wait in a buffer of 8 KiB, which is written as soon as the last write lies 100 us back:
 * what a killed program loses is at most that much, and what a slow one loses is nothing. The file
 * is written, not mapped: whoever shortens it or fills its disk cannot hurt the program. After the
 * first failure nothing is written any more, and events are only counted. Memory: the buffer and,
 * while a file is open, a table of at most 1 MiB, which a forked child keeps; later sites are
 * recorded as unknown.
 *
 * Thread-safe. Makes no CUDA call and allocates nothing on the heap. */
#ifndef POOLCUDA_TRACE_RECORDER_H
#define POOLCUDA_TRACE_RECORDER_H

#include "base/call_site.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether events are recorded. */
extern atomic_bool recorder_on __attribute__((visibility("hidden")));

static inline bool recorder_active(void) {
    return atomic_load_explicit(&recorder_on, memory_order_relaxed);
}

/* Starts recording. path_pattern NULL or "": nothing is recorded. Else the first event makes a
 * file, so that a program which only asks about the GPU, and starts others, takes no name from
 * these: a new file, %p replaced by the process id and %% by %; one that exists is not overwritten:
 * .1, .2, ... is appended. If none can be made, says so in one line and records nothing. To be
 * called before other threads record, path_pattern and say stay. */
void recorder_open(const char *path_pattern, void (*say)(const char *line));

/* Records an allocation that has succeeded, before the program learns the pointer. bytes: as
 * requested; of none there is no event. stream: the program's handle. */
void recorder_alloc(uint64_t pointer, size_t bytes, const struct call_site *site, int device,
                    uint64_t stream);

/* Records a free that is about to be made, before the memory can become another thread's. Returns
 * the event's number, for recorder_free_failed if it then fails. */
uint64_t recorder_free(uint64_t pointer, uint64_t stream);
void recorder_free_failed(uint64_t event, uint64_t pointer);

/* To be called at exit: writes what is left and the end. Nothing is recorded from then on. */
void recorder_finish(void);
/* Whether no thread records just now. try_lock: pthread_mutex_trylock. */
bool recorder_is_at_rest(int (*try_lock)(pthread_mutex_t *));

/* In a forked child: lets go of the parent's file. Nothing is recorded unless recorder_open is
 * called again. */
void recorder_forget_after_fork(void);

#endif
