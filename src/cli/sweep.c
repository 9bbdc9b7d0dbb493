#include "cli/sweep.h"

#include "base/format.h"
#include "cli/option_args.h"
#include "cli/result_json.h"
#include "cli/size_argument.h"
#include "options/pool_options.h"
#include "report/emitter.h"
#include "report/human.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const presets[] = {
#define PRESET(name, options, help) name,
#include "base/sizes.h"
#include "options/presets.def"
#undef PRESET
};
enum { PRESETS = sizeof presets / sizeof presets[0] };
_Static_assert(PRESETS + 1 == SWEEP_ROWS, "a row for each preset, and one without the pool");

uint64_t sweep_calls(const struct replay_result *result) {
    return result->driver_allocs + result->driver_frees + result->map_calls;
}

/* --- running --- */

/* The configuration of a preset, with what else is set. */
static struct pool_config configure(const char *preset) {
    struct options options;
    setenv("POOLCUDA_PRESET", preset, 1);
    option_args_finish(&options);
    unsetenv("POOLCUDA_PRESET");
    return pool_config_from(&options);
}

struct stage {
    size_t done;
    const char *name;
    void (*progress)(double share, const char *doing);
};

static void show(double share, void *state) {
    const struct stage *stage = state;
    if (stage->progress)
        stage->progress(((double)stage->done + share) / (SWEEP_ROWS * SWEEP_SIZES), stage->name);
}

/* A device too small for the driver to start is none that anybody has. */
static uint64_t size_of(uint64_t peak, unsigned percent) {
    uint64_t bytes = peak / 100 * percent + peak % 100 * percent / 100;
    uint64_t pages = (bytes + ROUND_PAGE - 1) / ROUND_PAGE;
    return (pages ? pages : 1) * ROUND_PAGE;
}

bool sweep_run(const struct trace *trace, struct sweep *sweep,
               void (*progress)(double share, const char *doing), char *error, size_t error_size) {
    *sweep = (struct sweep){.peak_bytes = trace->peak_live_bytes};
    unsigned largest = sweep_percents[SWEEP_SIZES - 1];
    if ((double)trace->peak_live_bytes / 100 * largest > most_memory) {
        format(error, error_size,
               "at its peak the trace has %s, of which devices up to %u times as large are tried; "
               "expected that these have at most 4 TiB; nothing was replayed",
               human(trace->peak_live_bytes).text, largest / 100);
        return false;
    }
    for (size_t i = 0; i < SWEEP_SIZES; i++)
        sweep->memory[i] = size_of(trace->peak_live_bytes, sweep_percents[i]);
    for (size_t row = 0; row < SWEEP_ROWS; row++) {
        bool native = row == PRESETS;
        sweep->names[row] = native ? "no pool" : presets[row];
        struct replay_settings settings = {.native = native};
        if (!native)
            settings.config = configure(presets[row]);
        for (size_t i = 0; i < SWEEP_SIZES; i++) {
            struct stage stage = {row * SWEEP_SIZES + i, sweep->names[row], progress};
            settings.memory = sweep->memory[i];
            if (!replay_run(trace, &settings, &sweep->results[row][i], show, &stage, error,
                            error_size))
                return false;
        }
    }
    sweep_find_cliffs(sweep);
    return true;
}

/* --- what is printed --- */

/* Characters of a row's column: a figure has at most nine, its name may have more. */
static int width_of(const struct sweep *sweep, size_t row) {
    enum { FIGURE = 9 };
    size_t name = strlen(sweep->names[row]);
    return name > FIGURE ? (int)name : FIGURE;
}

static void print_heading(const struct sweep *sweep, const char *what) {
    printf("\n%-24s", what);
    for (size_t row = 0; row < SWEEP_ROWS; row++)
        printf(" %*s", width_of(sweep, row), sweep->names[row]);
    putchar('\n');
}

static void print_memory(const struct sweep *sweep, size_t i) {
    double share = (double)sweep->memory[i] / (double)sweep->peak_bytes;
    printf("  %10s %6.2f x   ", human(sweep->memory[i]).text, share);
}

