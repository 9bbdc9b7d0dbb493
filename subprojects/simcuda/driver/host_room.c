/* The least of what /proc/meminfo says is available and of what each control group around the
 * process has left. Memory that the kernel keeps of files is no obstacle: it gives that up first.
 */
#include "host_room.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 1024, LINE_ROOM = 1024 }; /* callers may have small stacks */

/* Where the two versions of control groups say what. */
struct version {
    const char *mounts[3]; /* where its tree may be */
    const char *limit, *used, *reclaimable;
};

static const struct version first = {{"/sys/fs/cgroup/memory", NULL},
                                     "memory.limit_in_bytes",
                                     "memory.usage_in_bytes",
                                     "total_inactive_file"};
static const struct version second = {{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL},
                                      "memory.max",
                                      "memory.current",
                                      "inactive_file"};

/* The number behind `key` at the begin of a line of the file (NULL: its first word, "max" being
 * no number). */
static bool read_number(const char *path, const char *key, uint64_t *number) {
    FILE *file = fopen(path, "re");
    size_t length = key != NULL ? strlen(key) : 0;
    char line[LINE_ROOM], *end = line;

    if (file == NULL)
        return false;
    while (end == line && fgets(line, sizeof line, file) != NULL) {
        if (key != NULL && (strncmp(line, key, length) != 0 || strchr(": ", line[length]) == NULL))
            continue;
        *number = strtoull(line + length + (key != NULL), &end, 10);
        if (end == line + length + (key != NULL))
            end = line;
        if (key == NULL)
            break;
    }
    fclose(file);
    return end != line;
}

/* What one group has left. */
static uint64_t left_in(const char *folder, const struct version *version) {
    uint64_t limit, used, reclaimable;
    char path[PATH_ROOM + 64];

    snprintf(path, sizeof path, "%s/%s", folder, version->limit);
    if (!read_number(path, NULL, &limit))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, version->used);
    if (!read_number(path, NULL, &used))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (!read_number(path, version->reclaimable, &reclaimable))
        reclaimable = 0;
    used -= used < reclaimable ? used : reclaimable;
    return limit > used ? limit - used : 0;
}

static uint64_t lesser(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* What a group and all those around it have left: in a container its name may be one outside, and
 * then only the tree's root is there. */
static uint64_t left_around(const char *root, const char *group, const struct version *version) {
    uint64_t left = UINT64_MAX;

    for (const char *const *mount = version->mounts; *mount != NULL; mount++) {
        char folder[PATH_ROOM];
        size_t base = (size_t)snprintf(folder, sizeof folder, "%s%s", root, *mount);

        if (base >= sizeof folder ||
            base + (size_t)snprintf(folder + base, sizeof folder - base, "%s", group) >=
                sizeof folder)
            continue;
        for (;;) {
            char *slash;

            left = lesser(left, left_in(folder, version));
            slash = strrchr(folder + base, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
    return left;
}

/* Whether the controllers of a line of /proc/self/cgroup include that of memory. */
static bool limits_memory(const char *controllers) {
    static const char name[] = "memory";
    const char *found = strstr(controllers, name);

    return found != NULL && (found == controllers || found[-1] == ',') &&
           (found[sizeof name - 1] == '\0' || found[sizeof name - 1] == ',');
}

/* Lines are NUMBER:CONTROLLERS:GROUP, those of version 2 without controllers. */
static uint64_t left_in_groups(const char *root) {
    char path[PATH_ROOM], line[LINE_ROOM];
    uint64_t left = UINT64_MAX;
    FILE *file;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'), *group;

        line[strcspn(line, "\n")] = '\0';
        group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = '\0';
        if (controllers[1] == '\0')
            left = lesser(left, left_around(root, group, &second));
        else if (limits_memory(controllers + 1))
            left = lesser(left, left_around(root, group, &first));
    }
    if (file != NULL)
        fclose(file);
    return left;
}

uint64_t host_room(const char *root) {
    char path[PATH_ROOM];
    uint64_t kilobytes;

    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    return lesser(left_in_groups(root),
                  read_number(path, "MemAvailable", &kilobytes) ? kilobytes * 1024 : UINT64_MAX);
}
