/* Prints the completions of a made-up table of commands, which has every kind of argument and
 * option: what tests/e2e/test_completions.py looks at beside the real table's. */
#include "cli/commands.h"

#include <stdio.h>

static int nothing(int argc, char **argv) {
    (void)argc;
    (void)argv;
    return 0;
}

static const struct argp_option made_up_run_rows[] = {
    {0, 0, 0, 0, "What's a heading:", 1},
    {"free", 'f', "sync|auto|defer", 0, "the wait (of a free)", 1},
    {"log", 'l', "FILE", 0, "where it's [logged]: a `file`. More of it", 1},
    {"number", 'n', "N", 0, "a number", 0},
    {"color", 'c', "never|always", OPTION_ARG_OPTIONAL, "in color", 0},
    {"colour", 0, 0, OPTION_ALIAS, 0, 0},
    {"secret", 's', 0, OPTION_HIDDEN, "hidden", 0},
    {"quiet", 'q', 0, 0, "say less", 0},
    {0},
};
static const struct argp made_up_run = {.options = made_up_run_rows,
                                        .args_doc = "PROGRAM [ARGUMENT...]"};
static const struct argp made_up_trim = {.args_doc = "PID..."};
static const struct argp made_up_plain = {0};
const struct argp main_argp = {0};

const struct command command_table[] = {
    {"run", "run a program; or not", &made_up_run, nothing, ARGUMENTS_PROGRAM,
     COMMAND_POOLS_NOTHING},
    {"trim", "have processes give back: all", &made_up_trim, nothing, ARGUMENTS_PROCESS,
     COMMAND_POOLS_NOTHING},
    {"plain", "it's plain", &made_up_plain, nothing, ARGUMENTS_NOTHING, COMMAND_POOLS_NOTHING},
    {"completions", "print them", &completions_argp, command_completions, ARGUMENTS_WORDS,
     COMMAND_POOLS_NOTHING},
};
const size_t command_count = sizeof command_table / sizeof command_table[0];

int main(int argc, char **argv) {
    return command_completions(argc, argv);
}
