/* A trace that grows. */
#include "trace/trace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM   1
#define uthash_malloc(size) calloc(1, size)
#include <uthash.h>

struct trace_site_index {
    uint32_t site;
    UT_hash_handle hh;
    char name[];
};

struct trace *trace_new(void) {
    struct trace *trace = calloc(1, sizeof *trace);
    if (trace)
        trace->stream_count = trace->device_count = 1;
    return trace;
}

void trace_free(struct trace *trace) {
    struct trace_site_index *entry, *next;
    if (!trace)
        return;
    HASH_ITER (hh, trace->site_index, entry, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DEL(trace->site_index, entry);
        free(entry);
    }
    for (size_t i = 0; i < trace->site_count; i++)
        free(trace->sites[i].name);
    free(trace->sites);
    free(trace->events);
    free(trace->block_bytes);
    free(trace);
}

/* Makes room for one more element. Returns the array, which may have moved, or NULL. */
static void *grown(void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    size_t more = *room ? 2 * *room : 64;
    void *bigger = reallocarray(array, more, size);
    if (bigger)
        *room = more;
    return bigger;
}

static bool add_block(struct trace *trace, uint64_t bytes) {
    uint64_t *block_bytes =
        grown(trace->block_bytes, trace->block_count, &trace->block_room, sizeof *block_bytes);
    if (!block_bytes)
        return false;
    trace->block_bytes = block_bytes;
    block_bytes[trace->block_count++] = bytes;
    trace->live_bytes += bytes;
    if (trace->live_bytes > trace->peak_live_bytes)
        trace->peak_live_bytes = trace->live_bytes;
    return true;
}

bool trace_append(struct trace *trace, const struct trace_event *event) {
    assert(event->site < trace->site_count);
    assert(!trace->event_count || event->time_ns >= trace->events[trace->event_count - 1].time_ns);
    struct trace_event *events =
        grown(trace->events, trace->event_count, &trace->event_room, sizeof *events);
    if (!events)
        return false;
    trace->events = events;
    if (event->op == TRACE_ALLOC) {
        assert(event->block == trace->block_count && event->value > 0 &&
               trace->live_bytes + event->value > trace->live_bytes);
        if (!add_block(trace, event->value))
            return false;
    } else if (event->op == TRACE_FREE) {
        assert(event->block < trace->block_count && trace->block_bytes[event->block]);
        trace->live_bytes -= trace->block_bytes[event->block];
        trace->block_bytes[event->block] = 0;
    }
    events[trace->event_count++] = *event;
    if (event->stream >= trace->stream_count)
        trace->stream_count = event->stream + 1;
    if (event->device >= trace->device_count)
        trace->device_count = event->device + 1u;
    return true;
}

static bool add_site(struct trace *trace, const char *name, uint32_t *site) {
    struct trace_site *sites =
        grown(trace->sites, trace->site_count, &trace->site_room, sizeof *sites);
    if (!sites)
        return false;
    trace->sites = sites;
    char *copy = strdup(name);
    if (!copy)
        return false;
    *site = (uint32_t)trace->site_count;
    sites[trace->site_count++].name = copy;
    return true;
}

bool trace_name_site(struct trace *trace, const char *name, uint32_t *site) {
    size_t length = strlen(name);
    struct trace_site_index *entry;
    HASH_FIND(hh, trace->site_index, name, length, entry);
    if (entry) {
        *site = entry->site;
        return true;
    }
    entry = calloc(1, sizeof *entry + length + 1);
    if (!entry)
        return false;
    memcpy(entry->name, name, length + 1);
    HASH_ADD_KEYPTR(hh, trace->site_index, entry->name, length, entry);
    if (!entry->hh.tbl) {
        free(entry);
        return false;
    }
    if (!add_site(trace, name, &entry->site)) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DEL(trace->site_index, entry);
        free(entry);
        return false;
    }
    *site = entry->site;
    return true;
}
