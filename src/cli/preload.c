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

/* Whether the path of `length` bytes is that of a libpoolcuda.so. */
static bool is_pool(const char *path, size_t length) {
    static const char name[] = "libpoolcuda.so";
    size_t start = length;
    while (start && path[start - 1] != '/')
        start--;
    return length - start == sizeof name - 1 && memcmp(path + start, name, sizeof name - 1) == 0;
}

static bool names_pool(const char *value) {
    while (value && *value) {
        size_t length = strcspn(value, separators);
        if (is_pool(value, length))
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
    bool empty = !value || !value[strspn(value, separators)];
    if (names_pool(value))
        return strdup(value);
    if (!preload_can_hold(library)) {
        if (!*link_folder && !make_link(library))
            return NULL;
        library = link_path;
    }
    if (asprintf(&joined, "%s%s%s", empty ? "" : value, empty ? "" : ":", library) < 0)
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
