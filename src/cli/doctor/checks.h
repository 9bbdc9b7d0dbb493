/* From what can be seen of a program and of this machine to findings: will pooling work? */
#ifndef POOLCUDA_CLI_DOCTOR_CHECKS_H
#define POOLCUDA_CLI_DOCTOR_CHECKS_H

#include "cli/doctor/bindings.h"
#include "cli/doctor/elf_file.h"
#include "cli/doctor/findings.h"

#include <stdbool.h>
#include <stddef.h>

enum { CHECKED_PROGRAMS = 64, DOCTOR_DEEPEST = 4 };

/* Where the findings of one run go, and what is looked for only once. Invariant: library and
 * preload are both NULL or both set. */
struct doctor {
    struct findings findings;
    const char *library;          /* libpoolcuda.so, NULL if it was not found */
    const char *preload;          /* LD_PRELOAD as `poolcuda run` would set it */
    bool driver_told;             /* the driver's library has been looked for */
    char driver[32];              /* its version, "" if unknown */
    char *seen[CHECKED_PROGRAMS]; /* programs that have been looked at */
    size_t seen_count;
    bool cuda_seen; /* something that uses CUDA has been looked at */
    unsigned depth; /* of scripts that start scripts */
};

/* Ways in which a module reaches CUDA. */
enum route {
    ROUTE_SHARED_RUNTIME = 1,
    ROUTE_STATIC_RUNTIME = 2,
    ROUTE_DRIVER_LINKED = 4,
    ROUTE_DRIVER_OPENED = 8,   /* looks the driver's functions up by itself */
    ROUTE_RUNTIME_OPENED = 16, /* opens a shared runtime by itself */
};

/* A program or library, and what ld.so would load for it. Invariant: the modules' paths are those
 * of libraries in `loaded`, none of libc's own. */
struct subject {
    const char *name; /* for people */
    char *path;       /* the real path */
    struct elf_file file;
    struct bindings loaded;
    struct subject_module {
        const char *path;
        struct elf_file file;
        int routes;
    } * modules;
    size_t module_count;
    int routes; /* the file's own */
};

/* How the file with this name reaches CUDA: enum route, or 0. */
int routes_of(const struct elf_file *file, const char *path);

/* This machine: the library, the environment, other tools. */
void check_machine(struct doctor *doctor);

/* The driver's library and the kernel's driver, as `program` (the file of a dynamic program or
 * library, NULL: none) would find them; `interpreter` is its ld.so. */
void check_driver(struct doctor *doctor, const char *interpreter, const char *program);

/* A program, given as a shell is given it; arguments is NULL-terminated. */
void check_program(struct doctor *doctor, const char *name, char *const *arguments);

/* A library that the program opens by itself. */
void check_plugin(struct doctor *doctor, const char *path);

/* How a script and what it starts reach CUDA. */
void check_script(struct doctor *doctor, const char *name, const char *path,
                  char *const *arguments);

/* An interpreter's or starter's first argument that is a program or a script. */
void check_arguments(struct doctor *doctor, char *const *arguments);

/* What of the subject reaches CUDA, and whether that reaches the pool. */
void check_routes(struct doctor *doctor, const struct subject *subject);
void check_hooks(struct doctor *doctor, const struct subject *subject);
void check_surroundings(struct doctor *doctor, const struct subject *subject);

/* The part of a path behind its last slash. */
const char *base_name(const char *path);

#endif
