/* poolcuda report: prints stats files, those of finished programs and those that a killed one left.
 */
#include "cli/commands.h"
#include "observe/stats.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void write_out(const char *text, size_t length, void *state) {
    (void)state;
    fwrite(text, 1, length, stdout);
}

/* A program that came to its end has left the report itself, as text. Prints it if this is one. */
static bool print_finished(const char *path) {
    static const char opening[] = "poolcuda " POOLCUDA_VERSION ": ";
    char piece[4096];
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    size_t length = fread(piece, 1, sizeof piece, file);
    bool finished = length >= sizeof opening - 1 && memcmp(piece, opening, sizeof opening - 1) == 0;
    while (finished && length) {
        fwrite(piece, 1, length, stdout);
        length = fread(piece, 1, sizeof piece, file);
    }
    fclose(file);
    return finished;
}

static bool print_file(const char *path) {
    char error[512];
    if (print_finished(path))
        return true;
    struct stats_page *page = stats_page_read(path, error, sizeof error);
    if (!page) {
        fprintf(stderr,
                "poolcuda report: %s; expected a file that POOLCUDA_STATS_FILE made, passed over\n",
                error);
        return false;
    }
    stats_report(page, STATS_TEXT, NULL, write_out, NULL);
    stats_page_free(page);
    return true;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    bool *complete = state->input;
    if (key == ARGP_KEY_ARG) {
        *complete = print_file(argument) && *complete;
        return 0;
    }
    if (key == ARGP_KEY_NO_ARGS)
        argp_usage(state);
    return ARGP_ERR_UNKNOWN;
}

const struct argp report_argp = {
    .parser = parse,
    .args_doc = "FILE...",
    .doc = "Prints the figures that programs left in the files named by POOLCUDA_STATS_FILE.",
};

int command_report(int argc, char **argv) {
    bool complete = true;
    argp_parse(&report_argp, argc, argv, 0, NULL, &complete);
    return complete ? 0 : 1;
}
