/* What the doctor checks of programs that start others: those that are known for it, and those
 * whose arguments name a program. */
#include "cli/doctor/checks.h"
#include "cli/doctor/launchers.h"
#include "cli/doctor/python_path.h"
#include "cli/doctor/script.h"
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
    if (!launch->command) {
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
        struct python_program program = {"python3", python ? python : "python3", NULL, words,
                                         false};
        char *real = python ? python_behind_shim(python) : NULL;
        if (real)
            program.interpreter = real;
        check_python(doctor, &program);
        free(real);
    }
    free(words);
    free(python);
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
        return true;
    }
    if (!launch.command && launcher->kind != LAUNCHER_CONTAINER) {
        findings_add(findings, "nothing-started", SEVERITY_PROBLEM,
                     "%s is given no program to start", name);
        findings_remedy(findings, "give the program behind it");
        return true;
    }
    if (launch.unsets || (launcher->kind != LAUNCHER_STARTS && launcher->kind != LAUNCHER_PYTHON)) {
        tell_lost(doctor, launcher, name, &launch, arguments);
        if (launcher->kind == LAUNCHER_CONTAINER || launcher->kind == LAUNCHER_ELSEWHERE)
            return true;
    } else {
        findings_add(findings, "launcher", SEVERITY_NOTE, "%s starts %s, which inherits LD_PRELOAD",
                     name, launch.command[0]);
        if (strstr(launcher->name, "run") || strstr(launcher->name, "mpiexec")) {
            char document[PATH_MAX];
            installed_document("clusters.md", document);
            findings_cause(findings, "on this machine; what starts on others is told in %s",
                           document);
        }
    }
    doctor->depth++;
    for (;;) {
        char **words = copy_words(launch.command, launch.length);
        if (words && launcher->kind == LAUNCHER_PYTHON)
            check_python_launch(doctor, &launch);
        else if (words)
            check_program(doctor, words[0], words + 1);
        free(words);
        if (!launch.rest)
            break;
        launch = launcher_read(launcher, launch.rest);
        if (!launch.command)
            break;
    }
    doctor->depth--;
    return true;
}

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
            check_program_file(doctor, *arguments, path, arguments + 1);
        else if (is_text)
            check_script(doctor, *arguments, path, arguments + 1);
        free(path);
        if (is_program || is_text)
            break;
    }
    doctor->depth--;
}
