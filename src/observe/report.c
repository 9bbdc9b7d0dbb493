/* The text report, made from a stats page. */
#include "format.h"
#include "observe/human.h"
#include "observe/page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct sink {
    void (*write)(const char *text, size_t length, void *state);
    void *state;
};

__attribute__((format(printf, 2, 3))) static void emit(const struct sink *sink, const char *pattern,
                                                       ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, pattern);
    int length = vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    if (length > 0)
        sink->write(text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1,
                    sink->state);
}

static uint64_t get(const struct stats_page *page, enum stats_counter counter) {
    return atomic_load_explicit(&page->counters[counter], memory_order_relaxed);
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void emit_equation(const struct sink *sink, const struct stats_page *page) {
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
        emit(sink, "  %s %20llu bytes  %10s  %s\n", rows[i].sign, (unsigned long long)bytes,
             human(bytes).text, rows[i].meaning);
    }
    emit(sink, "    at their peak: %s live, %s held\n",
         human(get(page, STATS_peak_live_bytes)).text,
         human(get(page, STATS_peak_held_bytes)).text);
    uint64_t idle = get(page, STATS_idle_bytes), largest = get(page, STATS_largest_idle_bytes);
    if (largest && largest <= idle)
        emit(sink, "    idle in %llu blocks, the largest of %s: %.1f%% fragmented\n",
             (unsigned long long)get(page, STATS_idle_blocks), human(largest).text,
             percent(idle - largest, idle));
    emit(sink, "\n");
}

static uint64_t figure(const _Atomic uint64_t *value) {
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)value, memory_order_relaxed);
}

/* What made frees wait: what POOLCUDA_FREE=defer would save. */
static void emit_waits(const struct sink *sink, const struct stats_page *page) {
    static const char *const reasons[WAIT_REASONS] = {
#define WAIT_REASON(name, text) text,
#include "observe/wait_reasons.def"
#undef WAIT_REASON
    };
    uint64_t owed = get(page, STATS_waits_owed), deferred = get(page, STATS_free_deferred);
    for (size_t i = 0; i < WAIT_REASONS; i++)
        if (figure(&page->waits[i]))
            emit(sink, "    waited because of %s: %llu\n", reasons[i],
                 (unsigned long long)figure(&page->waits[i]));
    if (owed)
        emit(sink, "    waits put off: %llu, made later: %llu, spared: %llu\n",
             (unsigned long long)owed, (unsigned long long)get(page, STATS_waits_paid),
             (unsigned long long)(owed - get(page, STATS_waits_paid)));
    for (uint32_t i = 0; i < page->payer_count; i++)
        emit(sink, "    made later, before %s: %llu\n", page->payers[i].name,
             (unsigned long long)figure(&page->payers[i].count));
    if (deferred)
        emit(sink, "    kept behind fences: %llu, fences: %llu, allocations that waited: %llu\n",
             (unsigned long long)deferred, (unsigned long long)get(page, STATS_fences),
             (unsigned long long)get(page, STATS_fences_waited));
}

static void emit_calls(const struct sink *sink, const struct stats_page *page) {
    uint64_t calls = get(page, STATS_malloc_calls), hits = get(page, STATS_malloc_hits);
    uint64_t kept = get(page, STATS_free_kept);
    emit(sink,
         "  allocations: %llu, of which %llu from idle memory (%.1f%%, %llu another site's)\n",
         (unsigned long long)calls, (unsigned long long)hits, percent(hits, calls),
         (unsigned long long)get(page, STATS_malloc_stolen));
    emit(sink, "  frees: %llu, of which %llu kept, %llu waited for the device\n",
         (unsigned long long)get(page, STATS_free_calls), (unsigned long long)kept,
         (unsigned long long)get(page, STATS_free_waited));
    emit_waits(sink, page);
    uint64_t given = get(page, STATS_driver_frees);
    emit(sink, "  driver calls: %llu allocations and %llu frees made, %llu avoided\n",
         (unsigned long long)get(page, STATS_driver_allocs), (unsigned long long)given,
         (unsigned long long)(hits + kept > given ? hits + kept - given : 0));
}

/* Everything that is zero in an uneventful run is left out. */
static void emit_events(const struct sink *sink, const struct stats_page *page) {
    static const struct {
        enum stats_counter counter;
        const char *text;
    } events[] = {
        {STATS_oom_events, "out of memory: %llu times\n"},
        {STATS_oom_released_blocks, "  idle blocks released because of that: %llu\n"},
        {STATS_oom_rescued, "  allocations that then succeeded: %llu\n"},
        {STATS_bound_released_blocks, "released to stay within the bounds: %llu blocks\n"},
        {STATS_bound_postponed, "bounds exceeded until the next free, device busy: %llu times\n"},
        {STATS_decayed_blocks, "released because they were not needed for a while: %llu blocks\n"},
        {STATS_malloc_stitched, "allocations served by idle pages mapped anew: %llu\n"},
        {STATS_map_calls, "calls that map or unmap pages: %llu\n"},
        {STATS_throttled, "allocations that waited for pending frees, device crowded: %llu\n"},
        {STATS_free_unknown, "frees of memory that the pool did not allocate: %llu\n"},
        {STATS_free_double, "second frees, refused: %llu\n"},
        {STATS_headroom_released_blocks, "released to keep memory for launches: %llu blocks\n"},
        {STATS_tainted_blocks, "blocks shared or registered elsewhere, not recycled: %llu\n"},
        {STATS_tainted_ipc, "  IPC handle taken: %llu\n"},
        {STATS_tainted_dma_buf, "  handle of an address range taken: %llu\n"},
        {STATS_tainted_p2p_token, "  P2P tokens read: %llu\n"},
        {STATS_tainted_buffer_id, "  BUFFER_ID read: %llu\n"},
        {STATS_tainted_sync_memops, "  SYNC_MEMOPS set: %llu\n"},
        {STATS_capture_passed, "calls passed through during a stream capture: %llu\n"},
        {STATS_contexts_ended, "contexts destroyed or reset: %llu\n"},
        {STATS_passed_errors, "calls passed through after a fatal error: %llu\n"},
        {STATS_no_memory_for_records, "blocks not recorded, host out of memory: %llu\n"},
    };
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        uint64_t count = get(page, events[i].counter);
        if (!count)
            continue;
        char line[160];
        format(line, sizeof line, "  %s", events[i].text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        emit(sink, line, (unsigned long long)count);
#pragma GCC diagnostic pop
    }
}

