#include "peers/own_open.h"

#include "base/clock.h"
#include "base/command_line.h"
#include "base/format.h"
#include "base/output_file.h"
#include "base/raw_files.h"
#include "counters/own_page_parts.h"
#include "counters/page_file.h"
#include "peers/mailbox.h"
#include "peers/share_folder.h"
#include "peers/shared_page.h"

#include <string.h>
#include <unistd.h>

/* What the environment says of the pool, for the reader of the report. */
static size_t note_options(struct stats_page *fresh) {
    size_t length = 0;
    for (char *const *entry = environ; entry && *entry; entry++) {
        size_t more = strlen(*entry);
        if (strncmp(*entry, "POOLCUDA_", 9) != 0 || length + more + 2 > sizeof fresh->options)
            continue;
        length += (size_t)format(fresh->options + length, sizeof fresh->options - length, "%s%s",
                                 length ? " " : "", *entry);
    }
    return length;
}

static void start_page(struct stats_page *fresh) {
    own_use.process = getpid();
    fresh->version = PAGE_VERSION;
    fresh->size = sizeof *fresh;
    fresh->runs = 1;
    fresh->counter_count = STATS_COUNTERS;
    fresh->route_count = STATS_ROUTES;
    fresh->wait_reason_count = WAIT_REASONS;
    fresh->rank = output_file_rank();
    fresh->process = (uint64_t)getpid();
    fresh->start_wall_ns = clock_ns(CLOCK_REALTIME);
    fresh->namespace_id = share_namespace();
    fresh->born = share_born(fresh->process);
    struct stat program;
    if (raw_stat("/proc/self/exe", &program) == 0) {
        fresh->executable[0] = program.st_dev;
        fresh->executable[1] = program.st_ino;
    }
    fresh->start_ns = own_use.start_ns = clock_ns(CLOCK_MONOTONIC);
    ssize_t length = readlink("/proc/self/exe", fresh->command, sizeof fresh->command - 1);
    fresh->command[length > 0 ? length : 0] = '\0';
    output_file_host(fresh->host, sizeof fresh->host);
    output_file_job(fresh->job, sizeof fresh->job, fresh->step, sizeof fresh->step);
    own_use.options = note_options(fresh);
    own_use.tools[0] = '\0';
    own_use.tags = own_use.bypasses = own_use.payers = 0;
    fresh->module_count = fresh->site_count = own_use.modules = own_use.sites = 1;
    fresh->sites[0].depth = 1;
    memcpy(fresh->banner, PAGE_MAGIC "\n", sizeof PAGE_MAGIC);
    own_page = fresh;
    stats_counters = fresh->counters;
    own_shards = fresh->shards;
    mailbox_open(&fresh->mailbox);
}

static void note_command_line(void) {
    const struct command_line *own = command_line_own();
    size_t size = offsetof(struct command_line, text) + command_line_used(own);
    memcpy(&own_page->command_line, own, size);
    own_use.command_line = size;
}

void stats_open(const char *path_pattern, bool share, void (*say)(const char *line)) {
    own_page_tell = say;
    enum page_file file = page_file_open(path_pattern, say);
    struct stats_page *fresh = share ? share_open(file == PAGE_FILE_REGULAR) : NULL;
    bool shared = fresh;
    if (!shared)
        fresh = own_page_private();
    if (!fresh)
        return;
    start_page(fresh);
    note_command_line();
    if (file == PAGE_FILE_REGULAR)
        memcpy(own_page->file, page_file_path(), strlen(page_file_path()) + 1);
    if (shared)
        share_publish(own_page);
    if (file == PAGE_FILE_REGULAR)
        page_file_write(own_page);
}

void stats_forget_after_fork(void) {
    mailbox_close();
    share_forget();
    page_file_forget();
    own_page_forget();
}
