/* The report of a stats page: text and JSON in one pass. docs/reports.md describes the JSON. */
#include "report/report.h"
#include "base/format.h"
#include "counters/page.h"
#include "report/emitter.h"
#include "report/human.h"
#include "report/report_gain.h"
#include "report/saving.h"

#include <stdlib.h>
#include <string.h>

static uint64_t get(const struct stats_page *page, enum stats_counter counter) {
    return atomic_load_explicit(&page->counters[counter], memory_order_relaxed);
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* The names under which JSON has what is counted. (Pointers to them would cost every program at its
 * start.) */
enum { COUNTER_NAME_SIZE = 32 };
static const char counter_names[STATS_COUNTERS][COUNTER_NAME_SIZE] = {
#define COUNTER(field, help) #field,
#define GAUGE(field, help)   #field,
#include "counters/counters.def"
};

/* Writes how the program can be started again, which `poolcuda report` itself prints for people. */
static void emit_command_line(struct emitter *emitter, const struct command_line *line) {
    const char *folder = command_line_first(line);
    if (!folder && line->size != COMMAND_LINE_TOO_LONG) {
        emitter_string(emitter, "command_line", NULL);
        return;
    }
    emitter_open(emitter, "command_line", '{');
    emitter_bool(emitter, "too_long", !folder);
    if (folder) {
        const char *text = command_line_next(line, folder);
        emitter_bytes(emitter, "folder", folder);
        emitter_bytes(emitter, "program", text);
        emitter_open(emitter, "arguments", '[');
        while ((text = command_line_next(line, text)))
            emitter_bytes(emitter, NULL, text);
        emitter_close(emitter, ']');
    }
    emitter_close(emitter, '}');
}

static void emit_head(struct emitter *emitter, const struct stats_page *page) {
    char command[PAGE_COMMAND], host[PAGE_HOST], options[PAGE_OPTIONS], rank[32] = "";
    uint64_t last = stats_read(&page->last_ns);
    emitter_clean(command, sizeof command, page->command);
    emitter_clean(host, sizeof host, page->host);
    if (page->rank >= 0)
        format(rank, sizeof rank, ", rank %d", (int)page->rank);
    if (page->runs > 1)
        emitter_print(emitter, "poolcuda " POOLCUDA_VERSION ": %s, %u runs%s%s\n", command,
                      page->runs, *host ? " on " : "", host);
    else
        emitter_print(emitter, "poolcuda " POOLCUDA_VERSION ": %s, process %llu%s%s%s, %.1f s%s\n",
                      command, (unsigned long long)page->process, *host ? " on " : "", host, rank,
                      (double)last * 1e-9, page->finished ? "" : " (running or killed)");
    if (*page->options)
        emitter_print(emitter, "  with %s\n",
                      emitter_clean(options, sizeof options, page->options));
    emitter_print(emitter, "\n");

    emitter_string(emitter, "format", STATS_REPORT_FORMAT);
    emitter_number(emitter, "version", STATS_REPORT_VERSION);
    emitter_string(emitter, "poolcuda", POOLCUDA_VERSION);
    emitter_number(emitter, "runs", page->runs);
    emitter_open(emitter, "process", '{');
    emitter_number(emitter, "pid", page->process);
    emitter_string(emitter, "command", page->command);
    emitter_string(emitter, "host", page->host);
    if (page->rank >= 0)
        emitter_number(emitter, "rank", (uint64_t)page->rank);
    else
        emitter_string(emitter, "rank", NULL);
    emitter_bool(emitter, "finished", page->finished);
    emitter_number(emitter, "start_wall_ns", page->start_wall_ns);
    emitter_number(emitter, "last_ns", last);
    emitter_string(emitter, "options", page->options);
    emitter_string(emitter, "tools", page->tools);
    emitter_string(emitter, "trace", page->trace);
    emit_command_line(emitter, &page->command_line);
    emitter_string(emitter, "shortage", page->shortage);
    emitter_close(emitter, '}');
}

/* Writes every counter and gauge, in JSON. What people read of them, and how, the rest decides. */
static void emit_counters(struct emitter *emitter, const struct stats_page *page) {
    emitter_open(emitter, "counters", '{');
    for (size_t i = 0; i < STATS_COUNTERS; i++)
        emitter_number(emitter, counter_names[i], stats_read(&page->counters[i]));
    emitter_close(emitter, '}');
}

static void emit_equation(struct emitter *emitter, const struct stats_page *page) {
    const struct {
        enum stats_counter counter;
        const char *sign, *meaning;
    } rows[] = {
        {STATS_in_use_bytes, " ", "in use by the program, as requested"},
        {STATS_idle_bytes, "+", "idle, kept for reuse"},
        {STATS_waste_bytes, "+", "waste: live blocks larger than requested"},
        {STATS_held_bytes, "=", "held from the driver"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bytes = get(page, rows[i].counter);
        emitter_print(emitter, "  %s %20llu bytes  %10s  %s\n", rows[i].sign,
                      (unsigned long long)bytes, human(bytes).text, rows[i].meaning);
    }
    emitter_print(emitter, "    at their peak%s: %s live, %s held\n",
                  page->runs > 1 ? "s, each run's by itself" : "",
                  human(get(page, STATS_peak_live_bytes)).text,
                  human(get(page, STATS_peak_held_bytes)).text);
    uint64_t idle = get(page, STATS_idle_bytes), largest = get(page, STATS_largest_idle_bytes);
    if (largest && largest <= idle)
        emitter_print(emitter, "    idle in %llu block%s, the largest of %s: %.1f%% fragmented\n",
                      (unsigned long long)get(page, STATS_idle_blocks),
                      plural(get(page, STATS_idle_blocks)), human(largest).text,
                      percent(idle - largest, idle));
    emitter_print(emitter, "\n");
}

/* Writes what made frees wait: what POOLCUDA_FREE=defer would save. */
static void emit_waits(struct emitter *emitter, const struct stats_page *page) {
    static const struct {
        char key[24], text[112];
    } reasons[WAIT_REASONS] = {
#define WAIT_REASON(name, text) {#name, text},
#include "counters/wait_reasons.def"
#undef WAIT_REASON
    };
    uint64_t owed = get(page, STATS_waits_owed), deferred = get(page, STATS_free_deferred);
    uint64_t fences = get(page, STATS_fences), waited = get(page, STATS_fences_waited);
    emitter_open(emitter, "waited_because_of", '{');
    for (size_t i = 0; i < WAIT_REASONS; i++) {
        uint64_t count = stats_read(&page->waits[i]);
        if (!count)
            continue;
        emitter_print(emitter, "    %llu free%s waited because %s\n", (unsigned long long)count,
                      count == 1 ? "" : "s", reasons[i].text);
        emitter_number(emitter, reasons[i].key, count);
    }
    emitter_close(emitter, '}');
    if (owed)
        emitter_print(emitter, "    %llu free%s put the wait off; made later: %llu, spared: %llu\n",
                      (unsigned long long)owed, owed == 1 ? "" : "s",
                      (unsigned long long)get(page, STATS_waits_paid),
                      (unsigned long long)stats_rest(owed, get(page, STATS_waits_paid)));
    emitter_open(emitter, "waits_made_before", '{');
    for (uint32_t i = 0; i < page->payer_count; i++) {
        char name[sizeof page->payers[i].name];
        uint64_t count = stats_read(&page->payers[i].count);
        emitter_print(emitter, "    %llu wait%s made later, before the program's %s\n",
                      (unsigned long long)count, count == 1 ? " was" : "s were",
                      emitter_clean(name, sizeof name, page->payers[i].name));
        emitter_number(emitter, page->payers[i].name, count);
    }
    emitter_close(emitter, '}');
    if (deferred)
        emitter_print(emitter,
                      "    %llu freed block%s kept behind %llu fence%s instead of a wait; %llu "
                      "allocation%s waited for a fence\n",
                      (unsigned long long)deferred, deferred == 1 ? " was" : "s were",
                      (unsigned long long)fences, fences == 1 ? "" : "s",
                      (unsigned long long)waited, waited == 1 ? "" : "s");
}

static void emit_calls(struct emitter *emitter, const struct stats_page *page) {
    uint64_t calls = get(page, STATS_malloc_calls), hits = get(page, STATS_malloc_hits);
    uint64_t kept = get(page, STATS_free_kept);
    emitter_print(
        emitter,
        "  allocations: %llu, of which %llu from idle memory (%.1f%%, %llu another site's)\n",
        (unsigned long long)calls, (unsigned long long)hits, percent(hits, calls),
        (unsigned long long)get(page, STATS_malloc_stolen));
    emitter_print(emitter, "  frees: %llu, of which %llu kept, %llu waited for the device\n",
                  (unsigned long long)get(page, STATS_free_calls), (unsigned long long)kept,
                  (unsigned long long)get(page, STATS_free_waited));
    if (get(page, STATS_host_calls))
        emitter_print(
            emitter,
            "  of these, pinned host memory: %llu allocation%s, %llu of them from idle "
            "memory, %llu free%s; at its peak %s held\n",
            (unsigned long long)get(page, STATS_host_calls), plural(get(page, STATS_host_calls)),
            (unsigned long long)get(page, STATS_host_hits),
            (unsigned long long)get(page, STATS_host_frees), plural(get(page, STATS_host_frees)),
            human(get(page, STATS_peak_host_held_bytes)).text);
    if (get(page, STATS_managed_calls))
        emitter_print(
            emitter,
            "  of these, managed memory: %llu allocation%s, %llu of them from idle memory, "
            "%llu free%s, %llu of them undid advice; at its peak %s held\n",
            (unsigned long long)get(page, STATS_managed_calls),
            plural(get(page, STATS_managed_calls)),
            (unsigned long long)get(page, STATS_managed_hits),
            (unsigned long long)get(page, STATS_managed_frees),
            plural(get(page, STATS_managed_frees)),
            (unsigned long long)get(page, STATS_managed_resets),
            human(get(page, STATS_peak_managed_held_bytes)).text);
    emit_waits(emitter, page);
}

enum { EVENT_TEXT_SIZE = 88 };

/* Leaves out everything that is zero in an uneventful run. */
static void emit_events(struct emitter *emitter, const struct stats_page *page) {
    static const struct {
        enum stats_counter counter;
        char text[EVENT_TEXT_SIZE]; /* no pointer, which would cost every program at its start */
    } events[] = {
        {STATS_oom_events, "the driver was out of memory: %llu time%s\n"},
        {STATS_oom_released_blocks, "  idle blocks released because of that: %llu\n"},
        {STATS_oom_trimmed_bytes, "  bytes released of the program's own memory pools: %llu\n"},
        {STATS_oom_larger,
         "  allocations served by larger idle blocks than the bounds allow: %llu\n"},
        {STATS_oom_waits, "  calls that waited for a busy device, see POOLCUDA_OOM_WAIT: %llu\n"},
        {STATS_oom_hopeless, "  allocations that no idle memory could have served: %llu\n"},
        {STATS_oom_rescued, "  allocations that then succeeded: %llu\n"},
        {STATS_async_calls, "stream-ordered allocations: %llu\n"},
        {STATS_async_served, "  of those, served by the pool: %llu\n"},
        {STATS_async_same_stream, "    by what their own stream had freed: %llu\n"},
        {STATS_async_rescued, "  of those, after the device was out of memory: %llu\n"},
        {STATS_async_bytes, "  bytes that they got: %llu\n"},
        {STATS_async_frees, "stream-ordered frees: %llu\n"},
        {STATS_others_asked,
         "other processes on the GPU were asked for idle memory: %llu time%s\n"},
        {STATS_others_answered, "  of those, answered in time: %llu\n"},
        {STATS_others_released_bytes, "  bytes that they released: %llu\n"},
        {STATS_requests_answered, "requests of other processes for idle memory, answered: %llu\n"},
        {STATS_given_up_bytes, "  bytes released because of them: %llu\n"},
        {STATS_bound_released_blocks, "idle blocks released to stay within the bounds: %llu\n"},
        {STATS_bound_postponed,
         "times that the bounds were exceeded until the next free, as the device was busy: %llu\n"},
        {STATS_headroom_released_blocks,
         "idle blocks released to keep memory free for launches: %llu\n"},
        {STATS_bound_misses,
         "allocations that these releases, not the program, made the driver's, at least: %llu\n"},
        {STATS_decayed_blocks,
         "idle blocks released because they were not needed for a while: %llu\n"},
        {STATS_malloc_stitched, "allocations served by idle pages mapped anew: %llu\n"},
        {STATS_map_calls, "calls that map or unmap pages: %llu\n"},
        {STATS_throttled,
         "allocations that waited for pending frees, as the device was crowded: %llu\n"},
        {STATS_free_unknown, "frees of memory that the pool did not allocate: %llu\n"},
        {STATS_free_double, "second frees of the same block, refused: %llu\n"},
        {STATS_tainted_blocks, "blocks shared or registered elsewhere, and so not reused: %llu\n"},
        {STATS_tainted_ipc, "  IPC handle taken: %llu\n"},
        {STATS_tainted_dma_buf, "  handle of the address range taken: %llu\n"},
        {STATS_tainted_p2p_token, "  P2P tokens read: %llu\n"},
        {STATS_tainted_buffer_id, "  BUFFER_ID read: %llu\n"},
        {STATS_tainted_sync_memops, "  SYNC_MEMOPS set: %llu\n"},
        {STATS_tainted_managed, "  managed memory that was discarded: %llu\n"},
        {STATS_tainted_check, "  still looked at by the check: %llu\n"},
        {STATS_capture_passed, "calls passed through during a stream capture: %llu\n"},
        {STATS_unknown_calls, "calls of driver functions newer than this version: %llu\n"},
        {STATS_contexts_ended, "contexts destroyed or reset: %llu\n"},
        {STATS_passed_errors, "calls passed through after a fatal error: %llu\n"},
        {STATS_check_errors, "errors that POOLCUDA_CHECK reported: %llu\n"},
        {STATS_check_unchecked_blocks, "blocks that POOLCUDA_CHECK could not check: %llu\n"},
        {STATS_no_memory_for_records, "blocks not recorded, as the host was out of memory: %llu\n"},
    };
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        uint64_t count = get(page, events[i].counter);
        if (!count)
            continue;
        char line[160];
        format(line, sizeof line, "  %s", events[i].text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" // some have no %s
        emitter_print(emitter, line, (unsigned long long)count, plural(count));
#pragma GCC diagnostic pop
    }
}

static void emit_interception(struct emitter *emitter, const struct stats_page *page) {
    static const struct {
        char key[24], text[48];
    } routes[STATS_ROUTES] = {
#define ROUTE(name, key, text) {key, text},
#include "counters/routes.def"
#undef ROUTE
    };
    const char *separator = "  interception: ";
    emitter_open(emitter, "interception", '{');
    for (size_t i = 0; i < STATS_ROUTES; i++) {
        uint64_t count = stats_read(&page->routes[i]);
        if (!count)
            continue;
        emitter_print(emitter, "%s%llu %s", separator, (unsigned long long)count, routes[i].text);
        emitter_number(emitter, routes[i].key, count);
        separator = ", ";
    }
    emitter_close(emitter, '}');
    if (*separator == ' ')
        emitter_print(emitter, "%snone", separator);
    emitter_print(emitter, "; bypassed:");
    emitter_open(emitter, "bypassed", '[');
    for (uint32_t i = 0; i < page->bypass_count; i++) {
        char module[PAGE_MODULE_NAME], name[sizeof page->bypasses[i].name];
        emitter_print(emitter, "%s %s (bound to the original %s)", i ? "," : "",
                      emitter_clean(module, sizeof module, page->bypasses[i].module),
                      emitter_clean(name, sizeof name, page->bypasses[i].name));
        emitter_open(emitter, NULL, '{');
        emitter_string(emitter, "module", page->bypasses[i].module);
        emitter_string(emitter, "name", page->bypasses[i].name);
        emitter_close(emitter, '}');
    }
    emitter_close(emitter, ']');
    emitter_print(emitter, page->bypass_count ? "\n\n" : " none\n\n");
}

static void emit_history(struct emitter *emitter, const struct stats_device *device) {
    emitter_number(emitter, "interval_ns", stats_read(&device->interval_ns));
    emitter_open(emitter, "samples", '[');
    for (uint32_t i = 0; i < device->sample_count; i++) {
        const struct stats_sample *sample = &device->samples[i];
        emitter_open(emitter, NULL, '[');
        emitter_number(emitter, NULL, stats_read(&sample->time_ns));
        emitter_number(emitter, NULL, stats_read(&sample->in_use));
        emitter_number(emitter, NULL, stats_read(&sample->idle));
        emitter_number(emitter, NULL, stats_read(&sample->waste));
        emitter_number(emitter, NULL, stats_read(&sample->allocations));
        emitter_number(emitter, NULL, stats_read(&sample->hits));
        emitter_close(emitter, ']');
    }
    emitter_close(emitter, ']');
}

static void emit_map(struct emitter *emitter, const struct stats_device *device) {
    if (!device->extent_count)
        return;
    emitter_open(emitter, "map", '{');
    emitter_number(emitter, "time_ns", stats_read(&device->map_time_ns));
    emitter_number(emitter, "left_out", stats_read(&device->map_left_out));
    emitter_open(emitter, "blocks", '[');
    for (uint32_t i = 0; i < device->extent_count; i++) {
        const struct stats_extent *extent = &device->map[i];
        emitter_open(emitter, NULL, '[');
        emitter_number(emitter, NULL, stats_read(&extent->address));
        emitter_number(emitter, NULL, stats_read(&extent->bytes));
        emitter_number(emitter, NULL, extent->idle ? 1 : 0);
        emitter_number(emitter, NULL, extent->site);
        emitter_close(emitter, ']');
    }
    emitter_close(emitter, ']');
    emitter_close(emitter, '}');
}

/* People get the table where the sums above are not one device's. */
static void emit_devices(struct emitter *emitter, const struct stats_page *page) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < PAGE_DEVICES; i++)
        used += stats_read(&page->devices[i].capacity) != 0;
    if (used > 1)
        emitter_print(emitter, "  %-6s %11s %6s %10s %10s %10s %10s %10s %10s\n", "device",
                      "allocations", "hits", "in use", "idle", "waste", "held", "peak held",
                      "capacity");
    emitter_open(emitter, "devices", '[');
    for (uint32_t i = 0; i < PAGE_DEVICES; i++) {
        const struct stats_device *device = &page->devices[i];
        uint64_t capacity = stats_read(&device->capacity),
                 allocations = stats_read(&device->allocations);
        uint64_t in_use = stats_read(&device->in_use), live = stats_read(&device->live);
        uint64_t waste = stats_rest(live, in_use), idle = stats_rest(device->held, live);
        uint64_t held = stats_sum(stats_sum(in_use, waste), idle);
        uint64_t peak_held = stats_read(&device->peak_held);
        if (!capacity)
            continue;
        if (used > 1)
            emitter_print(emitter, "  %-5u%c %11llu %5.1f%% %10s %10s %10s %10s %10s %10s\n", i,
                          i == PAGE_DEVICES - 1 ? '+' : ' ', (unsigned long long)allocations,
                          percent(stats_read(&device->hits), allocations), human(in_use).text,
                          human(idle).text, human(waste).text, human(held).text,
                          human(peak_held).text, human(capacity).text);
        emitter_open(emitter, NULL, '{');
        emitter_number(emitter, "device", i);
        emitter_number(emitter, "capacity_bytes", capacity);
        emitter_number(emitter, "in_use_bytes", in_use);
        emitter_number(emitter, "idle_bytes", idle);
        emitter_number(emitter, "waste_bytes", waste);
        emitter_number(emitter, "held_bytes", held);
        emitter_number(emitter, "peak_live_bytes", stats_read(&device->peak_live));
        emitter_number(emitter, "peak_held_bytes", peak_held);
        emitter_number(emitter, "allocations", allocations);
        emitter_number(emitter, "hits", stats_read(&device->hits));
        emit_history(emitter, device);
        emit_map(emitter, device);
        emitter_close(emitter, '}');
    }
    emitter_close(emitter, ']');
    if (used > 1)
        emitter_print(emitter, "\n");
}

