#include "cli/commands.h"
#include "cli/completions.h"
#include "cli/option_rows.h"
#include "options/options.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Text within single quotes. */
static void put_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'' || text[i] == '\\')
            putchar('\\');
        if (text[i] != '`')
            putchar(text[i]);
    }
}

static void put_words(const char *words) {
    putchar('\'');
    for (; *words; words++)
        putchar(*words == '|' ? ' ' : *words);
    putchar('\'');
}

static void put_if_separate(const struct option_row *row, void *state) {
    (void)state;
    if (!row->value || row->optional)
        return;
    if (row->letter)
        printf(" -%c", row->letter);
    if (row->name)
        printf(" --%s", row->name);
}

/* The call that prints the arguments, as far as they are typed. */
static void put_arguments_of(const struct command *command) {
    fputs("(__poolcuda_arguments", stdout);
    option_rows(command->argp, put_if_separate, NULL);
    putchar(')');
}

/* `state` is the command, NULL for poolcuda itself. */
static void put_option(const struct option_row *row, void *state) {
    const struct command *command = state;
    if (option_row_is_heading(row))
        return;
    printf("complete -c poolcuda -n '__poolcuda_in %s", command ? command->name : "\"\"");
    if (command && command->arguments == ARGUMENTS_PROGRAM) {
        fputs("; and not count ", stdout);
        put_arguments_of(command);
        fputs(" >/dev/null", stdout);
    }
    putchar('\'');
    if (row->letter)
        printf(" -s '%c'", row->letter);
    if (row->name)
        printf(" -l %s", row->name);
    if (row->value && !row->optional)
        fputs(row->argument == ARGUMENT_FILE ? " -r -F" : " -x", stdout);
    if (row->argument == ARGUMENT_WORDS && row->value) {
        fputs(" -a ", stdout);
        put_words(row->value);
    }
    fputs(" -d '", stdout);
    put_text(row->help, option_help_brief(row->help));
    fputs("'\n", stdout);
}

/* What is offered as the first argument, or as those behind it. */
static void put_where(const struct command *command, bool first) {
    printf("complete -c poolcuda -n '__poolcuda_in %s; and %scount ", command->name,
           first ? "not " : "");
    put_arguments_of(command);
    fputs(" >/dev/null' -a ", stdout);
}

static void put_process(const struct command *command) {
    put_where(command, true);
    fputs("'(__poolcuda_processes)'\n", stdout);
}

/* NAME= of each option that may change while a program runs. */
static void put_settings(const struct command *command) {
    for (size_t i = 0; i < option_count; i++) {
        if (!option_table[i].live)
            continue;
        put_where(command, false);
        printf("%s= -d '", option_without_prefix(option_table[i].name));
        put_text(option_table[i].help, option_help_brief(option_table[i].help));
        fputs("'\n", stdout);
    }
}

static void put_command(const struct command *command) {
    printf("complete -c poolcuda -n '__poolcuda_in \"\"' -a %s -d '", command->name);
    put_text(command->help, strlen(command->help));
    fputs("'\n", stdout);
    switch (command->arguments) {
    case ARGUMENTS_NOTHING:
        break;
    case ARGUMENTS_FILES:
        printf("complete -c poolcuda -n '__poolcuda_in %s' -F\n", command->name);
        break;
    case ARGUMENTS_PROGRAM:
        printf("complete -c poolcuda -n '__poolcuda_in %s' -a '(complete -C \" \"(string join \" "
               "\" -- ",
               command->name);
        put_arguments_of(command);
        fputs(" (commandline -ct)))'\n", stdout);
        break;
    case ARGUMENTS_SETTINGS:
        put_settings(command);
        put_process(command);
        break;
    case ARGUMENTS_PROCESS:
        put_process(command);
        break;
    case ARGUMENTS_WORDS:
        printf("complete -c poolcuda -n '__poolcuda_in %s' -a ", command->name);
        put_words(command->argp->args_doc);
        putchar('\n');
        break;
    }
    option_rows(command->argp, put_option, (void *)(uintptr_t)command);
}

void complete_fish(void) {
    fputs(
        "# fish completion for poolcuda, made by `poolcuda completions fish`.\n"
        "\n"
        "# Whether this is the subcommand before the cursor; \"\" stands for none so far.\n"
        "function __poolcuda_in\n"
        "    set -l words (commandline -opc)\n"
        "    set -e words[1]\n"
        "    for word in $words\n"
        "        string match -q -- '-*' $word; and continue\n"
        "        test \"$word\" = \"$argv[1]\"\n"
        "        return\n"
        "    end\n"
        "    test -z \"$argv[1]\"\n"
        "end\n"
        "\n"
        "# The arguments of the subcommand before the cursor, past the options before them; those "
        "in "
        "$argv\n"
        "# take an argument.\n"
        "function __poolcuda_arguments\n"
        "    set -l words (commandline -opc)\n"
        "    set -e words[1]\n"
        "    set -e words[1]\n"
        "    while string match -q -- '-*' $words[1]\n"
        "        if contains -- $words[1] $argv; and set -q words[2]\n"
        "            set -e words[2]\n"
        "        end\n"
        "        set -l option $words[1]\n"
        "        set -e words[1]\n"
        "        test $option = --; and break\n"
        "    end\n"
        "    string escape -- $words\n"
        "end\n"
        "\n"
        "# The user's pooled programs that run: each has an entry there, which a killed one leaves "
        "behind.\n"
        "function __poolcuda_processes\n"
        "    printf 'all\\tall of them\\n'\n"
        "    for entry in /dev/shm/poolcuda-(id -u)/*\n"
        "        set -l name (string replace -r '.*/' '' -- $entry)\n"
        "        if string match -qr '^[0-9]+$' -- $name\n"
        "            test -d /proc/$name; and printf '%s\\t%s\\n' $name (cat /proc/$name/comm "
        "2>/dev/null)\n"
        "        else\n"
        "            string match -r '^[0-9]+-[0-9]+$' -- $name\n"
        "        end\n"
        "    end\n"
        "end\n"
        "\n"
        "complete -c poolcuda -f\n",
        stdout);
    option_rows(&main_argp, put_option, NULL);
    for (size_t i = 0; i < command_count; i++)
        put_command(&command_table[i]);
}
