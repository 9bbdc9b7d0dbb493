/* poolcuda run: starts a program under libpoolcuda.so and tells what to type next. */
#include "base/raw_files.h"
#include "cli/child.h"
#include "cli/commands.h"
#include "cli/installed.h"
#include "cli/next_step.h"
#include "cli/option_args.h"
#include "cli/preload.h"
#include "cli/printable.h"
#include "cli/run_outputs.h"
#include "cli/run_stats.h"
#include "cli/simulated.h"
#include "cli/usage.h"
#include "counters/page.h"
#include "report/report.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* As env and timeout: 125 is our own failure, 126 and 127 are the program's. */
enum { EXIT_OURS = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, APP_NAME_SHOWN = 64 };
enum { KEY_SIMULATE = 0x100 };

struct arguments {
    char **app;
    bool quiet, simulate;
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case 'q':
        arguments->quiet = true;
        return 0;
    case KEY_SIMULATE:
        arguments->simulate = true;
        return 0;
    case ARGP_KEY_ARG: /* the program: everything behind it is its own */
        if (!*argument)
            usage_error(state, "PROGRAM: \"\": expected the name of a program");
        arguments->app = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        usage_error(state, "no program given; expected poolcuda run [OPTIONS] -- PROGRAM "
                           "[ARGUMENT...]");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option rows[] = {
    {"quiet", 'q', NULL, 0, "say nothing after the program's end", 0},
    {"simulate", KEY_SIMULATE, NULL, 0,
     "on the simulated GPU: for a program of the driver API, on a machine without one", 0},
    {0},
};
static const struct argp_child children[] = {
    {&option_args_all, 0, "Options of the library, each as its POOLCUDA_* variable:", 1}, {0}};
const struct argp run_argp = {
    .options = rows,
    .parser = parse,
    .args_doc = "[--] PROGRAM [ARGUMENT...]",
    .doc =
        "Runs PROGRAM with libpoolcuda.so preloaded, and then names the command to type next. Its "
        "input, output, exit code and signals are its own. Unless figures are asked for "
        "otherwise, they go to poolcuda.PROGRAM.*.json in the current folder.\v"
        "Ends as PROGRAM does; with 127 if it is not found, 126 if it cannot be executed, 125 "
        "if libpoolcuda.so cannot be preloaded, 2 if an option is wrong.",
    .children = children,
};

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

/* 0, or the errno with which an empty file cannot become as large as one of figures. */
static int fault_of_size(int file) {
    if (!raw_may_be_as_long(sizeof(struct stats_page)))
        return EFBIG;
    bool made = fallocate(file, 0, 0, sizeof(struct stats_page)) == 0 || errno == EOPNOTSUPP ||
                errno == ENOSYS;
    return made ? 0 : errno;
}

/* 0, or the errno with which a file of figures cannot be made in the folder. Permissions alone do
 * not tell: root has them all, a file system may refuse, and a full disk takes empty files. */
static int fault_of(const char *folder) {
    char *path;
    if (asprintf(&path, "%s/.poolcuda.XXXXXX", folder) < 0)
        return ENOMEM;
    int file = mkostemp(path, O_CLOEXEC), fault = file < 0 ? errno : fault_of_size(file);
    if (file >= 0) {
        unlink(path);
        close(file);
    }
    free(path);
    return fault;
}

/* The folder for the figures: the current one if it can be written, else $TMPDIR if that can be, as
 * an absolute path, since the program may go elsewhere. */
static char *run_stats_folder(void) {
    const char *temporary = getenv("TMPDIR");
    char *here = getcwd(NULL, 0);
    if (here && !fault_of(here))
        return here;
    free(here);
    bool fits = temporary && *temporary == '/' && !fault_of(temporary);
    return strdup(fits ? temporary : "/tmp");
}

/* A folder in a pattern of a file's name. */
static void put_folder(FILE *out, const char *folder) {
    for (; *folder; folder++) {
        if (*folder == '%')
            putc('%', out);
        putc(*folder, out);
    }
    putc('/', out);
}

/* A name is meant as of here, wherever the program may have gone when it makes the file. Returns
 * what it was before, "" if there is none; the caller frees it. */
static char *fix_folder(const char *variable) {
    char *fixed = NULL, *here = NULL;
    const char *value = getenv(variable);
    char *before = strdup(value ? value : "");
    size_t size;
    if (!value || !*value || *value == '/' || !(here = getcwd(NULL, 0)))
        return before;
    FILE *out = open_memstream(&fixed, &size);
    if (out) {
        put_folder(out, here);
        fputs(value, out);
        if (fclose(out) == 0 && size < OPTION_PATH_MAX)
            setenv(variable, fixed, 1);
    }
    free(fixed);
    free(here);
    return before;
}

/* To a log, "stderr" is no file. */
static void fix_log(const char *variable) {
    const char *value = getenv(variable);
    if (value && strcmp(value, "stderr") != 0)
        free(fix_folder(variable));
}

/* poolcuda.APP.TIME-PROCESS-RANDOM.%p.json in that folder: a name that no other run takes, on other
 * machines that share the folder neither. NULL without memory. */
static char *run_stats_pattern(const char *app) {
    char *pattern = NULL, *folder = run_stats_folder();
    size_t size;
    uint16_t random = 0;
    const char *slash = strrchr(app, '/'), *name = slash ? slash + 1 : app;
    FILE *out = folder ? open_memstream(&pattern, &size) : NULL;
    if (out) {
        put_folder(out, folder);
        fprintf(out, "poolcuda.");
        for (int i = 0; name[i] && i < APP_NAME_SHOWN; i++)
            putc(isalnum((unsigned char)name[i]) || strchr("+-._", name[i]) ? name[i] : '_', out);
        if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
            random = 0;
        fprintf(out, ".%lld-%d-%04x.%%p.json", (long long)time(NULL), (int)getpid(), random);
        if (fclose(out) != 0) {
            free(pattern);
            pattern = NULL;
        }
    }
    free(folder);
    return pattern;
}

static void put_file(const char *path, const char *behind) {
    char *file = next_step_file(path);
    fprintf(stderr, " %s%s", file ? file : "?", behind);
    free(file);
}

/* takes_all: the command takes more than one file. Where their prefix is that of others as well,
 * each is named. */
static void tell_files(const struct figures *figures, const char *what, const char *command,
                       bool takes_all) {
    bool one = figures->count == 1;
    char *name = printable_copy(one ? figures->paths[0] : figures->prefix);
    char *self = next_step_self();
    if (one)
        fprintf(stderr, "poolcuda: %s in %s\n", what, name);
    else if (figures->is_all)
        fprintf(stderr, "poolcuda: %s of %zu processes in %s*\n", what, figures->count, name);
    else
        fprintf(stderr, "poolcuda: %s of %zu processes in files of their own\n", what,
                figures->count);
    fprintf(stderr, "poolcuda: next: %s %s", self, command);
    if (takes_all && !one && figures->is_all)
        put_file(figures->prefix, "*");
    else
        for (size_t i = 0; i < (takes_all ? figures->count : 1); i++)
            put_file(figures->paths[i], "");
    putc('\n', stderr);
    free(name);
    free(self);
}

static void tell_lost(uint64_t count, const char *what, const char *variable) {
    if (count)
        fprintf(stderr, "poolcuda: %llu %s%s could not be written to the file of %s\n",
                (unsigned long long)count, what, count == 1 ? "" : "s", variable);
}

static void tell_nothing_pooled(const struct options *options, char *const *app) {
    const char *vain = options->disable ? run_outputs_vain(options) : NULL;
    if (options->disable) {
        fprintf(stderr, "poolcuda: pooling was off: POOLCUDA_DISABLE=1%s%s\n",
                vain ? ", so that nothing came of --" : "", vain ? vain : "");
        return;
    }
    if (!is_set("POOLCUDA_STATS_FILE")) {
        fputs("poolcuda: figures were off: POOLCUDA_STATS=0\n", stderr);
        return;
    }
    char *self = next_step_self();
    fprintf(stderr,
            "poolcuda: no figures: the program used no CUDA, the pool was not reached, "
            "POOLCUDA_STATS_FILE was gone by the first CUDA call, or a process still runs\n"
            "poolcuda: next: %s doctor%s",
            self, **app == '-' ? " --" : "");
    for (; *app; app++) {
        char *word = printable_word(*app);
        fprintf(stderr, " %s", word);
        free(word);
    }
    putc('\n', stderr);
    free(self);
}

/* Whether it was for the lack of a file that there are no figures in one. The program may have
 * printed them, as the library says if it was reached. */
static bool tell_no_file(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int fault = folder ? fault_of(folder) : ENOMEM;
    if (fault) {
        char *name = printable_copy(folder ? folder : path);
        fprintf(stderr, "poolcuda: no file of figures: one of %zu bytes cannot be made in %s: %s\n",
                sizeof(struct stats_page), name, strerror(fault));
        free(name);
    }
    free(folder);
    return fault;
}

/* What is wrong with a program that could not be started: beyond the errno, where it is a folder or
 * a script whose interpreter is missing. The caller frees it. */
static char *why_not_started(const char *program, int error) {
    struct stat status;
    char line[PATH_MAX] = "", *why = NULL;
    if (strchr(program, '/') || strcmp(program, ".") == 0) {
        if (stat(program, &status) == 0 && S_ISDIR(status.st_mode))
            return strdup("a folder");
        FILE *file = error == ENOENT ? fopen(program, "re") : NULL;
        if (file && !fgets(line, sizeof line, file))
            *line = '\0';
        if (file)
            fclose(file);
    }
    if (line[0] == '#' && line[1] == '!') {
        char *name = line + 2 + strspn(line + 2, " \t");
        name[strcspn(name, " \t\n")] = '\0';
        char *clean = printable_copy(name);
        if (clean && asprintf(&why, "its interpreter %s is not there", clean) < 0)
            why = NULL;
        free(clean);
    }
    return why ? why : strdup(strerror(error));
}

/* Prints what has become of the program's figures and of its trace, and the command that shows
 * them. */
static void tell_end(const struct options *options, char *const *app, bool own_pattern,
                     const char *stats, const char *trace, struct timespec since) {
    struct figures reports = {.count = 0}, traces = {.count = 0};
    if (stats && *stats)
        /* Nobody else makes files of our pattern; a file server's clock may be another. */
        reports =
            run_stats_made(stats, FIGURES_REPORTS, own_pattern ? (struct timespec){0, 0} : since);
    if (trace && *trace)
        traces = run_stats_made(trace, FIGURES_TRACES, since);
    tell_lost(reports.lost_log, "report", "POOLCUDA_LOG");
    tell_lost(reports.lost_check, "report", "POOLCUDA_CHECK_LOG");
    tell_lost(reports.lost_trace, "event", "POOLCUDA_TRACE");
    if (reports.count)
        tell_files(&reports, "figures", "report", true);
    else if (!options->stats && (!reports.prefix || (!run_outputs_stream(reports.prefix) &&
                                                     !tell_no_file(reports.prefix))))
        tell_nothing_pooled(options, app);
    if (traces.count)
        tell_files(&traces, "trace", "tune", false);
    run_stats_destroy(&reports);
    run_stats_destroy(&traces);
}

/* Ends with 125 after one line if the library cannot be preloaded. */
static void preload(void) {
    char library[PATH_MAX];
    if (!installed_library(library)) {
        fprintf(stderr,
                "poolcuda run: libpoolcuda.so: not found, expected it where it was installed "
                "together with this command; nothing was started\n");
        exit(EXIT_OURS);
    }
    char *value = preload_value(getenv("LD_PRELOAD"), library);
    if (!value) {
        fprintf(stderr,
                "poolcuda run: %s: LD_PRELOAD cannot hold a path with spaces or colons, and no "
                "link to it could be made in $TMPDIR or /tmp; nothing was started\n",
                printable(library));
        exit(EXIT_OURS);
    }
    setenv("LD_PRELOAD", value, 1);
    free(value);
}

/* Puts the simulated GPU's driver before any other. Ends with 125 after one line if that cannot be
 * done. */
static void simulate(void) {
    char driver[PATH_MAX], folder[PATH_MAX], *value = NULL;
    const char *before = getenv("LD_LIBRARY_PATH");
    bool found = simulated_driver(driver, sizeof driver);
    if (found)
        *strrchr(driver, '/') = '\0';
    found = found && realpath(driver, folder);
    if (!found || strpbrk(folder, ":;")) {
        fprintf(stderr, "poolcuda run: --simulate: %s%s; nothing was started\n",
                found ? printable(folder) : "the simulated GPU's driver: ",
                found ? ": LD_LIBRARY_PATH cannot hold a path with colons or semicolons"
                      : "not found, expected it where it was installed together with this command");
        exit(EXIT_OURS);
    }
    if (asprintf(&value, "%s%s%s", folder, before && *before ? ":" : "", before ? before : "") >= 0)
        setenv("LD_LIBRARY_PATH", value, 1);
    free(value);
}

int command_run(int argc, char **argv) {
    struct arguments arguments = {NULL, false, false};
    struct options options;
    struct timespec since;
    int status = 0;
    bool own_pattern = false;
    argp_parse(&run_argp, argc, argv, ARGP_IN_ORDER, NULL, &arguments);
    option_args_check(&options);
    if (run_outputs_decide(&options) && !is_set("POOLCUDA_STATS_FILE") &&
        (!options.stats || options.stats == STATS_FILE) && !options.disable) {
        char *pattern = run_stats_pattern(arguments.app[0]);
        own_pattern = pattern && strlen(pattern) < OPTION_PATH_MAX &&
                      setenv("POOLCUDA_STATS_FILE", pattern, 1) == 0;
        free(pattern);
    }
    char *stats = fix_folder("POOLCUDA_STATS_FILE"), *trace = fix_folder("POOLCUDA_TRACE");
    fix_log("POOLCUDA_LOG");
    fix_log("POOLCUDA_CHECK_LOG");
    run_outputs_check(&options);
    preload();
    if (arguments.simulate)
        simulate();
    /* Files bear the time of the clock's last tick. */
    clock_gettime(CLOCK_REALTIME_COARSE, &since);
    int error = child_run(arguments.app, &status);
    preload_remove_link();
    if (error) {
        char *name = printable_copy(arguments.app[0]);
        char *why = why_not_started(arguments.app[0], error);
        fprintf(stderr, "poolcuda run: %s: %s, expected a program that can be started\n", name,
                why);
        free(name);
        free(why);
        free(stats);
        free(trace);
        return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    }
    if (!arguments.quiet && arguments.simulate)
        fprintf(stderr, "poolcuda: this ran on the simulated GPU: all times are modelled\n");
    if (!arguments.quiet)
        tell_end(&options, arguments.app, own_pattern, stats, trace, since);
    free(stats);
    free(trace);
    child_end_alike(status);
}
