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

static bool names_pool(const char *value) {
    static const char name[] = "libpoolcuda.so";
    while (value && *value) {
        size_t length = strcspn(value, separators), start = length;
        while (start && value[start - 1] != '/')
            start--;
        if (length - start == sizeof name - 1 && memcmp(value + start, name, sizeof name - 1) == 0)
            return true;
        value += length;
        value += strspn(value, separators);
    }
    return false;
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
