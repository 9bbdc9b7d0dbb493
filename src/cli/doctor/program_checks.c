/* What the doctor checks of one program: its file, and then what ld.so says of it. */
#include "cli/doctor/checks.h"
#include "cli/doctor/script.h"
#include "interpose/tools.h"

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

/* Libraries of libc and the compilers: nothing of CUDA is in them. */
static bool is_system_library(const char *path) {
    static const char *const names[] = {
        "ld-linux", "linux-vdso",    "libc.so",     "libm.so",      "libdl.so",
        "librt.so", "libpthread.so", "libgcc_s.so", "libstdc++.so", "libpoolcuda.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(base_name(path), names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void subject_look(struct subject *subject) {
    subject->routes = routes_of(&subject->file, subject->path);
    subject->modules = calloc(subject->loaded.library_count + 1, sizeof *subject->modules);
    for (size_t i = 0; subject->modules && i < subject->loaded.library_count; i++) {
        const char *path = subject->loaded.libraries[i].path;
        if (!path || is_system_library(path))
            continue;
        struct subject_module *module = &subject->modules[subject->module_count++];
        module->path = path;
        module->file = elf_file_read(path);
        module->routes = routes_of(&module->file, path);
    }
}

static void subject_free(struct subject *subject) {
    for (size_t i = 0; i < subject->module_count; i++)
        elf_file_free(&subject->modules[i].file);
    free(subject->modules);
    free(subject->path);
    elf_file_free(&subject->file);
    bindings_free(&subject->loaded);
}

/* False, with a finding, if this file is nothing that ld.so could load anything into. */
static bool check_kind(struct findings *findings, const struct subject *subject) {
    const struct elf_file *file = &subject->file;
    const char *name = subject->name;
    switch (file->kind) {
    case ELF_MISSING:
        findings_add(findings, "missing", SEVERITY_PROBLEM, "%s: %s", name, strerror(file->error));
        findings_remedy(findings, "give the path of a program, or the name of one in PATH");
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
        findings_remedy(findings, "give the path of a program");
        return false;
    case ELF_EMPTY:
        findings_add(findings, "empty", SEVERITY_PROBLEM, "%s is empty", name);
        findings_remedy(findings, "build or copy it again");
        return false;
    case ELF_OTHER:
        findings_add(findings, "not-elf", SEVERITY_PROBLEM,
                     "%s is neither an ELF program nor a script", name);
        findings_cause(findings, "it begins neither with ELF's mark nor with #!");
        findings_remedy(findings, "give the program that the system starts in the end");
        return false;
    case ELF_DAMAGED:
        findings_add(findings, "damaged", SEVERITY_PROBLEM, "%s is damaged or no program: %s", name,
                     file->damaged);
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
        findings_remedy(findings, "chmod +x it");
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

/* False if it has been looked at before, or too many have. */
static bool is_new(struct doctor *doctor, const char *path) {
    for (size_t i = 0; i < doctor->seen_count; i++)
        if (strcmp(doctor->seen[i], path) == 0)
            return false;
    if (doctor->seen_count == CHECKED_PROGRAMS)
        return false;
    doctor->seen[doctor->seen_count] = strdup(path);
    doctor->seen_count += doctor->seen[doctor->seen_count] != NULL;
    return true;
}

static bool uses_cuda(const struct subject *subject) {
    bool uses = subject->routes != 0;
    for (size_t i = 0; i < subject->module_count; i++)
        uses = uses || subject->modules[i].routes;
    return uses;
}

static bool starts_others(const struct subject *subject) {
    const bool *found = subject->file.marks.found;
    return found[MARK_imports_exec] || found[MARK_imports_fexec] || found[MARK_imports_spawn];
}

static void tell_no_cuda(struct doctor *doctor, const struct subject *subject) {
    struct findings *findings = &doctor->findings;
    const bool *found = subject->file.marks.found;
    bool opens = found[MARK_imports_dlopen] || found[MARK_imports_dlmopen];
    bool starts =
        found[MARK_imports_exec] || found[MARK_imports_fexec] || found[MARK_imports_spawn];
    findings_add(findings, "no-cuda", opens || starts ? SEVERITY_WARNING : SEVERITY_PROBLEM,
                 "%s uses no CUDA that can be seen%s", subject->name,
                 opens || starts ? "" : ", so there is nothing to pool");
    findings_cause(findings, "neither it nor its libraries name CUDA's runtime or driver%s%s",
                   opens    ? "; it can open libraries as it runs, which would be pooled"
                   : starts ? "; it can start other programs, which would be pooled"
                            : " or can open them as it runs",
                   opens && starts ? ", and start programs" : "");
    findings_remedy(
        findings,
        opens || starts
            ? "to be sure, give what it opens by --with-library, or examine what it starts"
            : "examine the program that does the computing");
}

static void check_file(struct doctor *doctor, const char *name, const char *path,
                       char *const *arguments);

void check_arguments(struct doctor *doctor, char *const *arguments) {
    if (!arguments || doctor->depth >= DOCTOR_DEEPEST)
        return;
    doctor->depth++;
    for (; *arguments; arguments++) {
        char *path = **arguments == '-' ? NULL : script_find_program(*arguments);
        /* An interpreter takes a script's name as that of a file. */
        if (!path && access(*arguments, R_OK) == 0)
            path = strdup(*arguments);
        struct elf_file file = {.kind = ELF_MISSING};
        if (path)
            file = elf_file_read(path);
        enum elf_kind kind = file.kind;
        elf_file_free(&file);
        bool is_program =
            path && (kind == ELF_GOOD || kind == ELF_SCRIPT) && access(path, X_OK) == 0;
        bool is_text = path && (kind == ELF_OTHER || kind == ELF_SCRIPT);
        if (is_program)
            check_file(doctor, *arguments, path, arguments + 1);
        else if (is_text)
            check_script(doctor, *arguments, path, arguments + 1);
        free(path);
        if (is_program || is_text)
            break;
    }
    doctor->depth--;
}

/* valgrind, busybox: nothing gets into them, but what they start inherits LD_PRELOAD. False if this
 * is none, or starts nothing that can be seen. */
static bool check_static_starter(struct doctor *doctor, const struct subject *subject,
                                 char *const *arguments) {
    size_t before = doctor->seen_count;
    if (!subject->file.is_program || !subject->file.is_static ||
        routes_of(&subject->file, subject->path))
        return false;
    check_arguments(doctor, arguments);
    if (doctor->seen_count == before)
        return false;
    findings_add(&doctor->findings, "static-starter", SEVERITY_NOTE,
                 "%s is fully statically linked; what it starts is pooled, itself is not",
                 subject->name);
    return true;
}

static void check_dynamic_program(struct doctor *doctor, struct subject *subject,
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
    check_driver(doctor, subject->file.interpreter, subject->path);
    subject->loaded = bindings_ask(subject->file.interpreter, subject->path, doctor->preload);
    subject_look(subject);
    check_routes(doctor, subject);
    check_hooks(doctor, subject);
    check_surroundings(doctor, subject);
    doctor->cuda_seen = doctor->cuda_seen || uses_cuda(subject);
    if (!uses_cuda(subject) && starts_others(subject))
        check_arguments(doctor, arguments);
    if (!doctor->cuda_seen && !doctor->depth)
        tell_no_cuda(doctor, subject);
}

/* A program whose file is `path`, which the caller has found for `name`. */
static void check_file(struct doctor *doctor, const char *name, const char *path,
                       char *const *arguments) {
    char real[PATH_MAX];
    struct subject subject = {.name = name};
    subject.path = strdup(realpath(path, real) ? real : path);
    if (!subject.path || !is_new(doctor, subject.path)) {
        free(subject.path);
        return;
    }
    subject.file = elf_file_read(subject.path);
    if (!doctor->depth)
        findings_fact(&doctor->findings, "program", subject.path);
    if (check_kind(&doctor->findings, &subject)) {
        if (subject.file.kind == ELF_SCRIPT)
            check_script(doctor, name, subject.path, arguments);
        else if (!check_static_starter(doctor, &subject, arguments) &&
                 check_loadable(&doctor->findings, &subject))
            check_dynamic_program(doctor, &subject, arguments);
    }
    subject_free(&subject);
}

void check_program(struct doctor *doctor, const char *name, char *const *arguments) {
    char *found = script_find_program(name);
    if (found || strchr(name, '/')) {
        check_file(doctor, name, found ? found : name, arguments);
    } else {
        findings_add(&doctor->findings, "missing", SEVERITY_PROBLEM,
                     "%s: no program of that name is in PATH", name);
        if (access(name, F_OK) == 0)
            findings_remedy(&doctor->findings, "to mean the one in this folder, write ./%s", name);
        else
            findings_remedy(&doctor->findings,
                            "give the path of a program, or the name of one in PATH");
    }
    free(found);
}

void check_plugin(struct doctor *doctor, const char *path) {
    struct findings *findings = &doctor->findings;
    char real[PATH_MAX], own[PATH_MAX];
    struct subject subject = {.name = path};
    subject.path = strdup(realpath(path, real) ? real : path);
    subject.file = elf_file_read(subject.path);
    /* Its ld.so is that of its program, which is ours if they can be loaded together. */
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    struct elf_file self = elf_file_read(own);
    if (check_kind(findings, &subject)) {
        if (subject.file.kind == ELF_SCRIPT || subject.file.bits != 64 ||
            subject.file.machine != OWN_MACHINE) {
            findings_add(findings, "not-a-library", SEVERITY_PROBLEM,
                         "%s is no library for this machine", path);
        } else {
            subject.loaded = bindings_ask(self.interpreter ? self.interpreter : "", subject.path,
                                          doctor->preload);
            subject_look(&subject);
            check_routes(doctor, &subject);
            check_hooks(doctor, &subject);
            check_surroundings(doctor, &subject);
            if (uses_cuda(&subject)) {
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
    elf_file_free(&self);
    subject_free(&subject);
}
