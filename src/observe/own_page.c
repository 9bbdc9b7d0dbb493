/* The process's own stats page: made, told what the process is, read, and let go of. */
#include "observe/own_page_parts.h"

#include "clock.h"
#include "format.h"
#include "lock.h"
#include "observe/mailbox.h"
#include "observe/output_file.h"
#include "observe/page_file.h"
#include "observe/shards.h"
#include "observe/share_folder.h"
#include "observe/shared_page.h"
#include "raw_files.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Counts until stats_open, and without memory for a own_page; they are reported nowhere. */
static _Atomic uint64_t early[STATS_COUNTERS];
static struct stats_shard early_shards[STATS_SHARDS];
struct stats_device own_early_device;

struct stats_page *own_page;
void (*own_page_tell)(const char *line);

_Atomic uint64_t *stats_counters = early;
struct own_page_use own_use;
struct stats_shard *own_shards = early_shards;

struct stats_page *own_page_private(void) {
    void *memory =
        mmap(NULL, sizeof *own_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

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

void stats_trace(const char *path) {
    char folder[PAGE_TRACE];
    bool absolute = *path == '/';
    if (!own_page || strlen(path) >= sizeof own_page->trace ||
        (!absolute && (raw_getcwd(folder, sizeof folder) <= 0 || *folder != '/')))
        return;
    own_use.trace =
        (size_t)format(own_page->trace, sizeof own_page->trace, "%s%s%s", absolute ? "" : folder,
                       absolute ? "" : "/", path) < sizeof own_page->trace;
    if (!own_use.trace)
        own_page->trace[0] = '\0'; /* a part of a path is another path */
}

void stats_option(const char *setting) {
    size_t more = strlen(setting);
    if (!own_page || own_use.options + more + 2 > sizeof own_page->options)
        return;
    own_use.options += (size_t)format(own_page->options + own_use.options,
                                      sizeof own_page->options - own_use.options, "%s%s",
                                      own_use.options ? " " : "", setting);
}

void stats_tool(const char *name) {
    if (!own_page || strstr(own_use.tools, name))
        return;
    size_t length = strlen(own_use.tools);
    format(own_use.tools + length, sizeof own_use.tools - length, "%s%s", length ? ", " : "", name);
    memcpy(own_page->tools, own_use.tools, sizeof own_page->tools);
}

void stats_shortage(const char *text) {
    lock_check_none();
    static atomic_flag writing = ATOMIC_FLAG_INIT;
    if (!own_page || atomic_flag_test_and_set(&writing))
        return; /* the text of the thread that is just writing is as good */
    size_t length = strlen(text);
    length = length < sizeof own_page->shortage ? length : sizeof own_page->shortage - 1;
    memcpy(own_page->shortage, text, length);
    own_page->shortage[length] = '\0';
    atomic_flag_clear(&writing);
    uint64_t now = clock_ns(CLOCK_MONOTONIC) - own_use.start_ns;
    if (!page_file_may_write_shortage(now))
        return;
    atomic_store_explicit(&own_page->last_ns, now, memory_order_relaxed);
    page_file_write_due(own_page, now);
}

void stats_forget_after_fork(void) {
    stats_counters = early;
    own_shards = early_shards;
    memset(early, 0, sizeof early);
    memset(early_shards, 0, sizeof early_shards);
    memset(&own_early_device, 0, sizeof own_early_device);
    memset(&own_use, 0, sizeof own_use);
    mailbox_close();
    share_forget();
    page_file_forget();
    if (own_page)
        munmap(own_page, sizeof *own_page);
    own_page = NULL;
}

void stats_get_several(const enum stats_counter *counters, size_t count, uint64_t *values) {
    struct stats_sums sum = shards_sum(own_shards, SHARDS_ALL);
    struct stats_figures all = own_page
                                   ? shards_devices(own_shards, own_page->devices, own_use.devices)
                                   : shards_devices(own_shards, &own_early_device, 1);
    for (size_t i = 0; i < count; i++)
        values[i] =
            stats_read(&stats_counters[counters[i]]) + shards_count(&sum, &all, counters[i]);
}

uint64_t stats_get(enum stats_counter counter) {
    uint64_t value;
    stats_get_several(&counter, 1, &value);
    return value;
}
