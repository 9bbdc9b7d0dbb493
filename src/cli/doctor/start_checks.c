/* What the doctor checks of programs that start others: those that are known for it, and those
 * whose arguments name a program. */
#include "cli/doctor/changes.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/launchers.h"
#include "cli/doctor/python_path.h"
#include "cli/doctor/script.h"
#include "cli/doctor/shell_text.h"
#include "cli/installed.h"
#include "cli/printable.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The command behind `words` words of the launcher's own, with `between` before it. The caller
 * frees it; NULL without memory. */
static char *rewrite(const char *launcher, char *const *arguments, char *const *command,
                     const char *between) {
    char *text = printable_word(launcher), *fuller;
    for (; text && arguments && *arguments; arguments++) {
        char *word = printable_word(*arguments);
        int length = asprintf(&fuller, "%s%s%s %s", text, arguments == command ? " " : "",
                              arguments == command ? between : "", word ? word : "");
        free(word);
        free(text);
        text = length < 0 ? NULL : fuller;
    }
    return text;
}

/* Whether the words name the variable, the library or this command: not a folder of that name. */
static bool names_pool(const char *words) {
    static const char command[] = "poolcuda";
    if (strstr(words, "LD_PRELOAD") || strstr(words, "libpoolcuda"))
        return true;
    for (const char *at = words; (at = strstr(at, command)); at++)
        if (!at[sizeof command - 1] || strchr(" \t\n'\"", at[sizeof command - 1]))
            return true;
    return false;
}

/* Whether what is behind the launcher sets LD_PRELOAD again, as far as its words say. */
static bool sets_again(const struct launch *launch) {
    for (size_t i = 0; launch->command && i < launch->length; i++)
        if (names_pool(launch->command[i]))
            return true;
    return false;
}

static bool has_unknown(char *const *words) {
    for (; words && *words; words++)
        if (strchr(*words, SHELL_UNKNOWN))
            return true;
    return false;
}

static void tell_lost(struct doctor *doctor, const struct launcher *launcher, const char *name,
                      const struct launch *launch, char *const *arguments) {
    struct findings *findings = &doctor->findings;
    const char *program = launch->command ? launch->command[0] : "its program";
    findings_add(findings, "preload-lost", SEVERITY_PROBLEM, "%s starts %s without LD_PRELOAD",
                 name, program);
    if (launcher->kind == LAUNCHER_CONTAINER) {
        findings_cause(findings, "in a container there are other files and another environment");
        findings_remedy(findings,
                        "install poolcuda in the container and start the program there by "
                        "poolcuda run");
        return;
    }
    findings_cause(findings, "%s",
                   launcher->kind == LAUNCHER_ELSEWHERE ? "it runs on another machine"
                   : launcher->kind == LAUNCHER_STRIPS
                       ? "it gives other rights, and takes such variables away first"
                       : "its arguments take that variable away or set it anew");
    if (!launch->command || launch->split || launch->is_text || has_unknown(arguments)) {
        findings_remedy(findings, "start the program behind it by poolcuda run");
        return;
    }
    char run[PATH_MAX + 16];
    snprintf(run, sizeof run, "%s run --", doctor->self);
    char *command = rewrite(name, arguments, launch->command, run);
    findings_remedy(findings, "start the pool behind it: %s", command ? command : "");
    findings_next(findings, "%s", command ? command : "");
    free(command);
}

/* NULL-terminated copy of the first `length` words. */
static char **copy_words(char *const *words, size_t length) {
    char **copy = calloc(length + 1, sizeof *copy);
    if (copy)
        memcpy(copy, words, length * sizeof *copy);
    return copy;
}

/* A launcher of Python scripts uses the python that PATH has. */
static void check_python_launch(struct doctor *doctor, const struct launch *launch) {
    char *python = script_find_program("python3"), module[] = "-m";
    char **words = calloc(launch->length + 2, sizeof *words);
    if (words) {
        words[0] = module;
        memcpy(words + launch->is_module, launch->command, launch->length * sizeof *words);
        struct python_program program = {"python3", python ? python : "python3", NULL, words, false,
                                         0};
        char *real = python ? python_behind_shim(python) : NULL;
        if (real)
            program.interpreter = real;
        check_python(doctor, &program);
        free(real);
    }
    free(words);
    free(python);
}

/* Launchers that start programs by execve, not by execvp, give a script without #! to no shell. */
static bool check_first_line(struct doctor *doctor, const struct launcher *launcher,
                             const char *program) {
    bool strict = launcher_starts_several(launcher) || strcmp(launcher->name, "strace") == 0;
    char *path = strict ? script_find_program(program) : NULL;
    struct elf_file file = {.kind = ELF_MISSING};
    if (path)
        file = elf_file_read(path);
    bool refused = file.kind == ELF_OTHER && script_is_text(path);
    if (refused) {
        findings_add(&doctor->findings, "not-elf", SEVERITY_PROBLEM,
                     "%s cannot start %s, which has no first line with #!", launcher->name,
                     program);
        findings_remedy(&doctor->findings, "put #!/bin/sh into its first line");
    }
    elf_file_free(&file);
    free(path);
    return !refused;
}

