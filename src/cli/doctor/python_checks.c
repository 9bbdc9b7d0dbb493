/* What the doctor checks of a Python program: its script, and what that imports and opens. */
#include "cli/doctor/checks.h"
#include "cli/doctor/python_path.h"
#include "cli/doctor/python_search.h"
#include "cli/doctor/python_text.h"
#include "cli/doctor/script.h"

#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS_DEEP = 6 };

static const struct known_module {
    const char *name;
    bool keeps_memory, asks;
} known_modules[] = {
#define PYTHON_MODULE(name, keeps_memory, asks) {#name, keeps_memory, asks},
#include "cli/doctor/python_modules.def"
#undef PYTHON_MODULE
};

/* One program's modules. No file is looked at twice with the same certainty. */
struct search {
    struct doctor *doctor;
    const char *name; /* of the script, for people */
    struct python_path path;
    struct python_files files;
    char named[512], keeping[512]; /* modules that use CUDA, and those that keep memory */
    char absent[512];              /* those that are not found */
    char *loader;                  /* a package that loads modules under names that it is given */
};

/* One file's text, and where it stands. */
struct page {
    const char *title;  /* for people */
    const char *folder; /* against which relative imports are meant; NULL: none */
    enum python_origin origin;
    enum certainty certainty;
};

static void add_name(char *list, size_t size, const char *name) {
    size_t length = strlen(list);
    const char *there = strstr(list, name);
    if (!there || (there[strlen(name)] && there[strlen(name)] != ','))
        snprintf(list + length, size - length, "%s%s", length ? ", " : "", name);
}

static const struct known_module *find_known(const char *name) {
    size_t length = strcspn(name, ".");
    for (size_t i = 0; i < sizeof known_modules / sizeof known_modules[0]; i++)
        if (strlen(known_modules[i].name) == length &&
            strncmp(known_modules[i].name, name, length) == 0)
            return &known_modules[i];
    return NULL;
}

/* False if it has been looked at as surely. */
static bool note_file(struct search *search, const char *path, enum certainty certainty) {
    bool full = false;
    bool is_new = python_files_note(&search->files, path, certainty, &full);
    if (full)
        doctor_doubt(search->doctor, "%s imports more than %d files: not all were read",
                     search->name, PYTHON_FILES_MAX);
    return is_new;
}

static bool is_own(const struct page *page) {
    return page->origin == PYTHON_OWN;
}

static bool names_driver(const char *name) {
    const char *base = base_name(name);
    return strncmp(base, "libcuda.so", 10) == 0 || strncmp(base, "libcudart", 9) == 0;
}

static void look_at_page(struct search *search, const struct page *page,
                         const struct python_text *text);

static void look_at_library(struct search *search, const struct page *page, const char *path) {
    if (!note_file(search, path, page->certainty))
        return;
    if (page->certainty == SURELY) {
        check_opened(search->doctor, path, NULL);
    } else {
        struct elf_file file = elf_file_read(path);
        if (routes_of(&file, path))
            doctor_doubt(search->doctor, "%s can load %s, which uses CUDA", search->name, path);
        elf_file_free(&file);
    }
}

static void look_at_file(struct search *search, const struct python_module *module,
                         const char *title, enum certainty certainty) {
    struct stat facts;
    struct page page = {title, NULL, module->origin, certainty};
    if (stat(module->path, &facts) != 0 || S_ISDIR(facts.st_mode))
        return;
    if (module->is_code) {
        look_at_library(search, &page, module->path);
        return;
    }
    if (note_file(search, module->path, certainty))
        python_files_wait(&search->files, module, title, certainty);
}

/* The files that wait, and in their turn those that they import. */
static void look_at_waiting(struct search *search) {
    struct python_waiting next;
    while (python_files_take(&search->files, &next)) {
        char folder[PATH_MAX];
        struct page page = {next.title, folder, next.origin, next.certainty};
        snprintf(folder, sizeof folder, "%s", next.path);
        char *slash = strrchr(folder, '/');
        if (slash)
            *slash = '\0';
        struct python_text text = python_text_read_file(next.path);
        look_at_page(search, &page, &text);
        python_text_free(&text);
        free(next.path);
        free(next.title);
    }
}

static bool ends_in(const char *path, const char *end) {
    size_t length = strlen(path), wanted = strlen(end);
    return length > wanted && strcmp(path + length - wanted, end) == 0;
}

/* Everything in a folder: what is loaded from there under names that are put together is in it
 * somewhere. */
