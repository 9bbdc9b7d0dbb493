/* Semaphores from outside of CUDA: timelines that are a word in a file which processes share. */
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

/* --- in streams --- */

static CUresult check_all(const CUexternalSemaphore *handles, unsigned int count) {
    for (unsigned int i = 0; i < count; i++)
        if (!is_known(handles[i]))
            return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

static struct word word_of(CUexternalSemaphore semaphore) {
    return (struct word){.outside = semaphore->word, .bytes = sizeof(uint64_t)};
}

static CUresult signal_all(const CUexternalSemaphore *handles,
                           const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *how, unsigned int count,
                           struct op **op) {
    for (unsigned int i = 0; i < count; i++)
        if (how[i].flags != 0)
            return CUDA_ERROR_INVALID_VALUE;
    *op = value_op_create("signal of external semaphores", count);
    for (unsigned int i = 0; i < count; i++) {
        struct word word = word_of(handles[i]);

        value_op_write(*op, &word, how[i].params.fence.value);
    }
    return CUDA_SUCCESS;
}

static CUresult wait_for_all(const CUexternalSemaphore *handles,
                             const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *how, unsigned int count,
                             struct op **op) {
    for (unsigned int i = 0; i < count; i++)
        if (how[i].flags != 0)
            return CUDA_ERROR_INVALID_VALUE;
    *op = value_op_create("wait for external semaphores", count);
    for (unsigned int i = 0; i < count; i++)
        value_op_wait(*op, &(struct awaited){.word = word_of(handles[i]),
                                             .condition = VALUE_NOT_LESS,
                                             .value = how[i].params.fence.value});
    return CUDA_SUCCESS;
}

/* One of the parameters is NULL: it says what is done. */
static CUresult submit(const CUexternalSemaphore *handles,
                       const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *signals,
                       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *waits, unsigned int count,
                       CUstream handle, enum null_stream null_stream) {
    struct CUstream_st *stream;
    struct op *op;
    CUresult result;

    if (handles == NULL || count == 0 || (signals == NULL && waits == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    cost_spend(settings()->event_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = check_all(handles, count);
    if (result == CUDA_SUCCESS)
        result = signals != NULL ? signal_all(handles, signals, count, &op)
                                 : wait_for_all(handles, waits, count, &op);
    if (result == CUDA_SUCCESS)
        result = stream_run(stream, op, false);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuSignalExternalSemaphoresAsync, _ptsz,
             (const CUexternalSemaphore *semaphores_of,
              const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *how, unsigned int count,
              CUstream stream),
             submit(semaphores_of, how, NULL, count, stream, null_stream))
EXPORT_FORMS(cuWaitExternalSemaphoresAsync, _ptsz,
             (const CUexternalSemaphore *semaphores_of,
              const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *how, unsigned int count, CUstream stream),
             submit(semaphores_of, NULL, how, count, stream, null_stream))
