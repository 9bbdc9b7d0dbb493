/* The process's own stats page: made, filled, and at the end turned into a report. */
#include "observe/stats.h"

#include "by_pointer.h"
#include "clock.h"
#include "format.h"
#include "lock.h"
#include "modules.h"
#include "observe/mailbox.h"
#include "observe/output_file.h"
#include "observe/page.h"
#include "observe/page_file.h"
#include "observe/shards.h"
#include "observe/share_folder.h"
#include "observe/shared_page.h"
#include "raw_files.h"
#include "site_tag.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Counts until stats_open, and without memory for a page; they are reported nowhere. */
static _Atomic uint64_t early[STATS_COUNTERS];
static struct stats_shard early_shards[STATS_SHARDS];
static struct stats_device early_device;

static struct stats_page *page;
static void (*tell)(const char *line);

/* How much of the page's tables is used, and what else is needed of it: the page itself is for
 * readers alone, since others of this user may write it. */
static struct {
    uint32_t modules, sites, tags, bypasses, payers;
    size_t options; /* its length */
    char tools[PAGE_TOOLS];
    uint64_t start_ns;
    uint32_t devices; /* a bit for each */
    bool shards[STATS_SHARDS];
    bool trace;
    size_t command_line; /* of its bytes */
    pid_t process;       /* whose page it is: a child of a bare clone() is none of fork's */
} used;
_Static_assert(PAGE_DEVICES <= 32, "a bit for each device");

_Atomic uint64_t *stats_counters = early;
static struct stats_shard *shards = early_shards;

static void copy_text(char *to, size_t size, const char *from) {
    size_t length = strlen(from);
    if (length >= size) { /* the end of a path says more than its beginning */
        from += length - (size - 1);
        length = size - 1;
    }
    memcpy(to, from, length);
    to[length] = '\0';
}

void stats_route(enum stats_route route) {
    if (page)
        atomic_fetch_add_explicit(&page->routes[route], 1, memory_order_relaxed);
}

void stats_wait(enum wait_reason reason) {
    if (page)
        atomic_fetch_add_explicit(&page->waits[reason], 1, memory_order_relaxed);
}

/* *least becomes the value if that is less; 0: there was none yet. */
static void note_least(_Atomic uint64_t *least, uint64_t value) {
    uint64_t now = stats_read(least);
    while ((!now || value < now) && !atomic_compare_exchange_weak(least, &now, value))
        ;
}

enum {
    ALL_TIMED = 64, /* of a thread's first calls, so that a short run's are */
    ONE_OF = 251    /* of later ones: a prime, so that no program's loop falls into step with it */
};

_Thread_local struct call_timer call_timers[STATS_CALLS];

uint64_t call_timer_start(enum stats_call call) {
    struct call_timer *timer = &call_timers[call];
    bool first = timer->timed < ALL_TIMED;
    timer->timed += first;
    timer->untimed = first ? 0 : ONE_OF - 1;
    return clock_ns(CLOCK_MONOTONIC);
}

void call_timer_stop(enum stats_call call, enum stats_memory memory, size_t bytes, uint64_t began) {
    if (!page || !bytes)
        return;
    int log = 63 - __builtin_clzll(bytes);
    struct stats_cost *cost = &page->costs[call][memory][log < STATS_SIZES ? log : STATS_SIZES - 1];
    uint64_t ns = clock_ns(CLOCK_MONOTONIC) - began;
    ns = ns ? ns : 1; /* a least of 0 says that there was no call */
    atomic_fetch_add_explicit(&cost->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&cost->ns, ns, memory_order_relaxed);
    note_least(&cost->least_ns, ns);
    note_least(&cost->least_bytes, bytes);
}

