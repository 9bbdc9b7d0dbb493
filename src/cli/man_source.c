#include "cli/man_source.h"

#include "cli/commands.h"
#include "cli/option_rows.h"
#include "cli/option_values.h"
#include "options/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One page. */
struct page {
    const char *name;
    const struct command *command; /* NULL if the page is not a command's */
    const struct argp *argp;       /* whose options @options@ lists; NULL: none */
};

/* Text that scdoc prints as it is. What stands in `backticks` becomes bold. */
static void put_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '`')
            putchar('*');
        else if (text[i] == '\v' || text[i] == '\n')
            fputs("\n\n", stdout);
        else if (strchr("\\*_#+[]|~", text[i]))
            printf("\\%c", text[i]);
        else
            putchar(text[i]);
    }
}

static void put(const char *text) {
    put_text(text, strlen(text));
}

/* A help text as a sentence. */
static void put_sentence(const char *text) {
    size_t length = strlen(text);
    char first = (char)toupper((unsigned char)text[0]);
    if (length == 0)
        return;
    put_text(&first, 1);
    put(text + 1);
    fputs(text[length - 1] == '.' ? "" : ".", stdout);
}

static void put_option(const struct option_row *row, void *state) {
    (void)state;
    if (option_row_is_heading(row)) {
        put(row->help);
        fputs("\n\n", stdout);
        return;
    }
    if (row->letter)
        printf("*-%c*", row->letter);
    if (row->letter && row->name)
        fputs(", ", stdout);
    if (row->name)
        printf("*--%s*", row->name);
    if (row->value) {
        fputs(row->optional ? "[=_" : row->name ? "=_" : " _", stdout);
        put(row->value);
        fputs(row->optional ? "_]" : "_", stdout);
    }
    fputs("\n\t", stdout);
    put_sentence(row->help);
    fputs("\n\n", stdout);
}

static void put_options(const struct page *page) {
    fputs("# OPTIONS\n\n", stdout);
    if (page->argp)
        option_rows(page->argp, put_option, NULL);
}

static void put_head(const struct page *page) {
    printf("%s(1)\n\n# NAME\n\n%s - ", page->name, page->name);
    put(page->command->help);
    printf("\n\n# SYNOPSIS\n\n*poolcuda %s* [_OPTION_...] ", page->command->name);
    put(page->argp->args_doc ? page->argp->args_doc : "");
    fputs("\n", stdout);
}

static void put_doc(const struct page *page) {
    if (page->argp && page->argp->doc)
        put(page->argp->doc);
    putchar('\n');
}

static void put_commands(void) {
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &command_table[i];
        printf("*poolcuda %s* ", command->name);
        put(command->argp->args_doc ? command->argp->args_doc : "");
        fputs("\n\t", stdout);
        put_sentence(command->help);
        printf(" See *poolcuda-%s*(1).\n\n", command->name);
    }
}

static void put_variables(void) {
    for (size_t i = 0; i < option_count; i++) {
        const struct option_info *info = &option_table[i];
        putchar('*');
        put(info->name);
        fputs("*\n\t", stdout);
        put_sentence(info->help);
        fputs(" Values: ", stdout);
        option_values(info, put);
        fputs(". Default: ", stdout);
        put(*info->fallback ? info->fallback : "none");
        fputs(info->live ? ". May change while the program runs.\n\n" : ".\n\n", stdout);
    }
}

static void put_presets(void) {
    for (size_t i = 0; i < preset_count; i++) {
        printf("*%s*\n\t", preset_table[i].name);
        put_sentence(preset_table[i].help);
        if (*preset_table[i].settings) {
            fputs(" Stands for ", stdout);
            put(preset_table[i].settings);
            putchar('.');
        }
        fputs("\n\n", stdout);
    }
}

/* False if the line is none of the words, or one that the page has no command for. */
static bool replaced(const struct page *page, const char *line) {
    if (strcmp(line, "@head@\n") == 0 && page->command)
        put_head(page);
    else if (strcmp(line, "@doc@\n") == 0)
        put_doc(page);
    else if (strcmp(line, "@options@\n") == 0)
        put_options(page);
    else if (strcmp(line, "@commands@\n") == 0)
        put_commands();
    else if (strcmp(line, "@variables@\n") == 0)
        put_variables();
    else if (strcmp(line, "@presets@\n") == 0)
        put_presets();
    else
        return false;
    return true;
}

static bool find_page(struct page *page) {
    static const char prefix[] = "poolcuda-";
    if (strcmp(page->name, "libpoolcuda") == 0 || strcmp(page->name, "poolcuda_spank") == 0)
        return true;
    page->argp = &main_argp;
    if (strcmp(page->name, "poolcuda") == 0)
        return true;
    for (size_t i = 0; i < command_count; i++)
        if (strncmp(page->name, prefix, sizeof prefix - 1) == 0 &&
            strcmp(page->name + sizeof prefix - 1, command_table[i].name) == 0)
            page->command = &command_table[i];
    page->argp = page->command ? page->command->argp : NULL;
    return page->command;
}

bool man_source(const char *name) {
    struct page page = {.name = name};
    char *line = NULL;
    size_t size = 0;
    bool known = find_page(&page);
    if (!known)
        fprintf(
            stderr,
            "poolcuda: %s: no such man page, expected poolcuda, poolcuda-COMMAND, libpoolcuda or "
            "poolcuda_spank\n",
            name);
    while (known && getline(&line, &size, stdin) > 0) {
        if (replaced(&page, line))
            continue;
        if (line[0] == '@') {
            fprintf(stderr, "poolcuda: %s: unknown word in the template: %s", name, line);
            known = false;
        }
        fputs(line, stdout);
    }
    free(line);
    return known;
}
