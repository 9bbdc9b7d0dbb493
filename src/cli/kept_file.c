#include "cli/kept_file.h"

#include "cli/run_file.h"
#include "report/emitter.h"
#include "trace/input.h"
#include "trace/record_format.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_report(const char *path) {
    struct stats_page *page = NULL;
    char error[512];
    enum run_file_kind kind = run_file_read(path, &page, error, sizeof error);
    stats_page_destroy(page);
    return kind != RUN_FILE_OTHER && kind != RUN_FILE_UNOPENED;
}

/* CSV is none: `poolcuda convert` makes it again. */
static bool is_recorded_trace(const char *path) {
    const char *problem;
    size_t got = 0;
    struct input *input = input_open(path, &problem);
    const unsigned char *first = input ? input_peek(input, sizeof RECORD_MAGIC, &got) : NULL;
    bool is = got == sizeof RECORD_MAGIC && memcmp(first, RECORD_MAGIC, got) == 0;
    if (input)
        input_close(input);
    return is;
}

bool kept_file_is_compressed(const char *path) {
    const char *problem;
    struct stat status;
    bool regular = stat(path, &status) == 0 && S_ISREG(status.st_mode);
    struct input *input = regular ? input_open(path, &problem) : NULL;
    bool is = input && input_is_compressed(input);
    if (input)
        input_close(input);
    return is;
}

const char *kept_file_kind(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return NULL;
    if (is_report(path))
        return "a report itself";
    return is_recorded_trace(path) ? "a recorded trace" : NULL;
}

bool kept_file_is_lost(const char *path, char *error, size_t error_size) {
    const char *what = kept_file_kind(path);
    char clean[512];
    if (what)
        snprintf(error, error_size,
                 "%s: %s, expected the name of another file; it was not overwritten",
                 emitter_clean(clean, sizeof clean, path), what);
    return what;
}
