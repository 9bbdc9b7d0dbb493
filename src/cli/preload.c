#include "cli/preload.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Whether ld.so would find it; a name without a slash is searched for, and taken as found. */
static bool is_there(const char *path, size_t length) {
    char copy[PATH_MAX];
    if (!memchr(path, '/', length))
        return true;
    return snprintf(copy, sizeof copy, "%.*s", (int)length, path) < (int)sizeof copy &&
           access(copy, R_OK) == 0;
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

void preload_leave(char *const *argv) {
    const char *value = getenv("LD_PRELOAD");
    char *rest = value && names_pool(value) ? strdup(value) : NULL, *to = rest;
    if (!rest)
        return;
    for (const char *at = value; *at;) {
        size_t length = strcspn(at, separators), next = length + strspn(at + length, separators);
        if (!is_pool(at, length)) {
            memmove(to, at, next);
            to += next;
        }
        at += next;
    }
    *to = '\0';
    if (setenv("LD_PRELOAD", rest, 1) == 0)
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

char *preload_value(const char *value, const char *library) {
    char *joined;
    if (!value || !value[strspn(value, separators)])
        value = "";
    if (names_pool(value))
        return strdup(value);
    if (!preload_can_hold(library)) {
        if (!*link_folder && !make_link(library))
            return NULL;
        library = link_path;
    }
    int before = (int)length_before(value);
    const char *behind = value + before;
    behind += strspn(behind, separators);
    if (asprintf(&joined, "%.*s%s%s%s%s", before, value, before ? ":" : "", library,
                 *behind ? ":" : "", behind) < 0)
        return NULL;
    return joined;
}

void preload_remove_link(void) {
    if (*link_folder) {
        unlink(link_path);
        rmdir(link_folder);
        *link_folder = '\0';
    }
}
