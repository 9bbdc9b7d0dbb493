/* poolcuda options: lists the option table, for a terminal, for the docs or for the man page. */
#include "cli/commands.h"
#include "options.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

enum form { FORM_PLAIN, FORM_MARKDOWN, FORM_MAN };

/* The values that a row takes, in words. */
static void print_values(const struct option_info *info) {
    if (strcmp(info->type, "BOOL") == 0)
        printf("0 or 1");
    else if (strcmp(info->type, "PATH") == 0)
        printf("a path");
    else if (strcmp(info->type, "LIMIT") == 0)
        printf("auto, a size (64M) or a share (5%%)");
    else if (strcmp(info->type, "WORD") == 0)
        for (const char *word = info->words; *word; word++)
            *word == '|' ? fputs(", ", stdout) : putchar(*word);
    else
        printf("%.0f to %.0f", info->minimum, info->maximum);
}

static void print_row(const struct option_info *info, enum form form) {
    const char *fallback = *info->fallback ? info->fallback : "none";
    switch (form) {
    case FORM_PLAIN:
        printf("%s (", info->name);
        print_values(info);
        printf("; default %s)\n    %s\n", fallback, info->help);
        break;
    case FORM_MARKDOWN:
        printf("| `%s` | ", info->name);
        print_values(info);
        printf(" | `%s` | %s |\n", fallback, info->help);
        break;
    case FORM_MAN:
        printf(".TP\n.B %s\n%s. Values: ", info->name, info->help);
        print_values(info);
        printf(". Default: %s.\n", fallback);
        break;
    }
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    enum form *form = state->input;
    (void)argument;
    switch (key) {
    case 'm':
        *form = FORM_MARKDOWN;
        return 0;
    case 'r':
        *form = FORM_MAN;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"markdown", 'm', NULL, 0, "As a Markdown table", 0},
    {"man", 'r', NULL, 0, "As man page source", 0},
    {0},
};
const struct argp options_argp = {
    .options = options,
    .parser = parse,
    .doc = "Lists the environment variables that libpoolcuda.so obeys.",
};

int command_options(int argc, char **argv) {
    enum form form = FORM_PLAIN;
    argp_parse(&options_argp, argc, argv, 0, NULL, &form);
    if (form == FORM_MARKDOWN)
        printf("| option | values | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < option_count; i++)
        print_row(&option_table[i], form);
    return 0;
}