static void emit_modules(struct emitter *emitter, const struct stats_page *page) {
    emitter_open(emitter, "modules", '[');
    for (uint32_t i = 0; i < page->module_count; i++) {
        const struct stats_module *module = &page->modules[i];
        char id[2 * PAGE_BUILD_ID + 1] = "";
        for (size_t b = 0; b < module->build_id_size && b < PAGE_BUILD_ID; b++)
            format(id + 2 * b, 3, "%02x", module->build_id[b]);
        emitter_open(emitter, NULL, '{');
        emitter_string(emitter, "path", module->path);
        emitter_string(emitter, "build_id", id);
        emitter_close(emitter, '}');
    }
    emitter_close(emitter, ']');
}

static int by_peak(const void *one, const void *other) {
    const struct stats_site *a = *(const struct stats_site *const *)one;
    const struct stats_site *b = *(const struct stats_site *const *)other;
    uint64_t peak_a = stats_read(&a->peak_live_bytes), peak_b = stats_read(&b->peak_live_bytes);
    if (peak_a != peak_b)
        return peak_a < peak_b ? 1 : -1;
    return (a > b) - (a < b); /* in the order in which they were met */
}

/* Writes a frame as people read it: the function and its line, or module + offset. Returns the
 * length. */
static size_t name_frame(const struct stats_page *page, const struct stats_names *names,
                         uint32_t module, uint64_t offset, char *text, size_t size) {
    const char *path = page->modules[module].path, *slash = strrchr(path, '/');
    if (!names || !names->place(page, module, offset, text, size, names->state))
        format(text, size, "%s+0x%llx", *path ? slash ? slash + 1 : path : "(unknown)",
               (unsigned long long)offset);
    return strlen(text);
}

