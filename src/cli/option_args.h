/* The pool's options as arguments of a subcommand: POOLCUDA_REUSE_RATIO is --reuse-ratio. Made from
 * the option table; what the environment says holds where an argument does not. */
#ifndef POOLCUDA_CLI_OPTION_ARGS_H
#define POOLCUDA_CLI_OPTION_ARGS_H

#include "options/options.h"

#include <argp.h>
#include <stdbool.h>

/* A child parser for the subcommand's argp.children. */
extern const struct argp option_args;

/* This child parser also has the options that concern the preloaded library alone, for commands
 * that start a program. */
extern const struct argp option_args_all;

/* The options, defaults, environment and arguments together. Exits with EXIT_USAGE after one line
 * for each bad value; variables that are no option are reported, by the first call, and ignored. To
 * be called once the arguments have been parsed. */
void option_args_finish(struct options *options);

/* Checks the options before a program is started with them. The library reports variables that are
 * no option, in that program. */
void option_args_check(struct options *options);

/* The first of these options that was typed, as a name without dashes; NULL: none was. */
const char *option_args_given(void);

/* Whether the option was typed, not set in the environment, and its name without dashes. */
bool option_args_typed(const char *variable);
const char *option_args_dashed(const char *variable);

/* What is set, by arguments or in the environment: NAME=VALUE NAME=VALUE ... */
void option_args_join(char *text, size_t size);

#endif
