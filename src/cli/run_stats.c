#include "cli/run_stats.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Files without a time of birth (some file systems) count by their last change. */
static bool is_younger(int folder, const char *name, struct timespec since) {
    struct statx facts;
    if (statx(folder, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_CTIME | STATX_TYPE, &facts) !=
            0 ||
        !S_ISREG(facts.stx_mode))
        return false;
    struct statx_timestamp made = facts.stx_mask & STATX_BTIME ? facts.stx_btime : facts.stx_ctime;
    return made.tv_sec > since.tv_sec ||
           (made.tv_sec == since.tv_sec && made.tv_nsec >= since.tv_nsec);
}

/* What stands before the first %; "%%" is a percent sign. */
static char *fixed_part(const char *pattern) {
    char *fixed = malloc(strlen(pattern) + 1), *to = fixed;
    for (; fixed && *pattern && !(pattern[0] == '%' && pattern[1] != '%'); pattern++) {
        if (*pattern == '%')
            pattern++;
        *to++ = *pattern;
    }
    if (fixed)
        *to = '\0';
    return fixed;
}

/* Counts the files in `folder` whose paths begin with the prefix. */
static void look_through(DIR *folder, struct figures *figures, struct timespec since) {
    const char *slash = strrchr(figures->prefix, '/');
    size_t before_name = slash ? (size_t)(slash - figures->prefix) + 1 : 0;
    const char *name = figures->prefix + before_name;
    for (struct dirent *file; (file = readdir(folder));) {
        char *path;
        if (strncmp(file->d_name, name, strlen(name)) != 0 ||
            !is_younger(dirfd(folder), file->d_name, since) ||
            asprintf(&path, "%.*s%s", (int)before_name, figures->prefix, file->d_name) < 0)
            continue;
        if (figures->count++)
            free(path);
        else
            figures->only = path;
    }
}

struct figures run_stats_made(const char *pattern, struct timespec since) {
    struct figures figures = {0, fixed_part(pattern), NULL};
    char *name = figures.prefix ? strdup(figures.prefix) : NULL;
    if (name) {
        char *slash = strrchr(name, '/');
        if (slash)
            slash[1] = '\0';
        DIR *folder = opendir(slash ? name : ".");
        if (folder) {
            look_through(folder, &figures, since);
            closedir(folder);
        }
        free(name);
    }
    return figures;
}

void run_stats_destroy(struct figures *figures) {
    free(figures->prefix);
    free(figures->only);
    *figures = (struct figures){0, NULL, NULL};
}
