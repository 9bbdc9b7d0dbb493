#include "copy.h"

#include "allocate.h"
#include "bytes.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "settings.h"

#include <stdlib.h>

/* Host memory up to this size is staged by an asynchronous copy from it, which then returns at
 * once: [wait:copy-staged] API synchronization behavior. */
static const size_t staging_limit = 64 << 10;

/* Bytes from the first to behind the last byte of one side. */
static size_t hull(const struct copy_side *side, const struct copy *copy) {
    return (copy->slices - 1) * side->slice + (copy->rows - 1) * side->pitch + copy->width;
}

static unsigned char *reach(const struct copy_side *side, const struct copy *copy) {
    return side->host ? (unsigned char *)(uintptr_t)side->address
                      : memory_reach(side->address, hull(side, copy));
}

static CUresult run(struct op *op) {
    const struct copy *copy = &op->as.copy;
    unsigned char *to = reach(&copy->to, copy);
    const unsigned char *from = copy->staged != NULL ? copy->staged : reach(&copy->from, copy);

    cost_spend(settings()->copy_ns);
    cost_spend_transfer(copy->width * copy->rows * copy->slices, copy->gbps);
    if (to == NULL || from == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS; /* released since it was submitted */
    for (size_t slice = 0; slice < copy->slices; slice++)
        for (size_t row = 0; row < copy->rows; row++)
            bytes_move(to + slice * copy->to.slice + row * copy->to.pitch,
                       from + slice * copy->from.slice + row * copy->from.pitch, copy->width);
    return CUDA_SUCCESS;
}

static void dispose(struct op *op) {
    free(op->as.copy.staged);
}

/* Where a side lies. */
enum place { PLACE_INVALID, PLACE_PAGEABLE, PLACE_PINNED, PLACE_MANAGED, PLACE_DEVICE };

static enum place place_of(struct copy_side *side, const struct copy *copy, CUdevice *device) {
    size_t size = hull(side, copy);
    struct block *block = memory_containing(side->address);

    if (block == NULL) {
        side->host = true;
        return memory_is_device_range(side->address, size) ? PLACE_INVALID : PLACE_PAGEABLE;
    }
    *device = block->device;
    side->host = false;
    if (!memory_spans(side->address, size))
        return PLACE_INVALID;
    switch (block->kind) {
    case MEMORY_HOST:
    case MEMORY_REGISTERED:
        return PLACE_PINNED;
    case MEMORY_MANAGED:
        return PLACE_MANAGED;
    default:
        return PLACE_DEVICE;
    }
}

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set for it. */
static bool always_waits(const struct copy_side *side) {
    const struct block *block = side->host ? NULL : memory_containing(side->address);

    return block != NULL && block->sync_memops;
}

/* Keeps what the program may change or release as soon as the call has returned. */
static void stage(struct copy *copy) {
    size_t size = hull(&copy->from, copy);

    copy->staged = allocate_zeroed(size);
    bytes_move(copy->staged, (const void *)(uintptr_t)copy->from.address, size);
}

static CUresult submit(struct copy copy, struct CUstream_st *stream, bool synchronous) {
    CUdevice to_device = -1, from_device = -1;
    enum place to = place_of(&copy.to, &copy, &to_device);
    enum place from = place_of(&copy.from, &copy, &from_device);
    bool capturing = stream->capture != NULL;
    struct op *op;
    bool wait;

    if (to == PLACE_INVALID || from == PLACE_INVALID)
        return CUDA_ERROR_INVALID_VALUE;
    copy.gbps = to == PLACE_DEVICE && from == PLACE_DEVICE && to_device == from_device
                    ? settings()->device_gbps
                    : settings()->copy_gbps;
    /* [wait:copy-device], [wait:copy-pageable] API synchronization behavior; [wait:sync-memops]
     * cuda.h 14246 */
    if (synchronous)
        wait = to != PLACE_DEVICE || from != PLACE_DEVICE || always_waits(&copy.to) ||
               always_waits(&copy.from);
    else
        wait = !capturing && (to == PLACE_PAGEABLE || from == PLACE_PAGEABLE);
    if (wait && !synchronous && from == PLACE_PAGEABLE && to != PLACE_PAGEABLE &&
        hull(&copy.from, &copy) <= staging_limit) {
        stage(&copy);
        wait = false;
    }
    op = op_create("copy", run);
    op->as.copy = copy;
    op->dispose = dispose;
    if (from != PLACE_PAGEABLE)
        op_access(op, copy.from.address, hull(&copy.from, &copy), false);
    if (to != PLACE_PAGEABLE)
        op_access(op, copy.to.address, hull(&copy.to, &copy), true);
    return stream_run(stream, op, wait);
}

CUresult copy_run(const struct copy *copy, CUstream handle, enum null_stream null_stream,
                  bool synchronous) {
    struct CUstream_st *stream;
    CUresult result;

    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && synchronous)
        result = capture_check_stream(stream);
    if (result == CUDA_SUCCESS && synchronous)
        result = capture_check_legacy(stream);
    if (result == CUDA_SUCCESS && synchronous)
        result = capture_check_unsafe(); /* [capture:unsafe-others] assumed */
    if (result == CUDA_SUCCESS && copy->width != 0 && copy->rows != 0 && copy->slices != 0)
        result = submit(*copy, stream, synchronous);
    sim_unlock();
    return result;
}
