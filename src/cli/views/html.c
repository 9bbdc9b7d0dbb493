/* One page for a browser, which asks for nothing from anywhere: report.html, report.css and the
 * scripts are in the executable, and the figures follow as JSON. */
#include "cli/views/html_page.h"
#include "cli/views/stack.h"

#include "report/emitter.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

/* "</script>" in a text would end the data. In JSON '<' occurs in texts alone, where it can be
 * written as an escape. */
static void write_escaped(const char *text, size_t length, void *state) {
    FILE *file = state;
    for (size_t i = 0; i < length; i++)
        if (text[i] == '<')
            fputs("\\u003c", file);
        else
            fputc(text[i], file);
}

/* A letter for each part of the run's time: report_heat.js reads them. */
static void emit_history(struct emitter *emitter, const struct run_history *history) {
    static const char letters[RUN_LEVELS + 1] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    char text[RUN_COLUMNS + 1];
    for (size_t i = 0; i < RUN_COLUMNS; i++)
        text[i] = letters[history->levels[i]];
    text[RUN_COLUMNS] = '\0';
    emitter_number(emitter, "history_top_bytes", history->top);
    emitter_string(emitter, "history", text);
}

static void emit_runs(struct emitter *emitter, const struct view_input *input) {
    emitter_open(emitter, "runs", '[');
    for (size_t i = 0; i < input->run_count; i++) {
        const struct merge_run *run = &input->runs[i];
        emitter_open(emitter, NULL, '{');
        emitter_string(emitter, "file", run->file);
        emitter_string(emitter, "command", run->command);
        emitter_string(emitter, "host", run->host);
        emitter_number(emitter, "pid", run->process);
        emitter_signed(emitter, "rank", run->rank);
        emitter_bool(emitter, "finished", run->finished);
        emitter_decimal(emitter, "seconds", run->seconds);
        emitter_number(emitter, "allocations", run->allocations);
        emitter_number(emitter, "hits", run->hits);
        emitter_number(emitter, "peak_held_bytes", run->peak_held);
        emitter_number(emitter, "leaked_blocks", run->leaked_blocks);
        emitter_number(emitter, "leaked_bytes", run->leaked_bytes);
        emitter_number(emitter, "oom_events", run->oom_events);
        emitter_number(emitter, "start_wall_ns", run->start_wall_ns);
        emit_history(emitter, &run->history);
        emitter_close(emitter, '}');
    }
    emitter_close(emitter, ']');
}

/* The sites' stacks by the sites' ids, outermost frame first: [label, function, file, line]. */
static bool emit_stacks(struct emitter *emitter, const struct view_input *input,
                        const struct stats_page *page) {
    size_t count;
    const struct stats_site **sites = stack_sites(page, &count);
    struct stack *stack = malloc(sizeof *stack);
    emitter_open(emitter, NULL, '{');
    for (size_t i = 0; sites && stack && i < count; i++) {
        char id[24], label[STACK_LABEL];
        snprintf(id, sizeof id, "%u", (unsigned)(sites[i] - page->sites));
        stack_of_site(stack, input, page, sites[i]);
        emitter_open(emitter, id, '[');
        for (size_t f = 0; f < stack->count; f++) {
            const struct stack_frame *frame = &stack->frames[f];
            stack_label(label, frame);
            emitter_open(emitter, NULL, '[');
            emitter_string(emitter, NULL, label);
            emitter_string(emitter, NULL, frame->file ? frame->function : label);
            emitter_string(emitter, NULL, frame->file);
            emitter_number(emitter, NULL, frame->line);
            emitter_close(emitter, ']');
        }
        emitter_close(emitter, ']');
    }
    emitter_close(emitter, '}');
    bool done = sites && stack;
    free(stack);
    free(sites);
    return done;
}

/* What else the page has to know: an object of its own. */
static bool write_rest(FILE *file, const struct view_input *input) {
    struct emitter out = {.json = true, .write = write_escaped, .state = file};
    struct emitter *emitter = &out;
    bool done = true;
    emitter_open(emitter, NULL, '{');
    emitter_string(emitter, "weight", view_weight_names[input->weight]);
    emit_runs(emitter, input);
    emitter_open(emitter, "reasons", '{');
#define WAIT_REASON(name, text) emitter_string(emitter, #name, text);
#include "counters/wait_reasons.def"
#undef WAIT_REASON
    emitter_close(emitter, '}');
    emitter_open(emitter, "counters", '{');
#define COUNTER(field, help) emitter_string(emitter, #field, help);
#include "counters/counters.def"
    emitter_close(emitter, '}');
    emitter_open(emitter, "stacks", '[');
    for (size_t i = 0; i < input->count; i++)
        done = emit_stacks(emitter, input, input->pages[i]) && done;
    if (input->merged != input->pages[0])
        done = emit_stacks(emitter, input, input->merged) && done;
    emitter_close(emitter, ']');
    emitter_open(emitter, "notes", '[');
    size_t count = 0;
    const char *const *notes = symbols_notes(input->symbols, &count);
    for (size_t i = 0; i < count; i++)
        emitter_string(emitter, NULL, notes[i]);
    emitter_close(emitter, ']');
    emitter_close(emitter, '}');
    return done;
}

bool view_html(FILE *file, const struct view_input *input) {
    fwrite(html_page_head, 1, html_page_head_size, file);
    fputs("{\"pages\": [", file);
    for (size_t i = 0; i < input->count; i++) {
        if (i)
            fputc(',', file);
        stats_report(input->pages[i], STATS_JSON, NULL, STATS_FIRST_SITES, write_escaped, file);
    }
    fputs("],\"merged\": ", file);
    if (input->merged != input->pages[0])
        stats_report(input->merged, STATS_JSON, NULL, STATS_FIRST_SITES, write_escaped, file);
    else
        fputs("null", file);
    fputs(",\"about\": ", file);
    bool done = write_rest(file, input);
    fputs("}\n", file);
    fwrite(html_page_tail, 1, html_page_tail_size, file);
    return done;
}
