#include "cli/option_rows.h"

#include <ctype.h>
#include <string.h>

static enum option_argument argument_of(const char *value) {
    static const char *const files[] = {"FILE", "BASE", "PATH", "DIR"};
    if (!value)
        return ARGUMENT_NONE;
    if (strchr(value, '|'))
        return ARGUMENT_WORDS;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(value, files[i]) == 0)
            return ARGUMENT_FILE;
    return ARGUMENT_OTHER;
}

static void own_rows(const struct argp_option *option,
                     void (*each)(const struct option_row *row, void *state), void *state) {
    const struct argp_option *original = option; /* of which an alias is another name */
    for (; option && (option->name || option->key || option->doc || option->group); option++) {
        if (!(option->flags & OPTION_ALIAS))
            original = option;
        if ((original->flags | option->flags) & (OPTION_HIDDEN | OPTION_DOC))
            continue;
        struct option_row row = {
            .letter = option->key > 0 && option->key < 128 && isprint(option->key)
                          ? (char)option->key
                          : 0,
            .name = option->name,
            .value = original->arg,
            .help = original->doc ? original->doc : "",
            .argument = argument_of(original->arg),
            .optional = original->flags & OPTION_ARG_OPTIONAL,
        };
        if (!option_row_is_heading(&row) || *row.help)
            each(&row, state);
    }
}

static void all_rows(const struct argp *argp,
                     void (*each)(const struct option_row *row, void *state), void *state) {
    own_rows(argp->options, each, state);
    for (const struct argp_child *child = argp->children; child && child->argp; child++) {
        struct option_row heading = {.help = child->header};
        if (child->header && *child->header)
            each(&heading, state);
        all_rows(child->argp, each, state);
    }
}

void option_rows(const struct argp *argp, void (*each)(const struct option_row *row, void *state),
                 void *state) {
    static const struct option_row standard[] = {
        {.letter = '?', .name = "help", .help = "give a help list"},
        {.name = "usage", .help = "give a short usage message"},
        {.letter = 'V', .name = "version", .help = "print the version"},
    };
    all_rows(argp, each, state);
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++)
        each(&standard[i], state);
}

size_t option_help_brief(const char *help) {
    size_t length = strlen(help);
    static const char *const ends[] = {". ", "; ", " ("};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *end = strstr(help, ends[i]);
        if (end && end > help && (size_t)(end - help) < length)
            length = (size_t)(end - help);
    }
    return length;
}
