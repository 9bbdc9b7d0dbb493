/* What the doctor checks of a script: its interpreter, and what its text names. */
#include "cli/doctor/checks.h"
#include "cli/doctor/python_path.h"
#include "cli/doctor/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A word that is a program which uses CUDA, or a script by path, is looked at in its turn. */
static bool check_word(struct doctor *doctor, const char *word) {
    char *path = script_find_program(word);
    bool looked = false;
    if (path && access(path, X_OK) == 0) {
        struct elf_file file = elf_file_read(path);
        bool by_path = strchr(word, '/') != NULL;
        looked = (file.kind == ELF_GOOD &&
                  (routes_of(&file, path) ||
                   (by_path && file.needed_count > 1 && !file.is_static &&
                    strncmp(path, "/usr/", 5) != 0 && strncmp(path, "/bin/", 5) != 0))) ||
                 (file.kind == ELF_SCRIPT && by_path);
        elf_file_free(&file);
        if (looked)
            check_program(doctor, word, NULL);
    }
    free(path);
    return looked;
}

static bool ends_in_py(const char *name) {
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".py") == 0;
}

/* A Python file that a shell script hands to python. */
static void check_python_word(struct doctor *doctor, const char *word) {
    struct stat facts;
    if (!ends_in_py(word) || stat(word, &facts) != 0 || !S_ISREG(facts.st_mode))
        return;
    char *python = script_find_program("python3");
    char *real = python ? python_behind_shim(python) : NULL;
    const char *interpreter = real ? real : python;
    struct python_program program = {"python3", interpreter ? interpreter : "python3", NULL, NULL,
                                     false};
    check_python_file(doctor, &program, word, word);
    free(real);
    free(python);
}

void check_words(struct doctor *doctor, const struct script *script) {
    if (doctor->depth >= DOCTOR_DEEPEST)
        return;
    doctor->depth++;
    for (size_t i = 0; i < script->word_count; i++)
        if (!check_word(doctor, script->words[i]))
            check_python_word(doctor, script->words[i]);
    doctor->depth--;
}

void check_shell_text(struct doctor *doctor, const char *title, const char *text) {
    struct script script = script_read_text(text, strlen(text));
    check_words(doctor, &script);
    doctor_doubt(doctor, "%s starts programs that cannot all be told from its text", title);
    script_free(&script);
}

static void check_interpreter(struct doctor *doctor, const char *name, const char *interpreter,
                              char *const *arguments) {
    struct findings *findings = &doctor->findings;
    if (!*interpreter) {
        findings_add(findings, "interpreter-missing", SEVERITY_PROBLEM,
                     "%s names no interpreter behind its #!", name);
        findings_remedy(findings, "name one, such as #!/bin/sh");
        return;
    }
    findings_add(findings, "script", SEVERITY_NOTE, "%s is a script: %s runs it", name,
                 interpreter);
    findings_cause(findings,
                   "LD_PRELOAD is inherited: every program that it starts is pooled as well");
    check_program(doctor, interpreter, arguments);
}

/* The interpreter gets the script's path, and the script's arguments behind it. */
static void check_python_script(struct doctor *doctor, const char *name, const char *interpreter,
                                char *const *arguments) {
    size_t count = 0;
    while (arguments && arguments[count])
        count++;
    char **words = calloc(count + 2, sizeof *words), *script = strdup(name);
    if (words && script) {
        words[0] = script;
        if (count)
            memcpy(words + 1, arguments, count * sizeof *words);
        check_interpreter(doctor, name, interpreter, words);
    }
    free(script);
    free(words);
}

void check_script(struct doctor *doctor, const char *name, const char *path,
                  char *const *arguments) {
    struct script script = script_read(path);
    struct elf_file file = elf_file_read(path);
    bool has_first_line = file.kind == ELF_SCRIPT || *script.interpreter;
    if (doctor->depth >= DOCTOR_DEEPEST) {
        script_free(&script);
        elf_file_free(&file);
        return;
    }
    if (file.kind == ELF_SCRIPT && access(path, X_OK) != 0 && !doctor->depth) {
        findings_add(&doctor->findings, "not-executable", SEVERITY_PROBLEM,
                     "%s cannot be executed: %m", name);
        findings_remedy(&doctor->findings, "chmod +x %s, or give its interpreter before it", name);
        findings_next(&doctor->findings, "chmod +x %s", name);
    }
    doctor->depth++;
    if (has_first_line && python_is_interpreter(script.interpreter)) {
        check_python_script(doctor, strchr(name, '/') ? name : path, script.interpreter, arguments);
    } else {
        if (has_first_line)
            check_interpreter(doctor, name, script.interpreter, NULL);
        if (ends_in_py(path))
            check_python_word(doctor, path);
        check_words(doctor, &script);
        /* Wrappers start what they are given; Debian's valgrind is one. */
        if (!doctor->cuda_seen)
            check_arguments(doctor, arguments);
        doctor_doubt(doctor, "%s starts programs that cannot all be told from its text", name);
    }
    doctor->depth--;
    elf_file_free(&file);
    script_free(&script);
}