void stats_place(const struct stats_page *page, const struct stats_site *site,
                 const struct stats_names *names, char *text, size_t size) {
    size_t length = 0;
    if (site == &page->sites[0]) {
        format(text, size, "(further sites)");
    } else if (site->tag) {
        format(text, size, "[%s]", page->tags[site->tag - 1]);
    } else {
        text[0] = '\0';
        for (uint32_t i = 0; i < site->depth && length + 4 < size; i++) {
            if (i)
                length += (size_t)format(text + length, size - length, " < ");
            length += name_frame(page, names, site->module[i], site->offset[i], text + length,
                                 size - length);
        }
    }
}

static void emit_place(struct emitter *emitter, const struct stats_page *page,
                       const struct stats_names *names, const struct stats_site *site) {
    char text[1024], clean[sizeof text];
    stats_place(page, site, names, text, sizeof text);
    emitter_print(emitter, "%s\n", emitter_clean(clean, sizeof clean, text));
    if (site->tag) {
        emitter_string(emitter, "tag", page->tags[site->tag - 1]);
        return;
    }
    emitter_open(emitter, "frames", '[');
    for (uint32_t i = 0; i < site->depth; i++) {
        emitter_open(emitter, NULL, '{');
        emitter_number(emitter, "module", site->module[i]);
        emitter_number(emitter, "offset", site->offset[i]);
        if (names &&
            names->place(page, site->module[i], site->offset[i], text, sizeof text, names->state))
            emitter_string(emitter, "name", text);
        emitter_close(emitter, '}');
    }
    emitter_close(emitter, ']');
}

