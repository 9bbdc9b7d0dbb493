/* Whether a word holds an address of plain host memory: memory that the process can read, and that
 * the driver knows nothing of.
 *
 * For machines whose GPU reaches such memory (pool_awaits_host_addresses). A word that happens to
 * look like one is taken for one: that costs waits. What is not recognised: an address of memory
 * that is mapped only later, or whose page held something else (device memory, nothing) when a word
 * with an address in it was last looked at, which is forgotten after HOST_ADDRESSES_LOOKS calls and
 * whenever the program or the pool gives memory back.
 *
 * Thread-safe, without a lock; a call takes a bounded number of instructions a word, and for a word
 * that is new at most two system calls and one of the driver's. */
#ifndef POOLCUDA_INTERPOSE_HOST_ADDRESSES_H
#define POOLCUDA_INTERPOSE_HOST_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOST_ADDRESSES_LOOKS = 256 };

/* To be called before the words of one call are looked at: `now` is for them. */
uint64_t host_addresses_begin(void);
bool host_address_is(uint64_t word, uint64_t now);
/* Whether one of the 8-byte words that follow each other from `at` on is. The memory is readable.
 */
bool host_addresses_among(const void *at, size_t bytes, uint64_t now);
/* As host_addresses_among, of memory that may not be readable: then none is. */
bool host_addresses_in(uint64_t at, size_t bytes, uint64_t now);

/* Whether there is memory that the host uses as well, plain, pinned or managed. Asks the driver. */
bool host_can_change(uint64_t at);

/* What was learnt may be true no more: memory is given back. */
void host_addresses_forget(void);

#endif
