#include "trace/lives.h"

static bool of_device(const struct trace_event *event, uint32_t device) {
    return (event->op == TRACE_ALLOC || event->op == TRACE_FREE) &&
           (device == BOUNDS_ALL_DEVICES || event->device == device);
}

void lives_free(struct lives *lives) {
    free(lives->life);
    free(lives->changed);
}

static void note_peaks(struct lives *lives) {
    uint64_t bytes = 0;
    size_t count = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        uint64_t size = lives->life[lives->changed[m]].size;
        bytes += lives_start_at(lives, m) ? size : -size;
        count += lives_start_at(lives, m) ? 1 : (size_t)-1;
        if (bytes > lives->peak_bytes)
            lives->peak_bytes = bytes;
        if (count > lives->peak_count)
            lives->peak_count = count;
    }
}

static void note_event(struct lives *lives, const struct trace_event *event, size_t *by_block) {
    size_t moment = lives->moments++;
    if (event->op == TRACE_ALLOC) {
        by_block[event->block] = lives->count;
        lives->life[lives->count++] = (struct life){event->value, moment, SIZE_MAX, event->block};
    } else {
        lives->life[by_block[event->block]].end = moment;
    }
    lives->changed[moment] = by_block[event->block];
}

bool lives_get(const struct trace *trace, uint32_t device, struct lives *lives) {
    size_t *by_block = zeroed_array(trace->block_count, sizeof *by_block);
    size_t moments = 0;
    for (size_t i = 0; i < trace->event_count; i++)
        moments += of_device(&trace->events[i], device);
    *lives = (struct lives){.life = zeroed_array(moments, sizeof *lives->life),
                            .changed = zeroed_array(moments, sizeof *lives->changed)};
    bool done = by_block && lives->life && lives->changed;
    for (size_t i = 0; done && i < trace->event_count; i++)
        if (of_device(&trace->events[i], device))
            note_event(lives, &trace->events[i], by_block);
    for (size_t i = 0; i < lives->count; i++)
        if (lives->life[i].end == SIZE_MAX)
            lives->life[i].end = lives->moments;
    if (done)
        note_peaks(lives);
    else
        lives_free(lives);
    free(by_block);
    return done;
}
