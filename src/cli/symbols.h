/* Names for places in code: the function, source file and line at an offset in a module of a stats
 * page, read from the module's file or its separate debug file.
 *
 * The file on disk must be the one that ran: its build id is compared with the page's, or, where
 * there is none, its age with the run's. What cannot be named is left as module + offset. The
 * addresses of pages are return addresses: the call before each is what is named. */
#ifndef POOLCUDA_CLI_SYMBOLS_H
#define POOLCUDA_CLI_SYMBOLS_H

#include "cli/symbol_file.h"
#include "counters/page.h"
#include "report/report.h"

struct symbols;

/* One place in code. The functions inlined there come first, the one they are inlined into last. */
struct symbol_place {
    const struct symbol *symbols;
    size_t count; /* 0: nothing is known of it */
};

/* debug_folder: where separate debug files are looked for before /usr/lib/debug, in its .build-id/;
 * NULL: there only. Must outlive the symbols. Returns NULL if there is no memory. */
struct symbols *symbols_open(const char *debug_folder);
void symbols_close(struct symbols *symbols);

/* What is known of a place. It, and all that it points to, lives until symbols_close. All places of
 * the page's sites are looked up at the first call for their module, which may take seconds. */
struct symbol_place symbols_find(struct symbols *symbols, const struct stats_page *page,
                                 uint32_t module, uint64_t offset);

/* For stats_report; valid as long as the symbols. */
struct stats_names symbols_names(struct symbols *symbols);

/* One line for each module whose places cannot be named for a reason that people should know: it
 * has changed since the run, or is damaged. Returned as an array of *count lines, which symbols
 * owns. */
const char *const *symbols_notes(const struct symbols *symbols, size_t *count);

#endif
