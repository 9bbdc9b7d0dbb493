/* poolcuda tune: tries settings on a trace, shows which are worth having, recommends one. */
#include "cli/commands.h"
#include "cli/input_wait.h"
#include "cli/installed.h"
#include "cli/next_step.h"
#include "cli/option_args.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/printable.h"
#include "cli/progress.h"
#include "cli/result_json.h"
#include "cli/size_argument.h"
#include "cli/tune.h"
#include "cli/tune_search.h"
#include "cli/usage.h"
#include "options/pool_options.h"
#include "report/emitter.h"
#include "report/human.h"
#include "trace/bounds.h"

#include <argp.h>
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MEMORY = 'm',
    KEY_GPU = 'g',
    KEY_JSON = 'j',
    KEY_ALL = 'a',
    KEY_PLOT = 'p',
    KEY_MOST = 't',
    KEY_ANY = 'y'
};

static const uint64_t driver_granule = 512; /* what cuMemAlloc's addresses are multiples of */

struct arguments {
    const char *file, *plot;
    struct replay_settings settings;
    uint64_t most; /* bytes that may be held; 0: the pool's own measure */
    bool json, all, any;
};

/* A trace, what was tried on it, and what no setting can beat. */
struct session {
    const struct arguments *arguments;
    struct trace *trace;
    struct tune tune;
    struct replay_result native;
    struct bounds bounds;
    char fixed[4096]; /* what the user has set for all settings, as variables */
};

static void say(const char *line) {
    progress_end();
    char clean[OUTPUT_ERROR];
    fprintf(stderr, "poolcuda tune: %s\n", emitter_clean(clean, sizeof clean, line));
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_MEMORY:
        arguments->settings.memory = size_argument("--memory", argument, state);
        return 0;
    case KEY_MOST:
        arguments->most = bytes_argument("--max-held", argument, state);
        return 0;
    case KEY_GPU:
        arguments->settings.gpu = true;
        return 0;
    case KEY_JSON:
        arguments->json = true;
        return 0;
    case KEY_ALL:
        arguments->all = true;
        return 0;
    case KEY_ANY:
        arguments->any = true;
        return 0;
    case KEY_PLOT:
        arguments->plot = usage_file(argument, "--plot", state);
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->file)
            usage_error(state, "%s: expected one FILE only", usage_word(argument));
        arguments->file = usage_file(argument, "FILE", state);
        return 0;
    case ARGP_KEY_END:
        if (!arguments->file)
            usage_error(state, "no FILE given, expected a trace, such as POOLCUDA_TRACE makes");
        arguments->settings.memory =
            memory_or_default(arguments->settings.memory, arguments->settings.gpu, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- running --- */

static const char *name_of(const struct session *session, const struct tune_setting *setting) {
    if (*setting->variables)
        return setting->variables;
    return *session->fixed ? "(nothing more)" : "(the default)";
}

/* A part of the work: from which share of it to which. */
struct stage {
    double from, to;
    const char *doing;
};

static void show(double share, void *state) {
    const struct stage *stage = state;
    progress_show(stage->from + share * (stage->to - stage->from), stage->doing);
}

/* The configuration that the environment and `variables` stand for. */
static struct pool_config configure(const char *variables) {
    char words[TUNE_VARIABLES], *rest = words, *word;
    struct options options;
    snprintf(words, sizeof words, "%s", variables);
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');
        if (!value)
            continue;
        *value++ = '\0';
        setenv(word, value, 1);
    }
    option_args_finish(&options);
    snprintf(words, sizeof words, "%s", variables);
    rest = words;
    while ((word = strsep(&rest, " "))) { /* what is set here was not set before */
        word[strcspn(word, "=")] = '\0';
        if (*word)
            unsetenv(word);
    }
    return pool_config_from(&options);
}

static bool replay(const struct session *session, const struct replay_settings *settings,
                   struct replay_result *result, const struct stage *stage) {
    char error[512];
    if (replay_run(session->trace, settings, result, show, (void *)stage, error, sizeof error))
        return true;
    say(error);
    return false;
}

static bool replay_without_pool(struct session *session) {
    const struct stage stage = {0, 1, "without the pool"};
    struct replay_settings settings = session->arguments->settings;
    settings.native = true;
    return replay(session, &settings, &session->native, &stage);
}

static bool try_setting(struct tune_setting *setting, double share,
                        bool (*is_hopeless)(const struct replay_result *so_far, const void *state),
                        const void *state, void *owner) {
    const struct session *session = owner;
    const struct stage stage = {share, share, name_of(session, setting)};
    struct replay_settings settings = session->arguments->settings;
    settings.config = setting->config;
    settings.is_hopeless = is_hopeless;
    settings.state = state;
    return replay(session, &settings, &setting->result, &stage);
}

