#include "cli/commands.h"
#include "cli/completions.h"
#include "cli/option_rows.h"
#include "options/options.h"

#include <stdio.h>
#include <string.h>

/* A description within single quotes and brackets. */
static void put_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'')
            fputs("'\\''", stdout);
        else if (text[i] == '[' || text[i] == ']')
            putchar(text[i] == '[' ? '(' : ')');
        else if (text[i] == ':')
            fputs("\\:", stdout);
        else if (text[i] != '`')
            putchar(text[i]);
    }
}

static void put_words(const char *words) {
    putchar('(');
    for (; *words; words++)
        putchar(*words == '|' ? ' ' : *words);
    putchar(')');
}

/* One of an option's names, with its description and argument. */
static void put_form(const struct option_row *row, bool by_name) {
    const bool separate = row->value && !row->optional;
    fputs("            '", stdout);
    if (row->letter && row->name)
        printf("(-%c --%s)", row->letter, row->name);
    if (by_name)
        printf("--%s%s", row->name, separate ? "=" : row->value ? "=-" : "");
    else
        printf("-%c%s", row->letter, separate ? "+" : row->value ? "-" : "");
    putchar('[');
    put_text(row->help, option_help_brief(row->help));
    putchar(']');
    if (row->value) {
        fputs(row->optional ? "::" : ":", stdout);
        fputs(row->argument == ARGUMENT_WORDS ? "value" : row->value, stdout);
        putchar(':');
        if (row->argument == ARGUMENT_FILE)
            fputs("_files", stdout);
        else if (row->argument == ARGUMENT_WORDS)
            put_words(row->value);
        else
            putchar(' ');
    }
    fputs("' \\\n", stdout);
}

static void put_option(const struct option_row *row, void *state) {
    (void)state;
    if (row->letter)
        put_form(row, false);
    if (row->name)
        put_form(row, true);
}

static void put_command(const struct command *command) {
    printf("        %s)\n            _arguments -s -S%s \\\n", command->name,
           command->arguments == ARGUMENTS_PROGRAM ? " -A '-*'" : "");
    option_rows(command->argp, put_option, NULL);
    fputs("            ", stdout);
    switch (command->arguments) {
    case ARGUMENTS_NOTHING:
        fputs("&& result=0", stdout);
        break;
    case ARGUMENTS_FILES:
        fputs("'*:file:_files' && result=0", stdout);
        break;
    case ARGUMENTS_PROGRAM:
        fputs("'(-):program: _command_names -e' '*::argument: _normal' && result=0", stdout);
        break;
    case ARGUMENTS_PROCESS:
        fputs("'1:process:_poolcuda_processes' '*: : ' && result=0", stdout);
        break;
    case ARGUMENTS_SETTINGS:
        fputs("'1:process:_poolcuda_processes' '*:setting:_poolcuda_settings' && result=0", stdout);
        break;
    case ARGUMENTS_WORDS:
        fputs("'1:argument:", stdout);
        put_words(command->argp->args_doc);
        fputs("' && result=0", stdout);
        break;
    }
    fputs(" ;;\n", stdout);
}

void complete_zsh(void) {
    fputs(
        "#compdef poolcuda\n"
        "# zsh completion for poolcuda, made by `poolcuda completions zsh`.\n"
        "\n"
        "# The user's pooled programs that run: each has an entry there, which a killed one leaves "
        "behind.\n"
        "_poolcuda_processes() {\n"
        "    local -a processes=('all:all of them')\n"
        "    local entry name\n"
        "    for entry in /dev/shm/poolcuda-$EUID/<->(|-<->)(N:t); do\n"
        "        name=\n"
        "        if [[ $entry == <-> ]]; then\n"
        "            [[ -d /proc/$entry ]] || continue\n"
        "            read -r name 2>/dev/null </proc/$entry/comm\n"
        "        fi\n"
        "        processes+=(\"$entry:$name\")\n"
        "    done\n"
        "    _describe -t processes process processes\n"
        "}\n"
        "\n"
        "_poolcuda_settings() {\n"
        "    local -a settings=(\n",
        stdout);
    for (size_t i = 0; i < option_count; i++) {
        if (!option_table[i].live)
            continue;
        printf("        '%s=:", option_without_prefix(option_table[i].name));
        put_text(option_table[i].help, option_help_brief(option_table[i].help));
        fputs("'\n", stdout);
    }
    fputs("    )\n"
          "    _describe -t settings setting settings -S ''\n"
          "}\n"
          "\n"
          "_poolcuda() {\n"
          "    local curcontext=$curcontext state line result=1\n"
          "    typeset -A opt_args\n"
          "    local -a subcommands=(\n",
          stdout);
    for (size_t i = 0; i < command_count; i++) {
        printf("        '%s:", command_table[i].name);
        put_text(command_table[i].help, strlen(command_table[i].help));
        fputs("'\n", stdout);
    }
    fputs("    )\n"
          "    _arguments -C -A '-*' \\\n",
          stdout);
    option_rows(&main_argp, put_option, NULL);
    fputs("            '1:command:->command' '*::argument:->argument' && result=0\n"
          "    case $state in\n"
          "    command) _describe -t commands command subcommands && result=0 ;;\n"
          "    argument)\n"
          "        curcontext=${curcontext%:*:*}:poolcuda-$words[1]:\n"
          "        case $words[1] in\n",
          stdout);
    for (size_t i = 0; i < command_count; i++)
        put_command(&command_table[i]);
    fputs("        esac ;;\n"
          "    esac\n"
          "    return result\n"
          "}\n"
          "\n"
          "# Autoloaded, this file is the function's body; sourced, it names the function.\n"
          "if [[ $funcstack[1] == _poolcuda ]]; then\n"
          "    _poolcuda \"$@\"\n"
          "else\n"
          "    compdef _poolcuda poolcuda\n"
          "fi\n",
          stdout);
}
