/* Our own format, as the library writes it: trace/record_format.h. */
#include "trace/record_format.h"

#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A frame's module may only later turn out to share its name with another, so sites are named last.
 */
struct site {
    char *text; /* of a named site, else NULL */
    unsigned depth;
    struct record_frame frames[RECORD_DEPTH_MAX];
    bool appeared;
    uint32_t number; /* in the trace, once it has appeared there */
};

/* Arrays grow by doubling. Invariant: every event, site and frame has been checked; events are in
 * the order of their times. */
struct records {
    struct record_event *events;
    struct site *sites;
    char **modules;
    size_t event_count, event_room, site_count, site_room, module_count, module_room;
    bool unknown_appeared;
    uint32_t unknown; /* site 0 in the trace, once it has appeared */
};

static void free_records(struct records *records) {
    for (size_t i = 0; i < records->site_count; i++)
        free(records->sites[i].text);
    for (size_t i = 0; i < records->module_count; i++)
        free(records->modules[i]);
    free(records->sites);
    free(records->modules);
    free(records->events);
}

static void *grown(void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    size_t more = *room ? 2 * *room : 64;
    void *bigger = reallocarray(array, more, size);
    if (bigger)
        *room = more;
    return bigger;
}

/* What a step found. ENDED: the file ends, maybe within a record, which is no fault. */
enum found { FOUND, ENDED, BAD };

/* Reads a part of the record at reader->offset. */
static enum found take(struct reader *reader, void *to, size_t size) {
    size_t got = input_read(reader->input, to, size);
    reader->position += got;
    if (got == size)
        return FOUND;
    return reader_ended(reader) ? ENDED : BAD;
}

/* Reads text of `length` bytes and the zeros that fill it up to a multiple of 8, behind `before`
 * others. */
static enum found take_text(struct reader *reader, size_t before, size_t length, char **text) {
    static const char zeros[8];
    char padding[8];
    size_t fill = -(before + length) & 7;
    *text = malloc(length + 1);
    if (!*text)
        return reader_fail_memory(reader), BAD;
    enum found found = take(reader, *text, length);
    if (found == FOUND)
        found = take(reader, padding, fill);
    if (found == FOUND && (memchr(*text, '\0', length) || memcmp(padding, zeros, fill) != 0)) {
        reader_fail(reader, "damaged text, expected %zu bytes and then zeros", length);
        found = BAD;
    }
    if (found != FOUND) {
        free(*text);
        *text = NULL;
        return found;
    }
    (*text)[length] = '\0';
    for (char *letter = *text; *letter; letter++)
        if ((unsigned char)*letter < ' ' || *letter == 0x7f)
            *letter = '?'; /* as a name it stands in lines of text */
    return FOUND;
}

static enum found read_module(struct reader *reader, struct records *records,
                              const struct record_head *head) {
    char build_id[RECORD_BUILD_ID_MAX], *path;
    if (head->small > RECORD_BUILD_ID_MAX || head->number > RECORD_PATH_MAX) {
        reader_fail(reader,
                    "a module with a build id of %u and a path of %u bytes, expected at "
                    "most %d and %d",
                    head->small, head->number, RECORD_BUILD_ID_MAX, RECORD_PATH_MAX);
        return BAD;
    }
    char **modules =
        grown(records->modules, records->module_count, &records->module_room, sizeof *modules);
    if (!modules)
        return reader_fail_memory(reader), BAD;
    records->modules = modules;
    enum found found = take(reader, build_id, head->small);
    if (found == FOUND)
        found = take_text(reader, head->small, head->number, &path);
    if (found == FOUND)
        modules[records->module_count++] = path;
    return found;
}

/* Makes room for one more site, which the caller fills and counts. */
static struct site *next_site(struct reader *reader, struct records *records) {
    struct site *sites =
        grown(records->sites, records->site_count, &records->site_room, sizeof *sites);
    if (!sites) {
        reader_fail_memory(reader);
        return NULL;
    }
    records->sites = sites;
    sites[records->site_count] = (struct site){0};
    return &sites[records->site_count];
}

static enum found read_site(struct reader *reader, struct records *records,
                            const struct record_head *head) {
    if (head->small < 1 || head->small > RECORD_DEPTH_MAX || head->number) {
        reader_fail(reader, "a site of depth %u, expected 1 to %d", head->small, RECORD_DEPTH_MAX);
        return BAD;
    }
    struct site *site = next_site(reader, records);
    if (!site)
        return BAD;
    site->depth = head->small;
    enum found found = take(reader, site->frames, head->small * sizeof site->frames[0]);
    if (found != FOUND)
        return found;
    for (unsigned i = 0; i < site->depth; i++) {
        if (site->frames[i].module > records->module_count || site->frames[i].zero) {
            reader_fail(reader, "a site in module %u, expected at most %zu", site->frames[i].module,
                        records->module_count);
            return BAD;
        }
    }
    records->site_count++;
    return FOUND;
}

