/* poolcuda top: the pooled programs that run just now. */
#include "cli/commands.h"
#include "cli/live_rows.h"
#include "cli/output.h"
#include "cli/run_file.h"
#include "cli/standard_output.h"
#include "cli/top_screen.h"
#include "cli/usage.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_ONCE = 'o', KEY_JSON = 'j', KEY_INTERVAL = 'i', KEY_SORT = 's', KEY_PROMETHEUS = 'p' };

struct arguments {
    bool once, json;
    double interval; /* seconds; 0: not given */
    enum live_key key;
    const char *prometheus; /* a path, "-" or NULL */
};

static enum live_key sort_key(const char *word, struct argp_state *state) {
    for (size_t i = 0; i < LIVE_KEYS; i++)
        if (strcmp(word, live_key_names[i].word) == 0)
            return (enum live_key)i;
    usage_error(state, "--sort=%s: expected held, idle, live, hits, rate or pid", word);
    return LIVE_KEY_HELD;
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
        return 0;
    case KEY_PROMETHEUS:
        arguments->prometheus = usage_file(argument, "--prometheus", state);
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
    {0},
};
const struct argp top_argp = {
    .options = options,
    .parser = parse,
    .doc = "Shows your programs that run under libpoolcuda.so just now: what they have in use and "
           "idle, how many allocations are served from idle memory.\v"
           "On the screen a letter sorts, q quits. Programs with POOLCUDA_SHARE=0 are not shown.",
};

/* Reads the processes and hands their rows to `put`. */
static bool take(const struct arguments *arguments,
                 void (*put)(FILE *out, const struct live_row *rows, size_t count), FILE *out) {
    static const struct live_list nothing;
    struct live_list list;
    char error[256];
    if (!live_list(&list, error, sizeof error)) {
        fprintf(stderr, "poolcuda top: %s\n", error);
        return false;
    }
    live_tell_damaged(&list, "poolcuda top");
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

static void put_table(FILE *out, const struct live_row *rows, size_t count) {
    char line[LIVE_LINE];
    if (count) {
        live_head_line(line);
        fprintf(out, "%s\n", line);
    } else {
        live_sum_line(rows, count, line);
        fprintf(stderr, "poolcuda top: %s\n", line);
    }
    for (size_t i = 0; i < count; i++) {
        live_row_line(&rows[i], line);
        fprintf(out, "%s\n", line);
    }
}

/* A reader sees the old file or the new one, never a part. */
static bool write_file(const struct arguments *arguments) {
    char *text = NULL, error[OUTPUT_ERROR];
    size_t size;
    if (output_is_standard(arguments->prometheus))
        return take(arguments, live_prometheus, stdout) && standard_output_flush();
    FILE *out = open_memstream(&text, &size);
    bool done = out && take(arguments, live_prometheus, out);
    if (!out || fclose(out) != 0) {
        fputs("poolcuda top: not enough memory for the figures\n", stderr);
        done = false;
    }
    if (done && !output_write(arguments->prometheus, text, size, error)) {
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
    if (arguments.prometheus && !output_is_standard(arguments.prometheus) &&
        run_file_is_lost(arguments.prometheus, error, sizeof error)) {
        fprintf(stderr, "poolcuda top: %s\n", error);
        return EXIT_USAGE;
    }
    if (arguments.prometheus)
        return write_again_and_again(&arguments) ? 0 : 1;
    if (arguments.json)
        return take(&arguments, live_json, stdout) ? 0 : 1;
    if (arguments.once || !top_screen_possible())
        return take(&arguments, put_table, stdout) ? 0 : 1;
    if (top_screen(arguments.interval > 0 ? arguments.interval : 1, arguments.key, error,
                   sizeof error))
        return 0;
    fprintf(stderr, "poolcuda top: %s\n", error);
    return 1;
}
