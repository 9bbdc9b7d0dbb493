/* The process's own stats page: where it lies, and what it notes of the process. */
#include "counters/own_page_parts.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/lock.h"
#include "base/raw_files.h"
#include "counters/page_file.h"

#include <string.h>
#include <sys/mman.h>

/* Counts until stats_open, and without memory for an own page; they are reported nowhere. */
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

void own_page_forget(void) {
    stats_counters = early;
    own_shards = early_shards;
    memset(early, 0, sizeof early);
    memset(early_shards, 0, sizeof early_shards);
    memset(&own_early_device, 0, sizeof own_early_device);
    memset(&own_use, 0, sizeof own_use);
    /* A call that a signal's handler has interrupted to fork still counts in what it has found. */
    if (own_page && mmap(own_page, sizeof *own_page, PROT_READ | PROT_WRITE,
                         MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        own_page = NULL; /* for it is the parent's still */
}
