/* The readers of traces on any file: what they accept keeps what a trace promises and can be
 * written and read again, and what they refuse is told in one harmless line. */
#include "trace/record_format.h"
#include "trace/trace.h"
#include "trace/write_csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 1 << 16, RAW = 3, BASES };

struct bytes {
    size_t size;
    uint8_t data[ROOM];
};

static char path[64];
static int lines;

static void say(const char *line) {
    if (!strstr(line, path) || !strstr(line, "expected") || lines++)
        abort();
    for (; *line; line++)
        if (*line < ' ' || *line > '~')
            abort();
}

static void check(const struct trace *trace) {
    uint64_t time = 0, peak = 0;
    uint32_t blocks = 0;
    uint8_t *live = calloc(trace->block_count + 1, 1);
    if (!live || !trace->stream_count || !trace->device_count)
        abort();
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->time_ns < time || event->site >= trace->site_count ||
            event->stream >= trace->stream_count || event->device >= trace->device_count)
            abort();
        time = event->time_ns;
        if (event->op == TRACE_ALLOC) {
            if (event->block != blocks || !event->value)
                abort();
            live[blocks++] = 1;
            peak += event->value > trace->peak_live_bytes; /* one block is no more than all */
        } else if (event->op == TRACE_FREE) {
            if (event->block >= blocks || !live[event->block])
                abort();
            live[event->block] = 0;
        }
    }
    if (blocks != trace->block_count || peak)
        abort();
    for (size_t i = 0; i < trace->site_count; i++)
        if (strlen(trace->sites[i].name) >= 1 << 24)
            abort();
    free(live);
}

/* Writes the trace into a file in memory, which `path` then names. */
static int write_out(const struct trace *trace) {
    int memory = memfd_create("written", 0);
    FILE *out = fdopen(dup(memory), "w");
    if (memory < 0 || !out || !trace_write_csv(trace, out) || fclose(out) != 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    return memory;
}

static void check_written(const struct trace *trace) {
    int memory = write_out(trace);
    struct trace *again = trace_read(path, say);
    if (!again || again->event_count != trace->event_count ||
        again->site_count != trace->site_count || again->stream_count != trace->stream_count ||
        again->peak_live_bytes != trace->peak_live_bytes)
        abort();
    trace_free(again);
    close(memory);
}

static void put(struct bytes *file, const void *data, size_t size) {
    memcpy(file->data + file->size, data, size);
    file->size += size;
}

static void put_event(struct bytes *file, enum record_kind kind, uint64_t time, uint64_t pointer,
                      uint64_t value) {
    struct record_event event = {{(uint8_t)kind, 0, 0, 0}, time, pointer, value, 0};
    put(file, &event, sizeof event);
}

static void make_raw(struct bytes *file) {
    struct record_header header = {.magic = RECORD_MAGIC,
                                   .version = RECORD_VERSION,
                                   .header_size = sizeof header,
                                   .clock = RECORD_CLOCK_MONOTONIC};
    struct record_head module = {RECORD_MODULE, 0, 4, 4}, site = {RECORD_SITE, 0, 1, 0};
    struct record_head name = {RECORD_SITE_NAME, 0, 0, 8};
    struct record_frame frame = {16, 1, 0};
    struct record_end end = {{.kind = RECORD_END}, 1};
    put(file, &header, sizeof header);
    put(file, &module, sizeof module);
    put(file, "\1\2\3\4/lib", 8);
    put(file, &site, sizeof site);
    put(file, &frame, sizeof frame);
    put(file, &name, sizeof name);
    put(file, "a layer.", 8);
    put_event(file, RECORD_ALLOC, 1, 4096, 100);
    put_event(file, RECORD_ALLOC, 2, 8192, 200);
    put_event(file, RECORD_FREE, 3, 4096, 0);
    put_event(file, RECORD_FREE, 4, 8192, 0);
    put_event(file, RECORD_FREE_FAILED, 5, 8192, 3);
    put_event(file, RECORD_KERNEL, 6, 0, 500);
    put(file, &end, sizeof end);
}

/* A good file of each format, one of no format, and each of them compressed. */
static void make_base(struct bytes *file, unsigned which) {
    static const char csv[] = "t_us,op,id,size,stream,site\n"
                              "0,A,1,100,5,\"x\"\n1.5,K,,2,5,\n2,F,1,,,\n3,D,,,,\n";
    static const char rmm[] = "Thread,Time,Action,Pointer,Size,Stream\n"
                              "1,10:00:00.5,allocate,0x10,5,0x0\n1,10:00:01:5,free,0x10,5,0x0\n"
                              "1,10:00:02,allocate failure,(nil),9,0x1\n";
    static const char *const texts[] = {"", csv, rmm};
    static struct bytes packed;
    file->size = 0;
    if (which % BASES == RAW)
        make_raw(file);
    else
        put(file, texts[which % BASES], strlen(texts[which % BASES]));
    if (which < BASES)
        return;
    z_stream stream = {.next_in = file->data,
                       .avail_in = (unsigned)file->size,
                       .next_out = packed.data,
                       .avail_out = ROOM};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_FIXED) != Z_OK ||
        deflate(&stream, Z_FINISH) != Z_STREAM_END)
        abort();
    packed.size = ROOM - stream.avail_out;
    deflateEnd(&stream);
    *file = packed;
}

/* A base with the input written over it from a place that the input chooses, or, if the last byte
 * says so, cut off there. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct bytes file;
    if (size < 4 || size > 4096)
        return 0;
    make_base(&file, data[0] % (2 * BASES));
    size_t where = (data[1] | (size_t)data[2] << 8) % (file.size + 1);
    bool cut = data[size - 1] % 4 == 0;
    memcpy(file.data + where, data + 3, size - 3);
    if (cut || file.size < where + size - 3)
        file.size = where + size - 3;
    int memory = memfd_create("trace", 0);
    if (memory < 0 || write(memory, file.data, file.size) != (ssize_t)file.size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    lines = 0;
    struct trace *trace = trace_read(path, say);
    if (!trace == !lines)
        abort();
    if (trace) {
        check(trace);
        check_written(trace);
    }
    trace_free(trace);
    close(memory);
    return 0;
}
