/* The subcommands. Each gets its own arguments, argv[0] being "poolcuda NAME", and returns the exit
 * status: 0, or 1 if something could not be done. Bad usage ends the process (argp) with
 * EXIT_USAGE, whichever command it is. What is printed and lost makes 0 to 1, or to the command's
 * own code for that (standard_output.h).
 */
#ifndef POOLCUDA_CLI_COMMANDS_H
#define POOLCUDA_CLI_COMMANDS_H

#include <argp.h>
#include <stddef.h>

enum { EXIT_USAGE = 2 };

/* report_argp and command_report, and so for each row of the table. */
#define COMMAND(name, arguments, pools, help)                                                      \
    extern const struct argp name##_argp;                                                          \
    int command_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

/* What completes a subcommand's arguments. */
enum command_arguments {
    ARGUMENTS_NOTHING,
    ARGUMENTS_FILES,
    ARGUMENTS_PROGRAM,
    ARGUMENTS_PROCESS,
    ARGUMENTS_SETTINGS,
    ARGUMENTS_WORDS
};

/* Whether a subcommand runs a pool of its own. */
enum command_pools { COMMAND_POOLS_NOTHING, COMMAND_REPLAYS };

struct command {
    const char *name, *help;
    const struct argp *argp;
    int (*run)(int argc, char **argv);
    enum command_arguments arguments;
    enum command_pools pools;
};
extern const struct argp main_argp; /* of `poolcuda` itself */
extern const struct command command_table[];
extern const size_t command_count;

#endif