static void emit_site(struct emitter *emitter, const struct stats_page *page,
                      const struct stats_names *names, const struct stats_site *site) {
    uint64_t allocations = stats_site_allocations(site), hits = stats_read(&site->hits);
    uint64_t live = stats_read(&site->live_blocks), peak = stats_read(&site->peak_live_bytes);
    uint64_t live_bytes = stats_read(&site->live_bytes);
    uint64_t idle_bytes = stats_rest(stats_read(&site->held_bytes), live_bytes);
    char leaked[32] = "-";
    if (live)
        format(leaked, sizeof leaked, "%llu block%s", (unsigned long long)live, plural(live));
    emitter_print(emitter, "  %11llu %5.1f%% %10s %10s %10s  %-21s ",
                  (unsigned long long)allocations, percent(hits, allocations), human(peak).text,
                  human(live_bytes).text, human(idle_bytes).text, leaked);
    emitter_open(emitter, NULL, '{');
    emitter_number(emitter, "id", (uint64_t)(site - page->sites));
    emitter_number(emitter, "allocations", allocations);
    emitter_number(emitter, "hits", hits);
    emitter_number(emitter, "allocated_bytes", stats_read(&site->allocated_bytes));
    emitter_number(emitter, "live_blocks", live);
    emitter_number(emitter, "live_bytes", live_bytes);
    emitter_number(emitter, "peak_live_bytes", peak);
    emitter_number(emitter, "idle_blocks", stats_rest(stats_read(&site->held_blocks), live));
    emitter_number(emitter, "idle_bytes", idle_bytes);
    if (stats_site_least(site))
        emitter_number(emitter, "least_bytes", stats_site_least(site));
    if (site->memory && site->memory < STATS_MEMORIES + 2)
        emitter_string(emitter, "memory", saving_memories[site->memory]);
    emit_place(emitter, page, names, site);
    emitter_close(emitter, '}');
}

