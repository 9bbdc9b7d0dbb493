/* poolcuda replay: runs a recorded trace against the pool. */
#include "cli/commands.h"
#include "cli/input_wait.h"
#include "cli/option_args.h"
#include "cli/output.h"
#include "cli/plot_canvas.h"
#include "cli/progress.h"
#include "cli/replay.h"
#include "cli/result_json.h"
#include "cli/size_argument.h"
#include "cli/sweep.h"
#include "cli/usage.h"
#include "options/pool_options.h"
#include "report/emitter.h"
#include "report/human.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *file;
    const char *sweep; /* BASE; NULL: one replay */
    struct replay_settings settings;
    bool json;
};

enum { KEY_MEMORY = 'm', KEY_GPU = 'g', KEY_JSON = 'j', KEY_NATIVE = 'n', KEY_SWEEP = 's' };

/* A sweep has every preset, and none, on simulated devices of many sizes. */
static void check_sweep(const struct arguments *arguments, struct argp_state *state) {
    const struct replay_settings *settings = &arguments->settings;
    if (settings->gpu || settings->native || settings->memory)
        usage_error(
            state, "--sweep: expected no --gpu, --native or --memory beside it, as it replays with "
                   "every preset and without the pool, on simulated devices of many sizes");
    const char *preset = getenv("POOLCUDA_PRESET"), *policy = getenv("POOLCUDA_POLICY");
    if ((preset && *preset) || (policy && *policy))
        usage_error(state,
                    "--sweep: expected no preset and no policy beside it, as it replays with each");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_MEMORY:
        arguments->settings.memory = size_argument("--memory", argument, state);
        return 0;
    case KEY_GPU:
        arguments->settings.gpu = true;
        return 0;
    case KEY_JSON:
        arguments->json = true;
        return 0;
    case KEY_NATIVE:
        arguments->settings.native = true;
        return 0;
    case KEY_SWEEP:
        arguments->sweep = usage_file(argument, "--sweep", state);
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->file)
            usage_error(state, "%s: expected one FILE only", usage_word(argument));
        arguments->file = usage_file(argument, "FILE", state);
        return 0;
    case ARGP_KEY_END:
        if (!arguments->file)
            usage_error(state, "no FILE given, expected a trace, such as POOLCUDA_TRACE makes");
        if (arguments->settings.native && option_args_given())
            usage_error(state, "--native: expected without --%s, which is an option of the pool",
                        option_args_given());
        if (arguments->sweep)
            check_sweep(arguments, state);
        arguments->settings.memory =
            memory_or_default(arguments->settings.memory, arguments->settings.gpu, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void say(const char *line) {
    char clean[OUTPUT_ERROR];
    fprintf(stderr, "poolcuda replay: %s\n", emitter_clean(clean, sizeof clean, line));
}

static void print_text(const struct arguments *arguments, const struct replay_result *result) {
    const char *policy = policies[0].name;
    char file[OUTPUT_ERROR];
    if (arguments->settings.config.policy)
        policy = arguments->settings.config.policy->name;
    printf("%s, policy %s:\n", emitter_clean(file, sizeof file, arguments->file),
           arguments->settings.native ? "none" : policy);
    printf("  %llu allocation%s, %.2f%% served from idle memory\n",
           (unsigned long long)result->allocations, plural(result->allocations),
           100 * result_hit_rate(result));
    printf(
        "  %llu driver allocation%s, %llu driver free%s, %llu map and unmap call%s, %llu wait%s\n",
        (unsigned long long)result->driver_allocs, plural(result->driver_allocs),
        (unsigned long long)result->driver_frees, plural(result->driver_frees),
        (unsigned long long)result->map_calls, plural(result->map_calls),
        (unsigned long long)result->waits, plural(result->waits));
    printf("  peak requested %s, peak held %s; held at most %.3f x (peak requested + 64 MiB)\n",
           human(result->peak_live_bytes).text, human(result->peak_held_bytes).text,
           result->worst_held_ratio);
    printf("  idle memory then %.1f%% fragmented\n", 100 * result->fragmentation);
    if (arguments->settings.gpu && result->simulated)
        puts("  " RESULT_SIMULATED_GPU);
    if (!arguments->settings.gpu)
        printf("  %.3f s in malloc and free by the simulated GPU's model\n",
               result->modelled_seconds);
    else
        printf("  %.3f s in malloc and free\n", result->host_seconds);
    if (result->oom_failures)
        printf("  %llu allocation%s failed: the device is too small\n",
               (unsigned long long)result->oom_failures, plural(result->oom_failures));
}

static int print_json(const struct arguments *arguments, const struct replay_result *result) {
    char options[4096];
    option_args_join(options, sizeof options);
    json_t *object = result_to_json(result, arguments->file, arguments->settings.memory,
                                    arguments->settings.gpu, options);
    int failed = !object || json_dumpf(object, stdout, JSON_INDENT(2)) != 0;
    putchar('\n');
    json_decref(object);
    return failed;
}

static const struct argp_option rows[] = {
    {"memory", KEY_MEMORY, "SIZE", 0, "memory of each simulated device (80G)", 0},
    {"gpu", KEY_GPU, NULL, 0, "on the real GPU, by the libcuda.so.1 that is found", 0},
    {"native", KEY_NATIVE, NULL, 0, "without the pool, for comparison", 0},
    {"sweep", KEY_SWEEP, "BASE", 0,
     "with every preset and without the pool, on simulated devices from the peak of requested "
     "memory to "
     "three times that: print hits, driver calls and failures, and draw them into BASE.svg and "
     "BASE.png",
     0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};
static const struct argp_child children[] = {{&option_args, 0, "Options of the pool:", 1}, {0}};
const struct argp replay_argp = {
    .options = rows,
    .parser = parse,
    .args_doc = "FILE",
    .doc = "Replays an allocation trace against the pool and tells what it did. FILE: what "
           "POOLCUDA_TRACE recorded, CSV, or RMM's log; plain, gzip or zstd.",
    .children = children,
};

/* --- the sweep --- */

static int print_sweep(const struct arguments *arguments, const struct sweep *sweep) {
    char options[4096];
    if (!arguments->json) {
        sweep_print(sweep, arguments->file);
        return 0;
    }
    option_args_join(options, sizeof options);
    json_t *object = sweep_to_json(sweep, arguments->file, options);
    int failed = !object || json_dumpf(object, stdout, JSON_INDENT(2)) != 0;
    putchar('\n');
    json_decref(object);
    return failed;
}

static bool draw_sweep(const struct arguments *arguments, const struct sweep *sweep) {
    const char *slash = strrchr(arguments->file, '/');
    char error[OUTPUT_ERROR];
    json_t *title = result_name(slash ? slash + 1 : arguments->file);
    bool drawn = sweep_plot(arguments->sweep, sweep, json_string_value(title), error);
    json_decref(title);
    if (!drawn)
        say(error);
    return drawn;
}

static int run_sweep(const struct arguments *arguments, const struct trace *trace) {
    char error[OUTPUT_ERROR];
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (sweep)
        snprintf(error, sizeof error, "%s: no allocation; expected some, nothing was replayed",
                 arguments->file);
    else
        snprintf(error, sizeof error, "out of memory");
    bool done = sweep && trace->peak_live_bytes &&
                sweep_run(trace, sweep, progress_show, error, sizeof error);
    progress_end();
    if (!done)
        say(error);
    int status = !done || !draw_sweep(arguments, sweep);
    if (done)
        status |= print_sweep(arguments, sweep);
    free(sweep);
    return status;
}

/* False after one line: a drawing of the sweep cannot be written, or may not. */
static bool may_draw(const struct arguments *arguments, int *status) {
    char error[OUTPUT_ERROR];
    *status = plot_takes_a_place(arguments->sweep, arguments->file, error) ? EXIT_USAGE : 1;
    if (*status != EXIT_USAGE && plot_check(arguments->sweep, error))
        return true;
    say(error);
    return false;
}

int command_replay(int argc, char **argv) {
    struct arguments arguments = {0};
    int status;
    struct options options;
    struct replay_result result = {0};
    char error[OUTPUT_ERROR];
    argp_parse(&replay_argp, argc, argv, 0, NULL, &arguments);
    option_args_finish(&options);
    if (output_is_input("-", arguments.file, error)) {
        say(error);
        return EXIT_USAGE;
    }
    if (arguments.sweep && !may_draw(&arguments, &status))
        return status;
    arguments.settings.config = pool_config_from(&options);
    input_wait_begin("poolcuda replay", arguments.file);
    struct trace *trace = trace_read(arguments.file, say);
    input_wait_end();
    if (!trace)
        return 1;
    trace_tell_loss(trace, arguments.file, say);
    if (!replay_is_possible(trace, arguments.file, error, sizeof error)) {
        say(error);
        trace_free(trace);
        return 1;
    }
    if (arguments.sweep) {
        status = run_sweep(&arguments, trace);
        trace_free(trace);
        return status;
    }
    bool replayed =
        replay_run(trace, &arguments.settings, &result, NULL, NULL, error, sizeof error);
    trace_free(trace);
    if (!replayed) {
        say(error);
        return 1;
    }
    if (arguments.json)
        return print_json(&arguments, &result);
    print_text(&arguments, &result);
    return 0;
}