void stats_payer(const char *call) {
    lock_check_held(LOCK_POOL);
    if (!page)
        return;
    uint32_t i = 0;
    while (i < used.payers && strcmp(page->payers[i].name, call) != 0)
        i++;
    if (i == PAGE_PAYERS)
        i--;
    if (i == used.payers) {
        copy_text(page->payers[i].name, sizeof page->payers[i].name,
                  i == PAGE_PAYERS - 1 ? "(others)" : call);
        page->payer_count = ++used.payers;
    }
    atomic_fetch_add_explicit(&page->payers[i].count, 1, memory_order_relaxed);
}

static void *private_memory(void) {
    void *memory =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
    used.process = getpid();
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
    fresh->start_ns = used.start_ns = clock_ns(CLOCK_MONOTONIC);
    ssize_t length = readlink("/proc/self/exe", fresh->command, sizeof fresh->command - 1);
    fresh->command[length > 0 ? length : 0] = '\0';
    output_file_host(fresh->host, sizeof fresh->host);
    output_file_job(fresh->job, sizeof fresh->job, fresh->step, sizeof fresh->step);
    used.options = note_options(fresh);
    used.tools[0] = '\0';
    used.tags = used.bypasses = used.payers = 0;
    fresh->module_count = fresh->site_count = used.modules = used.sites = 1;
    fresh->sites[0].depth = 1;
    memcpy(fresh->banner, PAGE_MAGIC "\n", sizeof PAGE_MAGIC);
    page = fresh;
    stats_counters = fresh->counters;
    shards = fresh->shards;
    mailbox_open(&fresh->mailbox);
}

static void note_command_line(void) {
    const struct command_line *own = command_line_own();
    size_t size = offsetof(struct command_line, text) + command_line_used(own);
    memcpy(&page->command_line, own, size);
    used.command_line = size;
}

void stats_open(const char *path_pattern, bool share, void (*say)(const char *line)) {
    tell = say;
    enum page_file file = page_file_open(path_pattern, say);
    struct stats_page *fresh = share ? share_open(file == PAGE_FILE_REGULAR) : NULL;
    bool shared = fresh;
    if (!shared)
        fresh = private_memory();
    if (!fresh)
        return;
    start_page(fresh);
    note_command_line();
    if (file == PAGE_FILE_REGULAR)
        memcpy(page->file, page_file_path(), strlen(page_file_path()) + 1);
    if (shared)
        share_publish(page);
    if (file == PAGE_FILE_REGULAR)
        page_file_write(page);
}

/* The module that contains an address, *offset into it; 0: the unknown one. */
static uint32_t module_index(uintptr_t address, uint64_t *offset) {
    struct module module;
    char name[PAGE_MODULE_NAME];
    if (!modules_find(address, &module))
        return 0;
    *offset = address - module.base;
    copy_text(name, sizeof name, module.path);
    for (uint32_t i = 1; i < used.modules; i++)
        if (strcmp(page->modules[i].path, name) == 0)
            return i;
    struct stats_module *entry = &page->modules[used.modules];
    if (used.modules == PAGE_MODULES) {
        *offset = address;
        return 0;
    }
    memcpy(entry->path, name, strlen(name) + 1);
    entry->build_id_size =
        (uint8_t)modules_build_id(&module, entry->build_id, sizeof entry->build_id);
    page->module_count = ++used.modules;
    return used.modules - 1;
}

/* The tag's number in the page, from 1; 0: no room is left. */
static uint32_t tag_index(const char *name) {
    if (used.tags == PAGE_TAGS)
        return 0;
    copy_text(page->tags[used.tags], PAGE_TAG, name);
    page->tag_count = ++used.tags;
    return used.tags;
}

struct stats_site *stats_site_new(const struct call_site *site) {
    lock_check_held(LOCK_POOL);
    if (!page)
        return NULL;
    const char *name = site_tag_name(site);
    uint32_t tag = name ? tag_index(name) : 0;
    struct stats_site *slot = &page->sites[used.sites];
    if (used.sites == PAGE_SITES || (name && !tag))
        return &page->sites[0];
    page->site_count = ++used.sites;
    slot->tag = tag;
    for (uintptr_t i = 0; i < site->depth && !name; i++) {
        slot->offset[i] = site->frames[i];
        slot->module[i] = module_index(site->frames[i], &slot->offset[i]);
    }
    atomic_store_explicit(&slot->depth, (uint32_t)site->depth, memory_order_release);
    return slot;
}

