/* Bad usage: one line says what was wrong and what was expected, and the process ends with
 * EXIT_USAGE. What the user typed is printed without what a terminal might obey. */
#ifndef POOLCUDA_CLI_USAGE_H
#define POOLCUDA_CLI_USAGE_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* As argp_error, which prints words as they are. */
__attribute__((format(printf, 2, 3))) void usage_error(const struct argp_state *state,
                                                       const char *pattern, ...);

/* What a line calls a word that the user typed: the word itself, or "" in quotes where nothing
 * would be seen. */
const char *usage_word(const char *word);

/* To be called before argp_parse, which tells an option that is none as it was typed: ends the
 * process as that would if a word that a terminal might obey is such an option. in_order: what
 * stands behind the first argument is not parsed. */
void usage_check_options(const struct argp *argp, int argc, char *const *argv, bool in_order);

/* The name of a file: anything but "". what: the option's name, or what the argument is. */
const char *usage_file(const char *name, const char *what, const struct argp_state *state);

/* A number is decimal digits and nothing else: no sign, blank or exponent. */
bool usage_whole_number(const char *text, unsigned long least, unsigned long most,
                        unsigned long *number);

/* Reads a number that may have a decimal point. Returns what follows it, NULL if it is none. */
const char *usage_decimal(const char *text, double *number);

#endif
