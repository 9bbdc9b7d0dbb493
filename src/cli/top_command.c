/* poolcuda top: the pooled programs that run just now. */
#include "cli/commands.h"
#include "cli/kept_file.h"
#include "cli/live_rows.h"
#include "cli/output.h"
#include "cli/standard_output.h"
#include "cli/top_screen.h"
#include "cli/usage.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    KEY_ONCE = 'o',
    KEY_JSON = 'j',
    KEY_INTERVAL = 'i',
    KEY_SORT = 's',
    KEY_PROMETHEUS = 'p',
    KEY_OPENMETRICS = 'm',
    KEY_ALL_USERS = 'a'
};

struct arguments {
    bool once, json, all_users, sorted; /* sorted: it was said by what */
    double interval;                    /* seconds; 0: not given */
    enum live_key key;
    const char *metrics; /* a path, "-" or NULL */
    void (*put_metrics)(FILE *out, const struct live_row *rows, size_t count);
};

static enum live_key sort_key(const char *word, struct argp_state *state) {
    for (size_t i = 0; i < LIVE_KEYS; i++)
        if (strcmp(word, live_key_names[i].word) == 0)
            return (enum live_key)i;
    usage_error(state, "--sort=%s: expected held, idle, live, hits, rate or pid", word);
    return LIVE_KEY_HELD;
}

static void set_metrics(struct arguments *arguments, char *path, const char *option,
                        void (*put)(FILE *out, const struct live_row *rows, size_t count),
                        struct argp_state *state) {
    if (arguments->metrics && arguments->put_metrics != put)
        usage_error(state, "--prometheus and --openmetrics: expected one of them");
    if (arguments->metrics)
        usage_error(state, "%s: given twice, expected one FILE", option);
    arguments->metrics = usage_file(path, option, state);
    arguments->put_metrics = put;
}