static void print_hits(const struct sweep *sweep) {
    print_heading(sweep, "hits");
    for (size_t i = 0; i < SWEEP_SIZES; i++) {
        print_memory(sweep, i);
        for (size_t row = 0; row < SWEEP_ROWS; row++)
            printf(" %*.2f%%", width_of(sweep, row) - 1,
                   100 * result_hit_rate(&sweep->results[row][i]));
        putchar('\n');
    }
}

static uint64_t failures(const struct replay_result *result) {
    return result->oom_failures;
}

static void print_counts(const struct sweep *sweep, const char *what,
                         uint64_t (*count)(const struct replay_result *)) {
    print_heading(sweep, what);
    for (size_t i = 0; i < SWEEP_SIZES; i++) {
        print_memory(sweep, i);
        for (size_t row = 0; row < SWEEP_ROWS; row++)
            printf(" %*llu", width_of(sweep, row),
                   (unsigned long long)count(&sweep->results[row][i]));
        putchar('\n');
    }
}

static void print_cliffs(const struct sweep *sweep) {
    puts(sweep->cliff_count ? "\ncliffs: more memory, and less is served from idle memory. These "
                              "are defects of the preset, please report them"
                            : "\nno cliffs: with up to 4% more memory no preset serves less");
    for (size_t i = 0; i < sweep->cliff_count; i++) {
        const struct sweep_cliff *cliff = &sweep->cliffs[i];
        const struct replay_result *results = sweep->results[cliff->row];
        printf("  %s: %.2f%% with %.2f x the peak requested, %.2f%% with %.2f x\n",
               sweep->names[cliff->row], 100 * result_hit_rate(&results[cliff->before]),
               sweep_percents[cliff->before] / 100.0, 100 * result_hit_rate(&results[cliff->at]),
               sweep_percents[cliff->at] / 100.0);
    }
}

void sweep_print(const struct sweep *sweep, const char *file) {
    char name[OUTPUT_ERROR];
    printf("%s: %llu allocation%s, peak requested %s; devices of that size and more:\n",
           emitter_clean(name, sizeof name, file),
           (unsigned long long)sweep->results[0][0].allocations,
           plural(sweep->results[0][0].allocations), human(sweep->peak_bytes).text);
    print_hits(sweep);
    print_counts(sweep, "driver calls", sweep_calls);
    print_counts(sweep, "failed allocations", failures);
    print_cliffs(sweep);
}

static json_t *point_to_json(const struct sweep *sweep, size_t row, size_t i, const char *file,
                             const char *options) {
    json_t *point = result_to_json(&sweep->results[row][i], file, sweep->memory[i], false, options);
    bool native = row == PRESETS;
    json_object_set_new(point, "preset", native ? json_null() : json_string(sweep->names[row]));
    json_object_set_new(point, "driver_calls",
                        json_integer((json_int_t)sweep_calls(&sweep->results[row][i])));
    json_object_set_new(point, "memory_ratio", json_real(sweep_percents[i] / 100.0));
    return point;
}

json_t *sweep_to_json(const struct sweep *sweep, const char *file, const char *options) {
    json_t *points = json_array(), *cliffs = json_array();
    for (size_t row = 0; row < SWEEP_ROWS; row++)
        for (size_t i = 0; i < SWEEP_SIZES; i++)
            json_array_append_new(points, point_to_json(sweep, row, i, file, options));
    for (size_t i = 0; i < sweep->cliff_count; i++) {
        const struct sweep_cliff *cliff = &sweep->cliffs[i];
        json_array_append_new(cliffs,
                              json_pack("{s:s, s:f, s:f}", "preset", sweep->names[cliff->row],
                                        "from", sweep_percents[cliff->before] / 100.0, "to",
                                        sweep_percents[cliff->at] / 100.0));
    }
    return json_pack("{s:s, s:i, s:o, s:I, s:o, s:o}", "kind", "poolcuda-sweep", "version",
                     RESULT_VERSION, "trace", result_name(file), "peak_live_bytes",
                     (json_int_t)sweep->peak_bytes, "points", points, "cliffs", cliffs);
}
