/* Chrome's trace event format, which Perfetto reads: each device's memory and hit rate as counters
 * over time, a process for each run. Times are microseconds since the first run began. */
#include "cli/views/stack.h"

#include "report/emitter.h"

#include <string.h>

/* Opens an event, and its arguments. */
static void begin_event(struct emitter *emitter, const char *kind, size_t process,
                        const char *name) {
    emitter_open(emitter, NULL, '{');
    emitter_string(emitter, "ph", kind);
    emitter_number(emitter, "pid", process);
    emitter_string(emitter, "name", name);
}

static void end_event(struct emitter *emitter) {
    emitter_close(emitter, '}');
    emitter_close(emitter, '}');
}

static void emit_process(struct emitter *emitter, const struct stats_page *page, size_t process) {
    char name[PAGE_COMMAND + PAGE_HOST + 64], rank[24] = "";
    if (page->rank >= 0)
        snprintf(rank, sizeof rank, ", rank %d", (int)page->rank);
    snprintf(name, sizeof name, "%s, process %llu%s%s%s", stack_program(page),
             (unsigned long long)page->process, *page->host ? " on " : "", page->host, rank);
    begin_event(emitter, "M", process, "process_name");
    emitter_open(emitter, "args", '{');
    emitter_string(emitter, "name", name);
    end_event(emitter);
    begin_event(emitter, "M", process, "process_sort_index");
    emitter_open(emitter, "args", '{');
    emitter_number(emitter, "sort_index", process);
    end_event(emitter);
}

/* A counter's event, of which only its arguments' values are left to write. */
static void begin_counter(struct emitter *emitter, size_t process, uint32_t device,
                          const char *name, uint64_t time_ns) {
    char whole[64];
    snprintf(whole, sizeof whole, "device %u: %s", device, name);
    begin_event(emitter, "C", process, whole);
    emitter_decimal(emitter, "ts", (double)time_ns / 1e3);
    emitter_open(emitter, "args", '{');
}

/* The values whose sum is what is held are one counter: its reader stacks them. */
static void emit_device(struct emitter *emitter, const struct stats_device *device, uint32_t index,
                        size_t process, uint64_t start_ns) {
    uint64_t allocations = 0, hits = 0;
    for (uint32_t i = 0; i < device->sample_count; i++) {
        const struct stats_sample *sample = &device->samples[i];
        uint64_t time = start_ns + stats_read(&sample->time_ns);
        uint64_t in_use = stats_read(&sample->in_use), idle = stats_read(&sample->idle);
        uint64_t waste = stats_read(&sample->waste);
        begin_counter(emitter, process, index, "memory (bytes)", time);
        emitter_number(emitter, "in use", in_use);
        emitter_number(emitter, "waste", waste);
        emitter_number(emitter, "idle", idle);
        end_event(emitter);
        begin_counter(emitter, process, index, "held (bytes)", time);
        emitter_number(emitter, "held", stats_sum(stats_sum(in_use, idle), waste));
        end_event(emitter);
        uint64_t more = stats_read(&sample->allocations) - allocations;
        uint64_t more_hits = stats_read(&sample->hits) - hits;
        if (stats_read(&sample->allocations) <= allocations || stats_read(&sample->hits) < hits)
            continue; /* no allocation in this time, so no rate of it */
        if (more_hits > more)
            more_hits =
                more; /* a moment between an allocation and its hit: the rest is the next's */
        begin_counter(emitter, process, index, "hit rate (%)", time);
        emitter_decimal(emitter, "hit rate", 100.0 * (double)more_hits / (double)more);
        end_event(emitter);
        allocations += more;
        hits += more_hits;
    }
}

bool view_perfetto(FILE *file, const struct view_input *input) {
    struct emitter out = {.json = true, .write = stack_write, .state = file};
    struct emitter *emitter = &out;
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < input->count; i++)
        if (input->pages[i]->start_wall_ns < first)
            first = input->pages[i]->start_wall_ns;
    emitter_open(emitter, NULL, '{');
    emitter_string(emitter, "displayTimeUnit", "ms");
    emitter_open(emitter, "otherData", '{');
    emitter_string(emitter, "writer", "poolcuda " POOLCUDA_VERSION);
    emitter_close(emitter, '}');
    emitter_open(emitter, "traceEvents", '[');
    for (size_t i = 0; i < input->count; i++) {
        const struct stats_page *page = input->pages[i];
        emit_process(emitter, page, i + 1);
        for (uint32_t d = 0; d < PAGE_DEVICES; d++)
            if (stats_read(&page->devices[d].capacity))
                emit_device(emitter, &page->devices[d], d, i + 1, page->start_wall_ns - first);
    }
    emitter_close(emitter, ']');
    emitter_close(emitter, '}');
    return true;
}
