#include "cli/commands.h"
#include "cli/completions.h"
#include "cli/option_rows.h"
#include "options/options.h"

#include <stdio.h>

/* Words are separated by spaces, in the tables by |. */
static void put_words(const char *words) {
    for (; *words; words++)
        putchar(*words == '|' ? ' ' : *words);
}

static void put_option(const struct option_row *row, void *state) {
    (void)state;
    if (row->name)
        printf(" --%s%s", row->name, row->value && !row->optional ? "=" : "");
    else if (row->letter)
        printf(" -%c", row->letter);
}

/* What to do when the word before is this option. */
static void put_argument(const struct option_row *row, void *state) {
    (void)state;
    if (!row->value || row->optional)
        return;
    fputs("        ", stdout);
    if (row->letter)
        printf("-%c%s", row->letter, row->name ? " | " : "");
    if (row->name)
        printf("--%s", row->name);
    fputs(") argument='", stdout);
    if (row->argument == ARGUMENT_FILE)
        fputs("@files", stdout);
    else if (row->argument == ARGUMENT_WORDS)
        put_words(row->value);
    else
        fputs("@nothing", stdout);
    fputs("' ;;\n", stdout);
}

/* NAME= of each option that may change while a program runs. */
static void put_settings(void) {
    for (size_t i = 0; i < option_count; i++)
        if (option_table[i].live)
            printf(" %s=", option_without_prefix(option_table[i].name));
}

static void put_command(const struct command *command) {
    static const char *const kinds[] = {
        [ARGUMENTS_NOTHING] = "@nothing",  [ARGUMENTS_FILES] = "@files",
        [ARGUMENTS_PROGRAM] = "@program",  [ARGUMENTS_PROCESS] = "@process",
        [ARGUMENTS_SETTINGS] = "@process",
    };
    printf("    %s)\n        options='", command->name);
    option_rows(command->argp, put_option, NULL);
    fputs("'\n        arguments='", stdout);
    if (command->arguments == ARGUMENTS_WORDS)
        put_words(command->argp->args_doc);
    else
        fputs(kinds[command->arguments], stdout);
    fputs("' more='", stdout);
    if (command->arguments == ARGUMENTS_SETTINGS)
        put_settings();
    else if (command->arguments == ARGUMENTS_PROCESS)
        fputs("@nothing", stdout);
    fputs("'\n        case $1 in\n", stdout);
    option_rows(command->argp, put_argument, NULL);
    fputs("        esac\n        ;;\n", stdout);
}

static const char opening[] =
    "# bash completion for poolcuda, made by `poolcuda completions bash`.\n"
    "\n"
    "# _poolcuda_table PREVIOUS COMMAND: sets options, arguments, more and argument: what "
    "completes "
    "the\n"
    "# command's options, its arguments, those behind the first if they are others, and the "
    "argument "
    "that\n"
    "# PREVIOUS, an option, takes if it does. Words, or @files, @program, @process, @nothing.\n"
    "_poolcuda_table() {\n"
    "    argument='' more=''\n"
    "    case $2 in\n"
    "    '')\n"
    "        options='";