static void look_at_folder(struct search *search, const char *path, const char *title) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    if (ends_in(folder, "/__init__.py"))
        *strrchr(folder, '/') = '\0';
    if (!note_file(search, folder, SURELY))
        return;
    char *const start[] = {folder, NULL};
    FTS *tree = fts_open(start, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *entry;
    while (tree && (entry = fts_read(tree))) {
        struct page page = {title, NULL, PYTHON_INSTALLED, PERHAPS};
        if (entry->fts_info == FTS_D && entry->fts_level > FOLDERS_DEEP)
            fts_set(tree, entry, FTS_SKIP);
        if (entry->fts_info != FTS_F)
            continue;
        if (strstr(entry->fts_name, ".so") && !ends_in(entry->fts_name, ".py")) {
            look_at_library(search, &page, entry->fts_path);
        } else if (ends_in(entry->fts_name, ".py") && note_file(search, entry->fts_path, PERHAPS)) {
            struct python_text text = python_text_read_file(entry->fts_path);
            look_at_page(search, &page, &text);
            python_text_free(&text);
        }
    }
    if (tree)
        fts_close(tree);
}

/* A module that is known to use CUDA. What an installed package names so counts only if it is
 * there: many can work with several such modules and need none. */
static void look_at_known(struct search *search, const struct page *page,
                          const struct python_text *text, const struct python_import *import,
                          const struct known_module *known) {
    struct python_module found = python_path_find(&search->path, known->name);
    bool there = found.path != NULL, asked = !known->asks || text->names_cuda;
    struct doctor *doctor = search->doctor;
    free(found.path);
    if (!is_own(page) && !there)
        return;
    if (!is_own(page)) {
        asked = asked && page->certainty == SURELY && import->always && !known->asks;
        if (!asked)
            doctor_doubt(doctor, "%s imports %s, which can use %s", search->name, page->title,
                         known->name);
    } else if (!there && !import->always) {
        /* Inside a try, which has another way, or in a function. */
        doctor_doubt(doctor, "%s imports %s in one of its branches, which is not found here",
                     page->title, known->name);
        return;
    } else if (!asked) {
        doctor_doubt(doctor,
                     "%s imports %s, which uses a GPU where it is asked to, and %s does not name "
                     "one",
                     page->title, known->name, page->title);
    } else if (!there) {
        add_name(search->absent, sizeof search->absent, known->name);
    }
    if (!asked)
        return;
    add_name(search->named, sizeof search->named, known->name);
    if (known->keeps_memory)
        add_name(search->keeping, sizeof search->keeping, known->name);
}

/* What is above a module in its package is loaded before it. */
static void look_at_module(struct search *search, const struct page *page,
                           const struct python_import *import, enum certainty certainty) {
    char name[256];
    snprintf(name, sizeof name, "%s", import->name);
    for (char *dot = strchr(name, '.');; dot = strchr(dot + 1, '.')) {
        if (dot)
            *dot = '\0';
        struct python_module found = {.path = NULL};
        if (import->level) {
            char folder[PATH_MAX];
            snprintf(folder, sizeof folder, "%s", page->folder ? page->folder : "");
            for (unsigned up = 1; up < import->level && strrchr(folder, '/'); up++)
                *strrchr(folder, '/') = '\0';
            if (page->folder && *name)
                found = python_path_find_in(folder, page->origin, name);
        } else {
            found = python_path_find(&search->path, name);
        }
        if (found.path && found.origin != PYTHON_STANDARD) {
            look_at_file(search, &found, name, certainty);
            if (found.origin == PYTHON_INSTALLED && !import->level && !strchr(name, '.') &&
                found.is_package && certainty == SURELY)
                look_at_folder(search, found.path, name);
        } else if (!found.path && is_own(page) && !import->perhaps && !import->level &&
                   !python_is_builtin(name)) {
            doctor_doubt(search->doctor,
                         "%s imports %s, which is not found where this Python looks", page->title,
                         name);
        }
        /* What Python's own library has inside its modules is its own, too. */
        bool ends = !dot || !found.path || found.origin == PYTHON_STANDARD;
        free(found.path);
        if (ends)
            return;
        *dot = '.';
    }
}

/* Modules that find what they run by themselves. */
static bool collects(const char *module) {
    static const char *const names[] = {"pytest",  "unittest", "doctest",  "nose",      "coverage",
                                        "IPython", "jupyter",  "notebook", "ipykernel", "code"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(module, names[i]) == 0)
            return true;
    return false;
}

