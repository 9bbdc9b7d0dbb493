/* Reading a trace: which format it has, and what all formats do alike. */
#include "trace/reader.h"

#include "trace/fields.h"
#include "trace/record_format.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM   1
#define uthash_malloc(size) calloc(1, size)
#include <uthash.h>

struct live_block {
    uint64_t key;
    uint32_t block;
    uint16_t device;
    UT_hash_handle hh;
};

struct known_stream {
    uint64_t handle;
    uint32_t number;
    UT_hash_handle hh;
};

bool reader_fail(struct reader *reader, const char *pattern, ...) {
    char text[600];
    int length;
    if (reader->failed)
        return false;
    reader->failed = true;
    if (reader->binary)
        length = snprintf(text, sizeof text, "%.300s: offset %llu: ", reader->path,
                          (unsigned long long)reader->offset);
    else if (reader->line)
        length = snprintf(text, sizeof text, "%.300s:%llu: ", reader->path,
                          (unsigned long long)reader->line);
    else
        length = snprintf(text, sizeof text, "%.300s: ", reader->path);
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(text + length, sizeof text - (size_t)length, pattern, arguments);
    va_end(arguments);
    for (char *letter = text; *letter; letter++)
        if ((unsigned char)*letter < ' ' || *letter == 0x7f)
            *letter = '?'; /* of the path */
    reader->say(text);
    return false;
}

bool reader_fail_memory(struct reader *reader) {
    return reader_fail(reader, "out of memory, expected a trace that fits into memory");
}

bool reader_ended(struct reader *reader) {
    const char *problem = input_problem(reader->input);
    return problem ? reader_fail(reader, "%s", problem) : true;
}

struct shown show(const char *text) {
    enum { SHOWN = 48 };
    struct shown shown;
    size_t i = 0;
    for (; text[i] && i < SHOWN; i++)
        shown.text[i] = text[i] >= ' ' && text[i] <= '~' && text[i] != '"' ? text[i] : '?';
    snprintf(shown.text + i, sizeof shown.text - i, "%s", text[i] ? "..." : "");
    return shown;
}

static bool stream_number(struct reader *reader, uint64_t handle, uint32_t *number) {
    struct known_stream *stream;
    *number = 0;
    if (!handle)
        return true;
    HASH_FIND(hh, reader->streams, &handle, sizeof handle, stream);
    if (!stream) {
        stream = calloc(1, sizeof *stream);
        if (!stream)
            return reader_fail_memory(reader);
        stream->handle = handle;
        stream->number = HASH_COUNT(reader->streams) + 1;
        HASH_ADD(hh, reader->streams, handle, sizeof stream->handle, stream);
        if (!stream->hh.tbl) {
            free(stream);
            return reader_fail_memory(reader);
        }
    }
    *number = stream->number;
    return true;
}

static bool append(struct reader *reader, struct trace_event *event, uint64_t stream) {
    return stream_number(reader, stream, &event->stream) &&
           (trace_append(reader->trace, event) || reader_fail_memory(reader));
}

bool reader_add(struct reader *reader, const struct trace_event *event, uint64_t stream) {
    struct trace_event added = *event;
    return append(reader, &added, stream);
}

static struct live_block *find_live(const struct reader *reader, uint64_t key) {
    struct live_block *block;
    HASH_FIND(hh, reader->live, &key, sizeof key, block);
    return block;
}

bool reader_is_live(const struct reader *reader, uint64_t key) {
    return find_live(reader, key) != NULL;
}

bool reader_alloc(struct reader *reader, struct trace_event event, uint64_t key, uint64_t stream) {
    uint64_t live = 0;
    if (__builtin_add_overflow(reader->trace->live_bytes, event.value, &live))
        return reader_fail(reader, "%llu bytes, expected less than 2^64 bytes live at once",
                           (unsigned long long)event.value);
    if (reader->trace->block_count == UINT32_MAX)
        return reader_fail(reader, "expected fewer than 2^32 allocations");
    struct live_block *block = calloc(1, sizeof *block);
    if (!block)
        return reader_fail_memory(reader);
    event.op = TRACE_ALLOC;
    event.block = block->block = (uint32_t)reader->trace->block_count;
    block->key = key;
    block->device = event.device;
    HASH_ADD(hh, reader->live, key, sizeof block->key, block);
    if (!block->hh.tbl) {
        free(block);
        return reader_fail_memory(reader);
    }
    return append(reader, &event, stream);
}

