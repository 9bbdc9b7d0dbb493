/* Processes that share a GPU help each other: who is out of memory asks the others of its user for
 * what they hold idle. */
#ifndef POOLCUDA_PEERS_ASK_H
#define POOLCUDA_PEERS_ASK_H

#include "counters/stats.h"
#include "pool/pool.h"

/* pool_config's ask_others: asks every process with idle memory on the device, at once, and waits
 * until `bytes` are released, all have answered, one of them has ended, or time is up. Meanwhile it
 * answers what it is asked itself, so that two processes out of memory do not wait for each other.
 * One that did not answer in time is not asked again before it has allocated or freed something. */
enum pool_help ask_others(struct pool *pool, const uint8_t uuid[STATS_UUID], size_t bytes,
                          uint64_t until_ns);

/* In a forked child. */
void ask_forget_after_fork(void);

#endif
