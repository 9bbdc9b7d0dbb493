#include "copy.h"

#include "address_space.h"
#include "allocate.h"
#include "bytes.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Host memory up to this size is staged by an asynchronous copy from it, which then returns at
 * once: [wait:copy-staged] API synchronization behavior. */
static const size_t staging_limit = 64 << 10;

/* Bytes from the first to behind the last byte of one side. */
static size_t hull(const struct copy_side *side, const struct copy *copy) {
    return (copy->slices - 1) * side->slice + (copy->rows - 1) * side->pitch + copy->width;
}

/* Whether that is a number, and the side ends within the address space. */
static bool has_hull(const struct copy_side *side, const struct copy *copy) {
    size_t slices, rows, end;

    return !__builtin_mul_overflow(copy->slices - 1, side->slice, &slices) &&
           !__builtin_mul_overflow(copy->rows - 1, side->pitch, &rows) &&
           !__builtin_add_overflow(slices, rows, &end) &&
           !__builtin_add_overflow(end, copy->width, &end) &&
           !__builtin_add_overflow(end, side->address, &end);
}

static unsigned char *reach(const struct copy_side *side, const struct copy *copy) {
    return side->host ? (unsigned char *)(uintptr_t)side->address
                      : memory_reach(side->address, hull(side, copy));
}

/* Rows of at least this size are copied without mapping what was never written. */
static const size_t sparse_from = (size_t)1 << 20;

/* As bytes_move; `offset` is where the file has the bytes at `from`. */
static void move_sparse(unsigned char *to, const unsigned char *from, size_t size, int file,
                        uint64_t offset) {
    while (size != 0) {
        off_t data = lseek(file, (off_t)offset, SEEK_DATA);
        bool fresh = data > (off_t)offset || (data < 0 && errno == ENXIO);
        off_t end = fresh ? data : lseek(file, (off_t)offset, SEEK_HOLE);
        size_t run = end <= (off_t)offset || (uint64_t)end - offset > size
                         ? size
                         : (size_t)((uint64_t)end - offset);

        if (fresh)
            bytes_fill(to, run, 0);
        else
            bytes_move(to, from, run);
        to += run;
        from += run;
        offset += run;
        size -= run;
    }
}

static void move_row(unsigned char *to, const unsigned char *from, size_t size) {
    bool sparse = false;
    uint64_t offset;
    int file;

    if (size >= sparse_from && (to + size <= from || from + size <= to)) {
        sim_lock();
        sparse = address_space_find(from, &file, &offset);
        sim_unlock();
    }
    if (sparse)
        move_sparse(to, from, size, file, offset);
    else
        bytes_move(to, from, size);
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
            move_row(to + slice * copy->to.slice + row * copy->to.pitch,
                     from + slice * copy->from.slice + row * copy->from.pitch, copy->width);
    return CUDA_SUCCESS;
}

