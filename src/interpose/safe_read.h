/* Reads of memory that may not be there, which a plain read would pay for with SIGSEGV.
 *
 * The kernel is asked first, by a call that every program makes for each of its threads, so that
 * few filters of seccomp mind it. Whether the memory stays there until it is read is the caller's
 * affair: it has to be of the calling thread's own. */
#ifndef POOLCUDA_INTERPOSE_SAFE_READ_H
#define POOLCUDA_INTERPOSE_SAFE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the word at `address` can be read; it may lie on two pages. False, too, where the kernel
 * cannot be asked. */
bool safe_read_can(uintptr_t address);

/* Copies the bytes, if all of them can be read. */
bool safe_read(void *to, uintptr_t from, size_t size);

/* The word at `address`; 0 if it cannot be read. */
uintptr_t safe_read_word(uintptr_t address);

#endif