static enum found read_site_name(struct reader *reader, struct records *records,
                                 const struct record_head *head) {
    if (head->small || head->number > RECORD_NAME_MAX) {
        reader_fail(reader, "a site's name of %u bytes, expected at most %d", head->number,
                    RECORD_NAME_MAX);
        return BAD;
    }
    struct site *site = next_site(reader, records);
    if (!site)
        return BAD;
    enum found found = take_text(reader, 0, head->number, &site->text);
    records->site_count += found == FOUND;
    return found;
}

/* Whether event `number` is a free of the pointer. */
static bool is_free_of(const struct records *records, uint64_t number, uint64_t pointer) {
    return number < records->event_count && records->events[number].head.kind == RECORD_FREE &&
           records->events[number].pointer == pointer;
}

static bool check_event(struct reader *reader, const struct records *records,
                        const struct record_event *event) {
    if (event->head.number > records->site_count)
        return reader_fail(reader, "site %u, expected at most %zu", event->head.number,
                           records->site_count);
    if (records->event_count && event->time_ns < records->events[records->event_count - 1].time_ns)
        return reader_fail(reader, "time %llu, expected none before that of the event before",
                           (unsigned long long)event->time_ns);
    if (event->head.kind == RECORD_ALLOC && !event->value)
        return reader_fail(reader, "an allocation of 0 bytes, expected at least 1");
    if (event->head.kind == RECORD_FREE_FAILED &&
        !is_free_of(records, event->value, event->pointer))
        return reader_fail(reader,
                           "a free that failed, event %llu, expected the number of a free "
                           "of its pointer",
                           (unsigned long long)event->value);
    return true;
}

/* A failed free takes its event back, and has a number of its own. */
static enum found read_event(struct reader *reader, struct records *records,
                             const struct record_head *head) {
    struct record_event *events =
        grown(records->events, records->event_count, &records->event_room, sizeof *events);
    if (!events)
        return reader_fail_memory(reader), BAD;
    records->events = events;
    struct record_event *event = &events[records->event_count];
    event->head = *head;
    enum found found = take(reader, &event->time_ns, sizeof *event - sizeof *head);
    if (found != FOUND)
        return found;
    if (!check_event(reader, records, event))
        return BAD;
    if (head->kind == RECORD_FREE_FAILED)
        events[event->value].head.kind = RECORD_FREE_FAILED;
    records->event_count++;
    return FOUND;
}

static enum found read_end(struct reader *reader) {
    uint64_t lost;
    unsigned char more;
    enum found found = take(reader, &lost, sizeof lost);
    if (found != FOUND)
        return found;
    reader->offset = reader->position;
    if (input_read(reader->input, &more, 1)) {
        reader_fail(reader, "more data, expected nothing behind the last record");
        return BAD;
    }
    reader->trace->lost_events = lost;
    reader->trace->cut_off = false;
    return reader_ended(reader) ? ENDED : BAD;
}

static enum found read_record(struct reader *reader, struct records *records) {
    struct record_head head;
    enum found found = take(reader, &head, sizeof head);
    if (found != FOUND)
        return found;
    if (head.zero == 0) {
        if (head.kind >= RECORD_ALLOC && head.kind < RECORD_EVENTS_END)
            return read_event(reader, records, &head);
        if (head.kind == RECORD_MODULE)
            return read_module(reader, records, &head);
        if (head.kind == RECORD_SITE)
            return read_site(reader, records, &head);
        if (head.kind == RECORD_SITE_NAME)
            return read_site_name(reader, records, &head);
        if (head.kind == RECORD_END && !head.small && !head.number)
            return read_end(reader);
    }
    reader_fail(reader, "a record of kind %u, expected an event or a description of one",
                head.kind);
    return BAD;
}

