/* Words of memory that streams wait for and write: a kernel's flag, a stream memory operation's
 * value, a semaphore's. */
#ifndef SIMCUDA_VALUES_H
#define SIMCUDA_VALUES_H

#include "cuda_symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The first 8 bytes of a file that processes share. It stays mapped while there are references. */
struct outside_word {
    uint64_t *memory;
    unsigned int references;
    dev_t device; /* the file's */
    ino_t inode;
    struct outside_word *next;
};

/* With a reference for the caller. NULL: it is no such file. Lock held. */
struct outside_word *outside_word_map(int file);
/* Lock held. */
void outside_word_keep(struct outside_word *word);
/* NULL is nothing. Lock held. */
void outside_word_drop(struct outside_word *word);

/* In a file, which has `bytes` 8, or, where `outside` is NULL, at a device's address. */
struct word {
    CUdeviceptr address;
    struct outside_word *outside;
    unsigned int bytes; /* 4 or 8; where a kernel looks at it also 1 or 2 */
};

enum { VALUE_NOT_LESS = CU_STREAM_WAIT_VALUE_NOR + 1, VALUE_DIFFERS };

struct awaited {
    struct word word;
    /* CU_STREAM_WAIT_VALUE_GEQ to _NOR, VALUE_NOT_LESS (no wrapping), or VALUE_DIFFERS. */
    unsigned int condition;
    uint64_t value;
};

/* Both are for work. ILLEGAL_ADDRESS: there is no memory, or no longer. A wait ends with the error
 * of its context, too, whose work is all over then. Lock not held. */
CUresult value_await(const struct awaited *awaited);
/* Lock not held. */
CUresult value_write(const struct word *word, uint64_t value);

/* A wait of a stream's for what the host may have to do: one of the words ends it. */
struct value_wait {
    const struct awaited *awaited;
    size_t count;
    struct CUctx_st *context; /* whose error ends it, too */
    pid_t thread;             /* which polls for it */
    struct value_wait *prev, *next;
};

/* A wait of the work that this thread executes, which polls from now on. Lock held. */
void value_wait_begin(struct value_wait *wait, const struct awaited *awaited, size_t count);
/* Lock held. */
void value_wait_end(struct value_wait *wait);
/* Whether the word has a value that ends the wait; the value. False also if it has no memory. Lock
 * held. */
bool value_is_there(const struct awaited *awaited, uint64_t *there);

/* The waits that go on now. Lock held. */
const struct value_wait *value_waits(void);
/* How many have begun or ended so far. Lock held. */
uint64_t value_wait_changes(void);
/* Whether the wait ends without the process's doing anything more. Lock held. */
bool value_wait_may_end(const struct value_wait *wait);
/* Whether one of them is about to end, since its value is there. Lock held. */
bool value_waits_are_ending(void);

/* --- virtual time. All below: lock held. --- */

/* Notes that the work which this thread executes writes the word now. */
void value_time_written(const struct word *word, uint64_t value);
uint64_t value_time_writes(void); /* how many were noted so far */

/* Has the work that this thread executes go on until the word, which has the value `there`, had a
 * value that ends the wait. waited_since != NULL: it had none at first, after so many writes. */
void value_time_awaited(const struct awaited *awaited, uint64_t there,
                        const uint64_t *waited_since);

/* Has the work that this thread executes, which has read this memory, come after the last write to
 * each word in it that is one of the first `before`. Words written again since say nothing. */
void value_time_read(uintptr_t begin, size_t size, uint64_t before);

/* The memory goes; others may get its addresses. */
void value_time_forget(uintptr_t begin, size_t size);

/* Whether a word with the value `there` ends the wait. Lock not needed. */
bool value_ends(const struct awaited *awaited, uint64_t there);

#endif