static void look_at_imports(struct search *search, const struct page *page,
                            const struct python_text *text) {
    for (size_t i = 0; i < text->import_count; i++) {
        const struct python_import *import = &text->imports[i];
        const struct known_module *known = import->level ? NULL : find_known(import->name);
        enum certainty certainty =
            page->certainty == SURELY && (import->always || is_own(page)) ? SURELY : PERHAPS;
        if (is_own(page) && collects(import->name) && strcmp(import->name, "unittest") != 0 &&
            strcmp(import->name, "code") != 0 && strcmp(import->name, "doctest") != 0)
            doctor_doubt(search->doctor, "%s runs what %s collects", page->title, import->name);
        if (known)
            look_at_known(search, page, text, import, known);
        else if (page->certainty == SURELY)
            look_at_module(search, page, import, certainty);
    }
}

static void look_at_opened(struct search *search, const struct page *page,
                           const struct python_text *text) {
    struct doctor *doctor = search->doctor;
    const char *driver = NULL;
    for (size_t i = 0; i < text->library_count; i++)
        driver = names_driver(text->libraries[i]) ? text->libraries[i] : driver;
    for (size_t i = 0; text->opens_others && !driver && i < text->string_count; i++)
        driver = names_driver(text->strings[i]) ? text->strings[i] : driver;
    if (driver && page->certainty == SURELY) {
        char how[256];
        snprintf(how, sizeof how, "%s through ctypes", driver);
        add_name(search->named, sizeof search->named, how);
    } else if (driver) {
        doctor_doubt(doctor, "%s imports %s, which can open %s", search->name, page->title, driver);
    }
    if (page->certainty != SURELY || driver)
        return;
    for (size_t i = 0; i < text->library_count; i++) {
        char beside[PATH_MAX];
        const char *name = text->libraries[i] ? text->libraries[i] : "";
        snprintf(beside, sizeof beside, "%s/%s", page->folder ? page->folder : ".", name);
        bool is_beside = *name != '/' && access(beside, R_OK) == 0;
        check_opened(doctor, is_beside ? beside : name, NULL);
    }
    if (text->opens_others && is_own(page))
        doctor_doubt(doctor, "%s opens libraries under names that it puts together as it runs",
                     page->title);
}

/* Programs that a script starts: by names in its strings, and others. */
static void look_at_started(struct search *search, const struct page *page,
                            const struct python_text *text) {
    struct doctor *doctor = search->doctor;
    bool starts = text->starts_others;
    /* Its own processes, whatever they are started with, run the same text. */
    bool forks = false;
    for (size_t i = 0; i < text->import_count; i++)
        if (strncmp(text->imports[i].name, "subprocess.", 11) == 0)
            starts = true;
        else if (strncmp(text->imports[i].name, "multiprocessing", 15) == 0 ||
                 strncmp(text->imports[i].name, "concurrent", 10) == 0)
            forks = true;
    if (!is_own(page))
        return;
    if ((text->names_preload && (starts || forks)) || text->names_disable)
        doctor_caution(doctor,
                       "%s names %s: whether it takes the pool from what uses CUDA cannot be "
                       "known",
                       page->title, text->names_disable ? "POOLCUDA_DISABLE" : "LD_PRELOAD");
    if (!starts)
        return;
    if (text->sets_environment)
        doctor_caution(
            doctor,
            "%s starts programs in an environment or a folder that it puts together as it "
            "runs",
            page->title);
    for (size_t i = 0; i < text->started_count; i++)
        check_shell_text(doctor, page->title, page->folder, text->started[i], NULL);
    bool before = doctor->cuda_seen;
    doctor->cuda_seen = false;
    for (size_t i = 0; !before && i < text->string_count; i++) {
        struct script words = script_read_text(text->strings[i], strlen(text->strings[i]));
        check_words(doctor, &words);
        script_free(&words);
    }
    if (doctor->cuda_seen)
        doctor_caution(doctor, "whether %s starts what it names cannot be known from its text",
                       page->title);
    doctor->cuda_seen = doctor->cuda_seen || before;
    doctor_doubt(doctor, "%s starts other programs", page->title);
}

