#include "cli/seen_files.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct file_number {
    dev_t device;
    ino_t number;
};

static int by_number(const void *one, const void *other) {
    const struct file_number *a = one, *b = other;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

bool seen_files_again(struct seen_files *seen, const char *path) {
    struct stat status;
    struct file_number *file = stat(path, &status) == 0 ? malloc(sizeof *file) : NULL;
    if (!file)
        return false;
    *file = (struct file_number){status.st_dev, status.st_ino};
    struct file_number **known = tsearch(file, &seen->tree, by_number);
    if (known && *known == file)
        return false;
    free(file);
    seen->again += known != NULL;
    return known != NULL;
}

void seen_files_end(struct seen_files *seen, const char *command) {
    if (seen->again)
        fprintf(stderr,
                seen->again == 1
                    ? "%s: %zu name is one more of a file that was read already, and counts once\n"
                    : "%s: %zu names are more of files that were read already, and count once\n",
                command, seen->again);
    tdestroy(seen->tree, free);
    *seen = (struct seen_files){0};
}
