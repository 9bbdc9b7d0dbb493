/* Reading a file by bare system calls, as raw_files.h does what else is done with files. */
#ifndef POOLCUDA_BASE_RAW_READ_H
#define POOLCUDA_BASE_RAW_READ_H

#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int raw_openat(int folder, const char *name, int flags, unsigned mode) {
    return (int)syscall(SYS_openat, folder, name, flags, mode);
}

static inline ssize_t raw_read(int file, void *to, size_t bytes) {
    return syscall(SYS_read, file, to, bytes);
}

#endif