static void note_config(struct tune_setting *setting) {
    struct pool_config config = configure(setting->variables);
    tune_note_config(setting, &config);
}

static double seconds_of_trace(const struct trace *trace) {
    return trace->event_count ? (double)trace->events[trace->event_count - 1].time_ns / 1e9 : 0;
}

static uint64_t count_events(const struct trace *trace, enum trace_op op) {
    uint64_t count = 0;
    for (size_t i = 0; i < trace->event_count; i++)
        count += trace->events[i].op == op;
    return count;
}

static bool search(struct session *session) {
    const struct trace *trace = session->trace;
    const struct tune_search search = {.tune = &session->tune,
                                       .events = trace->event_count,
                                       .trace_seconds = seconds_of_trace(trace),
                                       .peak_bytes = session->bounds.live_bytes,
                                       .memory = session->arguments->settings.memory,
                                       .note_config = note_config,
                                       .try_setting = try_setting,
                                       .owner = session};
    bool no_memory = false;
    bool done = replay_without_pool(session) && tune_search(&search, &no_memory);
    if (!done && no_memory)
        say("out of memory");
    progress_end();
    return done;
}

/* --- what is printed --- */

static const char heading[] = "setting (* on the front)";

/* Everything to be set, NAME=VALUE NAME=VALUE ... */
struct all_variables {
    char text[sizeof((struct session *)0)->fixed + TUNE_VARIABLES + 1];
};

static struct all_variables all_variables(const struct session *session,
                                          const struct tune_setting *setting) {
    struct all_variables all;
    bool both = *session->fixed && *setting->variables;
    snprintf(all.text, sizeof all.text, "%s%s%s", session->fixed, both ? " " : "",
             setting->variables);
    return all;
}

/* A bound on the driver allocations of what works as the setting does and holds no more. 0: not
 * known, or not for a device that was too small. */
static uint64_t fewest_allocs(const struct session *session, const struct tune_setting *setting) {
    uint64_t fewest, held = setting->result.peak_held_bytes;
    if (setting->result.oom_failures || !setting->complete)
        return 0;
    enum bounds_answer answer =
        setting->cuts ? bounds_fewest_cut(session->trace, BOUNDS_ALL_DEVICES, held, &fewest)
                      : bounds_fewest_whole(session->trace, BOUNDS_ALL_DEVICES, held, &fewest);
    return answer == BOUNDS_FOUND ? fewest : 0;
}

static double time_of(const struct session *session, const struct tune_setting *setting) {
    return tune_seconds(setting, &setting->result, session->arguments->settings.gpu);
}

static double native_time(const struct session *session) {
    const struct replay_result *native = &session->native;
    return session->arguments->settings.gpu ? native->host_seconds : native->modelled_seconds;
}

static bool is_shown(const struct session *session, const struct tune_setting *setting) {
    return session->arguments->all || setting->front || !*setting->variables ||
           setting == session->tune.recommended || setting == session->tune.alternative;
}

static void print_setting(const struct session *session, const struct tune_setting *setting,
                          int width) {
    const struct replay_result *result = &setting->result;
    char least[32] = "-";
    uint64_t fewest = fewest_allocs(session, setting), live = session->bounds.live_bytes;
    if (fewest)
        snprintf(least, sizeof least, "%llu", (unsigned long long)fewest);
    printf("%c %-*s %7.2f%% %8llu %8llu %8s %10s %11.3f %8.3f%s\n", setting->front ? '*' : ' ',
           width, name_of(session, setting), 100 * result_hit_rate(result),
           (unsigned long long)tune_calls(result), (unsigned long long)result->driver_allocs, least,
           human(result->peak_held_bytes).text,
           live ? (double)result->peak_held_bytes / (double)live : 0.0, time_of(session, setting),
           !setting->complete     ? "  given up"
           : result->oom_failures ? "  allocations failed"
                                  : "");
}

static int width_of_names(const struct session *session) {
    size_t width = strlen(heading);
    for (size_t i = 0; i < session->tune.count; i++) {
        const struct tune_setting *setting = &session->tune.settings[i];
        if (is_shown(session, setting) && strlen(name_of(session, setting)) > width)
            width = strlen(name_of(session, setting));
    }
    return (int)width;
}