static void look_at_page(struct search *search, const struct page *page,
                         const struct python_text *text) {
    look_at_imports(search, page, text);
    look_at_opened(search, page, text);
    look_at_started(search, page, text);
    if (!is_own(page)) {
        if (page->certainty == SURELY && text->imports_others && !search->loader)
            search->loader = strdup(page->title);
        return;
    }
    if (text->imports_others)
        doctor_doubt(search->doctor, "%s runs code or imports modules whose names it puts together",
                     page->title);
    if (text->hides)
        doctor_doubt(search->doctor,
                     "%s can reach functions, or run code, that its text does not show (%s)",
                     page->title, text->hides);
    if (text->names_deepbind) {
        struct findings *findings = &search->doctor->findings;
        findings_add(findings, "deepbind", SEVERITY_WARNING, "%s names RTLD_DEEPBIND", page->title);
        findings_cause(findings,
                       "a library opened so finds libc's dlsym and CUDA's functions before "
                       "any preloaded ones: its calls go past the pool");
        findings_remedy(findings,
                        "open libraries without RTLD_DEEPBIND; the report names what went "
                        "past the pool");
    }
}

static void tell_modules(struct search *search) {
    struct findings *findings = &search->doctor->findings;
    if (*search->named) {
        findings_add(findings, "script-modules", SEVERITY_NOTE,
                     "%s names %s: what it loads through them is reached by the pool", search->name,
                     search->named);
        findings_cause(findings, "they find CUDA through dlsym, which the pool answers");
        search->doctor->cuda_seen = true;
    }
    if (*search->absent) {
        findings_add(findings, "module-missing", SEVERITY_WARNING,
                     "%s is not found where the Python of %s looks", search->absent, search->name);
        findings_cause(findings, "if the run finds no more, it ends before it uses CUDA");
        findings_remedy(findings, "start it by the Python that has these modules, or install them");
    }
    if (*search->keeping) {
        findings_add(findings, "own-pool", SEVERITY_NOTE, "%s keeps memory by itself",
                     search->keeping);
        findings_cause(findings, "it asks CUDA seldom and for large blocks: there is less to gain");
    }
}

/* What a package loads by names that it is given may be anything for a command such as pytest; for
 * a script it is most likely near it. */
static void look_at_loaded(struct search *search, const char *folder, bool is_command) {
    if (!search->loader || *search->named)
        return;
    if (is_command || strcmp(base_name(folder), "bin") == 0)
        doctor_doubt(search->doctor, "%s imports %s, which loads modules whose names it is given",
                     search->name, search->loader);
    else
        look_at_folder(search, *folder ? folder : ".", "a file beside it");
}

static void search_text(struct doctor *doctor, const struct python_program *program,
                        const char *title, const char *path, const char *folder,
                        const struct python_text *text) {
    struct search search = {.doctor = doctor, .name = title};
    doctor_computes(doctor, title);
    struct page page = {title, folder, PYTHON_OWN, SURELY};
    search.path = python_path_of(program->interpreter, program->library, folder, program->without);
    if (path)
        note_file(&search, path, SURELY);
    look_at_page(&search, &page, text);
    look_at_waiting(&search);
    look_at_loaded(&search, folder, program->is_command);
    tell_modules(&search);
    python_files_free(&search.files);
    free(search.loader);
    python_path_free(&search.path);
}

void check_python_code(struct doctor *doctor, const struct python_program *program,
                       const char *title, const char *code) {
    struct python_text text = python_text_read(code, strlen(code));
    search_text(doctor, program, title, NULL, "", &text);
    python_text_free(&text);
}

