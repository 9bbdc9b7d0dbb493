/* What the doctor checks of one program: its file, and then what ld.so says of it. */
#include "cli/doctor/checks.h"
#include "cli/doctor/launchers.h"
#include "cli/doctor/python_path.h"
#include "cli/doctor/script.h"
#include "cli/printable.h"
#include "tools.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#else
enum { OWN_MACHINE = EM_AARCH64 };
#endif

const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* False, with a finding, if this file is nothing that ld.so could load anything into, or, where it
 * was given as a library, nothing that it could load. */
static bool check_kind(struct findings *findings, const struct subject *subject, bool library) {
    const struct elf_file *file = &subject->file;
    const char *name = subject->name;
    switch (file->kind) {
    case ELF_MISSING:
        findings_add(findings, "missing", SEVERITY_PROBLEM, "%s: %s", name, strerror(file->error));
        findings_remedy(findings, library
                                      ? "give the path of a library"
                                      : "give the path of a program, or the name of one in PATH");
        return false;
    case ELF_UNREADABLE:
        findings_add(findings, "unreadable", SEVERITY_PROBLEM, "%s cannot be read: %s", name,
                     strerror(file->error));
        findings_remedy(findings, "ask its owner for the permission to read it");
        return false;
    case ELF_DIRECTORY:
    case ELF_SPECIAL:
        findings_add(findings, "not-a-file", SEVERITY_PROBLEM, "%s is %s", name,
                     file->kind == ELF_DIRECTORY ? "a directory" : "no regular file");
        findings_remedy(findings, "give the path of a %s", library ? "library" : "program");
        return false;
    case ELF_EMPTY:
        findings_add(findings, "empty", SEVERITY_PROBLEM, "%s is empty", name);
        findings_remedy(findings, "build or copy it again");
        return false;
    case ELF_OTHER:
        /* As execvp, by which `poolcuda run` starts programs, hands such a file to /bin/sh. */
        if (!library && script_is_text(subject->path) && access(subject->path, X_OK) == 0)
            return true;
        if (library) {
            findings_add(findings, "not-elf", SEVERITY_PROBLEM, "%s is no shared library", name);
            findings_cause(findings, "it does not begin with ELF's mark");
            findings_remedy(findings, "give the path of a library");
            return false;
        }
        findings_add(findings, "not-elf", SEVERITY_PROBLEM,
                     "%s is neither an ELF program nor a script", name);
        findings_cause(findings, "it begins neither with ELF's mark nor with #!");
        findings_remedy(findings, "give the program that the system starts in the end");
        return false;
    case ELF_DAMAGED:
        findings_add(findings, "damaged", SEVERITY_PROBLEM, "%s is damaged or no %s: %s", name,
                     library ? "library" : "program", file->damaged);
        findings_remedy(findings, "build or copy it again");
        return false;
    case ELF_SCRIPT:
    case ELF_GOOD:
        return true;
    }
    return false;
}

/* Whether ld.so would treat a start by this user as privileged, and then ignore LD_PRELOAD. */
static bool is_privileged(const struct elf_file *file, const char *path) {
    struct statvfs system;
    if (statvfs(path, &system) == 0 && (system.f_flag & ST_NOSUID))
        return false;
    return ((file->facts.st_mode & S_ISUID) && file->facts.st_uid != getuid()) ||
           ((file->facts.st_mode & S_ISGID) && (file->facts.st_mode & S_IXGRP) &&
            file->facts.st_gid != getgid()) ||
           (file->has_capabilities && getuid() != 0);
}

static bool check_privileges(struct findings *findings, const struct subject *subject) {
    const struct elf_file *file = &subject->file;
    bool now = is_privileged(file, subject->path);
    const char *why = file->facts.st_mode & S_ISUID   ? "setuid"
                      : file->facts.st_mode & S_ISGID ? "setgid"
                      : file->has_capabilities        ? "given file capabilities"
                                                      : NULL;
    if (!why)
        return true;
    findings_add(findings, "privileged", now ? SEVERITY_PROBLEM : SEVERITY_WARNING, "%s is %s%s",
                 subject->name, why, now ? "" : ", which changes nothing for this user");
    findings_cause(findings,
                   "ld.so ignores LD_PRELOAD in programs that gain rights by being started");
    findings_remedy(findings,
                    "run a copy without these rights (cp drops them), as a user who has them, "
                    "or name the library in /etc/ld.so.preload as root");
    return !now;
}

