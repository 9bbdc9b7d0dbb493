#include "cli/installed.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool installed_find(const char *const *places, size_t count, char *path, size_t size) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    char *name = strrchr(self, '/');
    if (!name)
        return false;
    name[1] = '\0';
    for (size_t i = 0; i < count; i++) {
        int written = snprintf(path, size, "%s%s", self, places[i]);
        if (written > 0 && (size_t)written < size && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

bool installed_library(char *path) {
    static const char *const places[] = {"../interpose/libpoolcuda.so", POOLCUDA_LIBRARY_FROM_BIN};
    char found[2 * PATH_MAX];
    return installed_find(places, sizeof places / sizeof places[0], found, sizeof found) &&
           realpath(found, path);
}

void installed_document(const char *name, char *path) {
    char built[64], kept[PATH_MAX], found[2 * PATH_MAX];
    const char *const places[] = {built, kept};
    snprintf(built, sizeof built, "../../../docs/%s", name);
    snprintf(kept, sizeof kept, "%s/%s", POOLCUDA_DOCS_FROM_BIN, name);
    if (!installed_find(places, sizeof places / sizeof places[0], found, sizeof found) ||
        !realpath(found, path))
        snprintf(path, PATH_MAX, "docs/%s of the sources", name);
}