static enum found read_header(struct reader *reader) {
    struct record_header header;
    struct command_line *line = &reader->trace->command_line;
    char skipped;
    enum found found = take(reader, &header, sizeof header);
    if (found == ENDED) {
        reader_fail(reader, "a recording that ends at byte %llu, expected a header of %zu bytes",
                    (unsigned long long)reader->position, sizeof header);
        return BAD;
    }
    if (found != FOUND)
        return found;
    if (header.version != RECORD_VERSION) {
        reader_fail(reader, "version %u of the format, expected %d", header.version,
                    RECORD_VERSION);
        return BAD;
    }
    if (header.clock != RECORD_CLOCK_MONOTONIC || header.header_size < sizeof header ||
        header.header_size % 8 || header.header_size > RECORD_HEADER_MAX) {
        reader_fail(reader, "a header of %u bytes with clock %u, expected 64 and 1",
                    header.header_size, header.clock);
        return BAD;
    }
    size_t used = header.command_line == COMMAND_LINE_TOO_LONG ? 0 : header.command_line;
    size_t rest = header.header_size - sizeof header;
    if (used > rest) {
        reader_fail(reader, "a command line of %zu bytes, expected at most %zu", used, rest);
        return BAD;
    }
    found = take(reader, line->text, used);
    for (size_t i = used; found == FOUND && i < rest; i++)
        found = take(reader, &skipped, 1);
    if (found != FOUND)
        return found;
    line->size = header.command_line;
    if (!command_line_is_sound(line)) {
        reader_fail(reader, "a damaged command line, expected texts that each end with a zero");
        return BAD;
    }
    return found;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The last part of a module's path, or all of it if another module has the same last part. */
static const char *module_name(const struct records *records, uint32_t module) {
    if (!module)
        return "(unknown)";
    const char *path = records->modules[module - 1], *name = base_name(path);
    for (size_t i = 0; i < records->module_count; i++)
        if (strcmp(base_name(records->modules[i]), name) == 0 &&
            strcmp(records->modules[i], path) != 0)
            return path;
    return name;
}

static bool name_site(struct reader *reader, const struct records *records, struct site *site) {
    char name[RECORD_DEPTH_MAX * (RECORD_PATH_MAX + 32)];
    size_t length = 0;
    for (unsigned i = 0; i < site->depth; i++)
        length += (size_t)snprintf(name + length, sizeof name - length, "%s%s+0x%llx",
                                   i ? " < " : "", module_name(records, site->frames[i].module),
                                   (unsigned long long)site->frames[i].offset);
    site->appeared = true;
    return trace_name_site(reader->trace, site->text ? site->text : name, &site->number) ||
           reader_fail_memory(reader);
}

static bool find_site(struct reader *reader, struct records *records, uint32_t number,
                      uint32_t *site) {
    if (number) {
        struct site *known = &records->sites[number - 1];
        if (!known->appeared && !name_site(reader, records, known))
            return false;
        *site = known->number;
        return true;
    }
    if (!records->unknown_appeared && !trace_name_site(reader->trace, "", &records->unknown))
        return reader_fail_memory(reader);
    records->unknown_appeared = true;
    *site = records->unknown;
    return true;
}

static bool add_alloc(struct reader *reader, struct trace_event *event, uint64_t pointer,
                      uint64_t stream) {
    struct trace_event gone = *event;
    gone.value = 0;
    /* This memory went with its context: nobody freed it, and the address is given out again. */
    if (reader_is_live(reader, pointer) && !reader_free(reader, gone, pointer, 0))
        return false;
    return reader_alloc(reader, *event, pointer, stream);
}

static bool add_event(struct reader *reader, struct records *records,
                      const struct record_event *record) {
    static const enum trace_op ops[RECORD_EVENTS_END] = {
        [RECORD_KERNEL] = TRACE_KERNEL,
        [RECORD_COPY] = TRACE_COPY,
        [RECORD_STREAM_WAIT] = TRACE_STREAM_WAIT,
        [RECORD_DEVICE_WAIT] = TRACE_DEVICE_WAIT,
    };
    struct trace_event event = {.time_ns = record->time_ns,
                                .value = record->value,
                                .device = record->head.small,
                                .op = (uint8_t)ops[record->head.kind]};
    uint64_t stream = record->stream == 1 ? 0 : record->stream; /* CU_STREAM_LEGACY */
    if (record->head.kind == RECORD_FREE_FAILED ||
        (record->head.kind == RECORD_FREE && !reader_is_live(reader, record->pointer)))
        return true; /* memory of another kind, or from before the recording */
    if (!find_site(reader, records, record->head.number, &event.site))
        return false;
    if (record->head.kind == RECORD_ALLOC)
        return add_alloc(reader, &event, record->pointer, stream);
    if (record->head.kind == RECORD_FREE)
        return reader_free(reader, event, record->pointer, stream);
    return reader_add(reader, &event, stream);
}

bool read_records(struct reader *reader) {
    struct records records = {0};
    reader->binary = true;
    reader->trace->cut_off = true;
    enum found found = read_header(reader);
    while (found == FOUND) {
        reader->offset = reader->position;
        found = read_record(reader, &records);
    }
    bool whole = found == ENDED;
    for (size_t i = 0; whole && i < records.event_count; i++)
        whole = add_event(reader, &records, &records.events[i]);
    free_records(&records);
    return whole;
}