static void dispose(struct op *op) {
    free(op->as.copy.staged);
    free(op->as.copy.given);
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

/* Whether the call waits for the copy. [wait:copy-device], [wait:copy-pageable] API synchronization
 * behavior; [wait:sync-memops] cuda.h 14246; [wait:copy-source] cuda.h 4555 */
static bool has_to_wait(const struct copy *copy, enum place to, enum place from, bool synchronous,
                        bool capturing) {
    if (synchronous)
        return to != PLACE_DEVICE || from != PLACE_DEVICE || always_waits(&copy->to) ||
               always_waits(&copy->from);
    return !capturing &&
           (to == PLACE_PAGEABLE || (from == PLACE_PAGEABLE && copy->source_order != SOURCE_ANY) ||
            copy->source_order == SOURCE_DURING_CALL);
}

/* Whether the copy reads its source before the call returns, so as not to wait for the stream. */
static bool is_staged(const struct copy *copy, enum place to, enum place from) {
    if (from != PLACE_PAGEABLE || to == PLACE_PAGEABLE)
        return false;
    return copy->source_order == SOURCE_DURING_CALL || hull(&copy->from, copy) <= staging_limit;
}

static CUresult make_op(struct copy copy, bool synchronous, bool capturing, struct op **made,
                        bool *wait) {
    CUdevice to_device = -1, from_device = -1;
    enum place to, from;
    struct op *op;

    if (!has_hull(&copy.to, &copy) || !has_hull(&copy.from, &copy))
        return CUDA_ERROR_INVALID_VALUE;
    to = place_of(&copy.to, &copy, &to_device);
    from = place_of(&copy.from, &copy, &from_device);
    if (to == PLACE_INVALID || from == PLACE_INVALID)
        return CUDA_ERROR_INVALID_VALUE;
    if (capturing && copy.source_order == SOURCE_DURING_CALL) {
        entry_not_simulated("a captured copy that reads its source during the call");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    copy.gbps = to == PLACE_DEVICE && from == PLACE_DEVICE && to_device == from_device
                    ? settings()->device_gbps
                    : settings()->copy_gbps;
    *wait = has_to_wait(&copy, to, from, synchronous, capturing);
    if (*wait && !synchronous && is_staged(&copy, to, from)) {
        stage(&copy);
        *wait = false;
    }
    copy.to.home = memory_home(copy.to.address);
    copy.from.home = memory_home(copy.from.address);
    op = op_create("copy", run);
    op->node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
    op->as.copy = copy;
    op->dispose = dispose;
    op->host_use = copy.width >= sparse_from ? HOST_USE_WRITES : HOST_USE_ALL;
    if (from != PLACE_PAGEABLE)
        op_access(op, copy.from.address, hull(&copy.from, &copy), false);
    if (to != PLACE_PAGEABLE)
        op_access(op, copy.to.address, hull(&copy.to, &copy), true);
    *made = op;
    return CUDA_SUCCESS;
}

CUresult copy_op(const struct copy *copy, struct op **op) {
    sim_check_held();
    bool wait;

    return make_op(*copy, false, true, op, &wait);
}

static CUresult submit(const struct copy *copy, struct CUstream_st *stream, bool synchronous) {
    struct op *op;
    bool wait;
    CUresult result = make_op(*copy, synchronous, stream->capture != NULL, &op, &wait);

    if (result != CUDA_SUCCESS)
        return result;
    return stream_run(stream, op, wait || (synchronous && context_syncs_memops(stream->context)));
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
        result = submit(copy, stream, synchronous);
    sim_unlock();
    return result;
}

/* --- several at once --- */

static bool is_empty(const struct copy *copy) {
    return copy->width == 0 || copy->rows == 0 || copy->slices == 0;
}

/* [order:batch] cuda.h 11111: the copies are one work of the stream, hence not ordered among
 * themselves for whoever looks at their accesses. */
static CUresult run_all(struct op *op) {
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < op->child_count && result == CUDA_SUCCESS; i++)
        result = op->children[i]->run(op->children[i]);
    return result;
}

static CUresult submit_all(const struct copy *copies, size_t count, struct CUstream_st *stream,
                           size_t *failed) {
    struct op *all = op_create("batch of copies", run_all);
    CUresult result = CUDA_SUCCESS;
    bool waits = false, wait = false;

    all->children = allocate_zeroed(count * sizeof(struct op *) + 1);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        if (is_empty(&copies[i]))
            continue;
        result = make_op(copies[i], false, stream->capture != NULL,
                         &all->children[all->child_count], &wait);
        if (result == CUDA_SUCCESS) {
            all->child_count++;
            waits = waits || wait;
        } else {
            *failed = i;
        }
    }
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        result = capture_add_beside(stream, all->children, all->child_count);
    } else if (result == CUDA_SUCCESS) {
        return stream_run(stream, all, waits);
    }
    op_drop(all);
    return result;
}

CUresult copy_run_all(const struct copy *copies, size_t count, CUstream handle,
                      enum null_stream null_stream, size_t *failed) {
    struct CUstream_st *stream;
    CUresult result;

    *failed = SIZE_MAX;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && stream->kind == STREAM_LEGACY)
        result = CUDA_ERROR_INVALID_VALUE; /* cuda.h 11165 */
    if (result == CUDA_SUCCESS)
        result = submit_all(copies, count, stream, failed);
    sim_unlock();
    return result;
}
