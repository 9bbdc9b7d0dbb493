#include "cli/views/views.h"

#include "cli/output.h"
#include "cli/run_file.h"
#include "observe/emitter.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const view_weight_names[VIEW_WEIGHT_COUNT] = {
#define WEIGHT(name, text) #name,
    VIEW_WEIGHTS(WEIGHT)
#undef WEIGHT
};

enum form { FORM_TEXT, FORM_BINARY };

static const struct {
    const char *name;
    enum form form;
    view_writer *write;
} views[VIEW_COUNT] = {
#define VIEW(name, form, help) {#name, FORM_##form, view_##name},
#include "cli/views/views.def"
#undef VIEW
};

static bool complain(const char *path, const char *what) {
    char clean[512];
    fprintf(stderr, "poolcuda report: %s: %s, not written\n",
            emitter_clean(clean, sizeof clean, path), what);
    return false;
}

/* `--html a.json b.json` names a.json as the file to write, which few mean. */
static bool is_report(const char *path) {
    struct stat status;
    struct stats_page *page = NULL;
    char error[512];
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    enum run_file_kind kind = run_file_read(path, &page, error, sizeof error);
    stats_page_destroy(page);
    return kind != RUN_FILE_OTHER && kind != RUN_FILE_UNOPENED;
}

bool view_check(const char *path) {
    return output_is_standard(path) || !is_report(path) ||
           complain(path, "a report itself, expected the name of another file for the view");
}

bool view_write(enum view_kind kind, const char *path, const struct view_input *input) {
    bool standard = output_is_standard(path);
    if (standard && views[kind].form == FORM_BINARY && isatty(STDOUT_FILENO))
        return complain(views[kind].name, "binary, expected the name of a file and not a terminal");
    if (standard)
        return views[kind].write(stdout, input) || complain(path, "not enough memory");
    char *bytes = NULL, error[OUTPUT_ERROR];
    size_t size;
    FILE *file = open_memstream(&bytes, &size);
    bool made = file && views[kind].write(file, input);
    if (!file || fclose(file) != 0 || !made) {
        free(bytes);
        return complain(path, "not enough memory");
    }
    bool written = output_write(path, bytes, size, error);
    if (!written)
        fprintf(stderr, "poolcuda report: %s\n", error);
    free(bytes);
    return written;
}
