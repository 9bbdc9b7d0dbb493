/* The options that an argp and its children offer, as one list: what man pages and completions
 * show. */
#ifndef POOLCUDA_CLI_OPTION_ROWS_H
#define POOLCUDA_CLI_OPTION_ROWS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* What completes an option's argument. */
enum option_argument { ARGUMENT_NONE, ARGUMENT_FILE, ARGUMENT_WORDS, ARGUMENT_OTHER };

/* An option has a letter, a name or both; a heading, which precedes those of its group, has
 * neither. */
struct option_row {
    char letter;      /* 0: none */
    const char *name; /* without the dashes; NULL: none */
    const char
        *value; /* what the argument is called; words to choose from are separated by |; or NULL */
    const char *help; /* "" if there is none; the heading's text */
    enum option_argument argument;
    bool optional; /* the argument may be left out */
};

/* Calls each() for every option that --help would show, in the tables' order and those of argp's
 * own last. The row is valid during the call. */
void option_rows(const struct argp *argp, void (*each)(const struct option_row *row, void *state),
                 void *state);

static inline bool option_row_is_heading(const struct option_row *row) {
    return !row->letter && !row->name;
}

/* The help's first clause, which fits in a list of completions: its length. */
size_t option_help_brief(const char *help);

#endif
