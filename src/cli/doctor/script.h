/* What can be seen of a script in its text. */
#ifndef POOLCUDA_CLI_DOCTOR_SCRIPT_H
#define POOLCUDA_CLI_DOCTOR_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* Invariant: no string is NULL. */
struct script {
    char *interpreter; /* as the first line names it, env looked through; "" if it names none */
    char **words;      /* of its text, each once, at most a few thousand */
    size_t word_count;
};

/* Reads the script (at most its first MiB). The first line counts only if it begins with #!. Free
 * it with script_free. */
struct script script_read(const char *path);

/* Looks at a text. */
struct script script_read_text(const char *bytes, size_t length);

/* The first `most` bytes of a regular file; NULL if it cannot be read. The caller frees them. */
char *script_read_bytes(const char *path, size_t most, size_t *length);

void script_free(struct script *script);

/* Whether the word is in its text. */
bool script_has(const struct script *script, const char *word);

/* Whether it begins with a line of text, as what a shell reads does. */
bool script_is_text(const char *path);

/* The first line as the kernel takes it: the interpreter, and all that is behind it as one word or
 * "". False if the file does not begin with #!. */
enum { SCRIPT_LINE = 256 };
bool script_first_line(const char *path, char interpreter[SCRIPT_LINE], char argument[SCRIPT_LINE]);

/* The file that a shell would start for this name: itself if it has a slash, else the first of that
 * name in PATH that can be executed. NULL if there is none. The caller frees it. */
char *script_find_program(const char *name);

#endif
