/* Why frees wait that might owe: the reasons that are there just now, counted as they begin and
 * end. src/order cannot know of them: memory that tells the host, another process or another device
 * about work without a call. */
#include "pool/internal.h"

static const uint64_t EVERY_DEVICE = UINT64_MAX;

/* Devices beyond the 63rd share a bit. */
static uint64_t device_bit(CUdevice ordinal) {
    return (uint64_t)1 << (ordinal >= 0 && ordinal < 63 ? ordinal : 63);
}

bool wait_is_reached(const struct pool *pool, const struct context *context) {
    lock_check_held(LOCK_POOL);
    return pool->reasons[WAIT_REASON_peer] &&
           (context->kind.memory != POOL_DEVICE || PLANTED(peers_are_everywhere) ||
            pool->reached_devices & device_bit(context->ordinal));
}

bool wait_reaches_others(const struct pool *pool, const struct context *context) {
    lock_check_held(LOCK_POOL);
    return pool->reason_sum &&
           (wait_is_reached(pool, context) || pool->reasons[WAIT_REASON_contexts]);
}

void wait_forget(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    order_forget(&pool->order);
    pool->pending_seen = pool->pending;
    pool->reason_sum = 0;
    pool->reached_devices = 0;
    pool->host_reached = false;
    for (int i = 0; i < WAIT_REASONS; i++) {
        pool->reasons[i] = 0;
        pool->lasting[i] = false;
    }
}

/* Lock held; change is 1 or -1 in unsigned arithmetic that may wrap. */
static void count_reason(struct pool *pool, enum wait_reason reason, uint64_t change) {
    lock_check_held(LOCK_POOL);
    pool->reasons[reason] += change;
    pool->reason_sum += change;
}

/* Lock held. */
static void note_reached(struct pool *pool, enum wait_reason reason, uint64_t devices) {
    lock_check_held(LOCK_POOL);
    pool->reached_devices |= reason == WAIT_REASON_peer ? devices : 0;
}

void pool_reason_begins(struct pool *pool, enum wait_reason reason) {
    pool_lock(pool);
    note_reached(pool, reason, EVERY_DEVICE);
    count_reason(pool, reason, 1);
    pool_unlock(pool);
}

void pool_reason_ends(struct pool *pool, enum wait_reason reason) {
    pool_lock(pool);
    if (pool->reasons[reason])
        count_reason(pool, reason, (uint64_t)-1);
    pool_unlock(pool);
}

static void stay(struct pool *pool, enum wait_reason reason, uint64_t devices) {
    if (reason != WAIT_REASON_peer &&
        atomic_load_explicit(&pool->lasting[reason], memory_order_relaxed))
        return;
    pool_lock(pool);
    note_reached(pool, reason, devices);
    if (!pool->lasting[reason])
        count_reason(pool, reason, 1);
    pool->lasting[reason] = true;
    pool_unlock(pool);
}

/* Where no event covers a whole context, one in a stream of the primary context covers no work of
 * its green ones. */
void pool_reason_stays(struct pool *pool, enum wait_reason reason) {
    stay(pool, reason, EVERY_DEVICE);
    if (reason == WAIT_REASON_green && !pool->driver->ctx_record_event)
        pool_streams_lost(pool);
}

/* The program's call is about to use the context, so this may, whether the pool knows it or not. */
void pool_peer_reaches(struct pool *pool, CUcontext owner) {
    const struct driver *driver = pool->driver;
    CUcontext popped;
    CUdevice ordinal;
    uint64_t devices = EVERY_DEVICE;
    if (owner && driver->ctx_push_current(owner) == CUDA_SUCCESS) {
        if (driver->ctx_get_device(&ordinal) == CUDA_SUCCESS)
            devices = device_bit(ordinal);
        driver->ctx_pop_current(&popped);
    }
    stay(pool, WAIT_REASON_peer, devices);
}

void pool_streams_lost(struct pool *pool) {
    pool_lock(pool);
    pool->streams_lost = true;
    pool_unlock(pool);
    pool_reason_stays(pool, WAIT_REASON_stream);
}

/* With the lock, so that no cache serves a free any more that would owe. */
void pool_host_address_given(struct pool *pool) {
    pool_lock(pool);
    pool->host_reached = true;
    pool_unlock(pool);
}

void pool_work_pending(struct pool *pool) {
    pool_lock(pool);
    pool->pending++;
    pool_unlock(pool);
}

/* Only with auto do frees owe, and with no more devices than a machine can have does the driver
 * stop at a number. */
enum pool_awaits pool_awaits_host_addresses(struct pool *pool) {
    enum { DEVICES_MAX = 1024 };
    enum pool_awaits awaits = POOL_AWAITS_NEVER;
    if (pool->config.free_mode != POOL_FREE_AUTO || pool->config.pageable != POOL_PAGEABLE_LOOK ||
        atomic_load(&pool->host_reached))
        return POOL_AWAITS_NEVER;
    for (CUdevice ordinal = 0; ordinal < DEVICES_MAX; ordinal++) {
        enum host_access access;
        CUresult result = context_ask_host_access(pool, ordinal, &access);
        if (result == CUDA_ERROR_INVALID_DEVICE)
            break;
        if (result != CUDA_SUCCESS)
            return POOL_AWAITS_NOT_YET;
        if (access == HOST_BY_ADDRESS)
            awaits = POOL_AWAITS_THE_FIRST;
    }
    return awaits;
}
