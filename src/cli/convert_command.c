/* poolcuda convert: writes a trace of any known format as CSV. */
#include "cli/commands.h"
#include "trace/trace.h"
#include "trace/write_csv.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static error_t parse(int key, char *argument, struct argp_state *state) {
    const char **files = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num >= 2)
            argp_error(state, "%s: expected IN and OUT only", argument);
        files[state->arg_num] = argument;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void say(const char *line) {
    fprintf(stderr, "poolcuda convert: %s\n", line);
}

/* All of it as text in memory, then as the name's ending wants it. */
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

static bool ends_with(const char *name, const char *ending) {
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

static bool write_plain(const char *path, const char *text, size_t size) {
    FILE *file = fopen(path, "w");
    bool written = file && fwrite(text, 1, size, file) == size;
    return file && fclose(file) == 0 && written;
}

static bool write_gzip(const char *path, const char *text, size_t size) {
    gzFile file = gzopen(path, "wb9");
    bool written = file != NULL;
    for (size_t at = 0; written && at < size;) {
        size_t piece = size - at < 1 << 20 ? size - at : 1 << 20;
        written = gzwrite(file, text + at, (unsigned)piece) == (int)piece;
        at += piece;
    }
    return file && gzclose(file) == Z_OK && written;
}

static bool write_zstd(const char *path, const char *text, size_t size) {
    enum { LEVEL = 12 };
    size_t bound = ZSTD_compressBound(size);
    char *compressed = malloc(bound);
    size_t length = compressed ? ZSTD_compress(compressed, bound, text, size, LEVEL) : 0;
    bool written = compressed && !ZSTD_isError(length) && write_plain(path, compressed, length);
    free(compressed);
    return written;
}

const struct argp convert_argp = {
    .parser = parse,
    .args_doc = "IN OUT",
    .doc = "Writes the trace IN, of any format that `poolcuda replay` reads, to OUT as CSV: "
           "gzip-compressed if OUT ends in .gz, zstd-compressed if it ends in .zst.",
};

int command_convert(int argc, char **argv) {
    const char *files[2] = {NULL, NULL};
    size_t size = 0;
    argp_parse(&convert_argp, argc, argv, 0, NULL, files);
    struct trace *trace = trace_read(files[0], say);
    if (!trace)
        return 1;
    char *text = print(trace, &size);
    trace_free(trace);
    errno = 0;
    bool written = text && (ends_with(files[1], ".gz")    ? write_gzip(files[1], text, size)
                            : ends_with(files[1], ".zst") ? write_zstd(files[1], text, size)
                                                          : write_plain(files[1], text, size));
    if (!written)
        fprintf(stderr, "poolcuda convert: %s: %s; expected a file that can be written\n", files[1],
                errno ? strerror(errno) : "not written");
    free(text);
    return written ? 0 : 1;
}
