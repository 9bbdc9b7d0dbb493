/* From what can be seen of a program and of this machine to findings: will pooling work? */
#ifndef POOLCUDA_CLI_DOCTOR_CHECKS_H
#define POOLCUDA_CLI_DOCTOR_CHECKS_H

#include "cli/doctor/bindings.h"
#include "cli/doctor/elf_file.h"
#include "cli/doctor/findings.h"

#include <stdbool.h>
#include <stddef.h>

enum { CHECKED_PROGRAMS = 256, DOCTOR_DEEPEST = 12, DOUBTS = 16 };

/* Where the findings of one run go, and what is looked for only once. Invariant: library and
 * preload are both NULL or both set. */
struct doctor {
    struct findings findings;
    const char *library;        /* libpoolcuda.so, NULL if it was not found */
    const char *preload;        /* LD_PRELOAD as `poolcuda run` would set it */
    const char *self;           /* this command as it was called, a word of a shell's */
    char *command;              /* PROGRAM and its arguments as typed, a blank before each */
    bool driver_told;           /* the driver's library has been looked for */
    char driver[32];            /* its version, "" if unknown */
    struct seen_program {       /* that has been looked at */
        char *path, *arguments; /* with the folder that it was started in */
        bool uses_cuda;         /* or what it starts does */
        bool by_itself;         /* whatever its arguments */
    } seen[CHECKED_PROGRAMS];
    size_t seen_count;
    bool cuda_seen;       /* something that uses CUDA has been looked at */
    bool cuda_barred;     /* something that would use CUDA, but nothing can be preloaded into it */
    bool simulated;       /* the driver is the simulated GPU's */
    char *doubts[DOUBTS]; /* why it cannot be known that there is no CUDA */
    size_t doubt_count;
    char *cautions[DOUBTS]; /* why it cannot be known that the CUDA that is seen will be pooled */
    size_t caution_count;
    char *computing; /* the program that would do the computing, as far as is known; NULL: none */
    unsigned depth;  /* of scripts that start scripts */
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

/* What would do the computing, as far as is known by now. */
void doctor_computes(struct doctor *doctor, const char *name);

/* Notes why it cannot be known whether CUDA is used; without a meaning once it is seen. */
__attribute__((format(printf, 2, 3))) void doctor_doubt(struct doctor *doctor, const char *text,
                                                        ...);

/* Notes why it cannot be known whether what uses CUDA is started, or pooled; without a meaning if
 * no CUDA is seen. */
__attribute__((format(printf, 2, 3))) void doctor_caution(struct doctor *doctor, const char *text,
                                                          ...);

/* Reads a program or library with its libraries; `interpreter` is the ld.so that is asked for them.
 * The subject's name, path and file are set. */
void subject_look(struct doctor *doctor, struct subject *subject, const char *interpreter);
void subject_free(struct subject *subject);

/* Whether it or a library that it needs uses CUDA; libraries that do so only where they are asked
 * to do not count. */
bool subject_uses_cuda(const struct subject *subject);

/* Whether it reaches CUDA by NVIDIA's runtime, which serves no program on the simulated GPU. */
bool subject_has_nvidias_runtime(const struct subject *subject);

/* The end of it all: what follows if no CUDA was seen. */
void check_conclusion(struct doctor *doctor);

/* This machine: the library, the environment, other tools. */
void check_machine(struct doctor *doctor);
#define PRELOAD_FILE "/etc/ld.so.preload"
/* What /etc/ld.so.preload names, and what was lost where it has been replaced. */
void check_preloads(struct findings *findings);

/* Whether POOLCUDA_DISABLE with this value switches the library off. */
bool disables(const char *value);

/* Whether the environment switches the library off; `who` set it, which is then told. */
bool check_disabled(struct doctor *doctor, const char *who);

/* The driver's library and the kernel's driver, as `program` (the file of a dynamic program or
 * library, NULL: none) would find them; `interpreter` is its ld.so. may_simulate: it uses CUDA,
 * or is still to be named, and nothing is known for which it could not run on the simulated GPU. */
void check_driver(struct doctor *doctor, const char *interpreter, const char *program,
                  bool may_simulate);

/* A program, given as a shell is given it; arguments is NULL-terminated. */
void check_program(struct doctor *doctor, const char *name, char *const *arguments);

/* The same, of a program whose file is `path`, which the caller has found for `name`. */
void check_program_file(struct doctor *doctor, const char *name, const char *path,
                        char *const *arguments);

/* A library that the program opens by itself. */
void check_plugin(struct doctor *doctor, const char *path);

/* A library that something opens under this name or path, as the program `opener` would find it
 * (NULL: as any would): whether it uses CUDA, which is then told. */
bool check_opened(struct doctor *doctor, const char *name, const char *opener);

/* Whether the library at this path, or what it needs, uses CUDA. Nothing is reported. */
bool library_uses_cuda(struct doctor *doctor, const char *path);

/* The path of the library that ld.so would find by this name for `opener` (as above); NULL if none.
 * The caller frees it. */
char *find_library(const char *name, const char *opener);

/* The ld.so of this very program, which is the system's: `interpreter` has PATH_MAX bytes. */
bool own_interpreter(char *interpreter, char *self);

/* What a program without CUDA of its own, or its libraries, open as they run. */
void check_opens(struct doctor *doctor, const struct subject *subject, char *const *arguments);

/* Offloading by OpenMP and OpenACC, and GStreamer's plugins: whether this is how the program would
 * use CUDA. */
void check_offload(struct doctor *doctor, const struct subject *subject);
void check_gstreamer(struct doctor *doctor, const struct subject *subject, char *const *arguments);

/* If this is a program that starts the one in its arguments, looks at that; else false. */
bool check_launcher(struct doctor *doctor, const char *name, const char *path,
                    char *const *arguments);

/* A Python interpreter, and what it is given. */
struct python_program {
    const char *name;        /* for people */
    const char *interpreter; /* its path, with its links as they are */
    const char *library;     /* its libpython, NULL if it is inside */
    char *const *arguments;  /* NULL-terminated, or NULL */
    bool is_command;         /* an installed module is started, not a script */
    int without;             /* enum python_without: where it does not look for modules */
};
void check_python(struct doctor *doctor, const struct python_program *program);
void check_python_file(struct doctor *doctor, const struct python_program *program,
                       const char *title, const char *path);
void check_python_code(struct doctor *doctor, const struct python_program *program,
                       const char *title, const char *code);

/* Programs and scripts that a text names. */
struct script;
void check_words(struct doctor *doctor, const struct script *script);

/* A shell and its arguments; the text of a script or behind -c, in its folder, with its $1 ... */
void check_shell(struct doctor *doctor, const char *name, char *const *arguments);
void check_shell_text(struct doctor *doctor, const char *title, const char *folder,
                      const char *text, char *const *parameters);
bool shell_is(const char *path);

/* How a script and what it starts reach CUDA. */
void check_script(struct doctor *doctor, const char *name, const char *path,
                  char *const *arguments);

/* The first argument of `starter` that is a program or a script: whether it is started cannot be
 * known. */
void check_arguments(struct doctor *doctor, const char *starter, char *const *arguments);

/* Whether the file can start other programs. */
bool program_starts_others(const struct elf_file *file);

/* What of the subject reaches CUDA, and whether that reaches the pool. */
void check_routes(struct doctor *doctor, const struct subject *subject);
void check_hooks(struct doctor *doctor, const struct subject *subject);
void check_surroundings(struct doctor *doctor, const struct subject *subject);

/* The part of a path behind its last slash. */
const char *base_name(const char *path);

#endif
