/* What can be seen of a Python program in its text: imports, libraries that it opens, strings. */
#ifndef POOLCUDA_CLI_DOCTOR_PYTHON_TEXT_H
#define POOLCUDA_CLI_DOCTOR_PYTHON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Invariant: no string is NULL. */
struct python_text {
    struct python_import {
        char *name;     /* with its dots; "" in "from . import" */
        unsigned level; /* dots before the name: relative to the package */
        bool always;    /* at the beginning of a line: done whenever the module is */
        bool perhaps;   /* may as well be a name in a module */
    } * imports;
    size_t import_count;
    char **libraries; /* constant names of libraries that it opens by ctypes or cffi */
    size_t library_count;
    char **strings; /* other constants, comments and documentation left out */
    size_t string_count;
    char **started; /* constant commands that it starts, as a shell would be given them */
    size_t started_count;
    const char *hides;     /* a name by which it does what it does not show; NULL: there is none */
    bool names_preload;    /* LD_PRELOAD is in some string */
    bool names_disable;    /* POOLCUDA_DISABLE is in one */
    bool sets_environment; /* programs are started in another environment or folder */
    bool opens_others;     /* libraries whose names are put together as it runs */
    bool imports_others;   /* modules or code whose names are put together as it runs */
    bool starts_others;    /* programs */
    bool names_cuda;       /* "cuda" or "gpu" is in some name or string */
    bool names_deepbind;   /* RTLD_DEEPBIND */
};

/* Reads `length` bytes, of which the first 4 MiB count. Free the answer with python_text_free. */
struct python_text python_text_read(const char *text, size_t length);

/* Reads a file; without a word if it is no regular file that can be read. */
struct python_text python_text_read_file(const char *path);

void python_text_free(struct python_text *text);

#endif
