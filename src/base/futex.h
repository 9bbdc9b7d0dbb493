/* Sleeping until a number changes, among the threads of this process, or for a moment. These are
 * bare system calls: libc's waits may end a cancelled thread, which would leave locks behind. */
#ifndef POOLCUDA_BASE_FUTEX_H
#define POOLCUDA_BASE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The call itself, of which nobody asks how it has ended, and which leaves errno alone: a miss
 * may make one. */
static inline void futex_call(atomic_int *number, int operation, int value,
                              const struct timespec *most) {
#if defined(__x86_64__)
    register const struct timespec *fourth __asm__("r10") = most;
    long call = SYS_futex;
    __asm__ volatile("syscall"
                     : "+a"(call)
                     : "D"(number), "S"((long)operation), "d"((long)value), "r"(fourth)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long call __asm__("x8") = SYS_futex;
    register atomic_int *first __asm__("x0") = number;
    register long second __asm__("x1") = operation;
    register long third __asm__("x2") = value;
    register const struct timespec *fourth __asm__("x3") = most;
    __asm__ volatile("svc 0"
                     : "+r"(first)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth)
                     : "memory");
#else
#error "unsupported architecture"
#endif
}

/* Returns at once if *number is no longer `seen`; else when futex_change wakes it, after `most`
 * (NULL: there is no limit), or for no reason. */
static inline void futex_wait(atomic_int *number, int seen, const struct timespec *most) {
    futex_call(number, FUTEX_WAIT_PRIVATE, seen, most);
}

/* Waits for a moment: for what another thread is about to do. */
static inline void futex_pause(void) {
    const struct timespec moment = {.tv_nsec = 50 * 1000};
    syscall(SYS_nanosleep, &moment, NULL);
}

/* Changes the number, and wakes all who wait. */
static inline void futex_change(atomic_int *number) {
    atomic_fetch_add(number, 1);
    futex_call(number, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
}

#endif
