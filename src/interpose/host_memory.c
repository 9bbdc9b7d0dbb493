#include "interpose/host_memory.h"

#include "base/raw_read.h"

#include <sys/sysinfo.h>

/* The number that the file begins with; UINT64_MAX if there is none ("max", or no such file). */
static uint64_t read_limit(const char *path) {
    char text[32];
    int file = raw_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t length = file >= 0 ? raw_read(file, text, sizeof text) : 0;
    uint64_t limit = 0;
    if (file >= 0)
        close(file);
    if (length <= 0 || text[0] < '0' || text[0] > '9')
        return UINT64_MAX;
    for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++)
        limit = limit * 10 + (uint64_t)(text[i] - '0');
    return limit;
}

/* Inside a container its own group is the root of what can be seen. */
uint64_t host_memory_size(void) {
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    struct sysinfo machine;
    uint64_t size =
        syscall(SYS_sysinfo, &machine) == 0 ? (uint64_t)machine.totalram * machine.mem_unit : 0;
    for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        uint64_t limit = read_limit(limits[i]);
        size = limit < size ? limit : size;
    }
    return size;
}
