#include "cli/doctor/changes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void changes_set(struct changes *changes, const char *name, const char *value) {
    const char *before = getenv(name);
    if (changes->count == CHANGES || strcmp(name, "LD_PRELOAD") == 0 || !*name)
        return;
    struct change *change = &changes->list[changes->count];
    *change = (struct change){strdup(name), before ? strdup(before) : NULL};
    if (!change->name || (before && !change->value)) {
        free(change->name);
        free(change->value);
        return;
    }
    changes->count++;
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

bool changes_go(struct changes *changes, const char *folder) {
    int here = changes->folder ? -1 : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (chdir(folder) != 0) {
        if (here >= 0)
            close(here);
        return false;
    }
    if (!changes->folder)
        changes->folder = here + 1;
    return true;
}

void changes_undo(struct changes *changes) {
    while (changes->count) {
        struct change *change = &changes->list[--changes->count];
        if (change->value)
            setenv(change->name, change->value, 1);
        else
            unsetenv(change->name);
        free(change->name);
        free(change->value);
    }
    if (changes->folder) {
        if (fchdir(changes->folder - 1) == 0)
            close(changes->folder - 1);
        changes->folder = 0;
    }
}
