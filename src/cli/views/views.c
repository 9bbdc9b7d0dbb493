#include "cli/views/views.h"

#include "cli/output.h"
#include "report/emitter.h"

#include <stdlib.h>
#include <unistd.h>

const char *const view_weight_names[VIEW_WEIGHT_COUNT] = {
#define WEIGHT(name, text) #name,
    VIEW_WEIGHTS(WEIGHT)
#undef WEIGHT
};

const char *const view_options[VIEW_COUNT] = {
#define VIEW(name, form, text) "--" #name,
#include "cli/views/views.def"
#undef VIEW
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
