/* What the doctor checks of a script: its interpreter, and what its text names. */
#include "cli/doctor/checks.h"
#include "cli/doctor/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct module_name {
    const char *name;
    bool keeps_memory; /* has a pool of its own */
} modules[] = {
    {"ctypes", false},    {"cffi", false},   {"cuda", false}, {"numba", false}, {"pycuda", false},
    {"pyopencl", false},  {"triton", false}, {"cupy", true},  {"jax", true},    {"torch", true},
    {"tensorflow", true}, {"paddle", true},  {"mxnet", true}, {"rmm", true},    {"cudf", true},
};

static void check_modules(struct doctor *doctor, const char *name, const struct script *script) {
    struct findings *findings = &doctor->findings;
    char named[512] = "", keeping[512] = "";
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        if (!script_has(script, modules[i].name))
            continue;
        size_t length = strlen(named);
        snprintf(named + length, sizeof named - length, "%s%s", length ? ", " : "",
                 modules[i].name);
        length = strlen(keeping);
        if (modules[i].keeps_memory)
            snprintf(keeping + length, sizeof keeping - length, "%s%s", length ? ", " : "",
                     modules[i].name);
    }
    if (*named) {
        findings_add(findings, "script-modules", SEVERITY_NOTE,
                     "%s names %s: what it loads through them is reached by the pool", name, named);
        findings_cause(findings, "they find CUDA through dlsym, which the pool answers");
        doctor->cuda_seen = true;
    }
    if (*keeping) {
        findings_add(findings, "own-pool", SEVERITY_NOTE, "%s keeps memory by itself", keeping);
        findings_cause(findings, "it asks CUDA seldom and for large blocks: there is less to gain");
    }
    if (script_has(script, "RTLD_DEEPBIND")) {
        findings_add(findings, "deepbind", SEVERITY_WARNING, "%s names RTLD_DEEPBIND", name);
        findings_cause(findings,
                       "a library opened so finds libc's dlsym and CUDA's functions before "
                       "any preloaded ones: its calls go past the pool");
        findings_remedy(findings,
                        "open libraries without RTLD_DEEPBIND; the report names what went "
                        "past the pool");
    }
}

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

/* Words of other languages are no modules: "module load cuda" loads none of Python's. A text
 * without a first line of its own was handed to some interpreter. */
static bool is_python(const char *name, const struct script *script) {
    return !*script->interpreter || ends_in_py(name) ||
           strstr(base_name(script->interpreter), "py");
}

/* A Python file without #! that a shell script hands to python. */
static bool check_python_file(struct doctor *doctor, const char *word) {
    if (!ends_in_py(word) || access(word, R_OK) != 0)
        return false;
    struct script script = script_read(word);
    check_modules(doctor, word, &script);
    script_free(&script);
    return true;
}

static void check_interpreter(struct doctor *doctor, const char *name, const char *interpreter) {
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
    check_program(doctor, interpreter, NULL);
}

void check_script(struct doctor *doctor, const char *name, const char *path,
                  char *const *arguments) {
    struct script script = script_read(path);
    bool has_first_line = *script.interpreter != '\0';
    struct elf_file file = elf_file_read(path);
    if (doctor->depth >= DOCTOR_DEEPEST) {
        script_free(&script);
        elf_file_free(&file);
        return;
    }
    if (file.kind == ELF_SCRIPT && access(path, X_OK) != 0 && !doctor->depth) {
        findings_add(&doctor->findings, "not-executable", SEVERITY_PROBLEM,
                     "%s cannot be executed: %m", name);
        findings_remedy(&doctor->findings, "chmod +x it, or give its interpreter before it");
    }
    doctor->depth++;
    if (file.kind == ELF_SCRIPT || has_first_line)
        check_interpreter(doctor, name, script.interpreter);
    if (is_python(name, &script))
        check_modules(doctor, name, &script);
    for (size_t i = 0; i < script.word_count; i++)
        if (!check_word(doctor, script.words[i]))
            check_python_file(doctor, script.words[i]);
    doctor->depth--;
    /* Wrappers start what they are given; pyenv's python3 is one, and Debian's valgrind. */
    if (!doctor->cuda_seen)
        check_arguments(doctor, arguments);
    if (!doctor->cuda_seen && !doctor->depth) {
        findings_add(&doctor->findings, "no-cuda", SEVERITY_WARNING,
                     "%s names no CUDA that can be seen", name);
        findings_cause(&doctor->findings,
                       "no program in it, by path or in PATH, and no module in it is "
                       "known to use CUDA; what it starts otherwise is not seen");
        findings_remedy(&doctor->findings, "examine the program that does the computing");
    }
    elf_file_free(&file);
    script_free(&script);
}
