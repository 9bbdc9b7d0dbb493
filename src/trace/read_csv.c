/* The CSV t_us,op,id,size,stream,site, with a column for the device where there are several. */
#include "trace/fields.h"
#include "trace/reader.h"

#include <string.h>

enum column { TIME, OP, ID, SIZE, STREAM, SITE, DEVICE, COLUMNS };

/* A row. Invariant: id and size are 0 where their field is empty. */
struct row {
    struct trace_event event; /* its time, site and device */
    char op;
    uint64_t id, size, stream;
};

static bool optional_number(const char *text, uint64_t *number) {
    *number = 0;
    return !*text || fields_number(text, number);
}

static bool read_time(struct reader *reader, const char *text, uint64_t *ns) {
    const struct trace *trace = reader->trace;
    if (!fields_time(text, 1000, ns))
        return reader_fail(reader, "time \"%s\", expected microseconds", show(text).text);
    if (trace->event_count && *ns < trace->events[trace->event_count - 1].time_ns)
        return reader_fail(reader, "time \"%s\", expected none before the line above",
                           show(text).text);
    return true;
}

static bool read_device(struct reader *reader, const char *text, uint16_t *device) {
    uint64_t number;
    if (!optional_number(text, &number) || number > UINT16_MAX)
        return reader_fail(reader, "device \"%s\", expected a number below 65536", show(text).text);
    *device = (uint16_t)number;
    return true;
}

static bool read_row(struct reader *reader, char *const *fields, bool devices, struct row *row) {
    *row = (struct row){.op = fields[OP][0]};
    if (strlen(fields[OP]) != 1 || !strchr("AFKCSD", row->op))
        return reader_fail(reader, "operation \"%s\", expected A, F, K, C, S or D",
                           show(fields[OP]).text);
    if (!read_time(reader, fields[TIME], &row->event.time_ns))
        return false;
    if ((row->op == 'A' || row->op == 'F') ? !fields_number(fields[ID], &row->id)
                                           : !optional_number(fields[ID], &row->id))
        return reader_fail(reader, "id \"%s\", expected a whole number", show(fields[ID]).text);
    /* A kernel's size is a time. */
    if (row->op == 'K' && *fields[SIZE] ? !fields_time(fields[SIZE], 1000, &row->event.value)
                                        : !optional_number(fields[SIZE], &row->event.value))
        return reader_fail(reader, "size \"%s\", expected %s", show(fields[SIZE]).text,
                           row->op == 'K' ? "microseconds" : "a whole number of bytes");
    if (!optional_number(fields[STREAM], &row->stream))
        return reader_fail(reader, "stream \"%s\", expected a whole number",
                           show(fields[STREAM]).text);
    if (devices && !read_device(reader, fields[DEVICE], &row->event.device))
        return false;
    return trace_name_site(reader->trace, fields[SITE], &row->event.site) ||
           reader_fail_memory(reader);
}

static bool add_row(struct reader *reader, struct row *row) {
    struct trace_event *event = &row->event;
    switch (row->op) {
    case 'A':
        if (!event->value)
            return reader_fail(reader, "an allocation of 0 bytes, expected at least 1");
        if (reader_is_live(reader, row->id))
            return reader_fail(reader, "allocation of %llu, expected an id that is not live",
                               (unsigned long long)row->id);
        return reader_alloc(reader, *event, row->id, row->stream);
    case 'F':
        if (!reader_is_live(reader, row->id))
            return reader_fail(reader, "free of %llu, expected the id of a live block",
                               (unsigned long long)row->id);
        event->value = 0;
        return reader_free(reader, *event, row->id, row->stream);
    case 'K':
        event->op = TRACE_KERNEL;
        break;
    case 'C':
        event->op = TRACE_COPY;
        break;
    case 'S':
        event->op = TRACE_STREAM_WAIT;
        break;
    default:
        event->op = TRACE_DEVICE_WAIT;
        break;
    }
    return reader_add(reader, event, row->stream);
}

bool read_csv(struct reader *reader, bool devices) {
    char *line, *fields[COLUMNS];
    size_t length, columns = devices ? COLUMNS : COLUMNS - 1;
    struct row row;
    while ((line = input_line(reader->input, &length))) {
        reader->line++;
        if (strlen(line) != length)
            return reader_fail(reader, "a zero byte, expected text");
        if (!*line || strcmp(line, "\r") == 0)
            continue;
        if (fields_split(line, fields, columns) != columns)
            return reader_fail(reader, "expected %zu fields: t_us,op,id,size,stream,site%s",
                               columns, devices ? ",device" : "");
        if (!read_row(reader, fields, devices, &row) || !add_row(reader, &row))
            return false;
    }
    reader->line++;
    return reader_ended(reader);
}
