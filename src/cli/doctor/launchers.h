/* Known programs that start others: where in their arguments the started one stands. */
#ifndef POOLCUDA_CLI_DOCTOR_LAUNCHERS_H
#define POOLCUDA_CLI_DOCTOR_LAUNCHERS_H

#include <stdbool.h>
#include <stddef.h>

enum launcher_kind {
    LAUNCHER_STARTS,    /* what it starts inherits LD_PRELOAD */
    LAUNCHER_PYTHON,    /* the same, of a Python script */
    LAUNCHER_FINDS,     /* as STARTS, of what stands behind -exec */
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

enum { LAUNCH_SETTINGS = 32 };

/* What the arguments of one start say. */
struct launch {
    char *const *command;            /* the program and its arguments; NULL: none is given */
    size_t length;                   /* words of it, up to a ":" of MPI's or the end */
    char *const *rest;               /* the next part, behind that ":"; NULL: there is none */
    char *settings[LAUNCH_SETTINGS]; /* NAME=VALUE for the program's environment; NAME: without */
    size_t setting_count;
    char **split;       /* the words, if env -S has put them together; NULL: as they were given */
    const char *folder; /* where it is started; NULL: here */
    bool unsets;        /* env -i and the like: LD_PRELOAD is taken away or replaced */
    bool unsure;        /* whether LD_PRELOAD is taken away or replaced cannot be read */
    bool is_text;       /* command is one text for /bin/sh */
    bool splits;        /* env -S: of a text whose words cannot be known */
    bool is_module;     /* -m: the name of a Python module */
};

/* The launcher that a program of this path or its other name is; NULL if none. */
const struct launcher *launcher_find(const char *name, const char *path);

/* Whether it starts jobs of several programs, with a ":" between them. */
bool launcher_starts_several(const struct launcher *launcher);

/* Free the answer with launch_free. */
struct launch launcher_read(const struct launcher *launcher, char *const *arguments);
void launch_free(struct launch *launch);

#endif
