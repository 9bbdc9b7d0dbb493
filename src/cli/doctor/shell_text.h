/* A shell's text, read command by command as the shell would read it. Nothing of it is run: what a
 * variable or an expansion gives is asked of the caller, or is unknown. */
#ifndef POOLCUDA_CLI_DOCTOR_SHELL_TEXT_H
#define POOLCUDA_CLI_DOCTOR_SHELL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Stands in a word's text for what cannot be known. */
#define SHELL_UNKNOWN '\1'

/* Asked for like a variable: what $(poolcuda preload) prints. */
#define SHELL_PRELOAD_COMMAND "poolcuda preload"

enum { SHELL_WORDS = 256 };

/* One simple command. Invariant: no word is NULL, words[count] is. */
struct shell_command {
    char *words[SHELL_WORDS + 1];
    size_t count;
    size_t assignments; /* NAME=VALUE before the command's name */
    bool perhaps;       /* whether it is reached depends on others: if, &&, loops */
    bool apart;         /* what it changes does not outlast it: a pipe, & */
    bool all_unknown;   /* among the words are "$@" or the like, of which nothing is known */
    char *input;        /* its here-document; NULL: none */
};

/* What the reader asks and tells. */
struct shell_reader {
    void *context;
    void (*command)(void *context, const struct shell_command *command);
    /* ( ... ) and $( ... ) begin and end: what is changed in between does not outlast it. */
    void (*scope)(void *context, bool begins);
    /* The value of NAME, 1 ..., and of @ the next of all positional parameters, from 1 on, as it is
     * asked again; NULL at their end. `known` is set to whether the answer is one. */
    const char *(*value)(void *context, const char *name, size_t which, bool *known);
    /* A function: the text of its body. */
    void (*function)(void *context, const char *name, const char *body, size_t length);
    /* A variable that a loop sets. */
    void (*loop)(void *context, const char *name);
};

/* `perhaps`: all of it may not be reached. */
void shell_text_read(const struct shell_reader *reader, const char *text, size_t length,
                     bool perhaps);

#endif
