/* The few string functions that this object uses, and its simplest system calls, as its own hidden
 * copies.
 *
 * Every imported symbol costs several hundred instructions at the start of every process that the
 * object is preloaded into: shells and compilers as much as CUDA programs. These are the simplest
 * of them; none is used on long data but once, at exit. The compiler may call memcpy, memset and
 * memcmp on its own account too.
 *
 * errno is this object's own as well: what its system calls say is not the program's affair, which
 * finds its errno as it was. None of the calls is a place where a thread may be cancelled: our
 * locks would never be dropped. */
#include "interpose/small_libc.h"

#include "base/by_pointer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef __clang__ /* gcc would turn the loop of memcpy into a call of memcpy */
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

HIDDEN void *memset(void *to, int value, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = (char)value;
    return to;
}

HIDDEN int memcmp(const void *one, const void *other, size_t size) {
    const unsigned char *a = one, *b = other;
    for (size_t i = 0; i < size; i++)
        if (a[i] != b[i])
            return a[i] - b[i];
    return 0;
}

static int lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter;
}

/* The letters are ASCII's, whatever the locale. */
HIDDEN int strncasecmp(const char *one, const char *other, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (lower(one[i]) != lower(other[i]) || !one[i])
            return lower(one[i]) - lower(other[i]);
    return 0;
}

HIDDEN void *memmove(void *to, const void *from, size_t size) {
    if ((uintptr_t)to <= (uintptr_t)from)
        return memcpy(to, from, size);
    /* A table's words, by the thousand: a word at a time. Each is read before anything of it is
     * written, as what is written lies above what is still to be read. */
    for (uint64_t word; size >= sizeof word; size -= sizeof word) {
        __builtin_memcpy(&word, (const char *)from + size - sizeof word, sizeof word);
        __builtin_memcpy((char *)to + size - sizeof word, &word, sizeof word);
    }
    while (size--)
        ((char *)to)[size] = ((const char *)from)[size];
    return to;
}

static void swap(char *one, char *other, size_t size) {
    for (size_t i = 0; i < size; i++) {
        char kept = one[i];
        one[i] = other[i];
        other[i] = kept;
    }
}

/* Lets the element at `at` sink into the heap below it, whose greatest is on top. */
static void sink(char *array, size_t at, size_t count, size_t size,
                 int (*compare)(const void *, const void *)) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && compare(array + child * size, array + (child + 1) * size) < 0)
            child++;
        if (compare(array + at * size, array + child * size) >= 0)
            return;
        swap(array + at * size, array + child * size, size);
    }
}

HIDDEN void qsort(void *array, size_t count, size_t size,
                  int (*compare)(const void *, const void *)) {
    for (size_t at = count / 2; at-- > 0;)
        sink(array, at, count, size, compare);
    for (size_t end = count; end-- > 1;) {
        swap(array, (char *)array + end * size, size);
        sink(array, 0, end, size, compare);
    }
}

HIDDEN size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

HIDDEN int strncmp(const char *one, const char *other, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (one[i] != other[i] || !one[i])
            return (unsigned char)one[i] - (unsigned char)other[i];
    return 0;
}

HIDDEN int strcmp(const char *one, const char *other) {
    return strncmp(one, other, (size_t)-1);
}

HIDDEN char *strchr(const char *text, int letter) {
    for (;; text++) {
        if (*text == (char)letter)
            return (char *)text;
        if (!*text)
            return NULL;
    }
}

HIDDEN char *strrchr(const char *text, int letter) {
    const char *found = NULL;
    for (;; text++) {
        if (*text == (char)letter)
            found = text;
        if (!*text)
            return (char *)found;
    }
}

HIDDEN char *strstr(const char *text, const char *part) {
    size_t length = strlen(part);
    for (; strncmp(text, part, length) != 0; text++)
        if (!*text)
            return NULL;
    return (char *)text;
}

static __thread int own_errno;
static bool few_calls;
static pid_t process; /* known where few calls are made */

BY_POINTER void small_libc_make_few_calls(void) {
    if (few_calls)
        return;
    process = getpid();
    few_calls = true;
}

static bool is_allocators(long number) {
    return number == SYS_futex || number == SYS_mmap || number == SYS_munmap ||
           number == SYS_write || number == SYS_exit_group;
}

HIDDEN int *__errno_location(void) {
    return &own_errno;
}

/* A sleep is a wait for what does not change. */
__attribute__((noinline, cold)) static long without_call(long number, long first) {
    static const int nobody_changes;
    if (number == SYS_nanosleep)
        return syscall(SYS_futex, &nobody_changes, FUTEX_WAIT_PRIVATE, 0, first, NULL, 0);
    own_errno = ENOSYS;
    return -1;
}

/* syscall(), whose arguments lie where these do. A caller gives as many as its call takes; the rest
 * is what happens to be in the registers, as in libc. */
HIDDEN long any_syscall(long number, long a, long b, long c, long d, long e,
                        long f) __asm__("syscall");
HIDDEN long any_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (__builtin_expect(few_calls, 0) && !is_allocators(number))
        return without_call(number, a);
#if defined(__x86_64__)
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    register long sixth __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long which __asm__("x8") = number;
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    register long sixth __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
#else
#error "unsupported architecture"
#endif
    enum { MOST_ERRORS = 4095 };
    if (result >= 0 || result < -MOST_ERRORS)
        return result;
    own_errno = (int)-result;
    return -1;
}

HIDDEN pid_t getpid(void) {
    return few_calls ? process : (pid_t)syscall(SYS_getpid);
}

HIDDEN ssize_t readlink(const char *restrict path, char *restrict target, size_t size) {
    return syscall(SYS_readlinkat, AT_FDCWD, path, target, size);
}

HIDDEN int nanosleep(const struct timespec *wanted, struct timespec *rest) {
    return (int)syscall(SYS_nanosleep, wanted, rest);
}

HIDDEN ssize_t write(int file, const void *from, size_t size) {
    return syscall(SYS_write, file, from, size);
}

HIDDEN off_t lseek(int file, off_t offset, int whence) {
    return syscall(SYS_lseek, file, offset, whence);
}

HIDDEN int ftruncate(int file, off_t length) {
    return (int)syscall(SYS_ftruncate, file, length);
}

HIDDEN int close(int file) {
    return (int)syscall(SYS_close, file);
}

HIDDEN void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

HIDDEN int munmap(void *address, size_t length) {
    return (int)syscall(SYS_munmap, address, length);
}
