/* The command poolcuda: finds the subcommand and hands over to it. */
#include "cli/commands.h"

#include <argp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "poolcuda " POOLCUDA_VERSION;

static const struct command {
    const char *name, *arguments, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"report", "FILE...", "print the figures that programs left in POOLCUDA_STATS_FILE",
     command_report},
    {"replay", "FILE", "run a recorded trace against the pool", command_replay},
    {"tune", "FILE", "find the best settings of the pool for a trace", command_tune},
    {"compare", "A.json B.json", "put two replays side by side", command_compare},
    {"convert", "IN OUT", "write a recorded trace as CSV", command_convert},
    {"options", "", "list the POOLCUDA_* options", command_options},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static error_t parse(int key, char *argument, struct argp_state *state) {
    if (key == ARGP_KEY_ARG) {
        for (size_t i = 0; i < COMMANDS; i++) {
            if (strcmp(argument, commands[i].name) != 0)
                continue;
            /* The subcommand parses the rest; its name in messages is "poolcuda NAME". */
            char name[64];
            snprintf(name, sizeof name, "poolcuda %s", commands[i].name);
            char **rest = state->argv + state->next - 1;
            rest[0] = name;
            exit(commands[i].run(state->argc - state->next + 1, rest));
        }
        argp_error(state, "%s: unknown command, expected one of those that --help lists", argument);
    }
    if (key == ARGP_KEY_NO_ARGS)
        argp_usage(state);
    return ARGP_ERR_UNKNOWN;
}

/* The list of commands, for --help. */
static char *filter(int key, const char *text, void *input) {
    (void)input;
    char *list = NULL;
    size_t size;
    FILE *out = key == ARGP_KEY_HELP_POST_DOC ? open_memstream(&list, &size) : NULL;
    if (!out)
        return (char *)(uintptr_t)text;
    fputs("Commands:\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %s %-*s %s\n", commands[i].name, (int)(24 - strlen(commands[i].name)),
                commands[i].arguments, commands[i].help);
    fputs(text, out);
    fclose(out);
    return list;
}

int main(int argc, char **argv) {
    static const struct argp argp = {
        .parser = parse,
        .args_doc = "COMMAND [ARGUMENT...]",
        .doc = "Tells about programs that ran under libpoolcuda.so, and about traces of them.\v"
               "To pool a program: LD_PRELOAD=libpoolcuda.so POOLCUDA_STATS=1 ./app",
        .help_filter = filter,
    };
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
    return 0;
}
