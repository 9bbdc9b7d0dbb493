/* A program that shuts itself in by seccomp, after which the kernel may end it for any system call.
 *
 * What the library has to do by system calls, it does before that: its files are closed and its
 * page is taken out of the folder. From there on it pools without any but those that every
 * allocator makes (small_libc.c). A program that does so before it uses CUDA is left alone.
 *
 * The one sign beforehand is prctl, for a filter needs no-new-privileges, or a right that few
 * programs have. A filter that was there when the program was started cannot be told from none. */
#include "interpose/small_libc.h"
#include "interpose/state.h"

#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* libc's, which sets the program's errno. */
#if defined(__x86_64__)
__asm__(".symver libc_syscall, syscall@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver libc_syscall, syscall@GLIBC_2.17");
#endif
long libc_syscall(long number, ...);

__attribute__((visibility("default"))) int prctl(int option, ...) {
    enum { ARGUMENTS = 4 };
    unsigned long given[ARGUMENTS];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < ARGUMENTS; i++)
        given[i] = va_arg(list, unsigned long);
    va_end(list);
    if ((option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) && state_shut_in() &&
        small_libc_make_few_calls)
        small_libc_make_few_calls();
    return (int)libc_syscall(SYS_prctl, option, given[0], given[1], given[2], given[3]);
}
