/* A dry run: ld.so itself tells what it would load for a program and which function each call would
 * reach, as `ldd -r` asks it. No code of the program or of its libraries is run. */
#ifndef POOLCUDA_CLI_DOCTOR_BINDINGS_H
#define POOLCUDA_CLI_DOCTOR_BINDINGS_H

#include <stdbool.h>
#include <stddef.h>

/* Invariant: no string is NULL but path, which is NULL of a library that was not found. */
struct bindings {
    char *refused; /* why ld.so was not asked, or gave no answer; NULL if it did */
    struct loaded_library {
        char *name, *path;
    } * libraries; /* in the order in which symbols are looked up, the program left out */
    size_t library_count;
    struct binding {
        char *from, *symbol, *to; /* paths; from is the program's or a library's */
    } * bindings;                 /* of the functions that the pool stands behind, and of dlsym */
    size_t binding_count;
    char **complaints; /* ld.so's own lines about preloads, versions and what is missing */
    size_t complaint_count;
};

/* Asks `interpreter` about `program` (or library) with LD_PRELOAD set to `preload`. The interpreter
 * is started only if it is one of the system's: a program may name any file there. Free the answer
 * with bindings_free. */
struct bindings bindings_ask(const char *interpreter, const char *program, const char *preload);

void bindings_free(struct bindings *bindings);

/* Whether this may be started: an ld.so of glibc's in a system folder that only root can change. */
bool bindings_trusts(const char *interpreter);

/* The path of the loaded library whose file name begins with `name`; NULL if there is none. */
const char *bindings_library(const struct bindings *bindings, const char *name);

#endif
