/* poolcuda options: lists the option table, for a terminal or for the docs. */
#include "cli/commands.h"
#include "cli/option_values.h"
#include "cli/usage.h"
#include "options/options.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

enum form { FORM_PLAIN, FORM_MARKDOWN };

static void print(const char *text) {
    fputs(text, stdout);
}

static void print_row(const struct option_info *info, enum form form) {
    const char *fallback = *info->fallback ? info->fallback : "none";
    switch (form) {
    case FORM_PLAIN:
        printf("%s (", info->name);
        option_values(info, print);
        printf("; default %s%s)\n    %s\n", fallback,
               info->live ? "; may change while the program runs" : "", info->help);
        break;
    case FORM_MARKDOWN:
        printf("| `%s` | ", info->name);
        option_values(info, print);
        printf(" | `%s` | %s | %s |\n", fallback, info->live ? "any time" : "start", info->help);
        break;
    }
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    enum form *form = state->input;
    switch (key) {
    case 'm':
        *form = FORM_MARKDOWN;
        return 0;
    case ARGP_KEY_ARG:
        usage_error(state, "%s: expected no argument, as all options are listed",
                    usage_word(argument));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"markdown", 'm', NULL, 0, "as a Markdown table", 0},
    {0},
};
const struct argp options_argp = {
    .options = options,
    .parser = parse,
    .doc = "Lists the environment variables that libpoolcuda.so obeys.\v"
           "A size is bytes, or carries K, M, G or T, which B or iB may follow: powers of 1024. "
           "Instead of 1, the values yes, on and true are taken, and instead of 0 no, off and "
           "false. Upper and lower case are one in words and units.",
};

int command_options(int argc, char **argv) {
    enum form form = FORM_PLAIN;
    argp_parse(&options_argp, argc, argv, 0, NULL, &form);
    if (form == FORM_MARKDOWN)
        printf("| option | values | default | changes | meaning |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < option_count; i++)
        print_row(&option_table[i], form);
    return 0;
}
