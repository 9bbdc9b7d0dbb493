/* Which threads are inside a call of the pool just now, so that it can be said of a moment that all
 * who were inside then have left: what was taken out of the pool's lists by then is nobody's any
 * more. Threads are counted in shards, so that they do not write to one place; a shard at zero is
 * enough, at whatever later moment, since those who came after cannot have found what was gone.
 *
 * A thread that is cancelled inside never leaves: what waits for it then stays. */
#ifndef POOLCUDA_POOL_INSIDE_H
#define POOLCUDA_POOL_INSIDE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { INSIDE_SHARDS = 16 };

struct inside_shard {
    alignas(64) atomic_int threads;
};
extern struct inside_shard inside_shards[INSIDE_SHARDS] __attribute__((visibility("hidden")));

/* Some address of the thread's own. */
extern _Thread_local char inside_thread
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

static inline unsigned inside_own_shard(void) {
    return (uint32_t)((uintptr_t)&inside_thread >> 6) * 0x9e3779b1u >> 28;
}

/* Every call that may find a context begins and ends so, but for cache_miss; never one in another.
 */
static inline void pool_enter(void) {
    atomic_fetch_add_explicit(&inside_shards[inside_own_shard()].threads, 1, memory_order_relaxed);
}
static inline void pool_leave(void) {
    atomic_fetch_sub_explicit(&inside_shards[inside_own_shard()].threads, 1, memory_order_release);
}

/* Who may still be inside since some moment: a bit for each shard. */
enum { INSIDE_ALL = (1 << INSIDE_SHARDS) - 1 };
/* Takes out the shards of *since that the threads have left. Returns whether none is left over. The
 * calling thread has just entered, and has found nothing yet; if it has not, nothing is known. */
bool inside_have_left(unsigned *since);

/* In a forked child, whose only thread is not inside. */
void inside_forget(void);

#endif
