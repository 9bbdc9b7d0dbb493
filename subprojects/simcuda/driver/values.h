/* Words of memory that streams wait for and write: a kernel's flag, a stream memory operation's
 * value, a semaphore's. */
#ifndef SIMCUDA_VALUES_H
#define SIMCUDA_VALUES_H

#include "cuda_symbols.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* outside != NULL: the word itself, which other processes write to, too; it stays there as long as
 * anything uses it. Otherwise it is at a device's address. */
struct word {
    CUdeviceptr address;
    uint64_t *outside;
    unsigned int bytes; /* 4 or 8 */
};

struct awaited {
    struct word word;
    unsigned int condition; /* of CUstreamWaitValue_flags, CU_STREAM_WAIT_VALUE_GEQ to _NOR */
    uint64_t value;
};

/* What work does; without the lock. ILLEGAL_ADDRESS: there is no memory, or no longer. */
CUresult value_await(const struct awaited *awaited);
CUresult value_write(const struct word *word, uint64_t value);

/* A wait of a stream's for what the host may have to do. */
struct value_wait {
    const struct awaited *awaited;
    pid_t thread; /* which polls for it */
    struct value_wait *prev, *next;
};

/* Those that go on now. Lock held. */
const struct value_wait *value_waits(void);
/* How many have begun or ended so far. Lock held. */
uint64_t value_wait_changes(void);
/* Whether the wait ends without the process's doing anything more. Lock held. */
bool value_wait_may_end(const struct value_wait *wait);
/* Whether one of them is about to end, since its value is there. Lock held. */
bool value_waits_are_ending(void);

/* With virtual time: notes that the work which this thread executes writes the word now; and has
 * that work go on until the word, which has the value `there`, had a value that ends the wait.
 * waited: it was not there at once. Lock held. */
void value_time_written(const struct word *word, uint64_t value);
/* Lock held. */
void value_time_awaited(const struct awaited *awaited, uint64_t there, bool waited);

/* Whether a word with the value `there` ends the wait. Lock not needed. */
bool value_ends(const struct awaited *awaited, uint64_t there);

#endif