void check_python_file(struct doctor *doctor, const struct python_program *program,
                       const char *title, const char *path) {
    char file[PATH_MAX], folder[PATH_MAX];
    struct stat facts;
    snprintf(file, sizeof file, "%s", path);
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        snprintf(file, sizeof file, "%s/__main__.py", path);
    if (stat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || access(file, R_OK) != 0) {
        if (stat(path, &facts) == 0 && !S_ISDIR(facts.st_mode)) {
            doctor_doubt(doctor, "%s cannot be read", title);
            return;
        }
        findings_add(&doctor->findings, "missing", SEVERITY_PROBLEM, "%s: there is no such script",
                     title);
        findings_remedy(&doctor->findings, "give the path of a Python script");
        return;
    }
    size_t length = 0;
    char *bytes = script_read_bytes(file, 4, &length);
    bool archive = bytes && length == 4 && memcmp(bytes, "PK\3\4", 4) == 0;
    bool compiled = ends_in(file, ".pyc");
    free(bytes);
    if (archive || compiled) {
        doctor_doubt(doctor, "%s is %s, which is not read", title,
                     archive ? "a Python program in an archive" : "compiled Python");
        return;
    }
    char real[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", realpath(file, real) ? real : file);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    struct python_text text = python_text_read_file(file);
    search_text(doctor, program, title, file, folder, &text);
    if (text.starts_others && !doctor->cuda_seen)
        check_arguments(doctor, title, program->arguments);
    python_text_free(&text);
}

/* Modules that run the script in their arguments. */
static bool runs_script(const char *module) {
    static const char *const names[] = {"pdb",
                                        "cProfile",
                                        "profile",
                                        "trace",
                                        "mpi4py",
                                        "mpi4py.run",
                                        "torch.distributed.run",
                                        "torch.distributed.launch",
                                        "kernprof",
                                        "debugpy",
                                        "viztracer",
                                        "scalene",
                                        "memory_profiler",
                                        "runpy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(module, names[i]) == 0)
            return true;
    return false;
}

static void check_python_module(struct doctor *doctor, const struct python_program *program,
                                const char *module, char *const *arguments) {
    if (runs_script(module)) {
        char *const *script = arguments;
        while (*script && !ends_in(*script, ".py"))
            script++;
        struct python_program inner = *program;
        inner.arguments = *script ? script + 1 : script;
        if (*script)
            check_python_file(doctor, &inner, *script, *script);
        else
            doctor_doubt(doctor, "no script is seen that the module %s would run", module);
    } else if (collects(module)) {
        doctor_doubt(doctor, "the module %s runs what it collects itself", module);
    } else {
        char code[512];
        struct python_path path =
            python_path_of(program->interpreter, program->library, "", program->without);
        struct python_module found = python_path_find(&path, module);
        if (found.is_package)
            snprintf(code, sizeof code, "import %s, %s.__main__", module, module);
        else
            snprintf(code, sizeof code, "import %s", module);
        struct python_program command = *program;
        command.is_command = found.path && found.origin == PYTHON_INSTALLED;
        free(found.path);
        python_path_free(&path);
        if (strcmp(module, "timeit") == 0)
            for (; *arguments; arguments++)
                check_python_code(doctor, program, "timeit's code", *arguments);
        else
            check_python_code(doctor, &command, module, code);
    }
}

/* What the letters of one word of options say of where modules are looked for. */
static int read_without(const char *letters) {
    size_t length = strcspn(letters, "cmWX");
    const char *safe = getenv("PYTHONSAFEPATH");
    int without = safe && *safe ? PYTHON_WITHOUT_FOLDER : 0;
    for (size_t i = 0; i < length; i++)
        without |= letters[i] == 'I'
                       ? PYTHON_WITHOUT_FOLDER | PYTHON_WITHOUT_ENVIRONMENT | PYTHON_WITHOUT_HOME
                   : letters[i] == 'P' ? PYTHON_WITHOUT_FOLDER
                   : letters[i] == 'E' ? PYTHON_WITHOUT_ENVIRONMENT
                   : letters[i] == 's' ? PYTHON_WITHOUT_HOME
                                       : 0;
    return without;
}

void check_python(struct doctor *doctor, const struct python_program *given) {
    struct python_program options = *given, *program = &options;
    char *const *word = program->arguments;
    for (; word && *word && **word == '-' && (*word)[1]; word++) {
        const char *letter = *word + 1;
        if (strcmp(*word, "--check-hash-based-pycs") == 0) {
            word += word[1] != NULL;
            continue;
        }
        if (*letter == '-')
            continue;
        program->without |= read_without(letter);
        /* Letters may stand together, the value of the last one behind it or in the next word. */
        letter += strcspn(letter, "cmWX");
        if (!*letter)
            continue;
        const char *value = letter[1] ? letter + 1 : word[1];
        if (!value)
            break;
        char *const *rest = letter[1] ? word + 1 : word + 2;
        if (*letter == 'c') {
            check_python_code(doctor, program, "the code behind -c", value);
            return;
        }
        if (*letter == 'm') {
            check_python_module(doctor, program, value, rest);
            return;
        }
        word = rest - 1;
    }
    if (!word || !*word || strcmp(*word, "-") == 0) {
        doctor_doubt(doctor, "%s is given no script: what it runs is typed or comes through a pipe",
                     program->name);
        return;
    }
    struct python_program inner = *program;
    inner.arguments = word + 1;
    check_python_file(doctor, &inner, *word, *word);
}