/* False, with a finding, if no preloaded library of ours can get into this program. */
static bool check_loadable(struct findings *findings, const struct subject *subject) {
    const struct elf_file *file = &subject->file;
    const char *name = subject->name;
    if (file->bits == 32) {
        findings_add(findings, "32-bit", SEVERITY_PROBLEM, "%s is a 32-bit program", name);
        findings_cause(findings, "libpoolcuda.so is a 64-bit library, and so is today's CUDA");
        findings_remedy(findings, "build it for 64 bits");
        return false;
    }
    if (file->machine != OWN_MACHINE) {
        findings_add(findings, "other-machine", SEVERITY_PROBLEM,
                     "%s is for another machine (ELF machine %u; this one is %d)", name,
                     file->machine, (int)OWN_MACHINE);
        findings_remedy(findings, "build it for this machine");
        return false;
    }
    if (!file->is_program) {
        findings_add(findings, "not-a-program", SEVERITY_PROBLEM, "%s is a library, not a program",
                     name);
        findings_remedy(findings,
                        "give the program that uses it, and the library by --with-library");
        return false;
    }
    if (access(subject->path, X_OK) != 0) {
        findings_add(findings, "not-executable", SEVERITY_PROBLEM, "%s cannot be executed: %m",
                     name);
        char *word = printable_word(name);
        findings_remedy(findings, "chmod +x %s", word ? word : name);
        findings_next(findings, "chmod +x %s", word ? word : name);
        free(word);
        return false;
    }
    if (file->is_static) {
        findings_add(findings, "static", SEVERITY_PROBLEM, "%s is fully statically linked", name);
        findings_cause(findings,
                       "nothing can be preloaded into a program that ld.so does not start");
        findings_remedy(findings, "link it without -static; CUDA's runtime may stay static (nvcc's "
                                  "default, -cudart static)");
        return false;
    }
    if (strncmp(base_name(file->interpreter), "ld-musl", 7) == 0) {
        findings_add(findings, "other-libc", SEVERITY_PROBLEM, "%s uses musl, not glibc", name);
        findings_cause(findings, "libpoolcuda.so needs glibc 2.17 or newer, as CUDA itself does");
        findings_remedy(findings, "build it with glibc");
        return false;
    }
    if (access(file->interpreter, F_OK) != 0) {
        findings_add(findings, "interpreter-missing", SEVERITY_PROBLEM,
                     "%s cannot be started: its program interpreter %s is not there", name,
                     file->interpreter);
        findings_remedy(findings, "install the libc that it was built for");
        return false;
    }
    return check_privileges(findings, subject);
}

/* The folder and all arguments in one text; the caller frees it. */
static char *join(char *const *arguments) {
    char *text = getcwd(NULL, 0), *longer;
    for (; text && arguments && *arguments; arguments++) {
        int length = asprintf(&longer, "%s\n%s", text, *arguments);
        free(text);
        text = length < 0 ? NULL : longer;
    }
    return text;
}

/* What is noted of a start like this one, or a new note; NULL if there are too many. */
static struct seen_program *find_seen(struct doctor *doctor, const char *path,
                                      char *const *arguments, bool *is_new) {
    char *joined = join(arguments);
    *is_new = false;
    for (size_t i = 0; joined && i < doctor->seen_count; i++) {
        struct seen_program *seen = &doctor->seen[i];
        if (strcmp(seen->path, path) == 0 &&
            (seen->by_itself || strcmp(seen->arguments, joined) == 0)) {
            free(joined);
            return seen;
        }
    }
    char *copy = strdup(path);
    if (doctor->seen_count == CHECKED_PROGRAMS || !joined || !copy) {
        doctor_doubt(doctor, "it names more than %d programs: not all were looked at",
                     CHECKED_PROGRAMS);
        free(joined);
        free(copy);
        return NULL;
    }
    *is_new = true;
    doctor->seen[doctor->seen_count] = (struct seen_program){copy, joined, false, false};
    return &doctor->seen[doctor->seen_count++];
}

/* valgrind, busybox: nothing gets into them, but what they start inherits LD_PRELOAD. False if this
 * is none: it names no program, and cannot start any. */
static bool check_static_starter(struct doctor *doctor, const struct subject *subject,
                                 char *const *arguments) {
    size_t before = doctor->seen_count;
    if (!subject->file.is_program || !subject->file.is_static ||
        routes_of(&subject->file, subject->path))
        return false;
    check_arguments(doctor, subject->name, arguments);
    static const enum mark marks[] = {MARK_exec_inside, MARK_spawn_inside, MARK_shell_text, MARKS};
    bool starts = elf_file_has_any(&subject->file, marks);
    if (doctor->seen_count == before && !starts)
        return false;
    findings_add(&doctor->findings, "static-starter", SEVERITY_NOTE,
                 "%s is fully statically linked; what it starts is pooled, itself is not",
                 subject->name);
    if (starts)
        doctor_doubt(doctor, "%s can start other programs", subject->name);
    return true;
}