/* The library knows no options: it says which command has one. */
static void print_further(struct emitter *emitter, size_t count, bool by_library) {
    if (!count)
        return;
    emitter_print(emitter, "  and %llu more site%s with lower peaks: ", (unsigned long long)count,
                  count == 1 ? "" : "s");
    emitter_print(emitter, by_library ? "run with POOLCUDA_STATS_FILE=run.json instead of "
                                        "POOLCUDA_STATS=1; "
                                        "`poolcuda report --sites=all run.json` lists all\n"
                                      : "--sites=all lists all\n");
}

static void emit_sites(struct emitter *emitter, const struct stats_page *page,
                       const struct stats_names *names, size_t most) {
    /* static: the report is made once, at exit, when the heap may no longer be sound. */
    static const struct stats_site *sorted[PAGE_SITES];
    size_t count = 0;
    for (uint32_t i = 0; i < page->site_count; i++)
        if (page->sites[i].depth && stats_site_allocations(&page->sites[i]))
            sorted[count++] = &page->sites[i];
    qsort(sorted, count, sizeof sorted[0], by_peak); // NOLINT(bugprone-sizeof-expression): pointers
    if (count)
        emitter_print(emitter, "  %11s %6s %10s %10s %10s  %-21s site\n", "allocations", "hits",
                      "peak", "live", "idle", page->finished ? "leaked at exit" : "live blocks");
    emitter_open(emitter, "sites", '[');
    size_t shown = emitter->json || count < most ? count : most;
    for (size_t i = 0; i < shown; i++)
        emit_site(emitter, page, names, sorted[i]);
    emitter_close(emitter, ']');
    print_further(emitter, count - shown, !names);
}

