/* The entry points that fill memory with a value. */
#include "memset.h"

#include "bytes.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t hull(const struct fill *fill) {
    return (fill->rows - 1) * fill->pitch + fill->width * fill->element;
}

DEVICE_CODE static void fill_row(unsigned char *row, const struct fill *fill) {
    if (fill->element == 1)
        for (size_t i = 0; i < fill->width; i++)
            row[i] = (unsigned char)fill->value;
    else if (fill->element == 2)
        for (size_t i = 0; i < fill->width; i++)
            ((uint16_t *)(void *)row)[i] = (uint16_t)fill->value;
    else
        for (size_t i = 0; i < fill->width; i++)
            ((uint32_t *)(void *)row)[i] = fill->value;
}

/* A zero fill of this size gives the host's memory back, and needs none. What is smaller is likely
 * written to again soon. */
static const size_t fresh_from = (size_t)64 << 20;

static bool makes_fresh(const struct fill *fill, const struct block *block) {
    return fill->value == 0 && hull(fill) >= fresh_from &&
           (fill->rows == 1 || fill->pitch == fill->width * fill->element) &&
           block->kind != MEMORY_HOST && block->kind != MEMORY_REGISTERED &&
           block->kind != MEMORY_MANAGED;
}

/* The memory is a mapping of a file in memory. False: the system cannot make holes in it. */
static bool make_fresh(unsigned char *memory, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = (page - (uintptr_t)memory % page) % page;
    size_t whole = (size - before) / page * page;

    if (madvise(memory + before, whole, MADV_REMOVE) != 0)
        return false;
    bytes_fill(memory, before, 0);
    bytes_fill(memory + before + whole, size - before - whole, 0);
    return true;
}

static CUresult run(struct op *op) {
    const struct fill *fill = &op->as.fill;
    unsigned char *memory = memory_reach(fill->address, hull(fill));

    cost_spend_transfer(fill->rows * fill->width * fill->element, settings()->device_gbps);
    if (memory == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (op->host_use == HOST_USE_NONE && make_fresh(memory, hull(fill)))
        return CUDA_SUCCESS;
    for (size_t row = 0; row < fill->rows; row++)
        fill_row(memory + row * fill->pitch, fill);
    return CUDA_SUCCESS;
}

static bool is_valid(const struct fill *fill) {
    size_t row, rows, all;

    return fill->address % fill->element == 0 && fill->pitch % fill->element == 0 &&
           !__builtin_mul_overflow(fill->width, fill->element, &row) &&
           (fill->rows <= 1 ||
            (fill->pitch >= row && !__builtin_mul_overflow(fill->rows, fill->pitch, &rows) &&
             !__builtin_add_overflow(rows, row, &all)));
}

static CUresult make_op(const struct fill *fill, struct op **made) {
    const struct block *block = memory_containing(fill->address);
    struct op *op;

    if (block == NULL || !memory_spans(fill->address, hull(fill)))
        return CUDA_ERROR_INVALID_VALUE;
    op = op_create("memset", run);
    op->node_type = CU_GRAPH_NODE_TYPE_MEMSET;
    op->as.fill = *fill;
    op->as.fill.home = memory_home(fill->address);
    op->host_use = makes_fresh(fill, block) ? HOST_USE_NONE : HOST_USE_ALL;
    op_access(op, fill->address, hull(fill), true);
    *made = op;
    return CUDA_SUCCESS;
}

CUresult memset_op(const struct fill *fill, struct op **op) {
    sim_check_held();
    return is_valid(fill) ? make_op(fill, op) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult submit(const struct fill *fill, struct CUstream_st *stream, bool synchronous) {
    const struct block *block = memory_containing(fill->address);
    struct op *op;
    CUresult result = make_op(fill, &op);

    if (result != CUDA_SUCCESS)
        return result;
    /* asynchronous to the host unless it could see the memory: [wait:memset] API synchronization
     * behavior */
    return stream_run(stream, op,
                      synchronous && stream->capture == NULL &&
                          (block->sync_memops || context_syncs_memops(stream->context) ||
                           block->kind == MEMORY_HOST || block->kind == MEMORY_REGISTERED ||
                           block->kind == MEMORY_MANAGED));
}

static CUresult set(struct fill fill, CUstream handle, enum null_stream null_stream,
                    bool synchronous) {
    struct CUstream_st *stream;
    CUresult result;

    if (!is_valid(&fill))
        return CUDA_ERROR_INVALID_VALUE;
    cost_spend(settings()->launch_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && fill.width != 0 && fill.rows != 0)
        result = submit(&fill, stream, synchronous);
    sim_unlock();
    return result;
}

/* All functions for elements of one type: linear and pitched, synchronous and not. */
#define MEMSET_FUNCTIONS(bits, type)                                                               \
    EXPORT_FORMS(                                                                                  \
        cuMemsetD##bits##_v2, _ptds, (CUdeviceptr to, type value, size_t count),                   \
        set((struct fill){to, 0, count, 1, value, sizeof(type), {0}}, NULL, null_stream, true))    \
    EXPORT_FORMS(                                                                                  \
        cuMemsetD##bits##Async, _ptsz,                                                             \
        (CUdeviceptr to, type value, size_t count, CUstream stream),                               \
        set((struct fill){to, 0, count, 1, value, sizeof(type), {0}}, stream, null_stream, false)) \
    EXPORT_FORMS(cuMemsetD2D##bits##_v2, _ptds,                                                    \
                 (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),          \
                 set((struct fill){to, pitch, width, height, value, sizeof(type), {0}}, NULL,      \
                     null_stream, true))                                                           \
    EXPORT_FORMS(                                                                                  \
        cuMemsetD2D##bits##Async, _ptsz,                                                           \
        (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream),  \
        set((struct fill){to, pitch, width, height, value, sizeof(type), {0}}, stream,             \
            null_stream, false))

MEMSET_FUNCTIONS(8, unsigned char)
MEMSET_FUNCTIONS(16, unsigned short)
MEMSET_FUNCTIONS(32, unsigned int)
