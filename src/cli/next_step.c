#include "cli/next_step.h"

#include "cli/printable.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *next_step_self(void) {
    bool by_path = strchr(program_invocation_name, '/') != NULL;
    return printable_word(by_path ? program_invocation_name : "poolcuda");
}

/* The command's name for a shell that has gone elsewhere. */
static char *self_from_anywhere(void) {
    char path[PATH_MAX];
    return *program_invocation_name != '/' && strchr(program_invocation_name, '/') &&
                   realpath("/proc/self/exe", path)
               ? printable_word(path)
               : next_step_self();
}

char *next_step_file(const char *path) {
    char *named = NULL;
    if (*path != '-')
        return printable_word(path);
    char *word = asprintf(&named, "./%s", path) < 0 ? NULL : printable_word(named);
    free(named);
    return word;
}

static bool is_here(const char *folder) {
    struct stat there, here;
    return stat(folder, &there) == 0 && stat(".", &here) == 0 && there.st_dev == here.st_dev &&
           there.st_ino == here.st_ino;
}

static bool is_known(const struct command_line *line) {
    const char *folder = command_line_first(line);
    return folder && *command_line_next(line, folder);
}

/* Takes the word over. */
static void put_word(FILE *out, const char *before, char *word) {
    fprintf(out, "%s%s", before, word ? word : "?");
    free(word);
}

char *next_step_run(const char *options, const struct command_line *line) {
    char *command = NULL;
    size_t size;
    FILE *out = open_memstream(&command, &size);
    if (!out)
        return NULL;
    const char *folder = command_line_first(line), *text;
    bool known = is_known(line), elsewhere = known && *folder && !is_here(folder);
    if (elsewhere) {
        put_word(out, "cd ", printable_word(folder));
        fputs(" && ", out);
    }
    put_word(out, "", elsewhere ? self_from_anywhere() : next_step_self());
    fprintf(out, " run %s--", options);
    if (known) {
        text = command_line_next(line, folder);
        put_word(out, " ", printable_word(text));
        text = command_line_next(line, text); /* argv[0], for which that stands */
        while (text && (text = command_line_next(line, text)))
            put_word(out, " ", printable_word(text));
    } else {
        fputs(" PROGRAM", out);
    }
    if (fclose(out) == 0)
        return command;
    free(command);
    return NULL;
}

void next_step_tell_run(FILE *out, const char *options, const struct command_line *line,
                        const char *executable) {
    char *command = next_step_run(options, line);
    char *name = printable_copy(executable ? executable : "the recorded program");
    const char *why =
        line->size == COMMAND_LINE_TOO_LONG ? "too long to be kept" : "not known here";
    putc('\n', out);
    if (!is_known(line))
        fprintf(out, "PROGRAM stands for the command line of %s, which is %s.\n", name ? name : "?",
                why);
    fprintf(out, "next: %s\n", command ? command : "?");
    free(name);
    free(command);
}
