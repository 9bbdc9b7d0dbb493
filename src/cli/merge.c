#include "cli/merge.h"

#include "report/saving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* What makes two sites the same: places in the merged page's tables. Compared as bytes. */
struct site_key {
    uint64_t offset[CALL_SITE_MAX_DEPTH];
    uint32_t module[CALL_SITE_MAX_DEPTH];
    uint32_t depth, tag;
};

struct merge_site {
    struct site_key key;
    uint32_t index; /* in the merged page */
    struct spread peaks;
    UT_hash_handle hh;
};

bool merge_init(struct merge *merge) {
    *merge = (struct merge){.page = stats_page_new()};
    if (!merge->page)
        return false;
    merge->page->runs = 0;
    merge->page->finished = 1;
    merge->page->module_count = merge->page->site_count = 1;
    merge->page->sites[0].depth = 1;
    return true;
}

/* Adds up to the greatest number that a report can have, and no further. */
static void grow(_Atomic uint64_t *sum, const _Atomic uint64_t *by) {
    uint64_t room = stats_rest(INT64_MAX, *sum), more = stats_read(by);
    *sum += more < room ? more : room;
}

/* A text that all runs have, or what stands for several. */
static void same_text(struct merge *merge, char *to, size_t size, const char *from,
                      const char *several) {
    if (merge->run_count == 0)
        snprintf(to, size, "%s", from);
    else if (strcmp(to, from) != 0)
        snprintf(to, size, "%s", several);
}

/* Keeps a command line that all runs have: none stands for several. */
static void same_command_line(struct merge *merge, const struct command_line *from) {
    struct command_line *to = &merge->page->command_line;
    if (merge->run_count == 0)
        *to = *from;
    else if (to->size != from->size || memcmp(to->text, from->text, command_line_used(to)) != 0)
        to->size = 0;
}

static void add_head(struct merge *merge, const struct stats_page *from) {
    struct stats_page *to = merge->page;
    bool first = merge->run_count == 0;
    same_text(merge, to->command, sizeof to->command, from->command, "several programs");
    same_text(merge, to->host, sizeof to->host, from->host, "several hosts");
    same_text(merge, to->options, sizeof to->options, from->options, "");
    same_text(merge, to->trace, sizeof to->trace, from->trace, "");
    same_text(merge, to->tools, sizeof to->tools, from->tools, "different ones in each run");
    same_command_line(merge, &from->command_line);
    if (*from->shortage)
        memcpy(to->shortage, from->shortage, sizeof to->shortage);
    to->process = first ? from->process : 0;
    to->rank = first ? from->rank : -1;
    to->finished = to->finished && from->finished;
    to->runs += from->runs ? from->runs : 1;
    if (first || from->start_wall_ns < to->start_wall_ns)
        to->start_wall_ns = from->start_wall_ns;
    if (stats_read(&from->last_ns) > to->last_ns)
        to->last_ns = stats_read(&from->last_ns);
}

/* Adds what each run has saved: what a call takes differs from machine to machine. */
static void add_saving(struct stats_page *to, const struct stats_page *from) {
    struct stats_saving saving;
    saving_of(from, &saving);
    saving_add(&to->saving, &saving);
}

static void add_payers(struct stats_page *to, const struct stats_page *from) {
    for (uint32_t i = 0; i < from->payer_count; i++) {
        uint32_t at = 0;
        while (at < to->payer_count && strcmp(to->payers[at].name, from->payers[i].name) != 0)
            at++;
        at = at < PAGE_PAYERS ? at : PAGE_PAYERS - 1;
        if (at == to->payer_count) {
            memcpy(to->payers[at].name, from->payers[i].name, sizeof to->payers[at].name);
            to->payer_count++;
        }
        grow(&to->payers[at].count, &from->payers[i].count);
    }
}

static void add_bypasses(struct stats_page *to, const struct stats_page *from) {
    for (uint32_t i = 0; i < from->bypass_count; i++) {
        uint32_t at = 0;
        while (at < to->bypass_count &&
               memcmp(&to->bypasses[at], &from->bypasses[i], sizeof to->bypasses[at]) != 0)
            at++;
        if (at == to->bypass_count && at < PAGE_BYPASSES)
            to->bypasses[to->bypass_count++] = from->bypasses[i];
    }
}

