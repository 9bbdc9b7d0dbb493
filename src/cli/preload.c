#include "cli/preload.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As ld.so separates them. */
static const char separators[] = " :";

/* The link and its folder; "" while there is none. */
static char link_folder[PATH_MAX], link_path[PATH_MAX + 32];

/* Where the name of the path of `length` bytes begins. */
static const char *name_in(const char *path, size_t length) {
    const char *name = path + length;
    while (name > path && name[-1] != '/')
        name--;
    return name;
}

/* Whether it is the path of a libpoolcuda.so. */
static bool is_pool(const char *path, size_t length) {
    static const char expected[] = "libpoolcuda.so";
    const char *name = name_in(path, length);
    return (size_t)(path + length - name) == sizeof expected - 1 &&
           memcmp(name, expected, sizeof expected - 1) == 0;
}

/* Whether it is the path of AddressSanitizer's runtime, which refuses to come second. */
static bool must_be_first(const char *path, size_t length) {
    static const char *const runtimes[] = {"libasan.so", "libclang_rt.asan"};
    const char *name = name_in(path, length);
    for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++)
        if (strncmp(name, runtimes[i], strlen(runtimes[i])) == 0)
            return true;
    return false;
}

/* How many bytes of the value stay before the pool. */
static size_t length_before(const char *value) {
    size_t before = 0;
    for (;;) {
        size_t start = before + strspn(value + before, separators);
        size_t length = strcspn(value + start, separators);
        if (!length || !must_be_first(value + start, length))
            return before;
        before = start + length;
    }
}

/* What an object of this machine's kind begins with. */
struct kind {
    unsigned char identification[EI_NIDENT];
    uint16_t type, machine;
};

static bool read_kind(const char *path, struct kind *kind) {
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool read = file >= 0 && pread(file, kind, sizeof *kind, 0) == (ssize_t)sizeof *kind &&
                memcmp(kind->identification, ELFMAG, SELFMAG) == 0;
    if (file >= 0)
        close(file);
    return read;
}

/* Whether ld.so would load it: what is empty or of another kind of machine it passes over. A name
 * without a slash is searched for, and taken as found. */
static bool is_there(const char *path, size_t length) {
    char copy[PATH_MAX];
    struct kind kind, own;
    if (!memchr(path, '/', length))
        return true;
    return snprintf(copy, sizeof copy, "%.*s", (int)length, path) < (int)sizeof copy &&
           read_kind(copy, &kind) && kind.type == ET_DYN && read_kind("/proc/self/exe", &own) &&
           kind.identification[EI_CLASS] == own.identification[EI_CLASS] &&
           kind.machine == own.machine;
}

static bool names_pool(const char *value) {
    while (value && *value) {
        size_t length = strcspn(value, separators);
        if (is_pool(value, length) && is_there(value, length))
            return true;
        value += length;
        value += strspn(value, separators);
    }
    return false;
}

/* A copy of the value that names no pool. NULL without memory. */
static char *without_pools(const char *value) {
    char *rest = strdup(value), *to = rest;
    for (const char *at = value; rest && *at;) {
        size_t length = strcspn(at, separators), next = length + strspn(at + length, separators);
        if (!is_pool(at, length)) {
            memmove(to, at, next);
            to += next;
        } else if (!at[next]) {
            while (to > rest && strchr(separators, to[-1]))
                to--;
        }
        at += next;
    }
    if (rest)
        *to = '\0';
    return rest;
}

void preload_leave(char *const *argv) {
    const char *value = getenv("LD_PRELOAD");
    char *rest = value && names_pool(value) ? without_pools(value) : NULL;
    if (rest && setenv("LD_PRELOAD", rest, 1) == 0)
        execv("/proc/self/exe", argv);
    free(rest);
}

bool preload_can_hold(const char *path) {
    return !path[strcspn(path, separators)];
}

static bool make_link(const char *library) {
    const char *const places[] = {getenv("TMPDIR"), "/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!places[i] || *places[i] != '/' || !preload_can_hold(places[i]) ||
            snprintf(link_folder, sizeof link_folder, "%s/poolcuda.XXXXXX", places[i]) >=
                (int)sizeof link_folder ||
            !mkdtemp(link_folder))
            continue;
        snprintf(link_path, sizeof link_path, "%s/libpoolcuda.so", link_folder);
        if (symlink(library, link_path) == 0)
            return true;
        rmdir(link_folder);
    }
    *link_folder = '\0';
    return false;
}

static char *join(const char *value, const char *library) {
    char *joined;
    int before = (int)length_before(value);
    const char *behind = value + before;
    behind += strspn(behind, separators);
    if (asprintf(&joined, "%.*s%s%s%s%s", before, value, before ? ":" : "", library,
                 *behind ? ":" : "", behind) < 0)
        return NULL;
    return joined;
}

char *preload_value(const char *value, const char *library) {
    if (!value || !value[strspn(value, separators)])
        value = "";
    if (names_pool(value))
        return strdup(value);
    if (!preload_can_hold(library)) {
        if (!*link_folder && !make_link(library))
            return NULL;
        library = link_path;
    }
    return join(value, library);
}

/* Whether the first entry of the value is that file, by whatever path. */
static bool begins_with(const char *value, const char *library) {
    char copy[PATH_MAX];
    struct stat named, meant;
    const char *first = value + length_before(value);
    first += strspn(first, separators);
    int length = (int)strcspn(first, separators);
    return is_pool(first, (size_t)length) && memchr(first, '/', (size_t)length) &&
           snprintf(copy, sizeof copy, "%.*s", length, first) < (int)sizeof copy &&
           stat(copy, &named) == 0 && stat(library, &meant) == 0 && named.st_dev == meant.st_dev &&
           named.st_ino == meant.st_ino;
}

char *preload_value_of(const char *value, const char *library) {
    if (begins_with(value, library))
        return strdup(value);
    char *rest = without_pools(value);
    char *joined = rest ? join(rest[strspn(rest, separators)] ? rest : "", library) : NULL;
    free(rest);
    return joined;
}

void preload_remove_link(void) {
    if (*link_folder) {
        unlink(link_path);
        rmdir(link_folder);
        *link_folder = '\0';
    }
}
