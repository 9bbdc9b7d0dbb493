/* poolcuda convert: writes a trace of any known format as CSV. */
#include "cli/commands.h"
#include "cli/gzip.h"
#include "cli/input_wait.h"
#include "cli/kept_file.h"
#include "cli/output.h"
#include "cli/usage.h"
#include "report/emitter.h"
#include "trace/trace.h"
#include "trace/write_csv.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static error_t parse(int key, char *argument, struct argp_state *state) {
    const char **files = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num >= 2)
            usage_error(state, "%s: expected IN and OUT only", usage_word(argument));
        files[state->arg_num] = usage_file(argument, state->arg_num ? "OUT" : "IN", state);
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            usage_error(state, "no %s given, expected IN, a trace, and OUT, the file to write",
                        state->arg_num ? "OUT" : "IN");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void say(const char *line) {
    char clean[OUTPUT_ERROR];
    fprintf(stderr, "poolcuda convert: %s\n", emitter_clean(clean, sizeof clean, line));
}

/* All of it as text in memory; NULL without any. */
static char *print(const struct trace *trace, size_t *size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    bool written = trace_write_csv(trace, out);
    if (fclose(out) == 0 && written)
        return text;
    free(text);
    return NULL;
}

static char *pack_gzip(const char *text, size_t size, size_t *packed) {
    char *bytes = NULL;
    FILE *out = open_memstream(&bytes, packed);
    bool written = out && gzip_write(out, text, size);
    if (out && fclose(out) == 0 && written)
        return bytes;
    free(bytes);
    return NULL;
}

static char *pack_zstd(const char *text, size_t size, size_t *packed) {
    enum { LEVEL = 12 };
    size_t bound = ZSTD_compressBound(size);
    char *bytes = malloc(bound);
    *packed = bytes ? ZSTD_compress(bytes, bound, text, size, LEVEL) : 0;
    if (bytes && !ZSTD_isError(*packed))
        return bytes;
    free(bytes);
    return NULL;
}

static bool ends_with(const char *name, const char *ending) {
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

/* What is to be written: the text as the name's ending wants it. Takes `text` over; NULL without
 * memory. */
static char *pack(const char *path, char *text, size_t *size) {
    bool gzip = ends_with(path, ".gz");
    if (!text || (!gzip && !ends_with(path, ".zst")))
        return text;
    size_t packed;
    char *bytes = gzip ? pack_gzip(text, *size, &packed) : pack_zstd(text, *size, &packed);
    free(text);
    *size = packed;
    return bytes;
}

const struct argp convert_argp = {
    .parser = parse,
    .args_doc = "IN OUT",
    .doc = "Writes the trace IN, of any format that `poolcuda replay` reads, to OUT as CSV, "
           "to standard output if OUT is -: gzip-compressed if OUT ends in .gz, zstd-compressed if "
           "it ends in .zst.",
};

int command_convert(int argc, char **argv) {
    const char *files[2] = {NULL, NULL};
    char error[OUTPUT_ERROR];
    size_t size = 0;
    argp_parse(&convert_argp, argc, argv, 0, NULL, files);
    if (output_is_input(files[1], files[0], error) ||
        (!output_is_standard(files[1]) && kept_file_is_lost(files[1], error, sizeof error))) {
        say(error);
        return EXIT_USAGE;
    }
    if (!output_check(files[1], error)) {
        say(error);
        return 1;
    }
    input_wait_begin("poolcuda convert", files[0]);
    struct trace *trace = trace_read(files[0], say);
    input_wait_end();
    if (!trace)
        return 1;
    trace_tell_loss(trace, files[0], say);
    char *bytes = pack(files[1], print(trace, &size), &size);
    trace_free(trace);
    bool written = bytes && output_write(files[1], bytes, size, error);
    if (!written)
        say(bytes ? error : "not enough memory, nothing was written");
    free(bytes);
    return written ? 0 : 1;
}