/* No option is passed over without a word. The rows of JSON are in the table's order. */
static void check_pairs(const struct arguments *arguments, const struct argp_state *state) {
    const char *metrics =
        arguments->put_metrics == live_prometheus ? "--prometheus" : "--openmetrics";
    if (arguments->metrics && arguments->json)
        usage_error(state, "%s: expected without --json, which prints another form", metrics);
    if (arguments->metrics && (arguments->once || arguments->sorted))
        usage_error(state, "%s: expected without --once and --sort, which are about the table",
                    metrics);
    if (arguments->interval > 0 && (arguments->once || arguments->json))
        usage_error(state, "--interval: expected without --once and --json, which print once");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    const char *end;
    switch (key) {
    case KEY_ONCE:
        arguments->once = true;
        return 0;
    case KEY_JSON:
        arguments->json = true;
        return 0;
    case KEY_INTERVAL:
        end = usage_decimal(argument, &arguments->interval);
        if (!end || *end || !(arguments->interval >= 0.1 && arguments->interval <= 3600))
            usage_error(state, "--interval=%s: expected seconds from 0.1 to 3600", argument);
        return 0;
    case KEY_SORT:
        arguments->key = sort_key(argument, state);
        arguments->sorted = true;
        return 0;
    case KEY_PROMETHEUS:
        set_metrics(arguments, argument, "--prometheus", live_prometheus, state);
        return 0;
    case KEY_OPENMETRICS:
        set_metrics(arguments, argument, "--openmetrics", live_openmetrics, state);
        return 0;
    case KEY_ALL_USERS:
        arguments->all_users = true;
        return 0;
    case ARGP_KEY_ARG:
        usage_error(state, "%s: expected options only", usage_word(argument));
        return 0;
    case ARGP_KEY_END:
        check_pairs(arguments, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"interval", KEY_INTERVAL, "S", 0,
     "seconds between two looks, 1 by default; a file for Prometheus is written again so often", 0},
    {"sort", KEY_SORT, "held|idle|live|hits|rate|pid", 0, "what the rows are sorted by", 0},
    {"once", KEY_ONCE, NULL, 0,
     "print the table once, as lines; so it is where there is no terminal", 0},
    {"json", KEY_JSON, NULL, 0, "print all figures once, as JSON", 0},
    {"prometheus", KEY_PROMETHEUS, "FILE", 0,
     "write all figures to FILE in Prometheus' text format (- is standard output), for "
     "node_exporter's textfile collector",
     0},
    {"openmetrics", KEY_OPENMETRICS, "FILE", 0,
     "write all figures to FILE as OpenMetrics 1.0 has them, for a server that Prometheus asks", 0},
    {"all-users", KEY_ALL_USERS, NULL, 0,
     "all users' programs, which only root may read, not just yours", 0},
    {0},
};
const struct argp top_argp = {
    .options = options,
    .parser = parse,
    .doc = "Shows your programs that run under libpoolcuda.so just now: what they have in use and "
           "idle, how many allocations are served from idle memory.\v"
           "On the screen a letter sorts, q quits. Programs with POOLCUDA_SHARE=0 are not shown.",
};

/* What is watched by a service is only looked at: it may be shut out of what it would clear away.
 */
static enum live_scope scope(const struct arguments *arguments) {
    if (arguments->all_users)
        return LIVE_ALL;
    return arguments->metrics ? LIVE_LOOK : LIVE_OWN;
}

/* Reads the processes and hands their rows to `put`. */
static bool take(const struct arguments *arguments,
                 void (*put)(FILE *out, const struct live_row *rows, size_t count), FILE *out) {
    static const struct live_list nothing;
    static bool told; /* once is enough */
    struct live_list list;
    char error[256];
    if (!live_list(&list, scope(arguments), error, sizeof error)) {
        fprintf(stderr, "poolcuda top: %s\n", error);
        return false;
    }
    if (!told)
        live_tell_missed(&list, "poolcuda top");
    told = true;
    struct live_row *rows = calloc(list.count + 1, sizeof *rows);
    if (rows) {
        live_rows(&list, &nothing, arguments->key, rows);
        put(out, rows, list.count);
    } else {
        fputs("poolcuda top: not enough memory for the list of processes\n", stderr);
    }
    free(rows);
    live_free(&list);
    return rows;
}

static void put_rows(FILE *out, const struct live_row *rows, size_t count, bool users) {
    char line[LIVE_LINE];
    if (count) {
        live_head_line(users, line);
        fprintf(out, "%s\n", line);
    } else {
        live_sum_line(rows, count, line);
        fprintf(stderr, "poolcuda top: %s\n", line);
    }
    for (size_t i = 0; i < count; i++) {
        live_row_line(&rows[i], users, line);
        fprintf(out, "%s\n", line);
    }
}

static void put_table(FILE *out, const struct live_row *rows, size_t count) {
    put_rows(out, rows, count, false);
}

static void put_users_table(FILE *out, const struct live_row *rows, size_t count) {
    put_rows(out, rows, count, true);
}

/* A reader sees the old file or the new one, never a part. */
static bool write_file(const struct arguments *arguments) {
    char *text = NULL, error[OUTPUT_ERROR];
    size_t size;
    if (output_is_standard(arguments->metrics))
        return take(arguments, arguments->put_metrics, stdout) && standard_output_flush();
    FILE *out = open_memstream(&text, &size);
    bool done = out && take(arguments, arguments->put_metrics, out);
    if (!out || fclose(out) != 0) {
        fputs("poolcuda top: not enough memory for the figures\n", stderr);
        done = false;
    }
    if (done && !output_write(arguments->metrics, text, size, error)) {
        fprintf(stderr, "poolcuda top: %s\n", error);
        done = false;
    }
    free(text);
    return done;
}

static bool write_again_and_again(const struct arguments *arguments) {
    struct timespec pause = {.tv_sec = (time_t)arguments->interval};
    pause.tv_nsec = (long)((arguments->interval - (double)pause.tv_sec) * 1e9);
    bool done = write_file(arguments);
    while (done && arguments->interval > 0) {
        nanosleep(&pause, NULL);
        done = write_file(arguments);
    }
    return done;
}

int command_top(int argc, char **argv) {
    struct arguments arguments = {.key = LIVE_KEY_HELD};
    char error[OUTPUT_ERROR];
    argp_parse(&top_argp, argc, argv, 0, NULL, &arguments);
    if (arguments.metrics && !output_is_standard(arguments.metrics) &&
        kept_file_is_lost(arguments.metrics, error, sizeof error)) {
        fprintf(stderr, "poolcuda top: %s\n", error);
        return EXIT_USAGE;
    }
    if (arguments.metrics)
        return write_again_and_again(&arguments) ? 0 : 1;
    if (arguments.json)
        return take(&arguments, live_json, stdout) ? 0 : 1;
    if (arguments.once || !top_screen_possible())
        return take(&arguments, arguments.all_users ? put_users_table : put_table, stdout) ? 0 : 1;
    if (top_screen(arguments.interval > 0 ? arguments.interval : 1, arguments.key,
                   scope(&arguments), error, sizeof error))
        return 0;
    fprintf(stderr, "poolcuda top: %s\n", error);
    return 1;
}