void stats_site_allocates(struct stats_site *site, enum stats_memory memory) {
    lock_check_held(LOCK_POOL);
    uint32_t named = 1 + (uint32_t)memory;
    site->memory = !site->memory || site->memory == named ? named : 1 + (uint32_t)STATS_MIXED;
}

struct stats_device *stats_device(int ordinal, uint64_t capacity, const uint8_t uuid[STATS_UUID]) {
    lock_check_held(LOCK_POOL);
    if (!page)
        return &early_device;
    int last = PAGE_DEVICES - 1;
    struct stats_device *device = &page->devices[ordinal < 0 || ordinal > last ? last : ordinal];
    used.devices |= 1u << (device - page->devices);
    page->devices_used = used.devices;
    memcpy(device->uuid, uuid, sizeof device->uuid);
    device->capacity = capacity;
    return device;
}

void stats_get_several(const enum stats_counter *counters, size_t count, uint64_t *values) {
    struct stats_sums sum = shards_sum(shards, SHARDS_ALL);
    struct stats_figures all = page ? shards_devices(shards, page->devices, used.devices)
                                    : shards_devices(shards, &early_device, 1);
    for (size_t i = 0; i < count; i++)
        values[i] =
            stats_read(&stats_counters[counters[i]]) + shards_count(&sum, &all, counters[i]);
}

uint64_t stats_get(enum stats_counter counter) {
    uint64_t value;
    stats_get_several(&counter, 1, &value);
    return value;
}

struct stats_shard *stats_shard_begin(const struct stats_device *device) {
    lock_check_held(LOCK_POOL);
    int i = 0;
    while (i < STATS_SHARDS && used.shards[i])
        i++;
    if (i == STATS_SHARDS)
        return NULL;
    used.shards[i] = true;
    memset(&shards[i], 0, sizeof shards[i]);
    shards[i].device = 1 + (page && device >= page->devices && device < page->devices + PAGE_DEVICES
                                ? (uint32_t)(device - page->devices)
                                : 0);
    return &shards[i];
}

void stats_shard_end(struct stats_shard *shard, struct stats_device *device) {
    lock_check_held(LOCK_POOL);
    struct stats_sums of_shard = {0};
    const uint64_t *sums = of_shard.of;
    shards_add(&of_shard, shard);
    shard->device = 0;
#define DEVICE_FIGURE(name, sums, help)   stats_grow(&device->name, sums);
#define SUMMED_COUNTER(field, sums, help) stats_add(STATS_##field, sums);
#include "observe/counters.def"
    used.shards[shard - shards] = false;
}

uint32_t stats_site_index(const struct stats_site *site) {
    return page && site >= page->sites && site < page->sites + PAGE_SITES
               ? (uint32_t)(site - page->sites)
               : 0;
}

uint64_t stats_now(void) {
    if (!page)
        return 0;
    uint64_t now = clock_ns(CLOCK_MONOTONIC) - used.start_ns;
    atomic_store_explicit(&page->last_ns, now, memory_order_relaxed);
    if (__builtin_expect(now >= atomic_load_explicit(&page_file_due, memory_order_relaxed), 0))
        page_file_write_due(page, now);
    return now;
}

void stats_trace(const char *path) {
    char folder[PAGE_TRACE];
    bool absolute = *path == '/';
    if (!page || strlen(path) >= sizeof page->trace ||
        (!absolute && (raw_getcwd(folder, sizeof folder) <= 0 || *folder != '/')))
        return;
    used.trace = (size_t)format(page->trace, sizeof page->trace, "%s%s%s", absolute ? "" : folder,
                                absolute ? "" : "/", path) < sizeof page->trace;
    if (!used.trace)
        page->trace[0] = '\0'; /* a part of a path is another path */
}

