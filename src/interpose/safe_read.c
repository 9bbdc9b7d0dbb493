#include "interpose/safe_read.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 }; /* or a multiple of it */

/* The kernel reads the word before it finds that there is no such operation. */
bool safe_read_can(uintptr_t address) {
    int saved = errno;
    errno = 0;
    bool readable =
        syscall(SYS_rt_sigprocmask, -1, address, NULL, sizeof(uint64_t)) == -1 && errno == EINVAL;
    errno = saved;
    return readable;
}

/* Byte by byte, and not by memcpy, before which a sanitizer would look whether it knows of the
 * memory. */
__attribute__((no_sanitize("address"), no_sanitize("thread"))) bool
safe_read(void *to, uintptr_t from, size_t size) {
    if (from > UINTPTR_MAX - PAGE || size > UINTPTR_MAX - PAGE - from)
        return false;
    for (uintptr_t page = from / PAGE * PAGE; page < from + size; page += PAGE)
        if (!safe_read_can(page < from ? from / sizeof(uint64_t) * sizeof(uint64_t) : page))
            return false;
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = ((const volatile char *)from)[i];
    return true;
}

uintptr_t safe_read_word(uintptr_t address) {
    uintptr_t word = 0;
    return safe_read(&word, address, sizeof word) ? word : 0;
}
