/* An allocation trace in memory: what `poolcuda` replays, converts and tunes from, whatever format
 * its file has. */
#ifndef POOLCUDA_TRACE_TRACE_H
#define POOLCUDA_TRACE_TRACE_H

#include "base/command_line.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_op {
    TRACE_ALLOC,       /* value: bytes, at least 1 */
    TRACE_FREE,        /* value: unused */
    TRACE_KERNEL,      /* value: duration in nanoseconds, 0 if unknown */
    TRACE_COPY,        /* value: bytes */
    TRACE_STREAM_WAIT, /* the host waits for a stream or an event */
    TRACE_DEVICE_WAIT  /* the host waits for the device */
};

/* One event. block: of ALLOC and FREE, numbered 0, 1, ... in the order of allocation; the ALLOC of
 * a block precedes its FREE, and each block has one ALLOC and at most one FREE. stream: 0 is the
 * default stream. */
struct trace_event {
    uint64_t time_ns; /* since the trace's beginning; never decreases */
    uint64_t value;
    uint32_t block;
    uint32_t site; /* index into the trace's sites */
    uint32_t stream;
    uint16_t device; /* of FREE: that of its ALLOC */
    uint8_t op;      /* enum trace_op */
};

/* A site's name: free text of the recorded program, or module+offset; "" where unknown. */
struct trace_site {
    char *name;
};

struct trace_site_index;

/* Invariant: every event keeps what is said above; sites and streams are small numbers, given in
 * order of appearance. peak_live_bytes sums requests, which together are less than 2^64. */
struct trace {
    struct trace_event *events;
    size_t event_count;
    struct trace_site *sites;
    size_t site_count;
    size_t block_count;
    uint32_t stream_count, device_count; /* at least 1 */
    uint64_t peak_live_bytes;
    bool cut_off;         /* the recorded program was killed: our own format without its end */
    uint64_t lost_events; /* events that the recorder could not write, at the end */
    struct command_line command_line; /* of the recorded program, sound */

    /* Members that are trace.c's own. */
    size_t event_room, site_room, block_room;
    uint64_t live_bytes;
    uint64_t *block_bytes; /* 0 once a block is free */
    struct trace_site_index *site_index;
};

/* Reads a trace in any of the known formats (docs/traces.md), plain, gzip- or zstd-compressed; its
 * contents say which one it is. Returns NULL after one line through say(): file, line number (for
 * text) or offset (for our own format), what was expected. Free with trace_free. */
struct trace *trace_read(const char *path, void (*say)(const char *line));
void trace_free(struct trace *trace);

/* Tells in one line if events of the recorded program are missing. */
void trace_tell_loss(const struct trace *trace, const char *path, void (*say)(const char *line));

/* An empty trace to be filled, and freed with trace_free; NULL without memory. */
struct trace *trace_new(void);

/* Appends an event, which must keep the invariant. False without memory: nothing has changed. */
bool trace_append(struct trace *trace, const struct trace_event *event);

/* Sets *site to the number of the site named `name`, a new one if need be. False without memory. */
bool trace_name_site(struct trace *trace, const char *name, uint32_t *site);

#endif
