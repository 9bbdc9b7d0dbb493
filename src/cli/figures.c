#include "cli/figures.h"

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

struct figures figures_made(const char *pattern, struct timespec since) {
    struct figures figures = {0, fixed_part(pattern), NULL};
    if (!figures.prefix)
        return figures;
    const char *slash = strrchr(figures.prefix, '/');
    const char *name = slash ? slash + 1 : figures.prefix;
    int folder_length = (int)(name - figures.prefix);
    char *folder = NULL;
    if (asprintf(&folder, "%.*s.", folder_length, figures.prefix) < 0)
        return figures;
    DIR *files = opendir(folder);
    for (struct dirent *file; files && (file = readdir(files));) {
        if (strncmp(file->d_name, name, strlen(name)) != 0 ||
            !is_younger(dirfd(files), file->d_name, since))
            continue;
        if (!figures.only &&
            asprintf(&figures.only, "%.*s%s", folder_length, figures.prefix, file->d_name) < 0)
            figures.only = NULL;
        figures.count += figures.only != NULL;
    }
    if (files)
        closedir(files);
    free(folder);
    return figures;
}

void figures_free(struct figures *figures) {
    free(figures->prefix);
    free(figures->only);
    *figures = (struct figures){0, NULL, NULL};
}