static void take_most(_Atomic uint64_t *to, const _Atomic uint64_t *from) {
    if (stats_read(from) > *to)
        *to = stats_read(from);
}

/* Adds the devices' sums. Histories and maps cannot be added up: the report has them run by run. */
static void add_devices(struct stats_page *to, const struct stats_page *from) {
    for (size_t i = 0; i < PAGE_DEVICES; i++) {
        struct stats_device *sum = &to->devices[i];
        const struct stats_device *device = &from->devices[i];
        take_most(&sum->capacity, &device->capacity);
        take_most(&sum->peak_live, &device->peak_live);
        take_most(&sum->peak_held, &device->peak_held);
#define DEVICE_FIGURE(name, sums, help) grow(&sum->name, &device->name);
#include "counters/counters.def"
    }
}

/* Where modules and tags of the run are in the merged tables; 0: no room there. */
static uint32_t merged_module(struct stats_page *to, const struct stats_module *module) {
    if (!*module->path)
        return 0;
    for (uint32_t i = 1; i < to->module_count; i++)
        if (strcmp(to->modules[i].path, module->path) == 0 &&
            to->modules[i].build_id_size == module->build_id_size &&
            memcmp(to->modules[i].build_id, module->build_id, module->build_id_size) == 0)
            return i;
    if (to->module_count == PAGE_MODULES)
        return 0;
    to->modules[to->module_count] = *module;
    return to->module_count++;
}

static uint32_t merged_tag(struct stats_page *to, const char *tag) {
    for (uint32_t i = 0; i < to->tag_count; i++)
        if (strcmp(to->tags[i], tag) == 0)
            return i + 1;
    if (to->tag_count == PAGE_TAGS)
        return 0;
    memcpy(to->tags[to->tag_count], tag, PAGE_TAG);
    return ++to->tag_count;
}

/* The merged record of a site; the one of all others if there is no room. NULL without memory. */
static struct stats_site *merged_site(struct merge *merge, const struct site_key *key) {
    struct merge_site *entry;
    HASH_FIND(hh, merge->sites, key, sizeof *key, entry);
    if (!entry) {
        struct stats_page *page = merge->page;
        if (page->site_count == PAGE_SITES)
            return &page->sites[0];
        entry = calloc(1, sizeof *entry);
        if (!entry)
            return NULL;
        entry->key = *key;
        entry->index = page->site_count++;
        HASH_ADD(hh, merge->sites, key, sizeof entry->key, entry);
        merge->by_index[entry->index] = entry;
        struct stats_site *site = &page->sites[entry->index];
        memcpy(site->module, key->module, sizeof site->module);
        memcpy(site->offset, key->offset, sizeof site->offset);
        site->tag = key->tag;
        site->depth = key->depth;
    }
    return &merge->page->sites[entry->index];
}

static void add_site(struct stats_site *sum, const struct stats_site *site) {
    grow(&sum->misses, &site->misses);
    grow(&sum->hits, &site->hits);
    grow(&sum->allocated_bytes, &site->allocated_bytes);
    grow(&sum->live_blocks, &site->live_blocks);
    grow(&sum->live_bytes, &site->live_bytes);
    grow(&sum->peak_live_bytes, &site->peak_live_bytes);
    grow(&sum->held_blocks, &site->held_blocks);
    grow(&sum->held_bytes, &site->held_bytes);
    if (stats_site_least(site))
        stats_site_serves(sum, stats_site_least(site));
    if (site->memory)
        sum->memory =
            !sum->memory || sum->memory == site->memory ? site->memory : 1 + (uint32_t)STATS_MIXED;
}

