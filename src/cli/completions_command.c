/* poolcuda completions: the script that completes poolcuda's arguments in a shell. */
#include "cli/commands.h"
#include "cli/completions.h"
#include "cli/usage.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*print)(void);
} shells[] = {{"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}};
enum { SHELLS = sizeof shells / sizeof shells[0] };

static error_t parse(int key, char *argument, struct argp_state *state) {
    size_t *shell = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            usage_error(state, "%s: expected one shell only", usage_word(argument));
        for (*shell = 0; *shell < SHELLS && strcmp(shells[*shell].name, argument) != 0;)
            ++*shell;
        if (*shell == SHELLS)
            usage_error(state, "%s: unknown shell, expected bash, zsh or fish",
                        usage_word(argument));
        return 0;
    case ARGP_KEY_NO_ARGS:
        usage_error(state, "no shell given, expected bash, zsh or fish");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp completions_argp = {
    .parser = parse,
    .args_doc = "bash|zsh|fish",
    .doc = "Prints the script that completes the arguments of `poolcuda` in a shell. An installed "
           "poolcuda has brought them all along.",
};

int command_completions(int argc, char **argv) {
    size_t shell = 0;
    argp_parse(&completions_argp, argc, argv, 0, NULL, &shell);
    shells[shell].print();
    return 0;
}
