/* What the readers of the formats share. */
#ifndef POOLCUDA_TRACE_READER_H
#define POOLCUDA_TRACE_READER_H

#include "trace/input.h"
#include "trace/trace.h"

struct live_block;
struct known_stream;

/* A trace that is being read. Once `failed` is set the reason has been reported, and the trace is
 * worth nothing. */
struct reader {
    const char *path;
    void (*say)(const char *line);
    struct input *input;
    struct trace *trace;
    bool binary, failed;
    uint64_t line;             /* of text, from 1; 0: the file as a whole */
    uint64_t offset, position; /* of binary data: of the record that is being read; of the input */
    struct live_block *live;   /* by the file's own key: an id, a pointer */
    struct known_stream *streams; /* by handle */
};

/* Reports "PATH:LINE: " or "PATH: offset N: " and the text, unless something has been reported
 * already. Returns false. */
bool reader_fail(struct reader *reader, const char *pattern, ...)
    __attribute__((format(printf, 2, 3)));
bool reader_fail_memory(struct reader *reader);

/* To be called at the end of what could be read: true if that is the end of the file. */
bool reader_ended(struct reader *reader);

/* Text for a message: shortened, and harmless to a terminal. */
struct shown {
    char text[72];
};
struct shown show(const char *text);

/* Appends an event that has no block. Its stream is the file's own handle; 0 is the default. */
bool reader_add(struct reader *reader, const struct trace_event *event, uint64_t stream);

/* Appends the ALLOC of a block that the file calls `key`, which must not be live, or the FREE of
 * the live one. *event lacks op, block and stream. */
bool reader_alloc(struct reader *reader, struct trace_event event, uint64_t key, uint64_t stream);
bool reader_free(struct reader *reader, struct trace_event event, uint64_t key, uint64_t stream);
bool reader_is_live(const struct reader *reader, uint64_t key);

/* One reader for each format. The input stands behind the header line of text, at the beginning of
 * binary data. They return false after reader_fail. */
bool read_csv(struct reader *reader, bool devices);
bool read_rmm(struct reader *reader);
bool read_records(struct reader *reader);

#endif
