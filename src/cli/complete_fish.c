#include "cli/commands.h"
#include "cli/completions.h"
#include "cli/option_rows.h"

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

/* `state` is the command, NULL for poolcuda itself. */
static void put_option(const struct option_row *row, void *state) {
    const struct command *command = state;
    if (option_row_is_heading(row))
        return;
    printf("complete -c poolcuda -n '__poolcuda_in %s'", command ? command->name : "\"\"");
    if (row->letter)
        printf(" -s '%c'", row->letter);
    if (row->name)
        printf(" -l %s", row->name);
    if (row->value && !row->optional)
        fputs(row->argument == ARGUMENT_FILE ? " -r -F" : " -x", stdout);
    if (row->argument == ARGUMENT_WORDS) {
        fputs(" -a ", stdout);
        put_words(row->value);
    }
    fputs(" -d '", stdout);
    put_text(row->help, option_help_brief(row->help));
    fputs("'\n", stdout);
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
        printf("complete -c poolcuda -n '__poolcuda_in %s' -a '(__fish_complete_subcommand "
               "--fcs-skip=2)'\n",
               command->name);
        break;
    case ARGUMENTS_PROCESSES:
        printf("complete -c poolcuda -n '__poolcuda_in %s' -a '(__fish_complete_pids)'\n",
               command->name);
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
    fputs("# fish completion for poolcuda, made by `poolcuda completions fish`.\n"
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
          "complete -c poolcuda -f\n",
          stdout);
    option_rows(&main_argp, put_option, NULL);
    for (size_t i = 0; i < command_count; i++)
        put_command(&command_table[i]);
}
