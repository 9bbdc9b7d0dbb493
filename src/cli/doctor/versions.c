#include "cli/doctor/versions.h"

#include <stdlib.h>
#include <string.h>

static const char digits[] = "0123456789";

static bool copy(const char *from, size_t length, char *version, size_t size) {
    if (!length || length >= size)
        return false;
    memcpy(version, from, length);
    version[length] = '\0';
    return true;
}

bool version_from_proc(const char *line, char *version, size_t size) {
    for (const char *at = line; *at; at++) {
        if (at != line && at[-1] != ' ')
            continue;
        size_t length = strspn(at, "0123456789.");
        /* Among the words of that line only the version begins with digits and a dot. */
        if (strspn(at, digits) && at[strspn(at, digits)] == '.' && strchr(" \t\n", at[length]))
            return copy(at, length, version, size);
    }
    return false;
}

bool version_from_name(const char *name, char *version, size_t size) {
    const char *ending = strstr(name, ".so.");
    if (!ending)
        return false;
    ending += strlen(".so.");
    return strspn(ending, "0123456789.") == strlen(ending) &&
           copy(ending, strlen(ending), version, size);
}

int version_major(const char *version) {
    return *version >= '0' && *version <= '9' ? (int)strtol(version, NULL, 10) : 0;
}

int version_cuda_of_driver(const char *driver) {
    /* NVIDIA's table of minor version compatibility: the first driver of each CUDA major version.
     */
    static const struct {
        int driver, cuda;
    } firsts[] = {{580, 13}, {525, 12}, {450, 11}, {410, 10}};
    int major = version_major(driver);
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++)
        if (major >= firsts[i].driver)
            return firsts[i].cuda;
    return 0;
}
