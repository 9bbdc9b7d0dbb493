/* https://www.speedscope.app/file-format-schema.json: one sampled profile for each weight, in which
 * a site is a sample. */
#include "cli/views/stack.h"

#include "report/emitter.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct frame {
    UT_hash_handle hh;
    unsigned index;
    const char *file; /* NULL: none */
    unsigned line;
    char label[STACK_LABEL]; /* the key */
};

/* Invariant: the frames of site i are stack[begin[i]] to stack[begin[i + 1] - 1], outermost first.
 */
struct samples {
    struct frame *frames;
    unsigned frame_count;
    unsigned *stack;
    size_t *begin, used, room;
    bool short_of_memory;
};

static unsigned frame_index(struct samples *samples, const struct stack_frame *from) {
    struct frame *frame;
    char label[STACK_LABEL];
    stack_label(label, from);
    HASH_FIND_STR(samples->frames, label, frame);
    if (frame)
        return frame->index;
    frame = calloc(1, sizeof *frame);
    if (!frame) {
        samples->short_of_memory = true;
        return 0;
    }
    memcpy(frame->label, label, sizeof label);
    frame->index = samples->frame_count++;
    frame->file = from->file;
    frame->line = from->line;
    HASH_ADD_STR(samples->frames, label, frame);
    return frame->index;
}

static void push(struct samples *samples, const struct stack_frame *frame) {
    if (samples->used == samples->room) {
        size_t room = samples->room ? 2 * samples->room : 1024;
        unsigned *stack = realloc(samples->stack, room * sizeof *stack);
        if (!stack) {
            samples->short_of_memory = true;
            return;
        }
        samples->stack = stack;
        samples->room = room;
    }
    samples->stack[samples->used++] = frame_index(samples, frame);
}

static void collect(struct samples *samples, const struct view_input *input,
                    const struct stats_site **sites, size_t count) {
    struct stack *stack = malloc(sizeof *stack);
    samples->begin = calloc(count + 1, sizeof *samples->begin);
    samples->short_of_memory = !stack || !samples->begin;
    for (size_t i = 0; !samples->short_of_memory && i < count; i++) {
        stack_of_site(stack, input, input->merged, sites[i]);
        push(samples, &(struct stack_frame){.function = stack_program(input->merged)});
        for (size_t f = 0; f < stack->count; f++)
            push(samples, &stack->frames[f]);
        samples->begin[i + 1] = samples->used;
    }
    free(stack);
}

static void emit_profile(struct emitter *emitter, const struct samples *samples,
                         const struct stats_site **sites, size_t count, enum view_weight weight,
                         const char *name) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += stack_weight(sites[i], weight);
    emitter_open(emitter, NULL, '{');
    emitter_string(emitter, "type", "sampled");
    emitter_string(emitter, "name", name);
    emitter_string(emitter, "unit", weight == VIEW_WEIGHT_allocations ? "none" : "bytes");
    emitter_number(emitter, "startValue", 0);
    emitter_number(emitter, "endValue", sum);
    emitter_open(emitter, "samples", '[');
    for (size_t i = 0; i < count; i++) {
        emitter_open(emitter, NULL, '[');
        for (size_t f = samples->begin[i]; f < samples->begin[i + 1]; f++)
            emitter_number(emitter, NULL, samples->stack[f]);
        emitter_close(emitter, ']');
    }
    emitter_close(emitter, ']');
    emitter_open(emitter, "weights", '[');
    for (size_t i = 0; i < count; i++)
        emitter_number(emitter, NULL, stack_weight(sites[i], weight));
    emitter_close(emitter, ']');
    emitter_close(emitter, '}');
}

static void emit_file(struct emitter *emitter, const struct view_input *input,
                      const struct samples *samples, const struct stats_site **sites,
                      size_t count) {
    static const char *const profiles[VIEW_WEIGHT_COUNT] = {
#define WEIGHT(name, text) text,
        VIEW_WEIGHTS(WEIGHT)
#undef WEIGHT
    };
    emitter_open(emitter, NULL, '{');
    emitter_string(emitter, "$schema", "https://www.speedscope.app/file-format-schema.json");
    emitter_string(emitter, "name", stack_program(input->merged));
    emitter_string(emitter, "exporter", "poolcuda " POOLCUDA_VERSION);
    emitter_number(emitter, "activeProfileIndex", (uint64_t)input->weight);
    emitter_open(emitter, "shared", '{');
    emitter_open(emitter, "frames", '[');
    for (const struct frame *frame = samples->frames; frame; frame = frame->hh.next) {
        emitter_open(emitter, NULL, '{');
        emitter_string(emitter, "name", frame->label);
        if (frame->file) {
            emitter_string(emitter, "file", frame->file);
            emitter_number(emitter, "line", frame->line);
        }
        emitter_close(emitter, '}');
    }
    emitter_close(emitter, ']');
    emitter_close(emitter, '}');
    emitter_open(emitter, "profiles", '[');
    for (int i = 0; i < VIEW_WEIGHT_COUNT; i++)
        emit_profile(emitter, samples, sites, count, (enum view_weight)i, profiles[i]);
    emitter_close(emitter, ']');
    emitter_close(emitter, '}');
}

bool view_speedscope(FILE *file, const struct view_input *input) {
    struct samples samples = {0};
    size_t count;
    const struct stats_site **sites = stack_sites(input->merged, &count);
    if (sites)
        collect(&samples, input, sites, count);
    bool done = sites && !samples.short_of_memory;
    if (done)
        emit_file(&(struct emitter){.json = true, .write = stack_write, .state = file}, input,
                  &samples, sites, count);
    struct frame *frame, *next;
    HASH_ITER (hh, samples.frames, frame, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DEL(samples.frames, frame);
        free(frame);
    }
    free(samples.stack);
    free(samples.begin);
    free(sites);
    return done;
}
