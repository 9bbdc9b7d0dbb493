/* The program's own memory pools, from which stream-ordered calls allocate: what lies unused in
 * them is given back when the device is out of memory.
 *
 * A memory pool keeps what was freed, up to its release threshold; more than that it gives back
 * when the host next waits for the device [cuda.h, cuMemPoolSetAttribute]. Natively a free waits,
 * so where its wait is still owed, and is over by now, it is made first. What is then unused is
 * given back to the driver before an error is: a program could do so itself with cuMemPoolTrimTo,
 * which waits for nothing and takes nothing that is in use. Whether the driver's own cuMemAlloc
 * does so is not documented.
 *
 * The devices' default pools are known, and those that the program has made. While one of these is
 * being destroyed the gate is closed, so that none is trimmed that exists no more. */
#include "pool/internal.h"
#include "sources/driver_pool.h"

#include <stdlib.h>

struct memory_pool {
    CUmemoryPool handle;
    CUdevice device;
    LIST_ENTRY(memory_pool) link;
};

void pool_memory_pool_created(struct pool *pool, CUmemoryPool handle,
                              const CUmemPoolProps *properties) {
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return;
    struct memory_pool *made = malloc(sizeof *made);
    if (!made) /* it is never trimmed */
        return;
    *made = (struct memory_pool){.handle = handle, .device = properties->location.id};
    pool_lock(pool);
    LIST_INSERT_HEAD(&pool->memory_pools, made, link);
    pool_unlock(pool);
}

void pool_memory_pool_ends(struct pool *pool, CUmemoryPool handle) {
    struct memory_pool *ending;
    gate_close(pool);
    pool_lock(pool);
    LIST_FOREACH (ending, &pool->memory_pools, link)
        if (ending->handle == handle)
            break;
    if (ending)
        LIST_REMOVE(ending, link);
    pool_unlock(pool);
    free(ending);
}

void pool_memory_pool_ended(struct pool *pool) {
    gate_open(pool);
}

void memory_pools_forget(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct memory_pool *known;
    while ((known = LIST_FIRST(&pool->memory_pools))) {
        LIST_REMOVE(known, link);
        free(known);
    }
}

void pool_memory_pools_lost(struct pool *pool) {
    gate_close(pool);
    pool_lock(pool);
    memory_pools_forget(pool);
    pool_unlock(pool);
    gate_open(pool);
}

enum { MOST_POOLS = 64 };

/* The default pool of `device` and those that were made there. Gate entered, lock not held. */
static int list_pools(struct pool *pool, CUdevice device, CUmemoryPool *handles) {
    lock_check_none();
    const struct driver *driver = pool->driver;
    const struct memory_pool *made;
    int count = 0;
    if (driver->device_get_default_mem_pool &&
        driver->device_get_default_mem_pool(&handles[0], device) == CUDA_SUCCESS)
        count++;
    pool_lock(pool);
    LIST_FOREACH (made, &pool->memory_pools, link)
        if (made->device == device && count < MOST_POOLS)
            handles[count++] = made->handle;
    pool_unlock(pool);
    return count;
}

static size_t trim_all(struct pool *pool, CUdevice device) {
    const struct driver *driver = pool->driver;
    CUmemoryPool handles[MOST_POOLS];
    size_t released = 0;
    if (!driver->mem_pool_trim_to || !driver->mem_pool_get_attribute || !pool_gate_enter(pool))
        return 0;
    int count = list_pools(pool, device, handles);
    for (int i = 0; i < count; i++)
        released += driver_pool_trim(driver, handles[i], SIZE_MAX);
    pool_gate_leave(pool);
    return released;
}

bool memory_pools_may_give(struct pool *pool, CUdevice device) {
    lock_check_none();
    CUmemoryPool handles[MOST_POOLS];
    bool any = false;
    if (device < 0 || !wait_is_owed() || !pool->driver->mem_pool_get_attribute ||
        !pool_gate_enter(pool))
        return false;
    int count = list_pools(pool, device, handles);
    for (int i = 0; i < count; i++) {
        cuuint64_t held = 0;
        pool->driver->mem_pool_get_attribute(handles[i], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                             &held);
        any = any || held;
    }
    pool_gate_leave(pool);
    return any;
}

bool memory_pools_give(struct pool *pool, CUdevice device, const char *call) {
    lock_check_none();
    if (device < 0 || atomic_load(&pool->captures))
        return false;
    bool waited = wait_is_owed() && quiet_is_owed_wait_over(pool) && wait_try_pay(pool, call);
    size_t released = trim_all(pool, device);
    stats_add(STATS_oom_trimmed_bytes, released);
    return waited || released > 0;
}
