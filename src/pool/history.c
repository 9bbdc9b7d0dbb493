/* The samples of a struct stats_device. */
#include "pool/internal.h"

enum {
    FIRST_INTERVAL = 1000000, /* nanoseconds */
    ALWAYS_NOTED = 1024,      /* the first changes, so that a short program's history is whole */
    /* changes between two of the later ones, for which no clock is read each time */
    NOTE_EVERY = 64,
};

static uint64_t held(const struct stats_sample *sample) {
    return stats_read(&sample->in_use) + stats_read(&sample->idle) + stats_read(&sample->waste);
}

static void copy_calls(struct stats_sample *to, const struct stats_sample *from) {
    stats_write(&to->allocations, stats_read(&from->allocations));
    stats_write(&to->hits, stats_read(&from->hits));
}

static void copy(struct stats_sample *to, const struct stats_sample *from) {
    stats_write(&to->time_ns, stats_read(&from->time_ns));
    stats_write(&to->in_use, stats_read(&from->in_use));
    stats_write(&to->idle, stats_read(&from->idle));
    stats_write(&to->waste, stats_read(&from->waste));
    copy_calls(to, from);
}

/* Merges `later` into `sample`, which stands for the time of both from now on. */
static void merge(struct stats_sample *sample, const struct stats_sample *later) {
    if (held(later) < held(sample))
        copy_calls(sample, later);
    else
        copy(sample, later);
}

/* Each sample stands for twice the time from now on. Returns how many are left: none, where another
 * process has written times over them that no program lives to see. */
static uint32_t halve(struct device *device, uint32_t count) {
    struct stats_device *stats = device->stats;
    uint64_t interval = device->interval *= 2;
    uint32_t kept = 0;
    if (interval > UINT64_MAX / 4) {
        device->interval = FIRST_INTERVAL;
        return 0;
    }
    for (uint32_t i = 1; i < count; i++) {
        struct stats_sample *last = &stats->samples[kept], *next = &stats->samples[i];
        if (stats_read(&next->time_ns) / interval == stats_read(&last->time_ns) / interval)
            merge(last, next);
        else if (++kept != i)
            copy(&stats->samples[kept], next);
    }
    stats_write(&stats->interval_ns, interval);
    return kept + 1;
}

/* Whether the last sample stands for this moment too. */
static bool continues(const struct device *device, uint32_t count, const struct stats_sample *now) {
    return count && stats_read(&device->stats->samples[count - 1].time_ns) / device->interval ==
                        stats_read(&now->time_ns) / device->interval;
}

void history_sample(struct device *device) {
    lock_check_held(LOCK_POOL);
    struct stats_device *stats = device->stats;
    struct stats_sample now = {.time_ns = stats_now(),
                               .in_use = device->in_use,
                               .idle = device_idle(device),
                               .waste = device->live - device->in_use,
                               .allocations = device->allocations,
                               .hits = device->hits};
    uint32_t count = device->samples;
    if (!count) {
        device->interval = FIRST_INTERVAL;
        stats_write(&stats->interval_ns, device->interval);
    }
    while (count == STATS_SAMPLES && !continues(device, count, &now))
        count = halve(device, count);
    if (continues(device, count, &now))
        merge(&stats->samples[count - 1], &now);
    else
        copy(&stats->samples[count++], &now);
    device->samples = count;
    atomic_store_explicit(&stats->sample_count, count, memory_order_release);
}

void history_note(struct device *device) {
    lock_check_held(LOCK_POOL);
    device->changes++;
    if (!device->stats)
        return;
    if (device->noted_held == device->held && device->changes > ALWAYS_NOTED &&
        device->changes - device->noted < NOTE_EVERY)
        return;
    device->noted_held = device->held;
    device->noted = device->changes;
    history_sample(device);
}
