#include "cli/doctor/python_search.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct seen {
    char *path;
    enum certainty certainty;
};

static int compare(const void *a, const void *b) {
    return strcmp(((const struct seen *)a)->path, ((const struct seen *)b)->path);
}

bool python_files_note(struct python_files *files, const char *path, enum certainty certainty,
                       bool *full) {
    struct seen wanted = {.path = (char *)path};
    struct seen *const *known = tfind(&wanted, &files->seen, compare);
    *full = false;
    if (known) {
        bool surer = (*known)->certainty < certainty;
        (*known)->certainty = surer ? certainty : (*known)->certainty;
        return surer;
    }
    *full = files->seen_count == PYTHON_FILES_MAX;
    struct seen *added = *full ? NULL : calloc(1, sizeof *added);
    if (!added)
        return false;
    added->path = strdup(path);
    added->certainty = certainty;
    if (!added->path || !tsearch(added, &files->seen, compare)) {
        free(added->path);
        free(added);
        return false;
    }
    files->seen_count++;
    return true;
}

void python_files_wait(struct python_files *files, const struct python_module *module,
                       const char *title, enum certainty certainty) {
    size_t count = files->waiting_count;
    if (!(count & (count - 1))) {
        struct python_waiting *grown =
            reallocarray(files->waiting, count ? 2 * count : 1, sizeof *files->waiting);
        if (!grown)
            return;
        files->waiting = grown;
    }
    struct python_waiting added = {strdup(module->path), strdup(title), module->origin, certainty};
    if (added.path && added.title) {
        files->waiting[files->waiting_count++] = added;
    } else {
        free(added.path);
        free(added.title);
    }
}

bool python_files_take(struct python_files *files, struct python_waiting *taken) {
    if (files->next == files->waiting_count)
        return false;
    *taken = files->waiting[files->next++];
    return true;
}

static void free_seen(void *node) {
    struct seen *seen = node;
    free(seen->path);
    free(seen);
}

void python_files_free(struct python_files *files) {
    for (size_t i = files->next; i < files->waiting_count; i++) {
        free(files->waiting[i].path);
        free(files->waiting[i].title);
    }
    free(files->waiting);
    tdestroy(files->seen, free_seen);
    *files = (struct python_files){.seen = NULL};
}
