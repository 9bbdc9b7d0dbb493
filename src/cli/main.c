/* The command poolcuda: finds the subcommand and hands over to it. */
#include "cli/commands.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "poolcuda " POOLCUDA_VERSION;

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"report", command_report},
    {"options", command_options},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    if (key == ARGP_KEY_ARG) {
        for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
            if (strcmp(argument, commands[i].name) != 0)
                continue;
            /* The subcommand parses the rest; its name in messages is "poolcuda NAME". */
            char name[64];
            snprintf(name, sizeof name, "poolcuda %s", commands[i].name);
            char **rest = state->argv + state->next - 1;
            rest[0] = name;
            exit(commands[i].run(state->argc - state->next + 1, rest));
        }
        argp_error(state, "%s: unknown command, expected report or options", argument);
    }
    if (key == ARGP_KEY_NO_ARGS)
        argp_usage(state);
    return ARGP_ERR_UNKNOWN;
}

int main(int argc, char **argv) {
    static const struct argp argp = {
        .parser = parse,
        .args_doc = "COMMAND [ARGUMENT...]",
        .doc = "Tells about programs that ran under libpoolcuda.so.\v"
               "Commands:\n"
               "  report FILE...   print the figures that programs left in POOLCUDA_STATS_FILE\n"
               "  options          list the POOLCUDA_* options\n\n"
               "To pool a program: LD_PRELOAD=libpoolcuda.so POOLCUDA_STATS=1 ./app",
    };
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
    return 0;
}
