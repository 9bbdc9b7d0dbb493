/* Semaphores from outside of CUDA: timelines that are a word in a file which processes share. */
#include "external_semaphore.h"

#include "allocate.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "settings.h"
#include "stream.h"
#include "value_op.h"

#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

struct CUextSemaphore_st {
    struct outside_word *word;
    struct CUextSemaphore_st *next;
};

static struct CUextSemaphore_st *semaphores; /* what programs hold handles of */

static bool is_known(CUexternalSemaphore handle) {
    const struct CUextSemaphore_st *semaphore;

    LL_FOREACH(semaphores, semaphore)
    if (semaphore == handle)
        return true;
    return false;
}

static CUresult check_import(const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *from) {
    if (from->flags != 0 ||
        (unsigned int)from->type < CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ||
        (unsigned int)from->type > CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32)
        return CUDA_ERROR_INVALID_VALUE;
    return from->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
               ? CUDA_SUCCESS
               : entry_not_simulated("semaphores other than timelines by file descriptors");
}

/* The descriptor is the driver's from then on. */
static CUresult import(int descriptor, CUexternalSemaphore *out) {
    struct outside_word *word = outside_word_map(descriptor);

    if (word == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    close(descriptor);
    *out = allocate_zeroed(sizeof **out);
    (*out)->word = word;
    LL_PREPEND(semaphores, *out);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuImportExternalSemaphore(CUexternalSemaphore *out,
                                              const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *from) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuImportExternalSemaphore);
    if (out == NULL || from == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_import(from);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = import(from->handle.fd, out);
    sim_unlock();
    return result;
}

/* Work that uses it keeps its word. */
SIM_EXPORT CUresult cuDestroyExternalSemaphore(CUexternalSemaphore semaphore) {
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    ENTER(cuDestroyExternalSemaphore);
    sim_lock();
    if (is_known(semaphore)) {
        LL_DELETE(semaphores, semaphore);
        outside_word_drop(semaphore->word);
        free(semaphore);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

/* --- operations --- */

static CUresult check_all(const CUexternalSemaphore *handles, unsigned int count) {
    if (handles == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++)
        if (!is_known(handles[i]))
            return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

static struct word word_of(CUexternalSemaphore semaphore) {
    return (struct word){.outside = semaphore->word, .bytes = sizeof(uint64_t)};
}

CUresult external_semaphore_signal(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *signals,
                                   struct op **made) {
    sim_check_held();
    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *how = signals->paramsArray;
    unsigned int count = signals->numExtSems;
    CUresult result =
        how != NULL ? check_all(signals->extSemArray, count) : CUDA_ERROR_INVALID_VALUE;
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *told;

    for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = how[i].flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    *made = value_op_create("signal of external semaphores", count);
    (*made)->node_type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
    for (unsigned int i = 0; i < count; i++) {
        struct word word = word_of(signals->extSemArray[i]);

        value_op_write(*made, &word, how[i].params.fence.value);
    }
    told = &(*made)->as.values.told.signals;
    told->paramsArray = value_op_keep(*made, how, count * sizeof *how, signals->extSemArray,
                                      count * sizeof *signals->extSemArray);
    told->extSemArray = (CUexternalSemaphore *)(told->paramsArray + count);
    told->numExtSems = count;
    return CUDA_SUCCESS;
}

CUresult external_semaphore_wait(const CUDA_EXT_SEM_WAIT_NODE_PARAMS *waits, struct op **made) {
    sim_check_held();
    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *how = waits->paramsArray;
    unsigned int count = waits->numExtSems;
    CUresult result = how != NULL ? check_all(waits->extSemArray, count) : CUDA_ERROR_INVALID_VALUE;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS *told;

    for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = how[i].flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    *made = value_op_create("wait for external semaphores", count);
    (*made)->node_type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
    for (unsigned int i = 0; i < count; i++)
        value_op_wait(*made, &(struct awaited){.word = word_of(waits->extSemArray[i]),
                                               .condition = VALUE_NOT_LESS,
                                               .value = how[i].params.fence.value});
    told = &(*made)->as.values.told.waits;
    told->paramsArray = value_op_keep(*made, how, count * sizeof *how, waits->extSemArray,
                                      count * sizeof *waits->extSemArray);
    told->extSemArray = (CUexternalSemaphore *)(told->paramsArray + count);
    told->numExtSems = count;
    return CUDA_SUCCESS;
}

/* --- in streams --- */

/* One of the two is NULL: it says what is done. */
static CUresult submit(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *signals,
                       const CUDA_EXT_SEM_WAIT_NODE_PARAMS *waits, CUstream handle,
                       enum null_stream null_stream) {
    struct CUstream_st *stream;
    struct op *op;
    CUresult result;

    cost_spend(settings()->event_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = signals != NULL ? external_semaphore_signal(signals, &op)
                                 : external_semaphore_wait(waits, &op);
    if (result == CUDA_SUCCESS)
        result = stream_run(stream, op, false);
    sim_unlock();
    return result;
}

EXPORT_FORMS(
    cuSignalExternalSemaphoresAsync, _ptsz,
    (const CUexternalSemaphore *semaphores_of, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *how,
     unsigned int count, CUstream stream),
    submit(&(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS){(CUexternalSemaphore *)semaphores_of, how, count},
           NULL, stream, null_stream))
EXPORT_FORMS(
    cuWaitExternalSemaphoresAsync, _ptsz,
    (const CUexternalSemaphore *semaphores_of, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *how,
     unsigned int count, CUstream stream),
    submit(NULL, &(CUDA_EXT_SEM_WAIT_NODE_PARAMS){(CUexternalSemaphore *)semaphores_of, how, count},
           stream, null_stream))
