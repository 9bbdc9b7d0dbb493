/* What the doctor checks of a script: its interpreter, and what its text names. */
#include "cli/doctor/checks.h"
#include "cli/doctor/python_path.h"
#include "cli/doctor/script.h"
#include "cli/printable.h"

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
    struct python_program program = {
        "python3", interpreter ? interpreter : "python3", NULL, NULL, false, 0};
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

static void tell_script(struct doctor *doctor, const char *name, const char *interpreter) {
    findings_add(&doctor->findings, "script", SEVERITY_NOTE, "%s is a script: %s runs it", name,
                 interpreter);
    findings_cause(
        &doctor->findings,
        "LD_PRELOAD is inherited by every program that it starts, unless its text takes it away");
}

static void check_interpreter(struct doctor *doctor, const char *name, const char *interpreter) {
    struct findings *findings = &doctor->findings;
    if (!*interpreter) {
        findings_add(findings, "interpreter-missing", SEVERITY_PROBLEM,
                     "%s names no interpreter behind its #!", name);
        findings_remedy(findings, "name one, such as #!/bin/sh");
        return;
    }
    tell_script(doctor, name, interpreter);
    check_program(doctor, interpreter, NULL);
}

/* What the kernel, or execvp, starts for a script: its interpreter with the word behind it, the
 * script and its arguments. */
static void start_interpreter(struct doctor *doctor, const char *name, const char *interpreter,
                              const char *shown, const char *argument, char *const *arguments) {
    size_t count = 0, before = *argument != '\0';
    while (arguments && arguments[count])
        count++;
    char **words = calloc(count + 3, sizeof *words);
    char *script = strdup(name), *first = strdup(argument);
    if (words && script && first) {
        words[0] = first;
        words[before] = script;
        if (count)
            memcpy(words + before + 1, arguments, count * sizeof *words);
        tell_script(doctor, name, shown);
        check_program(doctor, interpreter, words);
    }
    free(first);
    free(script);
    free(words);
}

/* An editor of Windows' has ended the first line by a carriage return, which the kernel takes for a
 * part of the name or of the word behind it. */
static bool check_line_end(struct doctor *doctor, const char *name, const char *interpreter,
                           const char *argument) {
    const char *last = *argument ? argument : interpreter;
    size_t length = strlen(last);
    if (!length || last[length - 1] != '\r')
        return true;
    findings_add(&doctor->findings, "interpreter-missing", SEVERITY_PROBLEM,
                 "%s cannot be started: its first line ends with a carriage return", name);
    findings_cause(&doctor->findings, "the system takes that for a part of what is named there");
    char *word = printable_word(name);
    findings_remedy(&doctor->findings, "sed -i 's/\\r$//' %s", word ? word : "");
    findings_next(&doctor->findings, "sed -i 's/\\r$//' %s", word ? word : "");
    free(word);
    return false;
}

/* A text that no shell and no Python runs, or nothing is known to run: programs that it names. */
static void check_other_text(struct doctor *doctor, const char *name, const char *path,
                             const struct script *script, char *const *arguments) {
    bool before = doctor->cuda_seen;
    doctor->cuda_seen = false;
    bool is_python = ends_in_py(path);
    if (is_python)
        check_python_word(doctor, path);
    else
        check_words(doctor, script);
    if (doctor->cuda_seen && !is_python)
        doctor_caution(doctor, "whether %s starts what it names cannot be told from its text",
                       name);
    if (!doctor->cuda_seen)
        check_arguments(doctor, name, arguments);
    doctor->cuda_seen = doctor->cuda_seen || before;
    doctor_doubt(doctor, "%s starts programs that cannot all be told from its text", name);
}

void check_script(struct doctor *doctor, const char *name, const char *path,
                  char *const *arguments) {
    char interpreter[SCRIPT_LINE], argument[SCRIPT_LINE];
    if (doctor->depth >= DOCTOR_DEEPEST)
        return;
    struct script script = script_read(path);
    bool has_first_line = script_first_line(path, interpreter, argument);
    bool can_start = access(path, X_OK) == 0;
    const char *file = strchr(name, '/') ? name : path;
    if (!can_start && !doctor->depth) {
        findings_add(&doctor->findings, "not-executable", SEVERITY_PROBLEM,
                     "%s cannot be executed: %m", name);
        char *word = printable_word(name);
        findings_remedy(&doctor->findings, "chmod +x %s, or give its interpreter before it",
                        word ? word : name);
        findings_next(&doctor->findings, "chmod +x %s", word ? word : name);
        free(word);
    }
    doctor->depth++;
    if (has_first_line && !check_line_end(doctor, name, interpreter, argument))
        ;
    else if (has_first_line &&
             (python_is_interpreter(script.interpreter) || shell_is(script.interpreter)))
        start_interpreter(doctor, file, interpreter, script.interpreter, argument, arguments);
    else if (!has_first_line && can_start && !ends_in_py(path))
        start_interpreter(doctor, file, "/bin/sh", "/bin/sh", "", arguments);
    else {
        if (has_first_line)
            check_interpreter(doctor, name, script.interpreter);
        check_other_text(doctor, name, path, &script, arguments);
    }
    doctor->depth--;
    script_free(&script);
}
