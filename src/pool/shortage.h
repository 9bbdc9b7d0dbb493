/* Memory that is short, or may come to be: how much there is, and who is waited for. */
#ifndef POOLCUDA_POOL_SHORTAGE_H
#define POOLCUDA_POOL_SHORTAGE_H

#include "pool/context.h"

/* available.c: what is left of the memory that a device uses: of its own, and of what each control
 * group allows. of[0] is the device's. */
enum { AVAILABLE_MOST = 4 };
struct available {
    int count;
    struct available_of {
        uint64_t bytes, total;
    } of[AVAILABLE_MOST];
};
/* held: what the pool holds of it. False: nobody says. Current context, gate entered, lock not
 * held.
 */
bool available_ask(struct pool *pool, struct device *device, uint64_t held, struct available *left);
/* memory_info.c: what the driver says the current context's device has free, in bytes. SIZE_MAX: it
 * does not say, or a capture goes on. Lock not held. */
size_t available_by_driver(struct pool *pool);
/* memory_info.c: has all contexts of the device count what the driver knows better than the ledger:
 * source->refresh. Lock held on entry and return, not in between. */
void memory_refresh(struct pool *pool, const struct device *device);

/* headroom.c: what stays free beside the pool; bounds.h says when it may lack. Bytes that are
 * lacking once `growth` more are live, by what is left; NULL: that is not known. Lock held. */
uint64_t headroom_lack(const struct pool_config *config, struct device *device,
                       const struct available *left, size_t growth);
/* Whether not even `growth` bytes are left. Lock held. */
bool headroom_is_urgent(const struct available *left, size_t growth);
/* Whether more is live, or used by others, than when idle memory was last given up for it. Lock
 * held. */
bool headroom_is_new_reason(struct device *device, const struct available *left);
/* It was not given up after all. Lock held. */
void headroom_put_off(struct device *device);

/* patience.c. How long a call that found no memory has waited for the device. */
struct patience {
    uint64_t began; /* nanoseconds; 0: it has not waited */
    unsigned step;
    bool counted;
};
/* BRIEFLY: for the device, which is neither told nor counted. */
enum patience_for { PATIENCE_FOR_DEVICE, PATIENCE_FOR_THREAD, PATIENCE_BRIEFLY };
/* Waits a moment. False: it has waited for `seconds`, POOLCUDA_OOM_WAIT, or what a thread may take
 * to give memory back. Lock not held. */
bool patience_wait(struct pool *pool, struct patience *patience, enum patience_for what,
                   double seconds);
void patience_end(const struct patience *patience); /* counts the time */

/* shortage_report.c: reports a call that failed although nothing idle was left to
 * config.on_shortage. Lock not held. bytes: 0 if not known. */
void shortage_report(struct pool *pool, struct device *device, const char *call, size_t bytes);

/* pages.c: bytes of device memory that would be free if all idle blocks were; at least. Lock held.
 */
uint64_t pages_idle(struct pool *pool, const struct device *device);
/* What pages_idle is at most. Lock held. */
uint64_t pages_idle_at_most(struct pool *pool, const struct device *device);
/* What pages_idle is at most, by the sums alone. Lock held. */
uint64_t pages_idle_roughly(const struct device *device);
/* block_map.c: to be called after an allocation from the driver: makes a new map of where blocks
 * lie once held memory has grown by an eighth. Lock held. */
void block_map_grow(struct pool *pool, struct device *device);

/* memory_pools.c. All below: lock not held. */

/* Before `call` fails because `device` has no memory (negative: not known, nothing happens): makes
 * a wait that is owed, and has the driver take what lies unused in the program's own memory pools.
 * Returns whether anything has changed. Not during a stream capture. */
bool memory_pools_give(struct pool *pool, CUdevice device, const char *call);
/* Whether it could give more once the wait has been made that is owed. */
bool memory_pools_may_give(struct pool *pool, CUdevice device);
void memory_pools_forget(struct pool *pool); /* lock held */

#endif
