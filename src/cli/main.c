/* The command poolcuda: finds the subcommand and hands over to it. */
#include "cli/commands.h"
#include "cli/man_source.h"
#include "cli/preload.h"
#include "cli/standard_output.h"
#include "cli/usage.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "poolcuda " POOLCUDA_VERSION;

enum { KEY_MAN_SOURCE = 0x100 };

/* NULL: it is none. */
static const struct command *find(const char *name) {
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(name, command_table[i].name) == 0)
            return &command_table[i];
    return NULL;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    if (key == ARGP_KEY_ARG) {
        const struct command *command = find(argument);
        if (command) {
            /* The subcommand parses the rest; its name in messages is "poolcuda NAME". */
            static char name[64];
            snprintf(name, sizeof name, "poolcuda %s", command->name);
            char **rest = state->argv + state->next - 1;
            rest[0] = name;
            standard_output_owner(name);
            usage_check_options(command->argp, state->argc - state->next + 1, rest,
                                command->arguments == ARGUMENTS_PROGRAM);
            exit(command->run(state->argc - state->next + 1, rest));
        }
        usage_error(state, "%s: unknown command, expected one of those that --help lists",
                    usage_word(argument));
    }
    if (key == KEY_MAN_SOURCE)
        exit(man_source(argument) ? 0 : 1);
    if (key == ARGP_KEY_NO_ARGS)
        usage_error(state, "no command given, expected one of those that --help lists");
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
    for (size_t i = 0; i < command_count; i++)
        fprintf(out, "  %-12s %s\n", command_table[i].name, command_table[i].help);
    fputs("\n`poolcuda COMMAND --help` tells a command's arguments and options.\n", out);
    fputs(text, out);
    fclose(out);
    return list;
}

static const struct argp_option rows[] = {
    /* The build alone uses this. */
    {"man-source", KEY_MAN_SOURCE, "PAGE", OPTION_HIDDEN, "fill stdin's template of a man page", 0},
    {0},
};
const struct argp main_argp = {
    .options = rows,
    .parser = parse,
    .args_doc = "COMMAND [ARGUMENT...]",
    .doc = "Runs programs under libpoolcuda.so, and tells about them and about traces of them.\v"
           "To pool a program: poolcuda run ./app",
    .help_filter = filter,
};

int main(int argc, char **argv) {
    const struct command *first = argc > 1 ? find(argv[1]) : NULL;
    if (first && first->pools == COMMAND_REPLAYS)
        preload_leave(argv);
    standard_output_watch();
    argp_err_exit_status = EXIT_USAGE;
    usage_check_options(&main_argp, argc, argv, true);
    argp_parse(&main_argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
    return 0;
}
