/* The driver functions that have no hook of their own: what each means for the waits that frees
 * owe, and whether it can run out of memory. The table is entry_points.def. */
#ifndef POOLCUDA_INTERPOSE_STUBS_H
#define POOLCUDA_INTERPOSE_STUBS_H

#include "interpose/entry_points.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What to hand out instead of `found`, the driver's function that dlsym found as `name`, or that
 * cuGetProcAddress found as `base`, in its per-thread form or not: a stub, or `found` itself if
 * nothing needs to stand before it. Of names that the table does not know, only those that `known`
 * says are the driver's get one. */
void *stubs_replace_symbol(const char *name, void *found);
void *stubs_replace_base(const char *base, void *found, bool per_thread);

/* In a forked child: what the pool has been notified of so far it must hear again. */
void stubs_forget_after_fork(void);

/* What is kept of each stub: stub_calls.c has it, stubs.S reads it. */

enum {
    STUB_SPARES = 1024, /* as in stubs.S */
    STUB_SIZE = 16,
};

/* What stubs.S reads of each stub. `real` is valid once `look` is not 0: then nothing is to be done
 * for the function unless order_word has one of the first bits. Where the word has ORDER_TRACKED
 * alone of them, nothing is to be done either if the stream is noted (order/noted.h). How stub_call
 * finds that: LOOK_STREAM: its place in words from the frame; LOOK_DEFAULT: which one a null stream
 * is; LOOK_INSIDE: that place points to a CUlaunchConfig, which has it. */
struct stub_entry {
    _Atomic(void *) real;
    atomic_uint look;
    uint32_t words; /* of a spare one: stack arguments to copy; WORDS_UNKNOWN: so many if they are
                       there */
};
extern struct stub_entry stub_entries[ENTRIES + STUB_SPARES] __attribute__((visibility("hidden")));

/* The number of the spare stub that stands before `function`, which the table knows under no symbol
 * of this address. Negative if there are none left: then no wait may be owed any more. */
int stub_spare_number(void *function, const char *name, const struct entry *entry);

#endif
