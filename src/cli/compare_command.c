/* poolcuda compare: two replays side by side. */
#include "cli/commands.h"
#include "cli/input_wait.h"
#include "cli/output.h"
#include "cli/result_json.h"
#include "cli/usage.h"
#include "report/emitter.h"

#include <argp.h>
#include <stdio.h>

struct arguments {
    const char *files[2];
    int count;
    bool json;
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case 'j':
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->count == 2)
            usage_error(state, "%s: expected two files only", usage_word(argument));
        arguments->files[arguments->count++] = usage_file(argument, "FILE", state);
        return 0;
    case ARGP_KEY_END:
        if (arguments->count != 2)
            usage_error(state, "%s given, expected two files of `poolcuda replay --json`",
                        arguments->count ? "one file" : "no file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void say(const char *line) {
    char clean[OUTPUT_ERROR];
    fprintf(stderr, "poolcuda compare: %s\n", emitter_clean(clean, sizeof clean, line));
}

static void print_row(const char *name, double one, double other, int digits) {
    printf("%-28s %18.*f %18.*f", name, digits, one, digits, other);
    if (one != 0)
        printf("  x %.3f", other / one);
    putchar('\n');
}

static void print_text(const struct arguments *arguments, const struct replay_result *results) {
    char names[2][OUTPUT_ERROR];
    for (int i = 0; i < 2; i++)
        emitter_clean(names[i], sizeof names[i], arguments->files[i]);
    printf("A: %s\nB: %s\n%-28s %18s %18s  B / A\n", names[0], names[1], "", "A", "B");
#define ROW(name, text) print_row(text, (double)results[0].name, (double)results[1].name, 0);
    RESULT_NUMBERS(ROW)
#undef ROW
    print_row("hit rate", result_hit_rate(&results[0]), result_hit_rate(&results[1]), 4);
    print_row("fragmentation", results[0].fragmentation, results[1].fragmentation, 4);
    print_row("held / (requested + 64 MiB)", results[0].worst_held_ratio,
              results[1].worst_held_ratio, 4);
    print_row("modelled seconds", results[0].modelled_seconds, results[1].modelled_seconds, 4);
}

static int print_json(const struct replay_result *results) {
    json_t *object = json_object();
#define PAIR(name, text)                                                                           \
    json_object_set_new(                                                                           \
        object, #name,                                                                             \
        json_pack("[I, I]", (json_int_t)results[0].name, (json_int_t)results[1].name));
    RESULT_NUMBERS(PAIR)
#undef PAIR
    json_object_set_new(
        object, "hit_rate",
        json_pack("[f, f]", result_hit_rate(&results[0]), result_hit_rate(&results[1])));
    json_object_set_new(object, "fragmentation",
                        json_pack("[f, f]", results[0].fragmentation, results[1].fragmentation));
    json_object_set_new(
        object, "worst_held_ratio",
        json_pack("[f, f]", results[0].worst_held_ratio, results[1].worst_held_ratio));
    json_object_set_new(
        object, "modelled_seconds",
        json_pack("[f, f]", results[0].modelled_seconds, results[1].modelled_seconds));
    int failed = json_dumpf(object, stdout, JSON_INDENT(2)) != 0;
    putchar('\n');
    json_decref(object);
    return failed;
}

static const struct argp_option rows[] = {
    {"json", 'j', NULL, 0, "print one JSON object: each figure as [A, B]", 0}, {0}};
const struct argp compare_argp = {
    .options = rows,
    .parser = parse,
    .args_doc = "A.json B.json",
    .doc = "Puts two results of `poolcuda replay --json` side by side.",
};

int command_compare(int argc, char **argv) {
    struct arguments arguments = {0};
    struct replay_result results[2] = {0};
    char error[OUTPUT_ERROR];
    argp_parse(&compare_argp, argc, argv, 0, NULL, &arguments);
    for (int i = 0; i < 2; i++) {
        if (output_is_input("-", arguments.files[i], error)) {
            say(error);
            return EXIT_USAGE;
        }
    }
    for (int i = 0; i < 2; i++) {
        input_wait_begin("poolcuda compare", arguments.files[i]);
        bool read = result_from_file(arguments.files[i], &results[i], error, sizeof error);
        input_wait_end();
        if (!read) {
            say(error);
            return 1;
        }
    }
    if (arguments.json)
        return print_json(results);
    print_text(&arguments, results);
    return 0;
}
