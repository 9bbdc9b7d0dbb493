/* Where a Python interpreter looks for modules, as its file, its environment and its virtual
 * environment say. Nothing of it is run. */
#ifndef POOLCUDA_CLI_DOCTOR_PYTHON_PATH_H
#define POOLCUDA_CLI_DOCTOR_PYTHON_PATH_H

#include <stdbool.h>
#include <stddef.h>

enum { PYTHON_FOLDERS = 64 };

/* Where Python does not look, by its options -P, -E, -s, and -I for all of them. */
enum python_without {
    PYTHON_WITHOUT_FOLDER = 1, /* the script's or the current one */
    PYTHON_WITHOUT_ENVIRONMENT = 2,
    PYTHON_WITHOUT_HOME = 4,
};

/* In the order in which they are looked through. */
struct python_path {
    struct python_folder {
        char *path;
        enum python_origin {
            PYTHON_OWN,      /* the script's folder and PYTHONPATH */
            PYTHON_STANDARD, /* Python's own library */
            PYTHON_INSTALLED,
        } origin;
    } folders[PYTHON_FOLDERS];
    size_t count;
};

/* A module's file. path is NULL of what was not found and of what has no file. */
struct python_module {
    char *path;
    enum python_origin origin;
    bool is_package; /* path is that of its __init__.py, or of the folder without one */
    bool is_code;    /* a library rather than text */
};

/* Whether a program of this name is a Python interpreter: python, python3.11, pypy3. */
bool python_is_interpreter(const char *name);

/* The interpreter that pyenv's stand-in `shim` would start; NULL if that is none or names none. The
 * caller frees it. */
char *python_behind_shim(const char *shim);

/* `interpreter` is a path with its links as they are, by which Python tells a virtual environment;
 * `library` is its libpython or NULL; `script_folder` stands first ("" for the current one);
 * `without` is a set of enum python_without. */
struct python_path python_path_of(const char *interpreter, const char *library,
                                  const char *script_folder, int without);

/* The module `name` (a.b.c). Free the answer's path. */
struct python_module python_path_find(const struct python_path *path, const char *name);

/* The module `name` within the folder of a package; the same. */
struct python_module python_path_find_in(const char *folder, enum python_origin origin,
                                         const char *name);

/* Whether this is one of the modules that are inside the interpreter. */
bool python_is_builtin(const char *name);

void python_path_free(struct python_path *path);

#endif
