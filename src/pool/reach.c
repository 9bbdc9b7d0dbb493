/* What a request could be served from at best: what can never be had costs no idle memory, and no
 * wait. All of this may be said too high, never too low. */
#include "pool/internal.h"

enum { PAGE = 2 << 20 };

/* The least that the request takes. */
static uint64_t least_of(const struct request *request) {
    uint64_t bytes = request->bytes;
    if (request->pitch && !bytes &&
        __builtin_mul_overflow(request->pitch->width, request->pitch->height, &bytes))
        bytes = UINT64_MAX;
    return bytes;
}

/* Managed memory may be larger than any device. */
bool reach_has_room(const struct request *request) {
    lock_check_none();
    const struct device *device = request->context->device;
    return device->memory == POOL_MANAGED || !device->total || least_of(request) <= device->total;
}

/* Idle memory of other kinds may lie in the same place: see make_room_for in out_of_memory.c. A
 * block that shares its page with others may free all of it. */
static uint64_t most_back(struct pool *pool, CUdevice ordinal) {
    const struct device *device;
    uint64_t bytes = 0;
    pool_lock(pool);
    LIST_FOREACH (device, &pool->devices, link)
        if (device->ordinal == ordinal || device->memory != POOL_DEVICE)
            bytes += device->idle + device->idle_blocks * PAGE;
    pool_unlock(pool);
    return bytes;
}

/* What the driver keeps for itself, and gives when it is asked for it, is not known. */
static uint64_t slack(const struct device *device) {
    static const uint64_t most = 64 << 20;
    return device->total / 64 < most ? device->total / 64 : most;
}

bool reach_idle_helps(struct pool *pool, const struct request *request, bool surely) {
    lock_check_none();
    const struct device *device = request->context->device;
    size_t available = 0, total;
    CUresult result = CUDA_ERROR_NOT_READY;
    pool_lock(pool);
    bool coming = device->releasing;
    pool_unlock(pool);
    if (device->memory != POOL_DEVICE || device->place.unified || coming)
        return true; /* what is available, nobody says */
    if (gate_enter(pool)) {
        result = pool->driver->mem_get_info(&available, &total);
        gate_leave(pool);
    }
    uint64_t more = surely ? 0 : slack(device);
    return result != CUDA_SUCCESS ||
           least_of(request) <= available + most_back(pool, device->ordinal) + more;
}

bool reach_others_may_help(struct pool *pool, const struct request *request) {
    lock_check_none();
    const struct device *device = request->context->device;
    if (device->memory != POOL_DEVICE) /* others are asked for no other kind */
        return false;
    pool_lock(pool);
    bool fits = device->live < device->total && request->size <= device->total - device->live;
    pool_unlock(pool);
    return fits;
}
