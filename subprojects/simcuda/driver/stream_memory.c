#include "stream_memory.h"

#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"
#include "value_op.h"

enum { BATCH_MAX = 255 };

static CUresult check_word(CUdeviceptr address, unsigned int bytes) {
    const struct block *block = memory_containing(address);

    return block != NULL && block->kind != MEMORY_MANAGED && address % bytes == 0 &&
                   memory_spans(address, bytes)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* The lower half of a value of 64 bits is one of 32. */
static CUresult add_wait(struct op *op, const struct CUstreamMemOpWaitValueParams_st *wait,
                         unsigned int bytes) {
    unsigned int condition = wait->flags & ~(unsigned int)CU_STREAM_WAIT_VALUE_FLUSH;
    CUresult result = check_word(wait->address, bytes);

    if (condition > CU_STREAM_WAIT_VALUE_NOR)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        value_op_wait(op, &(struct awaited){.word = {.address = wait->address, .bytes = bytes},
                                            .condition = condition,
                                            .value = bytes == 4 ? wait->value : wait->value64});
    return result;
}

static CUresult add_write(struct op *op, const struct CUstreamMemOpWriteValueParams_st *write,
                          unsigned int bytes, enum stream_memory_version version) {
    CUresult result = check_word(write->address, bytes);

    if (write->flags == CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER && version != STREAM_MEMORY_V1)
        return CUDA_ERROR_NOT_SUPPORTED;
    if ((write->flags & ~(unsigned int)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        value_op_write(op, &(struct word){.address = write->address, .bytes = bytes},
                       bytes == 4 ? write->value : write->value64);
    return result;
}

/* It changes nothing: work sees what the work before it in its stream did, and so does the host. */
static CUresult check_barrier(const struct CUstreamMemOpMemoryBarrierParams_st *barrier,
                              enum stream_memory_version version) {
    if (version == STREAM_MEMORY_V1)
        return CUDA_ERROR_NOT_SUPPORTED;
    return barrier->flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult add(struct op *op, const CUstreamBatchMemOpParams *from,
                    enum stream_memory_version version) {
    switch (from->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return add_wait(op, &from->waitValue, 4);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return add_wait(op, &from->waitValue, 8);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return add_write(op, &from->writeValue, 4, version);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return add_write(op, &from->writeValue, 8, version);
    case CU_STREAM_MEM_OP_BARRIER:
        return check_barrier(&from->memoryBarrier, version);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return from->flushRemoteWrites.flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult stream_memory_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch,
                          enum stream_memory_version version, struct op **made) {
    sim_check_held();
    CUresult result = CUDA_SUCCESS;
    struct op *op;

    if (batch->paramArray == NULL || batch->count == 0 || batch->count > BATCH_MAX ||
        batch->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    op = value_op_create("stream memory operation", batch->count);
    op->node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    for (unsigned int i = 0; i < batch->count && result == CUDA_SUCCESS; i++)
        result = add(op, &batch->paramArray[i], version);
    if (result != CUDA_SUCCESS) {
        op_drop(op);
        return result;
    }
    op->as.values.told.batch = *batch;
    op->as.values.told.batch.paramArray =
        value_op_keep(op, batch->paramArray, batch->count * sizeof *batch->paramArray, NULL, 0);
    *made = op;
    return CUDA_SUCCESS;
}

/* "op.waitValue.address, value[64], flags bits corresponding to wait type; op.writeValue.address,
 * value[64]. Other fields may not be modified" (cuGraphExecBatchMemOpNodeSetParams). */
static bool is_alike(const CUstreamBatchMemOpParams *a, const CUstreamBatchMemOpParams *b) {
    const unsigned int kept = CU_STREAM_WAIT_VALUE_FLUSH;

    if (a->operation != b->operation)
        return false;
    switch (a->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return (a->waitValue.flags & kept) == (b->waitValue.flags & kept);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return a->writeValue.flags == b->writeValue.flags;
    default: /* a barrier's and a flush's flags stand in the same place */
        return a->memoryBarrier.flags == b->memoryBarrier.flags;
    }
}

bool stream_memory_may_become(const struct op *from, const struct op *to) {
    sim_check_held();
    const CUDA_BATCH_MEM_OP_NODE_PARAMS *before = &from->as.values.told.batch,
                                        *after = &to->as.values.told.batch;
    bool alike = before->ctx == after->ctx && before->count == after->count;

    for (unsigned int i = 0; i < before->count && alike; i++)
        alike = is_alike(&before->paramArray[i], &after->paramArray[i]);
    return alike;
}

/* --- entry points --- */

static CUresult submit(CUstream handle, CUstreamBatchMemOpParams *batch, unsigned int count,
                       unsigned int flags, enum stream_memory_version version,
                       enum null_stream null_stream) {
    struct CUstream_st *stream;
    struct op *op;
    CUresult result;

    cost_spend(settings()->event_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = stream_memory_op(
            &(CUDA_BATCH_MEM_OP_NODE_PARAMS){stream->context, count, batch, flags}, version, &op);
    if (result == CUDA_SUCCESS)
        result = stream_run(stream, op, false);
    sim_unlock();
    return result;
}

static CUresult wait_value(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address,
                           uint64_t value, unsigned int flags, enum stream_memory_version version,
                           enum null_stream null_stream) {
    CUstreamBatchMemOpParams step = {
        .waitValue = {
            .operation = operation, .address = address, .value64 = value, .flags = flags}};

    return submit(stream, &step, 1, 0, version, null_stream);
}

static CUresult write_value(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address,
                            uint64_t value, unsigned int flags, enum stream_memory_version version,
                            enum null_stream null_stream) {
    CUstreamBatchMemOpParams step = {
        .writeValue = {
            .operation = operation, .address = address, .value64 = value, .flags = flags}};

    return submit(stream, &step, 1, 0, version, null_stream);
}

/* All functions of one version, whose names end in `suffix`. */
#define STREAM_MEMORY_FUNCTIONS(suffix, version)                                                   \
    EXPORT_FORMS(cuStreamWaitValue32##suffix, _ptsz,                                               \
                 (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),     \
                 wait_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags,         \
                            version, null_stream))                                                 \
    EXPORT_FORMS(cuStreamWaitValue64##suffix, _ptsz,                                               \
                 (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),     \
                 wait_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags,         \
                            version, null_stream))                                                 \
    EXPORT_FORMS(cuStreamWriteValue32##suffix, _ptsz,                                              \
                 (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),     \
                 write_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags,       \
                             version, null_stream))                                                \
    EXPORT_FORMS(cuStreamWriteValue64##suffix, _ptsz,                                              \
                 (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),     \
                 write_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags,       \
                             version, null_stream))                                                \
    EXPORT_FORMS(cuStreamBatchMemOp##suffix, _ptsz,                                                \
                 (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *batch,            \
                  unsigned int flags),                                                             \
                 submit(stream, batch, count, flags, version, null_stream))

STREAM_MEMORY_FUNCTIONS(, STREAM_MEMORY_V1)
STREAM_MEMORY_FUNCTIONS(_v2, STREAM_MEMORY_V2)
