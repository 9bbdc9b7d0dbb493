/* Views of a report other than its text: each writes what stats pages say in the format of one
 * reader. docs/reports.md describes them. */
#ifndef POOLCUDA_CLI_VIEWS_VIEWS_H
#define POOLCUDA_CLI_VIEWS_VIEWS_H

#include "cli/merge.h"
#include "cli/symbols.h"
#include "counters/page.h"

#include <stdio.h>

/* What of a site a flame graph shows as its width. WEIGHT(name, what it counts) */
#define VIEW_WEIGHTS(WEIGHT)                                                                       \
    WEIGHT(bytes, "bytes allocated, in all")                                                       \
    WEIGHT(allocations, "allocations")                                                             \
    WEIGHT(peak, "most bytes live at once")                                                        \
    WEIGHT(live, "bytes live at the end")

enum view_weight {
#define WEIGHT(name, text) VIEW_WEIGHT_##name,
    VIEW_WEIGHTS(WEIGHT)
#undef WEIGHT
        VIEW_WEIGHT_COUNT
};
extern const char *const view_weight_names[VIEW_WEIGHT_COUNT];

/* Invariant: count > 0, and merged is the sum of all runs: pages[0] itself if there is only one.
 * The first `count` of the run_count runs are those that the pages are of. */
struct view_input {
    const struct stats_page *const *pages; /* of the first runs */
    size_t count;
    const struct stats_page *merged;
    const struct merge_run *runs; /* a row of each run */
    size_t run_count;
    struct symbols *symbols; /* NULL: places are named as module + offset */
    enum view_weight weight; /* for views that show one alone */
};

/* Writes the view. Returns false if there was no memory for it; faults of the file are to be asked
 * from the file (ferror). */
typedef bool view_writer(FILE *file, const struct view_input *input);

/* view_html and so on, and their options' places in the table. */
enum view_kind {
#define VIEW(name, form, help) VIEW_##name,
#include "cli/views/views.def"
#undef VIEW
    VIEW_COUNT
};
extern const char *const view_options[VIEW_COUNT]; /* "--html" */
#define VIEW(name, form, help) view_writer view_##name;
#include "cli/views/views.def"
#undef VIEW

/* Writes one view to the file at `path`, "-" being standard output. Returns false after one line on
 * standard error if that cannot be done. */
bool view_write(enum view_kind kind, const char *path, const struct view_input *input);

#endif
