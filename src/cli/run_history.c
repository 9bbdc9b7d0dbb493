#include "cli/run_history.h"

static uint64_t held(const struct stats_sample *sample) {
    return stats_read(&sample->in_use) + stats_read(&sample->idle) + stats_read(&sample->waste);
}

/* Adds a device's columns to the sums. Samples are by time; between two the former holds. */
static void add_device(const struct stats_device *device, uint64_t end,
                       uint64_t sums[RUN_COLUMNS]) {
    uint64_t most[RUN_COLUMNS] = {0}, now = 0;
    bool met[RUN_COLUMNS] = {false};
    for (uint32_t i = 0; i < device->sample_count; i++) {
        uint64_t time = stats_read(&device->samples[i].time_ns);
        size_t column = (size_t)((double)time / (double)end * RUN_COLUMNS);
        column = column < RUN_COLUMNS ? column : RUN_COLUMNS - 1;
        now = held(&device->samples[i]);
        if (!met[column] || now > most[column])
            most[column] = now;
        met[column] = true;
    }
    now = 0;
    for (size_t c = 0; c < RUN_COLUMNS; c++) {
        now = met[c] ? most[c] : now;
        sums[c] += now;
    }
}

void run_history(const struct stats_page *page, struct run_history *history) {
    uint64_t sums[RUN_COLUMNS] = {0}, end = stats_read(&page->last_ns);
    *history = (struct run_history){.top = 0};
    if (!end)
        return;
    for (size_t d = 0; d < PAGE_DEVICES; d++)
        add_device(&page->devices[d], end, sums);
    for (size_t c = 0; c < RUN_COLUMNS; c++)
        history->top = sums[c] > history->top ? sums[c] : history->top;
    for (size_t c = 0; c < RUN_COLUMNS && history->top; c++)
        history->levels[c] =
            (uint8_t)((double)sums[c] / (double)history->top * (RUN_LEVELS - 1) + 0.5);
}
