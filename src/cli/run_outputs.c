#include "cli/run_outputs.h"

#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/kept_file.h"
#include "cli/option_args.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "report/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What a program writes; logs are appended to, and take one another's reports. */
static const struct {
    const char *variable;
    bool is_log;
} outputs[] = {
    {"POOLCUDA_STATS_FILE", false},
    {"POOLCUDA_TRACE", false},
    {"POOLCUDA_LOG", true},
    {"POOLCUDA_CHECK_LOG", true},
};

enum { OUTPUTS = sizeof outputs / sizeof outputs[0] };

/* How the user has named an option. */
struct option_word {
    char text[32];
};

static struct option_word word_of(const char *variable) {
    struct option_word word;
    bool typed = option_args_typed(variable);
    snprintf(word.text, sizeof word.text, "%s%s", typed ? "--" : "",
             typed ? option_args_dashed(variable) : variable);
    return word;
}

__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *pattern, ...) {
    char *line = NULL;
    va_list arguments;
    va_start(arguments, pattern);
    int length = vasprintf(&line, pattern, arguments);
    va_end(arguments);
    fprintf(stderr, "poolcuda run: %s; nothing was started\n",
            length < 0 ? "bad usage" : printable(line));
    exit(EXIT_USAGE);
}

bool run_outputs_stream(const char *path) {
    struct stat status;
    return strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/", 6) == 0 ||
           (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
}

const char *run_outputs_vain(const struct options *options) {
    const struct {
        const char *name;
        bool asks;
    } asked[] = {{"POOLCUDA_TRACE", true},
                 {"POOLCUDA_STATS_FILE", true},
                 {"POOLCUDA_LOG", true},
                 {"POOLCUDA_CHECK_LOG", true},
                 {"POOLCUDA_STATS", options->stats},
                 {"POOLCUDA_CHECK", options->check}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        if (asked[i].asks && option_args_typed(asked[i].name))
            return option_args_dashed(asked[i].name);
    return NULL;
}

/* Not refused: scripts switch the check on and off. */
static void tell_without_check(void) {
    static const char *const names[] = {"POOLCUDA_CHECK_LEAKS", "POOLCUDA_CHECK_ABORT",
                                        "POOLCUDA_CHECK_EXIT", "POOLCUDA_CHECK_QUARANTINE",
                                        "POOLCUDA_CHECK_LOG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (option_args_typed(names[i]))
            fprintf(stderr,
                    "poolcuda run: --%s: nothing is checked without --check, expected beside it; "
                    "the program is started all the same\n",
                    option_args_dashed(names[i]));
}

bool run_outputs_decide(const struct options *options) {
    const char *form = getenv("POOLCUDA_STATS");
    bool none = form && *form && options->stats == STATS_NONE;
    bool typed_none = none && option_args_typed("POOLCUDA_STATS");
    const char *vain = options->disable ? run_outputs_vain(options) : NULL;
    if (vain && option_args_typed("POOLCUDA_DISABLE"))
        refuse("--disable=1: expected without --%s, of which nothing comes without the pool", vain);
    if (typed_none && option_args_typed("POOLCUDA_STATS_FILE"))
        refuse("--stats=0: expected without --stats-file, as it asks for no figures");
    if (typed_none)
        unsetenv("POOLCUDA_STATS_FILE");
    const char *file = getenv("POOLCUDA_STATS_FILE");
    return !none || (file && *file);
}

/* Whether a name that the program makes is known before it runs. */
static bool is_fixed(const char *pattern) {
    for (; *pattern; pattern++) {
        if (*pattern == '%' && pattern[1] != '%')
            return false;
        pattern += *pattern == '%';
    }
    return true;
}

/* The file that the output is; false: there is none, or it is no file. */
static bool find(const char *variable, bool is_log, char path[OUTPUT_PATH_SIZE]) {
    const char *pattern = getenv(variable);
    if (!pattern || !*pattern || (is_log && strcmp(pattern, "stderr") == 0))
        return false;
    if (!is_fixed(pattern)) /* equal names stay equal, whatever they become */
        return snprintf(path, OUTPUT_PATH_SIZE, "%s", pattern) > 0;
    return output_file_name(path, OUTPUT_PATH_SIZE, pattern, 0) && !run_outputs_stream(path);
}

static void check_log(const char *variable, const char *path) {
    const char *kind = kept_file_kind(path);
    if (!kind && kept_file_is_compressed(path))
        kind = "compressed data";
    if (kind)
        refuse("%s: %s: %s, which a log would damage; expected the name of another file",
               word_of(variable).text, path, kind);
}

static void check_pair(const char *variable, const char *path, const char *other_variable,
                       const char *other) {
    char error[OUTPUT_ERROR];
    if (output_is_output(path, other, error))
        refuse("%s: %s: the file of %s, too; expected one for each", word_of(variable).text, path,
               word_of(other_variable).text);
}

void run_outputs_check(const struct options *options) {
    char paths[OUTPUTS][OUTPUT_PATH_SIZE];
    bool found[OUTPUTS];
    for (int i = 0; i < OUTPUTS; i++) {
        found[i] = find(outputs[i].variable, outputs[i].is_log, paths[i]);
        if (found[i] && outputs[i].is_log)
            check_log(outputs[i].variable, paths[i]);
        for (int j = 0; found[i] && j < i; j++)
            if (found[j] && !(outputs[i].is_log && outputs[j].is_log))
                check_pair(outputs[i].variable, paths[i], outputs[j].variable, paths[j]);
    }
    if (!options->check && !options->disable)
        tell_without_check();
}
