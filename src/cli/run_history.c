#include "cli/run_history.h"

static uint64_t held(const struct stats_sample *sample) {
    return stats_read(&sample->in_use) + stats_read(&sample->idle) + stats_read(&sample->waste);
}

static size_t column_of(const struct stats_sample *sample, uint64_t end) {
    size_t column = (size_t)((double)stats_read(&sample->time_ns) / (double)end * RUN_COLUMNS);
    return column < RUN_COLUMNS ? column : RUN_COLUMNS - 1;
}

/* Adds a device's columns to the sums. Samples are by time; between two the former holds. */
static void add_device(const struct stats_device *device, uint64_t end,
                       uint64_t sums[RUN_COLUMNS]) {
    uint64_t now = 0;
    uint32_t next = 0;
    for (size_t c = 0; c < RUN_COLUMNS; c++) {
        uint64_t most = now;
        for (; next < device->sample_count && column_of(&device->samples[next], end) <= c; next++) {
            now = held(&device->samples[next]);
            most = now > most ? now : most;
        }
        sums[c] += most;
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
