/* The figures of one run, from whatever file a program has left them in. */
#ifndef POOLCUDA_CLI_RUN_FILE_H
#define POOLCUDA_CLI_RUN_FILE_H

#include "counters/page.h"

enum run_file_kind {
    RUN_FILE_PAGE, /* *page: of a running or killed program */
    RUN_FILE_JSON, /* *page: of one that came to its end */
    RUN_FILE_LIST, /* of `poolcuda report --json --each`: run_file_read_list reads it */
    RUN_FILE_TEXT, /* a report for people, of which nothing more can be made */
    /* The rest with one line in error. */
    RUN_FILE_DAMAGED,  /* it begins as one of ours, but is not whole, or of another version */
    RUN_FILE_UNOPENED, /* nobody knows whether it is one of ours */
    RUN_FILE_OTHER,    /* it is not */
};

/* Reads a file that POOLCUDA_STATS_FILE or `poolcuda report --json` made, and checks all of it.
 * *page is to be freed with stats_page_destroy. */
enum run_file_kind run_file_read(const char *path, struct stats_page **page, char *error,
                                 size_t error_size);

/* Takes the pages of a list one by one: take() owns its page. False, with one line in error, behind
 * the last one that is whole. */
bool run_file_read_list(const char *path, void (*take)(struct stats_page *page, void *state),
                        void *state, char *error, size_t error_size);

#endif
