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

bool kept_file_is_lost(const char *path, char *error, size_t error_size) {
    struct stat status;
    char clean[512];
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    const char *what = is_report(path)           ? "a report itself"
                       : is_recorded_trace(path) ? "a recorded trace"
                                                 : NULL;
    if (what)
        snprintf(error, error_size,
                 "%s: %s, expected the name of another file; it was not overwritten",
                 emitter_clean(clean, sizeof clean, path), what);
    return what;
}