bool program_starts_others(const struct elf_file *file) {
    static const enum mark marks[] = {
        MARK_imports_exec,  MARK_imports_fexec,    MARK_imports_spawn,  MARK_imports_system,
        MARK_imports_popen, MARK_imports_qprocess, MARK_imports_gspawn, MARKS};
    return elf_file_has_any(file, marks);
}

/* Whether it hands its arguments to Python's own main function, or is called as Python is. */
static bool is_python(const struct subject *subject) {
    static const enum mark marks[] = {MARK_python_main, MARK_python_main_wide, MARK_python_run_main,
                                      MARKS};
    return python_is_interpreter(subject->name) || python_is_interpreter(subject->path) ||
           elf_file_has_any(&subject->file, marks);
}

/* Options by which some of these start programs after all, or open libraries: tar's -I, -F, --to-
 * command and others, which may be cut short, zip's -TT, the linker's plugins. */
static bool names_starter(const char *word, bool first) {
    static const char *const beginnings[] = {"--us", "--to", "--ch", "--in", "--ne",
                                             "--rs", "--rm", "--pl", "-T",   "--un"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(word, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    bool letters = (*word == '-' && word[1] != '-') || (first && !strpbrk(word, "./"));
    return letters && strpbrk(word, "IF");
}

/* Programs of the system whose arguments are only data, though some of them can start others. */
static bool takes_data(const char *path, char *const *arguments) {
    static const char *const names[] = {
        "tar", "which", "which.debianutils", "cp",  "mv", "ls",      "file",  "ldd",  "nm", "ar",
        "zip", "rm",    "readelf",           "cat", "du", "objdump", "strip", "chmod"};
    bool starts = false, found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        found = found || strcmp(base_name(path), names[i]) == 0;
    for (char *const *word = arguments; word && *word; word++)
        starts = starts || names_starter(*word, word == arguments);
    return found && !starts && (strncmp(path, "/usr/", 5) == 0 || strncmp(path, "/bin/", 5) == 0);
}

/* A program that does not use CUDA by itself, as far as it and its libraries tell. */
static void check_without_cuda(struct doctor *doctor, const struct subject *subject,
                               const char *found, char *const *arguments) {
    if (is_python(subject)) {
        struct python_program program = {
            subject->name, found, bindings_library(&subject->loaded, "libpython"),
            arguments,     false, 0};
        check_python(doctor, &program);
        return;
    }
    if (shell_is(subject->path) || shell_is(subject->name)) {
        check_shell(doctor, subject->name, arguments);
        return;
    }
    if (takes_data(subject->path, arguments))
        return;
    check_offload(doctor, subject);
    check_gstreamer(doctor, subject, arguments);
    if (!doctor->cuda_seen)
        check_opens(doctor, subject, arguments);
    if (doctor->cuda_seen)
        return;
    bool runs_python = subject->file.marks.found[MARK_python_embedded];
    if (program_starts_others(&subject->file) || runs_python)
        check_arguments(doctor, subject->name, arguments);
    if (program_starts_others(&subject->file))
        doctor_doubt(doctor, "%s can start other programs", subject->name);
}

/* Whether it uses CUDA by itself. */
static bool check_dynamic_program(struct doctor *doctor, struct subject *subject, const char *found,
                                  char *const *arguments) {
    struct findings *findings = &doctor->findings;
    struct tools_found tools = {{false}};
    tools_look(subject->path, &tools);
    const char *checker = tools_memory_checker(&tools);
    if (checker) {
        findings_add(findings, "memory-checker", SEVERITY_PROBLEM, "%s checks memory",
                     subject->name);
        findings_cause(
            findings, "%s could not judge recycled memory, so nothing is pooled under it", checker);
        findings_remedy(findings, "run the program itself to pool");
    }
    subject_look(doctor, subject, subject->file.interpreter);
    check_driver(doctor, subject->file.interpreter, subject->path,
                 subject_uses_cuda(subject) && !subject_has_nvidias_runtime(subject));
    check_routes(doctor, subject);
    check_hooks(doctor, subject);
    check_surroundings(doctor, subject);
    bool uses = subject_uses_cuda(subject);
    if (uses)
        doctor->cuda_seen = true;
    else
        check_without_cuda(doctor, subject, found, arguments);
    return uses;
}

/* A script in Python's place, which starts the real one. */
static void check_python_stand_in(struct doctor *doctor, const char *name, const char *path,
                                  char *const *arguments) {
    struct python_program program = {name, path, NULL, arguments, false, 0};
    check_python(doctor, &program);
}

/* A program or script, found as `path`. */
static void check_good_file(struct doctor *doctor, struct subject *subject, const char *path,
                            char *const *arguments, struct seen_program *seen) {
    const char *name = subject->name;
    /* A program of the user's own may be called as a launcher is. */
    bool own = routes_of(&subject->file, subject->path) != 0;
    if (!own && check_launcher(doctor, name, subject->path, arguments))
        return;
    if (subject->file.kind == ELF_SCRIPT && python_is_interpreter(name))
        check_python_stand_in(doctor, name, path, arguments);
    else if (subject->file.kind != ELF_GOOD && !takes_data(subject->path, arguments))
        check_script(doctor, name, subject->path, arguments);
    else if (subject->file.kind != ELF_GOOD || check_static_starter(doctor, subject, arguments))
        return;
    else if (check_loadable(&doctor->findings, subject))
        seen->by_itself = check_dynamic_program(doctor, subject, path, arguments);
    else
        doctor->cuda_barred = doctor->cuda_barred || own;
}

void check_program_file(struct doctor *doctor, const char *name, const char *path,
                        char *const *arguments) {
    char real[PATH_MAX];
    struct subject subject = {.name = name};
    char *shimmed = python_is_interpreter(name) ? python_behind_shim(path) : NULL;
    path = shimmed ? shimmed : path;
    subject.path = strdup(realpath(path, real) ? real : path);
    bool is_new = false;
    struct seen_program *seen = subject.path && doctor->depth < DOCTOR_DEEPEST
                                    ? find_seen(doctor, subject.path, arguments, &is_new)
                                    : NULL;
    if (!is_new) {
        doctor->cuda_seen = doctor->cuda_seen || (seen && seen->uses_cuda);
        free(subject.path);
        free(shimmed);
        return;
    }
    doctor_computes(doctor, name);
    subject.file = elf_file_read(subject.path);
    if (!doctor->depth)
        findings_fact(&doctor->findings, "program", subject.path);
    bool before = doctor->cuda_seen;
    doctor->cuda_seen = false;
    if (check_kind(&doctor->findings, &subject, false))
        check_good_file(doctor, &subject, path, arguments, seen);
    seen->uses_cuda = doctor->cuda_seen;
    doctor->cuda_seen = doctor->cuda_seen || before;
    subject_free(&subject);
    free(shimmed);
}

void check_program(struct doctor *doctor, const char *name, char *const *arguments) {
    char *found = script_find_program(name);
    if (found || strchr(name, '/')) {
        check_program_file(doctor, name, found ? found : name, arguments);
    } else {
        findings_add(&doctor->findings, "missing", SEVERITY_PROBLEM,
                     "%s: no program of that name is in PATH", name);
        if (access(name, F_OK) == 0) {
            char *word = printable_word(name);
            findings_remedy(&doctor->findings, "to mean the one in this folder, write ./%s", name);
            if (!doctor->depth)
                findings_next(&doctor->findings, "%s doctor -- ./%s", doctor->self,
                              word ? word : name);
            free(word);
        } else
            findings_remedy(&doctor->findings,
                            "give the path of a program, or the name of one in PATH");
    }
    free(found);
}

void check_plugin(struct doctor *doctor, const char *path) {
    struct findings *findings = &doctor->findings;
    char real[PATH_MAX], own[PATH_MAX], interpreter[PATH_MAX];
    struct subject subject = {.name = path};
    subject.path = strdup(realpath(path, real) ? real : path);
    subject.file = elf_file_read(subject.path);
    /* Its ld.so is that of its program, which is ours if they can be loaded together. */
    own_interpreter(interpreter, own);
    if (check_kind(findings, &subject, true)) {
        if (subject.file.kind != ELF_GOOD || subject.file.bits != 64 ||
            subject.file.machine != OWN_MACHINE) {
            findings_add(findings, "not-a-library", SEVERITY_PROBLEM,
                         "%s is no library for this machine", path);
            findings_remedy(findings, "give a library that was built for this machine");
        } else {
            subject_look(doctor, &subject, interpreter);
            check_routes(doctor, &subject);
            check_hooks(doctor, &subject);
            check_surroundings(doctor, &subject);
            if (subject_uses_cuda(&subject)) {
                doctor->cuda_seen = true;
                findings_add(
                    findings, "deepbind", SEVERITY_WARNING,
                    "if the program opens %s with RTLD_DEEPBIND, its calls go past the pool", path);
                findings_cause(findings,
                               "such a library finds libc's dlsym and CUDA's functions before any "
                               "preloaded ones; whether it is opened so cannot be seen beforehand");
                findings_remedy(findings,
                                "the report names what went past the pool: run it and look; "
                                "open the library without RTLD_DEEPBIND");
            }
        }
    }
    subject_free(&subject);
}
