/* The log of RMM's logging_resource_adaptor: Thread,Time,Action,Pointer,Size,Stream. Its versions
 * write pointers and streams with 0x, without, or as (nil), and the time of day with a colon or a
 * point before the microseconds. */
#include "trace/fields.h"
#include "trace/reader.h"

#include <string.h>

enum column { THREAD, TIME, ACTION, POINTER, SIZE, STREAM, COLUMNS };

enum { SECOND_NS = 1000000000 };
static const uint64_t day_ns = 86400ull * SECOND_NS;

/* Times of day pass midnight, and may differ a little from the order in which threads wrote. */
struct clock {
    uint64_t first, last, days;
    bool started;
};

static bool two_digits(const char *text, unsigned below, uint64_t *number) {
    if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9')
        return false;
    *number = (uint64_t)(text[0] - '0') * 10 + (uint64_t)(text[1] - '0');
    return *number < below;
}

/* Reads HH:MM:SS, HH:MM:SS.uuuuuu, HH:MM:SS:uuuuuu, or seconds. */
static bool read_time(const char *text, uint64_t *ns) {
    uint64_t hours, minutes, fraction = 0;
    char seconds[32];
    if (!strchr(text, ':'))
        return fields_time(text, SECOND_NS, ns);
    if (strlen(text) < 8 || strlen(text) - 6 >= sizeof seconds || text[2] != ':' ||
        text[5] != ':' || !two_digits(text, 24, &hours) || !two_digits(text + 3, 60, &minutes) ||
        !two_digits(text + 6, 61, &fraction) || (text[8] && text[8] != '.' && text[8] != ':'))
        return false;
    memcpy(seconds, text + 6, strlen(text + 6) + 1);
    if (seconds[2] == ':')
        seconds[2] = '.';
    if (!fields_time(seconds, SECOND_NS, ns))
        return false;
    *ns += (hours * 60 + minutes) * 60 * SECOND_NS;
    return true;
}

static uint64_t since_first(struct clock *clock, uint64_t ns, bool of_day) {
    if (!clock->started)
        clock->first = clock->last = ns;
    clock->started = true;
    if (of_day) {
        if (ns + clock->days + day_ns / 2 < clock->last)
            clock->days += day_ns;
        ns += clock->days;
    }
    if (ns > clock->last)
        clock->last = ns;
    return clock->last - clock->first;
}

static bool read_address(const char *text, uint64_t *address) {
    *address = 0;
    return strcmp(text, "(nil)") == 0 || fields_hexadecimal(text, address);
}

static bool read_row(struct reader *reader, char *const *fields, struct clock *clock) {
    struct trace_event event = {.op = TRACE_ALLOC};
    uint64_t ns, pointer, size, stream;
    if (!read_time(fields[TIME], &ns))
        return reader_fail(reader, "time \"%s\", expected HH:MM:SS.uuuuuu",
                           show(fields[TIME]).text);
    bool allocates = strcmp(fields[ACTION], "allocate") == 0;
    if (!allocates && strcmp(fields[ACTION], "free") != 0 &&
        strcmp(fields[ACTION], "allocate failure") != 0)
        return reader_fail(reader, "action \"%s\", expected allocate, free or allocate failure",
                           show(fields[ACTION]).text);
    if (!read_address(fields[POINTER], &pointer))
        return reader_fail(reader, "pointer \"%s\", expected a hexadecimal number",
                           show(fields[POINTER]).text);
    if (!fields_number(fields[SIZE], &size))
        return reader_fail(reader, "size \"%s\", expected a whole number of bytes",
                           show(fields[SIZE]).text);
    if (!read_address(fields[STREAM], &stream))
        return reader_fail(reader, "stream \"%s\", expected a hexadecimal number",
                           show(fields[STREAM]).text);
    event.time_ns = since_first(clock, ns, strchr(fields[TIME], ':') != NULL);
    bool live = reader_is_live(reader, pointer);
    /* Left out are failures, and what takes no memory: requests of nothing, whose frees name no
     * block. */
    if (strcmp(fields[ACTION], "allocate failure") == 0 || !pointer || (!size && !live))
        return true;
    if (!trace_name_site(reader->trace, "", &event.site))
        return reader_fail_memory(reader);
    if (stream == 1) /* the legacy stream's other handle */
        stream = 0;
    if (allocates && live)
        return reader_fail(reader, "allocation of %s, expected a pointer that is not live",
                           show(fields[POINTER]).text);
    if (!allocates && !live)
        return reader_fail(reader, "free of %s, expected the pointer of a live block",
                           show(fields[POINTER]).text);
    if (!allocates)
        return reader_free(reader, event, pointer, stream);
    event.value = size;
    return reader_alloc(reader, event, pointer, stream);
}

bool read_rmm(struct reader *reader) {
    char *line, *fields[COLUMNS];
    size_t length;
    struct clock clock = {0};
    while ((line = input_line(reader->input, &length))) {
        reader->line++;
        if (strlen(line) != length)
            return reader_fail(reader, "a zero byte, expected text");
        if (!*line || strcmp(line, "\r") == 0)
            continue;
        if (fields_split(line, fields, COLUMNS) != COLUMNS)
            return reader_fail(reader, "expected %d fields: Thread,Time,Action,Pointer,Size,Stream",
                               COLUMNS);
        if (!read_row(reader, fields, &clock))
            return false;
    }
    reader->line++;
    return reader_ended(reader);
}
