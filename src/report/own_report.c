#include "report/own_report.h"

#include "counters/own_page_parts.h"

#include "base/by_pointer.h"
#include "base/format.h"
#include "base/output_file.h"
#include "counters/page_file.h"
#include "counters/shards.h"
#include "peers/mailbox.h"
#include "peers/shared_page.h"
#include "report/report.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where a report is written, what of it has not been yet, and the errno of the first write that has
 * failed. */
struct destination {
    int file, fault;
    size_t used;
    char text[4096];
};

static void write_rest(struct destination *to) {
    if (!to->fault && !output_file_write(to->file, to->text, to->used))
        to->fault = errno;
    to->used = 0;
}

BY_POINTER static void put(const char *text, size_t length, void *state) {
    struct destination *to = state;
    while (length) {
        size_t room = sizeof to->text - to->used, part = length < room ? length : room;
        memcpy(to->text + to->used, text, part);
        to->used += part;
        text += part;
        length -= part;
        if (to->used == sizeof to->text)
            write_rest(to);
    }
}

/* Copies the used part of the page: the rest is zeros, and reading them would make memory of
 * them. */
static void copy_used(struct stats_page *copy) {
    memcpy(copy, own_page, offsetof(struct stats_page, modules));
    memcpy(copy->modules, own_page->modules, own_use.modules * sizeof own_page->modules[0]);
    memcpy(copy->tags, own_page->tags, own_use.tags * sizeof own_page->tags[0]);
    memcpy(copy->sites, own_page->sites, own_use.sites * sizeof own_page->sites[0]);
    for (int i = 0; i < PAGE_DEVICES; i++)
        if (own_use.devices >> i & 1)
            memcpy(&copy->devices[i], &own_page->devices[i], sizeof copy->devices[i]);
    if (own_use.trace)
        memcpy(copy->trace, own_page->trace, sizeof copy->trace);
    memcpy(&copy->command_line, &own_page->command_line, own_use.command_line);
}

/* The page as it is now, in memory of this process alone, with the counts that hold. */
static struct stats_page *copy_page(void) {
    struct stats_page *copy = own_page_private();
    if (!copy)
        return NULL;
    copy_used(copy);
    shards_fold(copy);
    copy->module_count = own_use.modules;
    copy->site_count = own_use.sites;
    copy->tag_count = own_use.tags;
    copy->bypass_count = own_use.bypasses;
    copy->payer_count = own_use.payers;
    copy->finished = 1;
    return copy;
}

/* Writes the report. A pipe's reader may leave early: that is its own affair. */
static void report(const struct stats_page *copy, enum stats_form form, int file) {
    static const char damaged[] =
        "poolcuda: another process has overwritten the figures: no report\n";
    struct destination to;
    to.file = file;
    to.fault = 0;
    to.used = 0;
    if (stats_page_fault(copy))
        put(damaged, sizeof damaged - 1, &to);
    else
        stats_report(copy, form, NULL, STATS_FIRST_SITES, put, &to);
    write_rest(&to);
    if (to.fault && to.fault != EPIPE && file != STDERR_FILENO) {
        char line[128];
        format(line, sizeof line,
               "poolcuda: POOLCUDA_STATS_FILE: not all of the report could be written (%s)",
               output_file_fault(to.fault).text);
        own_page_tell(line);
    }
}

static void report_now(enum stats_form form) {
    enum page_file kind = page_file_look();
    if (form == STATS_FILE)
        form = kind >= PAGE_FILE_STREAM ? STATS_JSON : STATS_NONE;
    else if (form == STATS_NONE && kind >= PAGE_FILE_STREAM)
        form = STATS_JSON;
    else if (form == STATS_NONE && kind == PAGE_FILE_MISSED)
        form = STATS_TEXT;
    struct stats_page *copy = form != STATS_NONE ? copy_page() : NULL;
    int file = kind >= PAGE_FILE_STREAM ? page_file_begin_report() : STDERR_FILENO;
    if (copy && file >= 0)
        report(copy, form, file);
    if (kind >= PAGE_FILE_STREAM && copy && file >= 0)
        page_file_end_report();
    else if (kind == PAGE_FILE_REGULAR)
        page_file_write(
            own_page); /* for `poolcuda report`: the program has closed its descriptor */
    if (copy)
        munmap(copy, sizeof *copy);
}

/* Whether the report can be written once the program is shut in, or need not be: a file that is no
 * stream has the page. */
static bool may_report_later(void) {
    enum page_file kind = page_file_look();
    int file = kind == PAGE_FILE_STREAM ? page_file_begin_report() : STDERR_FILENO;
    return kind == PAGE_FILE_REGULAR || output_file_may_write_later(file);
}

/* A forked child has a page before it has opened one: nobody reads that. */
static bool has_opened_page(void) {
    return own_page && own_use.process == getpid();
}

void stats_shut_in(enum stats_form form) {
    if (!has_opened_page())
        return;
    stats_now();
    if (!may_report_later())
        report_now(form);
    page_file_write_last(own_page);
    share_close();
}

void stats_finish(enum stats_form form) {
    if (!has_opened_page())
        return;
    stats_now();
    own_page->finished = 1;
    share_close();
    mailbox_finish();
    report_now(form);
}