static void print_bounds(const struct bounds *bounds) {
    printf("no pool can hold less than %s", human(bounds->live_bytes).text);
    if (bounds->packed)
        printf("; %s would do (an actual packing%s)", human(bounds->packed_bytes).text,
               bounds->rough ? ", a rough one" : "");
    puts("\n\"least\": driver allocations that no pool of the same kind undercuts without holding "
         "more (a relaxation)\n");
}

static void print_export(const struct session *session, const struct tune_setting *setting) {
    struct all_variables all = all_variables(session, setting);
    if (*all.text)
        printf("  export %s\n", all.text);
    else
        puts("  nothing to set: the default");
}

/* The next command to type: "POOLCUDA_PRESET=bfc" is --preset=bfc to `poolcuda run`. */
static char *next_command_options(const struct session *session) {
    static const char prefix[] = "POOLCUDA_";
    char words[sizeof(struct all_variables) + 1], *options = calloc(1, 2 * sizeof words);
    struct all_variables all = all_variables(session, session->tune.recommended);
    snprintf(words, sizeof words, "%s", all.text);
    for (char *rest = words, *word, *to = options; to && (word = strsep(&rest, " "));) {
        char *value = strchr(word, '=');
        if (!value || strncmp(word, prefix, sizeof prefix - 1) != 0)
            continue;
        for (char *letter = word; letter < value; letter++)
            *letter = (char)(*letter == '_' ? '-' : tolower((unsigned char)*letter));
        to += sprintf(to, "--%s ", word + sizeof prefix - 1);
    }
    return options;
}

/* How the alternative compares with what is recommended. */
static void print_difference(const struct session *session) {
    const struct replay_result *one = &session->tune.alternative->result;
    const struct replay_result *other = &session->tune.recommended->result;
    printf("  %.2f ms instead of %.2f ms, %s held instead of %s",
           1e3 * time_of(session, session->tune.alternative),
           1e3 * time_of(session, session->tune.recommended), human(one->peak_held_bytes).text,
           human(other->peak_held_bytes).text);
    if (one->oom_failures != other->oom_failures)
        printf(", %llu allocation%s failed instead of %llu", (unsigned long long)one->oom_failures,
               plural(one->oom_failures), (unsigned long long)other->oom_failures);
    puts(session->tune.wish.strictly && one->peak_held_bytes > session->tune.wish.most
             ? ", which is more than --max-held allows"
             : "");
}

static void print_recommended(const struct session *session) {
    const struct tune *tune = &session->tune;
    bool safe = tune->recommended->transparent;
    char document[PATH_MAX];
    installed_document("policies.md", document);
    puts(safe ? "\nrecommended, as it changes nothing but speed:" : "\nrecommended:");
    print_export(session, tune->recommended);
    if (!safe)
        printf("  what that gives up is in %s\n", printable(document));
    if (!tune->alternative)
        return;
    puts(safe ? "alternative, which changes more than speed (--any recommends such a one):"
              : "alternative, which changes nothing but speed:");
    print_export(session, tune->alternative);
    print_difference(session);
    if (safe)
        printf("  what that gives up is in %s\n", printable(document));
}

static bool serves_nothing(const struct tune *tune) {
    const struct replay_result *best = &tune->recommended->result;
    return best->allocations && best->oom_failures == best->allocations;
}

static bool recommends_nothing(const struct tune *tune) {
    return serves_nothing(tune) || tune_holds_too_much(tune);
}

static void print_text(const struct session *session) {
    const struct tune *tune = &session->tune;
    const struct replay_result *native = &session->native;
    const int width = width_of_names(session);
    char file[OUTPUT_ERROR];
    printf(
        "%s: %llu allocation%s, peak requested %s; without the pool %llu driver call%s, %.3f s\n",
        emitter_clean(file, sizeof file, session->arguments->file),
        (unsigned long long)native->allocations, plural(native->allocations),
        human(native->peak_live_bytes).text, (unsigned long long)tune_calls(native),
        plural(tune_calls(native)), native_time(session));
    if (session->arguments->settings.gpu && native->simulated)
        puts(RESULT_SIMULATED_GPU);
    print_bounds(&session->bounds);
    if (*session->fixed)
        printf("in all settings: %s\n\n", session->fixed);
    printf("  %-*s %8s %8s %8s %8s %10s %11s %8s\n", width, heading, "hits", "calls", "allocs",
           "least", "held", "/ requested", "seconds");
    for (size_t i = 0; i < tune->count; i++)
        if (is_shown(session, &tune->settings[i]))
            print_setting(session, &tune->settings[i], width);
    if (serves_nothing(tune)) {
        puts("\nno setting served any allocation: nothing is recommended");
        return;
    }
    if (tune_holds_too_much(tune)) {
        puts("\nnothing is recommended; of the settings that serve most, this one holds least:");
        print_export(session, tune->recommended);
        return;
    }
    print_recommended(session);
    char *options = next_command_options(session);
    next_step_tell_run(stdout, options ? options : "", &session->trace->command_line, NULL);
    free(options);
}

