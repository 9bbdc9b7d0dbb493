/* The facts behind an out-of-memory error. */
#include "pool/internal.h"

static void insert_site(struct shortage *shortage, const struct site_record *record) {
    uint64_t bytes = atomic_load_explicit(&record->stats->live_bytes, memory_order_relaxed);
    unsigned at = shortage->site_count;
    if ((int64_t)bytes <=
        0) /* less than nothing: sums of other threads' caches are not merged yet */
        return;
    if (at < SHORTAGE_SITES)
        shortage->site_count++;
    else if (shortage->sites[--at].bytes >= bytes)
        return;
    for (; at > 0 && shortage->sites[at - 1].bytes < bytes; at--)
        shortage->sites[at] = shortage->sites[at - 1];
    shortage->sites[at].key = record->key;
    shortage->sites[at].bytes = bytes;
    shortage->sites[at].blocks =
        atomic_load_explicit(&record->stats->live_blocks, memory_order_relaxed);
}

void shortage_report(struct pool *pool, struct device *device, const char *call, size_t bytes) {
    lock_check_none();
    struct shortage shortage = {.call = call, .requested = bytes};
    size_t available = 0, total;
    if (!pool->config.on_shortage || device->memory != POOL_DEVICE)
        return;
    if (pool_gate_enter(pool)) {
        pool->driver->mem_get_info(&available, &total);
        pool_gate_leave(pool);
    }
    struct pool_usage all;
    pool_usage(pool, POOL_ALL_DEVICES, &all);
    shortage.waste = all.waste;
    pool_lock(pool);
    shortage.device = device->ordinal;
    shortage.capacity = device->total;
    shortage.available = available;
    shortage.live = device->live;
    shortage.idle = device_idle(device);
    shortage.oversize = device->over_size;
    for (const struct site_record *record = pool->site_records; record;
         record = record->by_key.next)
        insert_site(&shortage, record);
    pool_unlock(pool);
    pool->config.on_shortage(&shortage);
}
