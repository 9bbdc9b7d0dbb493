/* Sleeping until a number changes, among the threads of this process. These are bare system calls:
 * libc's waits may end a cancelled thread, which would leave locks behind. */
#ifndef POOLCUDA_FUTEX_H
#define POOLCUDA_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns at once if *number is no longer `seen`; else when futex_change wakes it, after `most`
 * (NULL: there is no limit), or for no reason. */
static inline void futex_wait(atomic_int *number, int seen, const struct timespec *most) {
    syscall(SYS_futex, number, FUTEX_WAIT_PRIVATE, seen, most, NULL, 0);
}

/* Changes the number, and wakes all who wait. */
static inline void futex_change(atomic_int *number) {
    atomic_fetch_add(number, 1);
    syscall(SYS_futex, number, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
