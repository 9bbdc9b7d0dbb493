/* The pool's options as arguments of a subcommand: POOLCUDA_REUSE_RATIO is --reuse-ratio. Made from
 * the option table; what the environment says holds where an argument does not. */
#ifndef POOLCUDA_CLI_OPTION_ARGS_H
#define POOLCUDA_CLI_OPTION_ARGS_H

#include "options.h"

#include <argp.h>

/* A child parser for the subcommand's argp.children. */
extern const struct argp option_args;

/* The same with those options that concern the preloaded library alone, for what starts a program.
 */
extern const struct argp option_args_all;

/* The options, defaults, environment and arguments together. Exits with EXIT_USAGE after one line
 * for each bad value; variables that are no option are told of and ignored. To be called once the
 * arguments have been parsed. */
void option_args_finish(struct options *options);

/* The same before a program is started with these options: of variables that are no option the
 * library will tell there. */
void option_args_check(struct options *options);

/* What is set, by arguments or in the environment: NAME=VALUE NAME=VALUE ... */
void option_args_join(char *text, size_t size);

#endif
