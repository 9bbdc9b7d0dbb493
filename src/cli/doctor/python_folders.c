#include "cli/doctor/python_folders.h"

#include <dirent.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One folder's libraries, sorted by name. */
struct folder {
    char *path;
    char **libraries;
    size_t count;
};

static int compare_folders(const void *a, const void *b) {
    return strcmp(((const struct folder *)a)->path, ((const struct folder *)b)->path);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_library(const char *name) {
    size_t length = strlen(name);
    return *name != '.' && length > 3 && strchr(name, '.') && strcmp(name + length - 2, "so") == 0;
}

static void list(struct folder *folder) {
    DIR *directory = opendir(folder->path);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (!is_library(entry->d_name))
            continue;
        size_t room = folder->count;
        if (!(room & (room - 1))) {
            char **grown =
                reallocarray(folder->libraries, room ? 2 * room : 1, sizeof *folder->libraries);
            if (!grown)
                break;
            folder->libraries = grown;
        }
        char *name = strdup(entry->d_name);
        if (name)
            folder->libraries[folder->count++] = name;
    }
    if (directory)
        closedir(directory);
    if (folder->count)
        qsort(folder->libraries, folder->count, sizeof *folder->libraries, compare_names);
}

/* NULL without memory. What is in a folder is kept until the process ends. */
static const struct folder *find_folder(const char *path) {
    static void *folders;
    struct folder wanted = {.path = (char *)path};
    struct folder *const *known = tfind(&wanted, &folders, compare_folders);
    if (known)
        return *known;
    struct folder *added = calloc(1, sizeof *added);
    if (!added || !(added->path = strdup(path)) || !tsearch(added, &folders, compare_folders)) {
        free(added ? added->path : NULL);
        free(added);
        return NULL;
    }
    list(added);
    return added;
}

const char *python_folder_library(const char *path, const char *name, size_t length) {
    const struct folder *folder = find_folder(path);
    for (size_t i = 0; folder && i < folder->count; i++) {
        const char *library = folder->libraries[i];
        if (strncmp(library, name, length) == 0 && library[length] == '.')
            return library;
    }
    return NULL;
}