static json_t *setting_to_json(const struct session *session, const struct tune_setting *setting) {
    const struct arguments *arguments = session->arguments;
    json_t *object = result_to_json(&setting->result, arguments->file, arguments->settings.memory,
                                    arguments->settings.gpu, all_variables(session, setting).text);
    const uint64_t fewest = fewest_allocs(session, setting);
    json_object_set_new(object, "complete", json_boolean(setting->complete));
    json_object_set_new(object, "seconds", json_real(time_of(session, setting)));
    json_object_set_new(object, "front", json_boolean(setting->front));
    json_object_set_new(object, "transparent", json_boolean(setting->transparent));
    json_object_set_new(object, "driver_calls",
                        json_integer((json_int_t)tune_calls(&setting->result)));
    json_object_set_new(object, "least_driver_allocs",
                        fewest ? json_integer((json_int_t)fewest) : json_null());
    return object;
}

/* JSON's whole numbers end below 2^63; memory for as much there is nowhere. */
static json_t *bytes_to_json(uint64_t bytes) {
    return bytes > INT64_MAX ? json_real((double)bytes) : json_integer((json_int_t)bytes);
}

static int print_json(const struct session *session) {
    const struct arguments *arguments = session->arguments;
    const struct bounds *bounds = &session->bounds;
    const bool none = recommends_nothing(&session->tune);
    const struct tune_setting *safe = serves_nothing(&session->tune) ? NULL : session->tune.safe;
    const struct tune_setting *other = none ? NULL : session->tune.alternative;
    char *options = next_command_options(session);
    char *next = none ? NULL : next_step_run(options ? options : "", &session->trace->command_line);
    json_t *settings = json_array();
    for (size_t i = 0; i < session->tune.count; i++)
        json_array_append_new(settings, setting_to_json(session, &session->tune.settings[i]));
    json_t *object =
        json_pack("{s:s, s:i, s:o, s:o, s:s?, s:s?, s:s?, s:s?}", "kind", "poolcuda-tune",
                  "version", RESULT_VERSION, "native",
                  result_to_json(&session->native, arguments->file, arguments->settings.memory,
                                 arguments->settings.gpu, ""),
                  "settings", settings, "recommended",
                  none ? NULL : all_variables(session, session->tune.recommended).text,
                  "transparent", safe ? all_variables(session, safe).text : NULL, "alternative",
                  other ? all_variables(session, other).text : NULL, "next", next);
    free(options);
    free(next);
    json_object_set_new(object, "least_held_bytes", bytes_to_json(bounds->live_bytes));
    json_object_set_new(object, "packed_bytes",
                        bounds->packed ? bytes_to_json(bounds->packed_bytes) : json_null());
    int failed = !object || json_dumpf(object, stdout, JSON_INDENT(2)) != 0;
    putchar('\n');
    json_decref(object);
    return failed;
}

/* --- the command --- */

static uint64_t most_held(const struct session *session) {
    const struct arguments *arguments = session->arguments;
    const uint64_t slack = 64 << 20; /* the room that the pool's own bound on idle memory has */
    uint64_t live = session->bounds.live_bytes + slack;
    return arguments->most ? arguments->most : live + live / 4;
}

static bool plot(const struct session *session) {
    char error[OUTPUT_ERROR], subtitle[sizeof(struct all_variables) + 32];
    const char *slash = strrchr(session->arguments->file, '/');
    json_t *title = result_name(slash ? slash + 1 : session->arguments->file);
    struct all_variables all = all_variables(session, session->tune.recommended);
    if (serves_nothing(&session->tune))
        snprintf(subtitle, sizeof subtitle, "no setting served any allocation");
    else
        snprintf(subtitle, sizeof subtitle, "%s: %s",
                 tune_holds_too_much(&session->tune) ? "holds least" : "recommended",
                 *all.text ? all.text : "the default");
    const struct plot_input input = {.tune = &session->tune,
                                     .native = &session->native,
                                     .title = json_string_value(title),
                                     .subtitle = subtitle,
                                     .live_bytes = session->bounds.live_bytes};
    bool drawn = plot_write(session->arguments->plot, &input, error);
    json_decref(title);
    if (!drawn)
        say(error);
    return drawn;
}

