#include "cli/usage.h"

#include "cli/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHILDREN = 4 };

void usage_error(const struct argp_state *state, const char *pattern, ...) {
    char *line = NULL;
    va_list arguments;
    va_start(arguments, pattern);
    int length = vasprintf(&line, pattern, arguments);
    va_end(arguments);
    argp_error(state, "%s", length < 0 ? "bad usage" : printable(line));
    free(line);
}

const char *usage_word(const char *word) {
    return *word ? word : "\"\"";
}

/* Takes everything: what argp itself has no option for it tells. */
static error_t accept(int key, char *argument, struct argp_state *state) {
    (void)argument;
    if (key == ARGP_KEY_ARG && state->flags & ARGP_IN_ORDER)
        state->next = state->argc;
    return 0;
}

static bool is_harmless(int argc, char *const *argv) {
    bool harmless = true;
    for (int i = 1; i < argc && harmless; i++) {
        char *clean = printable_copy(argv[i]);
        harmless = !clean || strcmp(clean, argv[i]) == 0;
        free(clean);
    }
    return harmless;
}

/* Short options behind a '-' are letters, and '?' is one. */
static char *option_copy(const char *word) {
    char *copy = printable_copy(word);
    for (size_t i = 1; copy && word[0] == '-' && word[1] != '-' && i < strlen(copy); i++)
        if (copy[i] == '?' && !strchr(word, '?'))
            copy[i] = '_';
    return copy;
}

void usage_check_options(const struct argp *argp, int argc, char *const *argv, bool in_order) {
    struct argp own = *argp, groups[MOST_CHILDREN];
    struct argp_child children[MOST_CHILDREN + 1] = {{0}};
    char **words = is_harmless(argc, argv) ? NULL : calloc((size_t)argc + 1, sizeof *words);
    if (!words)
        return;
    for (int i = 0; argp->children && argp->children[i].argp && i < MOST_CHILDREN; i++) {
        groups[i] = *argp->children[i].argp;
        groups[i].parser = accept;
        children[i] = argp->children[i];
        children[i].argp = &groups[i];
    }
    own.parser = accept;
    own.children = children;
    for (int i = 0; i < argc; i++)
        words[i] = option_copy(argv[i]);
    argp_parse(&own, argc, words, in_order ? ARGP_IN_ORDER : 0, NULL, NULL);
    for (int i = 0; i < argc; i++)
        free(words[i]);
    free(words);
}

const char *usage_file(const char *name, const char *what, const struct argp_state *state) {
    if (!*name)
        usage_error(state, "%s: \"\": expected the name of a file", what);
    return name;
}

static const char digits[] = "0123456789";

bool usage_whole_number(const char *text, unsigned long least, unsigned long most,
                        unsigned long *number) {
    size_t length = strspn(text, digits);
    errno = 0;
    *number = strtoul(text, NULL, 10);
    return length && !text[length] && !errno && *number >= least && *number <= most;
}

const char *usage_decimal(const char *text, double *number) {
    size_t whole = strspn(text, digits);
    const char *end = text + whole;
    size_t part = *end == '.' ? strspn(end + 1, digits) : 0;
    *number = strtod(text, NULL);
    return whole + part ? end + (*end == '.' ? 1 + part : 0) : NULL;
}