static const char closing[] =
    "    *) options='' arguments=@files ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_poolcuda_reply() {\n"
    "    local word\n"
    "    while IFS= read -r word; do\n"
    "        COMPREPLY+=(\"$word\")\n"
    "    done < <(\"$@\" 2>/dev/null)\n"
    "}\n"
    "\n"
    "# The user's pooled programs that run: each has an entry there, which a killed one leaves "
    "behind.\n"
    "_poolcuda_processes() {\n"
    "    local entry\n"
    "    echo all\n"
    "    for entry in /dev/shm/poolcuda-\"$EUID\"/[0-9]*; do\n"
    "        entry=${entry##*/}\n"
    "        case $entry in\n"
    "        *[!0-9-]*) ;;\n"
    "        *-*) echo \"$entry\" ;;\n"
    "        *) [ ! -d \"/proc/$entry\" ] || echo \"$entry\" ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "\n"
    "# _poolcuda_words WORDS CURRENT: one of these words, or what an @ stands for.\n"
    "_poolcuda_words() {\n"
    "    case $1 in\n"
    "    @nothing) ;;\n"
    "    @files)\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        _poolcuda_reply compgen -f -- \"$2\" ;;\n"
    "    @program)\n"
    "        case $2 in\n"
    "        */*) compopt -o filenames 2>/dev/null; _poolcuda_reply compgen -f -- \"$2\" ;;\n"
    "        *) _poolcuda_reply compgen -c -- \"$2\" ;;\n"
    "        esac ;;\n"
    "    @process) _poolcuda_reply compgen -W \"$(_poolcuda_processes 2>/dev/null)\" -- \"$2\" ;;\n"
    "    *) _poolcuda_reply compgen -W \"$1\" -- \"$2\" ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_poolcuda() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local options arguments more argument command='' place=1 prefix='' value=''\n"
    "    COMPREPLY=()\n"
    "    while [ $place -lt \"$COMP_CWORD\" ]; do\n"
    "        case ${COMP_WORDS[place]} in\n"
    "        -*) ;;\n"
    "        *) command=${COMP_WORDS[place]} && break ;;\n"
    "        esac\n"
    "        place=$((place + 1))\n"
    "    done\n"
    "    # --option=value is one word or, as bash usually breaks words, three.\n"
    "    if [ \"$current\" = = ]; then\n"
    "        current='' value=yes\n"
    "    elif [ \"$previous\" = = ]; then\n"
    "        previous=${COMP_WORDS[COMP_CWORD - 2]} value=yes\n"
    "    else\n"
    "        case $current in\n"
    "        --*=*) previous=${current%%=*} prefix=${current%%=*}= current=${current#*=} ;;\n"
    "        esac\n"
    "    fi\n"
    "    _poolcuda_table \"$previous\" \"$command\"\n"
    "    if [ -n \"$argument\" ]; then\n"
    "        _poolcuda_words \"$argument\" \"$current\"\n"
    "        COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")\n"
    "        return\n"
    "    fi\n"
    "    [ -z \"$value\" ] || return # of a setting: nothing is known of it\n"
    "    if [ \"$arguments\" = @program ] || [ -n \"$more\" ]; then\n"
    "        # Past the options and their arguments stands the first argument.\n"
    "        while place=$((place + 1)) && [ $place -lt \"$COMP_CWORD\" ]; do\n"
    "            case ${COMP_WORDS[place]} in\n"
    "            --) place=$((place + 1)) && break ;;\n"
    "            -*)\n"
    "                _poolcuda_table \"${COMP_WORDS[place]}\" \"$command\"\n"
    "                [ \"${COMP_WORDS[place + 1]}\" != = ] || place=$((place + 1))\n"
    "                [ -z \"$argument\" ] || place=$((place + 1)) ;;\n"
    "            *) break ;;\n"
    "            esac\n"
    "        done\n"
    "        if [ $place -lt \"$COMP_CWORD\" ] && [ -n \"$more\" ]; then\n"
    "            arguments=$more\n"
    "        elif [ $place -lt \"$COMP_CWORD\" ]; then\n"
    "            # What follows a program is its own.\n"
    "            if declare -F _command_offset >/dev/null; then\n"
    "                _command_offset $place\n"
    "            else\n"
    "                _poolcuda_words @files \"$current\"\n"
    "            fi\n"
    "            return\n"
    "        fi\n"
    "    fi\n"
    "    case $current in\n"
    "    -*) _poolcuda_words \"$options\" \"$current\" ;;\n"
    "    *) _poolcuda_words \"$arguments\" \"$current\" ;;\n"
    "    esac\n"
    "    case ${COMPREPLY[0]-} in\n"
    "    *=) compopt -o nospace 2>/dev/null ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "complete -F _poolcuda poolcuda\n";

void complete_bash(void) {
    fputs(opening, stdout);
    option_rows(&main_argp, put_option, NULL);
    fputs("'\n        arguments='", stdout);
    for (size_t i = 0; i < command_count; i++)
        printf("%s%s", i ? " " : "", command_table[i].name);
    fputs("' ;;\n", stdout);
    for (size_t i = 0; i < command_count; i++)
        put_command(&command_table[i]);
    fputs(closing, stdout);
}
