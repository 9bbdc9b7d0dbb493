/* A stats page as a report: text for people, JSON for programs (docs/reports.md). */
#ifndef POOLCUDA_REPORT_REPORT_H
#define POOLCUDA_REPORT_REPORT_H

#include "counters/page.h"

/* What the JSON says of itself; the version grows with every change that a reader must know of. */
#define STATS_REPORT_FORMAT "poolcuda report"
enum { STATS_REPORT_VERSION = 1 };

/* Names a place in code for people: the function and the line at `offset` in the page's module
 * `module`. Returns false if it knows no name. */
struct stats_names {
    bool (*place)(const struct stats_page *page, uint32_t module, uint64_t offset, char *text,
                  size_t size, void *state);
    void *state;
};

/* What a report is written as: nothing, for people, or for programs (docs/reports.md); for programs
 * to a file, and to nothing else where that cannot be had. */
enum stats_form { STATS_NONE, STATS_TEXT, STATS_JSON, STATS_FILE };

/* The one emitter of reports, used by the library at exit and by `poolcuda report`. Hands the text
 * to write() piece by piece. names: NULL for the library, which writes sites as module + offset.
 * most_sites: how many the text lists; JSON has all. */
enum { STATS_FIRST_SITES = 20 };
void stats_report(const struct stats_page *page, enum stats_form form,
                  const struct stats_names *names, size_t most_sites,
                  void (*write)(const char *text, size_t length, void *state), void *state);

/* Writes a site as people read it. */
void stats_place(const struct stats_page *page, const struct stats_site *site,
                 const struct stats_names *names, char *text, size_t size);

#endif