static void check_launched(struct doctor *doctor, const struct launcher *launcher, const char *name,
                           const struct launch *launch) {
    struct changes changes = {.count = 0};
    char **words = copy_words(launch->command, launch->length);
    for (size_t i = 0; words && i < launch->setting_count; i++) {
        char *sign = strchr(launch->settings[i], '=');
        char *variable = strndup(launch->settings[i], strcspn(launch->settings[i], "="));
        if (variable)
            changes_set(&changes, variable, sign ? sign + 1 : NULL);
        free(variable);
    }
    if (launch->setting_count)
        check_disabled(doctor, name);
    if (launch->folder && !changes_go(&changes, launch->folder)) {
        findings_add(&doctor->findings, "missing", SEVERITY_PROBLEM, "%s: there is no such folder",
                     launch->folder);
        findings_remedy(&doctor->findings, "give %s a folder that is there", name);
    } else if (words && launch->is_text) {
        check_shell_text(doctor, "the command behind -c", ".", words[0], NULL);
    } else if (words && strstr(words[0], "{}")) {
        doctor_doubt(doctor, "%s starts what it finds", name);
    } else if (words && launcher->kind == LAUNCHER_PYTHON) {
        check_python_launch(doctor, launch);
    } else if (words && check_first_line(doctor, launcher, words[0])) {
        check_program(doctor, words[0], words + 1);
    }
    free(words);
    changes_undo(&changes);
}

static void tell_nothing_started(struct findings *findings, const char *name) {
    findings_add(findings, "nothing-started", SEVERITY_PROBLEM, "%s is given no program to start",
                 name);
    findings_remedy(findings, "give the program behind it");
}

bool check_launcher(struct doctor *doctor, const char *name, const char *path,
                    char *const *arguments) {
    const struct launcher *launcher = launcher_find(name, path);
    struct findings *findings = &doctor->findings;
    if (!launcher || doctor->depth >= DOCTOR_DEEPEST)
        return false;
    struct launch launch = launcher_read(launcher, arguments);
    if (launch.splits) {
        doctor_doubt(doctor, "%s puts the command together from the text behind -S", name);
        launch_free(&launch);
        return true;
    }
    if (!launch.command && launcher->kind == LAUNCHER_FINDS) {
        launch_free(&launch); /* all that it names is only data */
        return true;
    }
    if (!launch.command && launcher->kind != LAUNCHER_CONTAINER) {
        tell_nothing_started(findings, name);
        launch_free(&launch);
        return true;
    }
    bool loses = launch.unsets && !sets_again(&launch);
    if (launch.unsure || (launch.unsets && !loses))
        doctor_caution(doctor,
                       "whether %s starts %s with LD_PRELOAD cannot be read from its arguments",
                       name, launch.command ? launch.command[0] : "its program");
    if (loses || (launcher->kind != LAUNCHER_STARTS && launcher->kind != LAUNCHER_FINDS &&
                  launcher->kind != LAUNCHER_PYTHON)) {
        tell_lost(doctor, launcher, name, &launch, arguments);
        if (launcher->kind == LAUNCHER_CONTAINER || launcher->kind == LAUNCHER_ELSEWHERE) {
            launch_free(&launch);
            return true;
        }
    } else {
        findings_add(findings, "launcher", SEVERITY_NOTE, "%s starts %s, which inherits LD_PRELOAD",
                     name, launch.command[0]);
        if (strstr(launcher->name, "run") || strstr(launcher->name, "mpiexec")) {
            char document[PATH_MAX];
            installed_document("clusters.md", document);
            findings_cause(findings, "on this machine; what starts on others is described in %s",
                           document);
        }
    }
    doctor->depth++;
    for (;;) {
        check_launched(doctor, launcher, name, &launch);
        char *const *rest = launch.rest;
        if (!rest)
            break;
        launch_free(&launch);
        launch = launcher_read(launcher, rest);
        if (!launch.command) {
            tell_nothing_started(findings, name);
            break;
        }
        if (launch.unsure)
            doctor_caution(doctor,
                           "whether %s starts %s with LD_PRELOAD cannot be read from its arguments",
                           name, launch.command[0]);
        if (launch.unsets)
            tell_lost(doctor, launcher, name, &launch, arguments);
    }
    launch_free(&launch);
    doctor->depth--;
    return true;
}

void check_arguments(struct doctor *doctor, const char *starter, char *const *arguments) {
    if (!arguments || doctor->depth >= DOCTOR_DEEPEST)
        return;
    bool before = doctor->cuda_seen;
    size_t from = doctor->findings.count;
    doctor->cuda_seen = false;
    doctor->depth++;
    for (; *arguments && !doctor->cuda_seen; arguments++) {
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
            check_program_file(doctor, *arguments, path, arguments + 1);
        else if (is_text)
            check_script(doctor, *arguments, path, arguments + 1);
        free(path);
        if (doctor->cuda_seen)
            doctor_caution(doctor, "whether %s starts %s cannot be known", starter, *arguments);
        if (is_program || is_text)
            break;
    }
    doctor->depth--;
    if (!doctor->cuda_seen && !doctor->cuda_barred)
        findings_drop_problems(&doctor->findings, from);
    doctor->cuda_seen = doctor->cuda_seen || before;
}
