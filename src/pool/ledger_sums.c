/* The sums over blocks, and the state that each counts as; and how the sums of each device were
 * over time: the samples of a struct stats_device. */
#include "pool/ledger_parts.h"

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

static size_t over_size(const struct pool_block *block) {
    size_t rounded = block->context->keeper->round(block->requested);
    return block->size > rounded ? block->size - rounded : 0;
}

/* Compares as signed numbers: while caches are merged one after the other, what one has freed of
 * another's makes sums less than nothing. */
static void raise(uint64_t *peak, uint64_t value) {
    if ((int64_t)value > (int64_t)*peak)
        *peak = value;
}

/* live: how much more it was than all devices' records say. */
static void note_pool_peaks(struct pool *pool, uint64_t live) {
    uint64_t held = 0;
    const struct device *device;
    TAILQ_FOREACH (device, &pool->devices, link)
        if (device->memory == POOL_DEVICE) {
            live += device->live;
            held += device->held;
        }
    raise(&pool->peak_live, live);
    raise(&pool->peak_held, held);
    stats_set(STATS_peak_live_bytes, pool->peak_live);
    stats_set(STATS_peak_held_bytes, pool->peak_held);
}

void ledger_note_peaks(struct pool *pool, struct device *device, uint64_t in_use, uint64_t live,
                       uint64_t taken) {
    lock_check_held(LOCK_POOL);
    if ((int64_t)(device->in_use + in_use) > (int64_t)device->peak_in_use)
        device->peaked = device->changes;
    raise(&device->peak_in_use, device->in_use + in_use);
    raise(&device->peak_live, device->live + live);
    raise(&device->peak_held, device->held);
    if (device->stats) {
        stats_write(&device->stats->peak_live, device->peak_live);
        stats_write(&device->stats->peak_held, device->peak_held);
    }
    decay_note_idle(device, (int64_t)(device_idle(device) - taken));
    if (device->memory == POOL_DEVICE)
        note_pool_peaks(pool, live);
}

void ledger_publish_kind(const struct device *device) {
    lock_check_held(LOCK_POOL);
    /* The gauges of a kind stand in one order. */
    enum stats_counter first =
        device->memory == POOL_HOST ? STATS_host_in_use_bytes : STATS_managed_in_use_bytes;
    stats_set(first, device->in_use);
    stats_set(first + 1, device_idle(device));
    stats_set(first + 2, device->held);
    stats_set(first + 3, device->peak_held);
}

void ledger_publish(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    ledger_note_peaks(pool, device, 0, 0, 0);
    if (!device->stats)
        ledger_publish_kind(device);
    history_note(device);
}

void ledger_count_live(struct pool_block *block, uint64_t sign) {
    lock_check_held(LOCK_POOL);
    struct context *context = block->context;
    struct device *device = context->device;
    struct stats_site *site = block->site->stats;
    uint64_t size = sign * block->size, in_use = sign * block->requested;
    if (block == context->sentinel)
        context->sentinel = NULL;
    context->live_blocks += sign;
    device->live += size;
    device->in_use += in_use;
    device->live_blocks += sign;
    device->over_size += sign * over_size(block);
    struct stats_device *told = device->stats;
    if (told) {
        stats_grow(&told->live, size);
        stats_grow(&told->in_use, in_use);
        stats_grow(&told->live_blocks, sign);
    }
    stats_grow(&site->live_blocks, sign);
    stats_grow(&site->live_bytes, size);
    stats_raise(&site->peak_live_bytes, &site->live_bytes);
}

void ledger_count_held(struct device *device, uint64_t blocks, uint64_t bytes) {
    lock_check_held(LOCK_POOL);
    device->blocks += blocks;
    device->held += bytes;
    if (device->stats) {
        stats_grow(&device->stats->blocks, blocks);
        stats_grow(&device->stats->held, bytes);
    }
}

void ledger_count_of_site(const struct site *site, uint64_t blocks, uint64_t bytes) {
    lock_check_held(LOCK_POOL);
    stats_grow(&site->stats->held_blocks, blocks);
    stats_grow(&site->stats->held_bytes, bytes);
}

void ledger_count_block(const struct pool_block *block, uint64_t sign) {
    lock_check_held(LOCK_POOL);
    ledger_count_held(block->context->device, sign, sign * block->size);
    ledger_count_of_site(block->site, sign, sign * block->size);
}

/* A cache may take only what it can count and keep as the policy does. */
void ledger_set_state(struct pool_block *block, enum block_state state) {
    lock_check_held(LOCK_POOL);
    block->state = (uint8_t)state;
    block->quick_freeable = state == BLOCK_LIVE && block->context->keeper->take_same &&
                            !block->taints && !block->in_driver_pool;
}
