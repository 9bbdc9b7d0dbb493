/* Holding off signals for a moment, in which none of their handlers forks or leaves by longjmp.
 *
 * The kernel's set of signals. Bare system calls: each function of libc's that the library uses is
 * looked up at the start of every program. */
#ifndef POOLCUDA_BASE_SIGNALS_H
#define POOLCUDA_BASE_SIGNALS_H

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIGNALS_ONE(number) (UINT64_C(1) << ((number)-1))

/* Holds off all that can wait: a fault's cannot. Returns what was held off before. */
static inline uint64_t signals_hold(void) {
    const uint64_t no_faults = ~(SIGNALS_ONE(SIGSEGV) | SIGNALS_ONE(SIGBUS) | SIGNALS_ONE(SIGILL) |
                                 SIGNALS_ONE(SIGFPE) | SIGNALS_ONE(SIGTRAP) | SIGNALS_ONE(SIGSYS));
    uint64_t before = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &no_faults, &before, sizeof before);
    return before;
}

static inline void signals_let_come(uint64_t before) {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

#endif
