/* The CSV that read_csv.c reads. Whatever an event has is written, also where the pool has no use
 * for it, so that a trace that is read back is the same. */
#include "trace/write_csv.h"

#include <inttypes.h>
#include <string.h>

/* Writes text, quoted where a reader would take a part of it for something else. A newline, which
 * no reader of ours lets into a name, would end the row even within quotes. */
static void write_text(FILE *out, const char *text) {
    size_t length = strlen(text);
    bool blank_end = length && (strchr(" \t\r", text[0]) || strchr(" \t\r", text[length - 1]));
    bool quoted = blank_end || strpbrk(text, ",\"\n\r");
    if (quoted)
        putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text == '\n' ? '?' : *text, out);
    }
    if (quoted)
        putc('"', out);
}

static void write_time(FILE *out, uint64_t ns) {
    fprintf(out, "%" PRIu64, ns / 1000);
    if (ns % 1000)
        fprintf(out, ".%03u", (unsigned)(ns % 1000));
}

static void write_value(FILE *out, const struct trace_event *event) {
    if (event->op == TRACE_KERNEL)
        write_time(out, event->value);
    else if (event->op != TRACE_FREE && (event->value || event->op == TRACE_COPY))
        fprintf(out, "%" PRIu64, event->value);
}

static void write_event(FILE *out, const struct trace *trace, const struct trace_event *event) {
    static const char letters[] = {
        [TRACE_ALLOC] = 'A', [TRACE_FREE] = 'F',        [TRACE_KERNEL] = 'K',
        [TRACE_COPY] = 'C',  [TRACE_STREAM_WAIT] = 'S', [TRACE_DEVICE_WAIT] = 'D'};
    write_time(out, event->time_ns);
    fprintf(out, ",%c,", letters[event->op]);
    if (event->op == TRACE_ALLOC || event->op == TRACE_FREE)
        fprintf(out, "%" PRIu32, event->block);
    putc(',', out);
    write_value(out, event);
    putc(',', out);
    if (event->op != TRACE_FREE || event->stream)
        fprintf(out, "%" PRIu32, event->stream);
    putc(',', out);
    write_text(out, trace->sites[event->site].name);
    if (trace->device_count > 1) {
        putc(',', out);
        /* A free is where its allocation was. */
        if (event->op != TRACE_FREE)
            fprintf(out, "%u", event->device);
    }
    putc('\n', out);
}

bool trace_write_csv(const struct trace *trace, FILE *out) {
    fprintf(out, "t_us,op,id,size,stream,site%s\n", trace->device_count > 1 ? ",device" : "");
    for (size_t i = 0; i < trace->event_count; i++)
        write_event(out, trace, &trace->events[i]);
    return !ferror(out);
}