/* False after one line that says why nothing is recommended. */
static bool tell_recommends(const struct session *session) {
    char line[OUTPUT_ERROR];
    const struct replay_settings *settings = &session->arguments->settings;
    if (!recommends_nothing(&session->tune))
        return true;
    if (!serves_nothing(&session->tune))
        snprintf(line, sizeof line,
                 "--max-held: no setting that was tried holds at most %s; the least of "
                 "theirs is %s; expected so much or more, nothing is recommended",
                 human(session->tune.wish.most).text,
                 human(session->tune.recommended->result.peak_held_bytes).text);
    else if (settings->gpu)
        snprintf(line, sizeof line,
                 "no allocation was served on this GPU; expected more free memory there, nothing "
                 "is recommended");
    else
        snprintf(line, sizeof line,
                 "--memory: no allocation was served on devices of %s; expected as much as the "
                 "recorded GPU has, nothing is recommended",
                 human(settings->memory).text);
    say(line);
    return false;
}

static int tune(struct session *session) {
    const struct arguments *arguments = session->arguments;
    if (!bounds_of(session->trace, BOUNDS_ALL_DEVICES, driver_granule, &session->bounds, NULL)) {
        say("out of memory");
        return 1;
    }
    session->tune.wish =
        (struct tune_wish){.most = most_held(session),
                           .strictly = arguments->most,
                           .any = arguments->any,
                           .gpu = arguments->settings.gpu,
                           .program_seconds = seconds_of_trace(session->trace),
                           .allocations = count_events(session->trace, TRACE_ALLOC),
                           .frees = count_events(session->trace, TRACE_FREE)};
    if (!search(session))
        return 1;
    tune_judge(&session->tune);
    int status = arguments->plot && !plot(session);
    if (arguments->json)
        status = print_json(session) || status;
    else
        print_text(session);
    return !tell_recommends(session) || status;
}

static const struct argp_option rows[] = {
    {"memory", KEY_MEMORY, "SIZE", 0, "memory of each simulated device (80G)", 0},
    {"max-held", KEY_MOST, "SIZE", 0,
     "what the recommended setting may hold at its peak (1.25 x (peak requested + 64M))", 0},
    {"all", KEY_ALL, NULL, 0, "show every setting, not only those worth having", 0},
    {"any", KEY_ANY, NULL, 0, "recommend the fastest setting, also if it changes more than speed",
     0},
    {"plot", KEY_PLOT, "BASE", 0, "draw them into BASE.svg and BASE.png", 0},
    {"gpu", KEY_GPU, NULL, 0, "on the real GPU, by the libcuda.so.1 that is found", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};
static const struct argp_child children[] = {
    {&option_args, 0, "Options of the pool, which are then the same in every setting:", 1}, {0}};
const struct argp tune_argp = {
    .options = rows,
    .parser = parse,
    .args_doc = "FILE",
    .doc = "Searches the settings of the pool by replays of an allocation trace, shows those for "
           "which "
           "no other makes fewer driver calls and holds no more memory, and recommends the fastest "
           "that "
           "changes nothing but speed, or the fastest of all if --any is given, if no such setting "
           "will "
           "do, or if it saves more than 2% of the program's time. "
           "FILE is a trace that `poolcuda replay` takes.",
    .children = children,
};

int command_tune(int argc, char **argv) {
    struct arguments arguments = {0};
    struct options options;
    char error[OUTPUT_ERROR];
    argp_parse(&tune_argp, argc, argv, 0, NULL, &arguments);
    option_args_finish(&options); /* a bad value is reported before the work begins */
    if (output_is_input("-", arguments.file, error) ||
        (arguments.plot && plot_takes_a_place(arguments.plot, arguments.file, error))) {
        say(error);
        return EXIT_USAGE;
    }
    if (arguments.plot && !plot_check(arguments.plot, error)) {
        say(error);
        return 1;
    }
    input_wait_begin("poolcuda tune", arguments.file);
    struct session session = {.arguments = &arguments, .trace = trace_read(arguments.file, say)};
    input_wait_end();
    if (!session.trace)
        return 1;
    trace_tell_loss(session.trace, arguments.file, say);
    option_args_join(session.fixed, sizeof session.fixed);
    bool possible = replay_is_possible(session.trace, arguments.file, error, sizeof error);
    if (!possible)
        say(error);
    int status = possible ? tune(&session) : 1;
    tune_free(&session.tune);
    trace_free(session.trace);
    return status;
}
