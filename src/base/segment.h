/* Memory that several processes map, by its number: a segment of System V.
 *
 * Nobody can make it shorter, so that none who maps it can be ended by SIGBUS, as one can who maps
 * a file. It needs no descriptor and no file system; other users cannot map it. Bare system calls,
 * as in raw_files.h. */
#ifndef POOLCUDA_BASE_SEGMENT_H
#define POOLCUDA_BASE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes and maps one, zeroed; memory is taken where it is touched. NULL: not possible. It stays
 * mapped. */
void *segment_make(size_t size, int *number);

/* Maps one that `owner` has made, of at least this size, until the same thread leaves it. A child
 * that is forked meanwhile does not have it. NULL: there is none, it is closed to this user, or
 * hundreds are joined. */
void *segment_join(int number, size_t size, bool writable, uint32_t owner);
void segment_leave(void *segment, size_t size);

/* In a forked child: what its thread has joined is zeros of its own from here on. A signal's
 * handler may have forked while it was in use, which goes on in the child. */
void segment_forget_after_fork(void);

/* Has it end with the last process that maps it; without this it stays until the machine's end. It
 * can be joined for as long as it is there. */
void segment_let_end(int number);

#endif
