/* The environment and the folder that a program is started with, pretended while it is looked at:
 * this process takes them on, and what it asks (ld.so, PATH, files) answers as it would there. */
#ifndef POOLCUDA_CLI_DOCTOR_CHANGES_H
#define POOLCUDA_CLI_DOCTOR_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

enum { CHANGES = 64 };

/* What was before. Start with {0}. */
struct changes {
    struct change {
        char *name, *value; /* value is NULL of what was not set */
    } list[CHANGES];
    size_t count;
    int folder; /* a descriptor, plus one; 0: the folder was not changed */
};

/* Sets a variable, or takes it away (NULL). LD_PRELOAD is left as it is: what becomes of it is
 * noted by other means. */
void changes_set(struct changes *changes, const char *name, const char *value);

/* False if there is no such folder. */
bool changes_go(struct changes *changes, const char *folder);

void changes_undo(struct changes *changes);

#endif