bool reader_free(struct reader *reader, struct trace_event event, uint64_t key, uint64_t stream) {
    struct live_block *block = find_live(reader, key);
    event.op = TRACE_FREE;
    event.block = block->block;
    event.device = block->device;
    HASH_DEL(reader->live, block);
    free(block);
    return append(reader, &event, stream);
}

static void free_tables(struct reader *reader) {
    struct live_block *block, *next_block;
    struct known_stream *stream, *next_stream;
    HASH_ITER (hh, reader->live, block, next_block) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DEL(reader->live, block);
        free(block);
    }
    HASH_ITER (hh, reader->streams, stream, next_stream) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DEL(reader->streams, stream);
        free(stream);
    }
}

static bool has_columns(char *const *fields, size_t count, const char *const *names,
                        size_t wanted) {
    for (size_t i = 0; i < wanted && i < count; i++)
        if (strcmp(fields[i], names[i]) != 0)
            return false;
    return count == wanted;
}

/* Reads text: its first line says which format it is. */
static bool read_text(struct reader *reader) {
    static const char *const csv[] = {"t_us", "op", "id", "size", "stream", "site", "device"};
    static const char *const rmm[] = {"Thread", "Time", "Action", "Pointer", "Size", "Stream"};
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    char *fields[7], copy[256];
    size_t length;
    char *line = input_line(reader->input, &length);
    if (!line)
        return reader_ended(reader) && reader_fail(reader, "empty, expected a trace");
    reader->line = 1;
    bool text = strlen(line) == length;
    if (strncmp(line, byte_order_mark, sizeof byte_order_mark - 1) == 0)
        line += sizeof byte_order_mark - 1;
    snprintf(copy, sizeof copy, "%s", line);
    size_t count = text ? fields_split(line, fields, 7) : 0;
    if (has_columns(fields, count, csv, 6) || has_columns(fields, count, csv, 7))
        return read_csv(reader, count == 7);
    if (has_columns(fields, count, rmm, 6))
        return read_rmm(reader);
    return reader_fail(reader,
                       "\"%s\", expected a poolcuda trace or the header "
                       "t_us,op,id,size,stream,site or Thread,Time,Action,Pointer,Size,Stream",
                       show(copy).text);
}

static bool read_any(struct reader *reader) {
    size_t got;
    const unsigned char *first = input_peek(reader->input, sizeof RECORD_MAGIC, &got);
    if (got && memcmp(first, RECORD_MAGIC, got) == 0)
        return read_records(reader);
    return read_text(reader);
}

struct trace *trace_read(const char *path, void (*say)(const char *line)) {
    const char *problem;
    struct reader reader = {.path = path, .say = say};
    reader.input = input_open(path, &problem);
    if (!reader.input) {
        reader_fail(&reader, "%s, expected a readable trace", problem);
        return NULL;
    }
    reader.trace = trace_new();
    bool whole = reader.trace ? read_any(&reader) : reader_fail_memory(&reader);
    free_tables(&reader);
    input_close(reader.input);
    if (whole)
        return reader.trace;
    trace_free(reader.trace);
    return NULL;
}

void trace_tell_loss(const struct trace *trace, const char *path, void (*say)(const char *line)) {
    char text[500];
    if (trace->cut_off)
        snprintf(text, sizeof text, "%.300s: cut off: the last events are missing", path);
    else if (trace->lost_events == 1)
        snprintf(text, sizeof text, "%.300s: the last event could not be written and is missing",
                 path);
    else if (trace->lost_events)
        snprintf(text, sizeof text,
                 "%.300s: the last %llu events could not be written and are "
                 "missing",
                 path, (unsigned long long)trace->lost_events);
    else
        return;
    say(text);
}
