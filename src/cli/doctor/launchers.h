/* Known programs that start others: where in their arguments the started one stands. */
#ifndef POOLCUDA_CLI_DOCTOR_LAUNCHERS_H
#define POOLCUDA_CLI_DOCTOR_LAUNCHERS_H

#include <stdbool.h>
#include <stddef.h>

enum launcher_kind {
    LAUNCHER_STARTS,    /* what it starts inherits LD_PRELOAD */
    LAUNCHER_PYTHON,    /* the same, of a Python script */
    LAUNCHER_STRIPS,    /* takes LD_PRELOAD out of the environment */
    LAUNCHER_ELSEWHERE, /* on another machine */
    LAUNCHER_CONTAINER, /* where other files are */
};

struct launcher {
    const char *name;
    enum launcher_kind kind;
    size_t words;       /* before the program */
    const char *values; /* options whose value is the next word */
};

/* What the arguments of one start say. */
struct launch {
    char *const *command; /* the program and its arguments; NULL: none is given */
    size_t length;        /* words of it, up to a ":" of MPI's or the end */
    char *const *rest;    /* what stands behind that ":", NULL if nothing does */
    bool unsets;          /* env -i and the like: LD_PRELOAD is taken away or replaced */
    bool splits;          /* env -S: the command is put together from a text */
    bool is_module;       /* -m: the name of a Python module */
};

/* The launcher that a program of this path or its other name is; NULL if none. */
const struct launcher *launcher_find(const char *name, const char *path);

struct launch launcher_read(const struct launcher *launcher, char *const *arguments);

#endif