/* run: its place among the rows. */
static bool add_sites(struct merge *merge, const struct stats_page *from, size_t run) {
    uint32_t modules[PAGE_MODULES] = {0};
    for (uint32_t i = 1; i < from->module_count; i++)
        modules[i] = merged_module(merge->page, &from->modules[i]);
    for (uint32_t i = 0; i < from->site_count; i++) {
        const struct stats_site *site = &from->sites[i];
        struct site_key key = {.depth = site->depth};
        if (!site->depth)
            continue;
        if (site->tag)
            key.tag = merged_tag(merge->page, from->tags[site->tag - 1]);
        for (uint32_t d = 0; d < site->depth && !site->tag; d++) {
            key.module[d] = modules[site->module[d]];
            key.offset[d] = site->offset[d];
        }
        struct stats_site *sum = i ? merged_site(merge, &key) : &merge->page->sites[0];
        if (!sum)
            return false;
        add_site(sum, site);
        struct merge_site *own = merge->by_index[sum - merge->page->sites];
        if (own && !spread_add(&own->peaks, stats_read(&site->peak_live_bytes), run))
            return false;
    }
    return true;
}

const struct spread *merge_site_peaks(const struct merge *merge, uint32_t site) {
    return merge->by_index[site] ? &merge->by_index[site]->peaks : NULL;
}

/* A short copy: thousands of rows are kept. */
static char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return strdup(slash ? slash + 1 : path);
}

static bool add_row(struct merge *merge, const struct stats_page *from, const char *file) {
    struct merge_run *runs = reallocarray(merge->runs, merge->run_count + 1, sizeof *runs);
    if (!runs)
        return false;
    merge->runs = runs;
    struct merge_run *run = &runs[merge->run_count];
    *run = (struct merge_run){
        .file = strdup(file),
        .command = base_name(from->command),
        .host = strdup(from->host),
        .process = from->process,
        .rank = from->rank,
        .finished = from->finished != 0,
        .seconds = (double)stats_read(&from->last_ns) * 1e-9,
        .allocations = stats_read(&from->counters[STATS_malloc_calls]),
        .hits = stats_read(&from->counters[STATS_malloc_hits]),
        .idle_unbounded = from->runs <= 1 && !strstr(from->options, "POOLCUDA_MAX_IDLE="),
        .peak_live = stats_read(&from->counters[STATS_peak_live_bytes]),
        .peak_held = stats_read(&from->counters[STATS_peak_held_bytes]),
        .leaked_blocks = from->finished ? stats_read(&from->counters[STATS_live_blocks]) : 0,
        .leaked_bytes = from->finished ? stats_read(&from->counters[STATS_in_use_bytes]) +
                                             stats_read(&from->counters[STATS_waste_bytes])
                                       : 0,
        .oom_events = stats_read(&from->counters[STATS_oom_events]),
        .wait_ns = stats_read(&from->counters[STATS_wait_ns]),
        .start_wall_ns = from->start_wall_ns,
    };
    run_history(from, &run->history);
    if (run->file && run->command && run->host)
        return true;
    free(run->file);
    free(run->command);
    free(run->host);
    return false;
}

bool merge_add(struct merge *merge, const struct stats_page *page, const char *file) {
    if (!add_row(merge, page, file))
        return false;
    struct stats_page *to = merge->page;
    add_head(merge, page);
    for (size_t i = 0; i < STATS_COUNTERS; i++)
        grow(&to->counters[i], &page->counters[i]);
    for (size_t i = 0; i < STATS_ROUTES; i++)
        grow(&to->routes[i], &page->routes[i]);
    for (size_t i = 0; i < WAIT_REASONS; i++)
        grow(&to->waits[i], &page->waits[i]);
    add_saving(to, page);
    add_payers(to, page);
    add_bypasses(to, page);
    add_devices(to, page);
    if (merge->run_count++) /* blocks of different processes do not lie side by side */
        to->counters[STATS_largest_idle_bytes] = 0;
    return add_sites(merge, page, merge->run_count - 1);
}

void merge_free(struct merge *merge) {
    struct merge_site *site, *next;
    HASH_ITER (hh, merge->sites, site, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DEL(merge->sites, site);
        spread_free(&site->peaks);
        free(site);
    }
    for (size_t i = 0; i < merge->run_count; i++) {
        free(merge->runs[i].file);
        free(merge->runs[i].command);
        free(merge->runs[i].host);
    }
    free(merge->runs);
    stats_page_destroy(merge->page);
}
