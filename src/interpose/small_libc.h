/* What small_libc.c has beside the functions of libc that it stands for. Builds with a sanitizer do
 * without it. */
#ifndef POOLCUDA_INTERPOSE_SMALL_LIBC_H
#define POOLCUDA_INTERPOSE_SMALL_LIBC_H

/* From here on all system calls are answered with ENOSYS, without one, but for what every allocator
 * needs: futexes, memory, and the line or report that is written on the user's demand. */
void small_libc_make_few_calls(void) __attribute__((weak, visibility("hidden")));

#endif