static void emit_shortage(struct emitter *emitter, const struct stats_page *page) {
    char line[PAGE_SHORTAGE], clean[PAGE_SHORTAGE];
    for (const char *text = page->shortage; *text;) {
        const char *end = strchr(text, '\n');
        size_t length = end ? (size_t)(end - text) : strlen(text);
        memcpy(line, text, length);
        line[length] = '\0';
        emitter_print(emitter, "%s%s\n", text == page->shortage ? "\n" : "",
                      emitter_clean(clean, sizeof clean, line));
        text += length + (end != NULL);
    }
}

/* What the program could not write to its logs. */
static void emit_lost(struct emitter *emitter, const struct stats_page *page) {
    static const struct {
        enum stats_counter counter;
        const char *option;
    } logs[] = {{STATS_log_lost, "POOLCUDA_LOG"}, {STATS_check_lost, "POOLCUDA_CHECK_LOG"}};
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++)
        if (get(page, logs[i].counter))
            emitter_print(emitter, "  %s: %llu of its reports could not be written\n\n",
                          logs[i].option, (unsigned long long)get(page, logs[i].counter));
}

void stats_report(const struct stats_page *page, enum stats_form form,
                  const struct stats_names *names, size_t most_sites,
                  void (*write)(const char *text, size_t length, void *state), void *state) {
    struct emitter out = {.json = form == STATS_JSON, .write = write, .state = state};
    struct emitter *emitter = &out;
    emitter_open(emitter, NULL, '{');
    emit_head(emitter, page);
    report_gain(emitter, page);
    emit_equation(emitter, page);
    emit_counters(emitter, page);
    emit_calls(emitter, page);
    emit_events(emitter, page);
    emit_interception(emitter, page);
    if (*page->trace) {
        char trace[PAGE_TRACE];
        emitter_print(emitter, "  trace: %s, %llu event%s, of which %llu lost\n\n",
                      emitter_clean(trace, sizeof trace, page->trace),
                      (unsigned long long)get(page, STATS_trace_events),
                      plural(get(page, STATS_trace_events)),
                      (unsigned long long)get(page, STATS_trace_lost));
    }
    emit_lost(emitter, page);
    if (*page->tools) {
        char tools[PAGE_TOOLS];
        emitter_print(emitter, "  tools in this process: %s\n\n",
                      emitter_clean(tools, sizeof tools, page->tools));
    }
    emit_devices(emitter, page);
    emit_modules(emitter, page);
    emit_sites(emitter, page, names, most_sites);
    emit_shortage(emitter, page);
    emitter_close(emitter, '}');
}
