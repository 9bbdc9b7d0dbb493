/* The files that a Python program's modules are in: each is looked at once, in turn. What one file
 * imports waits here for its turn, so that no chain of imports is too long. */
#ifndef POOLCUDA_CLI_DOCTOR_PYTHON_SEARCH_H
#define POOLCUDA_CLI_DOCTOR_PYTHON_SEARCH_H

#include "cli/doctor/python_path.h"

#include <stdbool.h>
#include <stddef.h>

enum { PYTHON_FILES_MAX = 6000 };

/* How sure it is that a module is loaded. */
enum certainty { PERHAPS, SURELY };

/* Invariant: strings are not NULL. */
struct python_waiting {
    char *path, *title; /* title is for people */
    enum python_origin origin;
    enum certainty certainty;
};

struct python_files {
    void *seen; /* a tree */
    size_t seen_count;
    struct python_waiting *waiting; /* those before `next` have been taken */
    size_t waiting_count, next;
};

/* Whether the file has not been noted as surely before; then it is now. False with more than
 * PYTHON_FILES_MAX files, which `full` tells. */
bool python_files_note(struct python_files *files, const char *path, enum certainty certainty,
                       bool *full);

/* A module's text waits for its turn. */
void python_files_wait(struct python_files *files, const struct python_module *module,
                       const char *title, enum certainty certainty);

/* The next one, which the caller then owns: false if none waits. */
bool python_files_take(struct python_files *files, struct python_waiting *taken);

void python_files_free(struct python_files *files);

#endif
