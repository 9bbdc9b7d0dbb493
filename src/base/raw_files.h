/* File operations as bare system calls: operations that the preloaded object needs and does not
 * import, since every import costs every program at its start. Results and errno are those of the
 * functions that they are named after. */
#ifndef POOLCUDA_BASE_RAW_FILES_H
#define POOLCUDA_BASE_RAW_FILES_H

#include "base/raw_read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int raw_mkdir(const char *name, unsigned mode) {
    return (int)syscall(SYS_mkdirat, AT_FDCWD, name, mode);
}

/* Another descriptor for the same file, of that number or above; -1: there is none. */
static inline int raw_copy_from(int file, int least) {
    return (int)syscall(SYS_fcntl, file, F_DUPFD_CLOEXEC, least);
}

/* Moves our descriptor above the standard ones: a program may have closed its standard files, and
 * what it writes to them must not come to lie in ours. */
static inline int raw_above_standard(int file) {
    if (file < 0 || file > STDERR_FILENO)
        return file;
    int moved = raw_copy_from(file, STDERR_FILENO + 1);
    close(file);
    return moved;
}

/* The least number of a file that stays open: programs count on the low ones, which they get, or
 * choose for what they duplicate. */
enum { RAW_KEPT_FROM = 40 };

/* Another descriptor for the same file, which stays open. */
static inline int raw_copy_kept(int file) {
    int copy = raw_copy_from(file, RAW_KEPT_FROM);
    return copy < 0 ? raw_copy_from(file, STDERR_FILENO + 1) : copy; /* of few that are allowed */
}

/* Moves our descriptor to where files are that stay open. */
static inline int raw_keep(int file) {
    int moved = file < 0 || file >= RAW_KEPT_FROM ? -1 : raw_copy_from(file, RAW_KEPT_FROM);
    if (moved < 0)
        return raw_above_standard(file);
    close(file);
    return moved;
}

/* Waits until something can be written, at most so long. False: nothing can be. */
static inline bool raw_wait_to_write(int file, unsigned milliseconds) {
    struct pollfd ready = {.fd = file, .events = POLLOUT};
    struct timespec most = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    long count; /* the kernel takes from `most` what has gone by */
    do
        count = syscall(SYS_ppoll, &ready, 1, &most, NULL, 0);
    while (count < 0 && errno == EINTR);
    return count != 0; /* where it cannot be asked, the write tells */
}

/* Whether a file may be so long: if not, trying would be answered by a signal. */
static inline bool raw_may_be_as_long(uint64_t bytes) {
    struct rlimit limit;
    return syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 && limit.rlim_cur >= bytes;
}

static inline int raw_stat(const char *name, struct stat *status) {
    return (int)syscall(SYS_newfstatat, AT_FDCWD, name, status, 0);
}

/* Describes the entry itself, if it is a link. */
static inline int raw_lstatat(int folder, const char *name, struct stat *status) {
    return (int)syscall(SYS_newfstatat, folder, name, status, AT_SYMLINK_NOFOLLOW);
}

static inline int raw_fstat(int file, struct stat *status) {
    return (int)syscall(SYS_fstat, file, status);
}

static inline int raw_unlinkat(int folder, const char *name) {
    return (int)syscall(SYS_unlinkat, folder, name, 0);
}

/* Removes an entry, whatever it is; of folders only an empty one. */
static inline int raw_remove(int folder, const char *name) {
    int result = raw_unlinkat(folder, name);
    return result != 0 && errno == EISDIR ? (int)syscall(SYS_unlinkat, folder, name, AT_REMOVEDIR)
                                          : result;
}

static inline int raw_linkat(int folder, const char *from, const char *to) {
    return (int)syscall(SYS_linkat, folder, from, folder, to, 0);
}

static inline int raw_symlinkat(const char *target, int folder, const char *name) {
    return (int)syscall(SYS_symlinkat, target, folder, name);
}

static inline ssize_t raw_readlinkat(int folder, const char *name, char *target, size_t size) {
    return syscall(SYS_readlinkat, folder, name, target, size);
}

static inline int raw_fallocate(int file, off_t offset, off_t length) {
    return (int)syscall(SYS_fallocate, file, 0, offset, length);
}

static inline ssize_t raw_pread(int file, void *to, size_t size, off_t offset) {
    return syscall(SYS_pread64, file, to, size, offset);
}

static inline ssize_t raw_pwrite(int file, const void *from, size_t size, off_t offset) {
    return syscall(SYS_pwrite64, file, from, size, offset);
}

static inline ssize_t raw_getdents(int folder, void *to, size_t size) {
    return syscall(SYS_getdents64, folder, to, size);
}

/* Returns the length with the final zero; -1: it does not fit. */
static inline ssize_t raw_getcwd(char *to, size_t size) {
    return syscall(SYS_getcwd, to, size);
}

#endif
