#include "cli/option_args.h"

#include "cli/commands.h"
#include "cli/option_values.h"
#include "cli/usage.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_KEY = 0x1000, ROWS_MAX = 64, NAME_MAX_LENGTH = 64 };

static struct argp_option rows[ROWS_MAX + 1], all_rows[ROWS_MAX + 1];
static char names[ROWS_MAX][NAME_MAX_LENGTH];
static const char *given; /* the first option of these that was typed */
static bool typed[ROWS_MAX];
static bool bad;

/* Options that concern the preloaded library alone. Nothing is checked in a replay, which only
 * keeps blocks as they are kept for the check. */
static bool is_for_library(const char *name) {
    static const char *const only[] = {"POOLCUDA_CHECK_ABORT", "POOLCUDA_CHECK_EXIT",
                                       "POOLCUDA_CHECK_LEAKS", "POOLCUDA_CHECK_QUARANTINE",
                                       "POOLCUDA_CHECK_LOG",   "POOLCUDA_DISABLE",
                                       "POOLCUDA_LOG",         "POOLCUDA_STATS",
                                       "POOLCUDA_STATS_FILE",  "POOLCUDA_SITE_DEPTH",
                                       "POOLCUDA_TRACE",       "POOLCUDA_SHARE",
                                       "POOLCUDA_SITE_SKIP"};
    for (size_t i = 0; i < sizeof only / sizeof only[0]; i++)
        if (strcmp(name, only[i]) == 0)
            return true;
    return false;
}

/* What an option's value is called in --help; words to choose from are listed. */
static const char *placeholder(const struct option_info *info) {
    if (strcmp(info->type, "BOOL") == 0)
        return "0|1";
    if (strcmp(info->type, "PATH") == 0)
        return "FILE";
    if (strcmp(info->type, "NAMES") == 0)
        return "NAME,...";
    return *info->words ? info->words : "VALUE";
}

static bool fits(const char *name, const char *words) {
    enum { LINE = 79, BEFORE = sizeof "      --=" - 1 };
    return BEFORE + strlen(name) + strlen(words) < LINE;
}

__attribute__((constructor)) static void fill(void) {
    struct argp_option *row = rows, *all = all_rows;
    for (size_t i = 0; i < option_count && i < ROWS_MAX; i++) {
        char *to = names[i];
        for (const char *from = option_table[i].name + strlen("POOLCUDA_"); *from; from++)
            *to++ = (char)(*from == '_' ? '-' : tolower((unsigned char)*from));
        *all++ = (struct argp_option){.name = names[i],
                                      .key = FIRST_KEY + (int)i,
                                      .arg = placeholder(&option_table[i]),
                                      .doc = option_table[i].help,
                                      .group = 1};
        if (!is_for_library(option_table[i].name))
            *row++ = all[-1];
    }
}

/* Words that do not fit into a line with their option are for completions and man pages; argp would
 * break that line at odd places. help() has them. */
static void shorten(struct argp_option *row) {
    for (; row->name; row++)
        if (!fits(row->name, row->arg))
            row->arg = "WORD";
}

static char expected[256]; /* the values of an option, in words */

static void add_expected(const char *text) {
    size_t length = strlen(expected);
    snprintf(expected + length, sizeof expected - length, "%s", text);
}

/* An empty variable is one that is not set, but who types an option means something by it. An empty
 * list of names is one without a name. */
static void refuse_empty(const struct option_info *info, const char *option,
                         struct argp_state *state) {
    if (strcmp(info->type, "NAMES") == 0)
        return;
    option_values(info, add_expected);
    usage_error(state, "%s: \"\": expected %s", option, expected);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    char option[NAME_MAX_LENGTH + 2];
    if (key == ARGP_KEY_INIT) {
        shorten(rows);
        shorten(all_rows);
    }
    if (key < FIRST_KEY || key >= FIRST_KEY + (int)option_count)
        return ARGP_ERR_UNKNOWN;
    snprintf(option, sizeof option, "--%s", names[key - FIRST_KEY]);
    if (strcmp(option_table[key - FIRST_KEY].type, "PATH") == 0)
        usage_file(argument, option, state);
    if (!*argument)
        refuse_empty(&option_table[key - FIRST_KEY], option, state);
    if (!given)
        given = names[key - FIRST_KEY];
    typed[key - FIRST_KEY] = true;
    setenv(option_table[key - FIRST_KEY].name, argument, 1);
    return 0;
}

/* Puts words that stand in no placeholder before the option's text. */
static char *help(int key, const char *text, void *input) {
    char *longer = NULL;
    size_t size;
    (void)input;
    if (key < FIRST_KEY || key >= FIRST_KEY + (int)option_count)
        return (char *)text;
    const char *words = placeholder(&option_table[key - FIRST_KEY]);
    if (fits(names[key - FIRST_KEY], words))
        return (char *)text;
    FILE *out = open_memstream(&longer, &size);
    if (!out)
        return (char *)text;
    for (; *words; words++)
        fputs(*words == '|' ? ", " : (char[]){*words, '\0'}, out);
    fprintf(out, ": %s", text);
    fclose(out);
    return longer;
}

const struct argp option_args = {.options = rows, .parser = parse, .help_filter = help};
const struct argp option_args_all = {.options = all_rows, .parser = parse, .help_filter = help};

/* The line's end says what the library would do instead; a command does nothing. */
static void say(const char *line) {
    const char *instead = strstr(line, ", using ");
    fprintf(stderr, "%.*s\n", instead ? (int)(instead - line) : (int)strlen(line), line);
    bad = bad || instead;
}

static void say_bad_value(const char *line) {
    if (strstr(line, ", using "))
        say(line);
}

const char *option_args_given(void) {
    return given;
}

static size_t row_of(const char *variable) {
    size_t i = 0;
    while (i < option_count && strcmp(option_table[i].name, variable) != 0)
        i++;
    return i;
}

bool option_args_typed(const char *variable) {
    size_t row = row_of(variable);
    return row < option_count && typed[row];
}

const char *option_args_dashed(const char *variable) {
    size_t row = row_of(variable);
    return row < option_count ? names[row] : variable;
}

void option_args_join(char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < option_count; i++) {
        const char *value = getenv(option_table[i].name);
        if (value && *value && !is_for_library(option_table[i].name) && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s=%s", length ? " " : "",
                                       option_table[i].name, value);
    }
}

void option_args_finish(struct options *options) {
    static bool told; /* of variables that are no option */
    options_parse(options, environ, told ? say_bad_value : say);
    told = true;
    if (bad)
        exit(EXIT_USAGE);
}

void option_args_check(struct options *options) {
    options_parse(options, environ, say_bad_value);
    if (bad)
        exit(EXIT_USAGE);
}