static void emit_interception(const struct sink *sink, const struct stats_page *page) {
    static const char *const names[STATS_ROUTES] = {
        [STATS_ROUTE_DLSYM] = "dlsym lookups",
        [STATS_ROUTE_GET_PROC_ADDRESS] = "cuGetProcAddress lookups",
        [STATS_ROUTE_GET_PROC_ADDRESS_V2] = "cuGetProcAddress_v2 lookups",
        [STATS_ROUTE_DRIVER_LINKED] = "driver-linked sites",
        [STATS_ROUTE_RUNTIME_SHARED] = "shared runtime calls",
        [STATS_ROUTE_RUNTIME_STATIC] = "static runtime sites learnt",
    };
    const char *separator = "  interception: ";
    for (size_t i = 0; i < STATS_ROUTES; i++) {
        uint64_t count = atomic_load_explicit(&page->routes[i], memory_order_relaxed);
        if (!count)
            continue;
        emit(sink, "%s%llu %s", separator, (unsigned long long)count, names[i]);
        separator = ", ";
    }
    if (*separator == ' ')
        emit(sink, "%snone", separator);
    emit(sink, "; bypassed:");
    for (uint32_t i = 0; i < page->bypass_count; i++)
        emit(sink, "%s %s (bound to the original %s)", i ? "," : "", page->bypasses[i].module,
             page->bypasses[i].name);
    emit(sink, page->bypass_count ? "\n\n" : " none\n\n");
}

static int by_peak(const void *one, const void *other) {
    const struct stats_site *a = *(const struct stats_site *const *)one;
    const struct stats_site *b = *(const struct stats_site *const *)other;
    uint64_t peak_a = figure(&a->peak_live_bytes), peak_b = figure(&b->peak_live_bytes);
    return (peak_a < peak_b) - (peak_a > peak_b);
}

static void emit_place(const struct sink *sink, const struct stats_page *page,
                       const struct stats_site *site) {
    if (site == &page->sites[0]) {
        emit(sink, "(further sites)\n");
        return;
    }
    for (uint32_t i = 0; i < site->depth; i++) {
        const char *module = page->modules[site->module[i]];
        const char *slash = strrchr(module, '/');
        emit(sink, "%s%s+0x%llx", i ? " < " : "",
             *module ? (slash ? slash + 1 : module) : "(unknown)",
             (unsigned long long)site->offset[i]);
    }
    emit(sink, "\n");
}

static void emit_sites(const struct sink *sink, const struct stats_page *page) {
    /* static: the report is made once, at exit, when the heap may no longer be sound. */
    static const struct stats_site *sorted[PAGE_SITES];
    size_t count = 0;
    for (uint32_t i = 0; i < page->site_count; i++)
        if (page->sites[i].depth && figure(&page->sites[i].allocations))
            sorted[count++] = &page->sites[i];
    if (!count)
        return;
    qsort(sorted, count, sizeof sorted[0], by_peak); // NOLINT(bugprone-sizeof-expression): pointers
    emit(sink, "  %11s %6s %10s %10s %10s  %-21s site\n", "allocations", "hits", "peak", "live",
         "idle", page->finished ? "leaked at exit" : "live blocks");
    for (size_t i = 0; i < count; i++) {
        const struct stats_site *site = sorted[i];
        uint64_t allocations = figure(&site->allocations), live = figure(&site->live_blocks);
        char leaked[32] = "-";
        if (live)
            format(leaked, sizeof leaked, "%llu blocks", (unsigned long long)live);
        emit(sink, "  %11llu %5.1f%% %10s %10s %10s  %-21s ", (unsigned long long)allocations,
             percent(figure(&site->hits), allocations), human(figure(&site->peak_live_bytes)).text,
             human(figure(&site->live_bytes)).text, human(figure(&site->idle_bytes)).text, leaked);
        emit_place(sink, page, site);
    }
}

void stats_report(const struct stats_page *page,
                  void (*write)(const char *text, size_t length, void *state), void *state) {
    const struct sink sink = {write, state};
    emit(&sink, "poolcuda " POOLCUDA_VERSION ": %s, process %llu%s\n\n", page->command,
         (unsigned long long)page->process, page->finished ? "" : " (running or killed)");
    emit_equation(&sink, page);
    emit_calls(&sink, page);
    emit_events(&sink, page);
    emit_interception(&sink, page);
    if (*page->trace)
        emit(&sink, "  trace: %s, %llu events, of which %llu lost\n\n", page->trace,
             (unsigned long long)get(page, STATS_trace_events),
             (unsigned long long)get(page, STATS_trace_lost));
    if (*page->tools)
        emit(&sink, "  tools in this process: %s\n\n", page->tools);
    emit_sites(&sink, page);
    if (*page->shortage)
        emit(&sink, "\n%s", page->shortage);
}