void stats_option(const char *setting) {
    size_t more = strlen(setting);
    if (!page || used.options + more + 2 > sizeof page->options)
        return;
    used.options +=
        (size_t)format(page->options + used.options, sizeof page->options - used.options, "%s%s",
                       used.options ? " " : "", setting);
}

void stats_tool(const char *name) {
    if (!page || strstr(used.tools, name))
        return;
    size_t length = strlen(used.tools);
    format(used.tools + length, sizeof used.tools - length, "%s%s", length ? ", " : "", name);
    memcpy(page->tools, used.tools, sizeof page->tools);
}

void stats_shortage(const char *text) {
    lock_check_none();
    static atomic_flag writing = ATOMIC_FLAG_INIT;
    if (!page || atomic_flag_test_and_set(&writing))
        return; /* the text of the thread that is just writing is as good */
    size_t length = strlen(text);
    length = length < sizeof page->shortage ? length : sizeof page->shortage - 1;
    memcpy(page->shortage, text, length);
    page->shortage[length] = '\0';
    atomic_flag_clear(&writing);
    uint64_t now = clock_ns(CLOCK_MONOTONIC) - used.start_ns;
    if (!page_file_may_write_shortage(now))
        return;
    atomic_store_explicit(&page->last_ns, now, memory_order_relaxed);
    page_file_write_due(page, now);
}

BY_POINTER void stats_bypass(const char *module, const char *name) {
    if (!page || used.bypasses == PAGE_BYPASSES)
        return;
    uint32_t index = used.bypasses;
    copy_text(page->bypasses[index].module, sizeof page->bypasses[index].module, module);
    copy_text(page->bypasses[index].name, sizeof page->bypasses[index].name, name);
    page->bypass_count = ++used.bypasses;
}

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
    memcpy(copy, page, offsetof(struct stats_page, modules));
    memcpy(copy->modules, page->modules, used.modules * sizeof page->modules[0]);
    memcpy(copy->tags, page->tags, used.tags * sizeof page->tags[0]);
    memcpy(copy->sites, page->sites, used.sites * sizeof page->sites[0]);
    for (int i = 0; i < PAGE_DEVICES; i++)
        if (used.devices >> i & 1)
            memcpy(&copy->devices[i], &page->devices[i], sizeof copy->devices[i]);
    if (used.trace)
        memcpy(copy->trace, page->trace, sizeof copy->trace);
    memcpy(&copy->command_line, &page->command_line, used.command_line);
}

/* The page as it is now, in memory of this process alone, with the counts that hold. */
static struct stats_page *copy_page(void) {
    struct stats_page *copy = private_memory();
    if (!copy)
        return NULL;
    copy_used(copy);
    shards_fold(copy);
    copy->module_count = used.modules;
    copy->site_count = used.sites;
    copy->tag_count = used.tags;
    copy->bypass_count = used.bypasses;
    copy->payer_count = used.payers;
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
               "poolcuda: POOLCUDA_STATS_FILE: not all of the report could be written (error %d)",
               to.fault);
        tell(line);
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
        page_file_write(page); /* for `poolcuda report`: the program has closed its descriptor */
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

void stats_shut_in(enum stats_form form) {
    if (!page)
        return;
    stats_now();
    if (!may_report_later())
        report_now(form);
    page_file_write_last(page);
    share_close();
}

void stats_finish(enum stats_form form) {
    if (!page || getpid() != used.process)
        return;
    stats_now();
    page->finished = 1;
    share_close();
    mailbox_finish();
    report_now(form);
}

void stats_forget_after_fork(void) {
    stats_counters = early;
    shards = early_shards;
    memset(early, 0, sizeof early);
    memset(early_shards, 0, sizeof early_shards);
    memset(&early_device, 0, sizeof early_device);
    memset(&used, 0, sizeof used);
    mailbox_close();
    share_forget();
    page_file_forget();
    if (page)
        munmap(page, sizeof *page);
    page = NULL;
}
