/* Contexts: making, ending, and the calling thread's stack of them. */
#include "context.h"

#include "allocate.h"
#include "array.h"
#include "capture.h"
#include "coredump.h"
#include "cost.h"
#include "event.h"
#include "interpret.h"
#include "lock.h"
#include "memory.h"
#include "module.h"
#include "object_memory.h"
#include "settings.h"
#include "stream.h"
#include "texture.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static struct CUctx_st *contexts; /* all ever made */
static struct CUctx_st *primaries[DEVICES_MAX];
static uint64_t last_id;

/* Contexts pushed by this thread; the topmost is current. An entry may be NULL. */
static __thread struct CUctx_st **stack;
static __thread size_t stack_depth;
static pthread_key_t stack_key;
static pthread_once_t stack_key_made = PTHREAD_ONCE_INIT;

/* The destructors of other keys may run later, and make a context current anew. */
static void end_stack(void *of_thread) {
    free(of_thread);
    stack = NULL;
    stack_depth = 0;
}

static void make_stack_key(void) {
    pthread_key_create(&stack_key, end_stack);
}

static struct CUctx_st *top(void) {
    return stack_depth != 0 ? stack[stack_depth - 1] : NULL;
}

static void push(struct CUctx_st *context) {
    stack = allocate_again(stack, (stack_depth + 1) * sizeof(void *));
    stack[stack_depth++] = context;
    pthread_once(&stack_key_made, make_stack_key);
    pthread_setspecific(stack_key, stack); /* freed with the thread */
}

struct CUctx_st *context_list(void) {
    sim_check_held();
    return contexts;
}

bool context_flags_valid(unsigned int flags) {
    unsigned int scheduling = flags & CU_CTX_SCHED_MASK;

    return (flags & ~(unsigned int)CONTEXT_FLAGS) == 0 &&
           (scheduling & (scheduling - 1)) == 0; /* at most one of its three bits */
}

bool context_known(CUcontext handle) {
    sim_check_held();
    struct CUctx_st *context;

    LL_FOREACH(contexts, context)
    if (context == handle)
        return true;
    return false;
}

struct CUctx_st *context_root(struct CUctx_st *context) {
    sim_check_held();
    return context->green_of != NULL ? context->green_of : context;
}

CUresult context_error(struct CUctx_st *context) {
    sim_check_held();
    return context_root(context)->sticky;
}

bool context_syncs_memops(struct CUctx_st *context) {
    sim_check_held();
    return (context_root(context)->flags & CONTEXT_SYNC_MEMOPS) != 0;
}

struct CUctx_st *context_next_part(struct CUctx_st *context, struct CUctx_st *after) {
    sim_check_held();
    struct CUctx_st *part;

    if (after == NULL)
        return context;
    for (part = after == context ? contexts : after->next; part != NULL; part = part->next)
        if (part->green_of == context && part->state == CONTEXT_LIVE)
            return part;
    return NULL;
}

static CUresult start(struct CUctx_st *context) {
    static const size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};

    if (object_memory_take(context->device) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->state = CONTEXT_LIVE;
    context->id = ++last_id;
    context->sticky = CUDA_SUCCESS;
    memset(context->limits, 0, sizeof context->limits);
    memcpy(context->limits, limits, sizeof limits);
    context->legacy = stream_create(context, STREAM_LEGACY, 0);
    context->fence = stream_create(context, STREAM_NON_BLOCKING, 0);
    return CUDA_SUCCESS;
}

/* What another thread has submitted while the end waited for work is done as well, and seen. */
static void end_streams(struct CUctx_st *context) {
    struct CUstream_st *stream, *next;

    context->legacy = context->fence = NULL; /* they go among the others */
    DL_FOREACH_SAFE(context->streams, stream, next) {
        if (stream->last != NULL && stream->last->done)
            work_seen(stream->last);
        if (!stream->destroyed)
            stream_destroy(stream);
    }
}

/* Ends what the context owns. Work still pending has been waited for: [wait:context-end] assumed.
 */
static void end(struct CUctx_st *context) {
    struct CUctx_st *part;

    for (part = contexts; part != NULL; part = part->next) {
        if (part->green_of != context || part->state != CONTEXT_LIVE)
            continue;
        end_streams(part);
        context_end_green(part);
    }
    end_streams(context);
    event_destroy_all(context);
    module_context_ending(context);
    interpret_context_ending(context);
    texture_context_ending(context);
    array_context_ending(context);
    coredump_context_ending(context);
    memory_release_all(context);
    object_memory_context_ending(context);
    object_memory_give(context->device);
    free(context->peers);
    context->peers = NULL;
    context->peer_count = 0;
}

static struct CUctx_st *make(CUdevice device, unsigned int flags, bool primary) {
    struct CUctx_st *context = allocate_zeroed(sizeof *context);

    context->primary = primary;
    context->device = device;
    context->flags = flags;
    context->api_version = (unsigned int)settings()->driver_version;
    context->state = CONTEXT_INACTIVE;
    LL_PREPEND(contexts, context);
    return context;
}

CUresult context_make_green(struct CUctx_st *primary, struct CUgreenCtx_st *green,
                            struct CUctx_st **out) {
    sim_check_held();
    CUresult result = object_memory_take(primary->device);
    struct CUctx_st *context;

    if (result != CUDA_SUCCESS)
        return result;
    context = make(primary->device, primary->flags, false);
    context->green_of = primary;
    context->green = green;
    context->retains = 1;
    context->state = CONTEXT_LIVE;
    context->id = ++last_id;
    context->legacy = stream_create(context, STREAM_LEGACY, 0);
    context->fence = stream_create(context, STREAM_NON_BLOCKING, 0);
    *out = context;
    return CUDA_SUCCESS;
}

void context_end_green(struct CUctx_st *context) {
    sim_check_held();
    object_memory_give(context->device);
    context->state = CONTEXT_DESTROYED;
}

struct CUctx_st *context_primary(CUdevice device) {
    sim_check_held();
    if (primaries[device] == NULL)
        primaries[device] = make(device, 0, true);
    return primaries[device];
}

CUresult context_check(CUcontext handle, struct CUctx_st **context) {
    sim_check_held();
    if (handle == NULL || !context_known(handle))
        return CUDA_ERROR_INVALID_CONTEXT;
    /* it was reset, which does not release it */
    if (handle->state == CONTEXT_INACTIVE && handle->retains != 0 && start(handle) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (handle->state != CONTEXT_LIVE)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *context = handle;
    return context_error(handle);
}

CUresult context_current_part(struct CUctx_st **context) {
    sim_check_held();
    return context_check(top(), context);
}

CUresult context_or_current(CUcontext handle, struct CUctx_st **context) {
    sim_check_held();
    CUresult result = context_check(handle != NULL ? handle : top(), context);

    if (result == CUDA_SUCCESS)
        *context = context_root(*context);
    return result;
}

CUresult context_current(struct CUctx_st **context) {
    sim_check_held();
    return context_or_current(NULL, context);
}

static bool has_work(struct CUctx_st *context) {
    struct CUctx_st *part = NULL;
    const struct CUstream_st *stream;

    while ((part = context_next_part(context, part)) != NULL)
        DL_FOREACH(part->streams, stream)
    if (stream->queue_head != NULL)
        return true;
    return false;
}

/* Waits for all work of a live context, also for what other threads submit meanwhile. False: one of
 * them has ended it. Lock held on entry and return, not in between. */
static bool finish_work(struct CUctx_st *context) {
    sim_check_held();
    uint64_t id = context->id;

    do
        context_wait(context);
    while (context->state == CONTEXT_LIVE && context->id == id && has_work(context));
    return context->state == CONTEXT_LIVE && context->id == id;
}

void context_reset_primary(CUdevice device) {
    sim_check_held();
    struct CUctx_st *context = context_primary(device);

    if (context->state != CONTEXT_LIVE || !finish_work(context))
        return;
    end(context);
    context->state = CONTEXT_INACTIVE;
}

CUresult context_retain_primary(CUdevice device, struct CUctx_st **context) {
    sim_check_held();
    CUresult result;

    context_primary(device)->retains++;
    result = context_check(context_primary(device), context);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        context_primary(device)->retains--;
    return result;
}

CUresult context_release_primary(CUdevice device) {
    sim_check_held();
    struct CUctx_st *context = context_primary(device);

    if (context->retains == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--context->retains != 0 || context->state != CONTEXT_LIVE)
        return CUDA_SUCCESS;
    if (finish_work(context) && context->retains == 0) { /* nobody has retained it meanwhile */
        end(context);
        context->state = CONTEXT_INACTIVE;
    }
    return CUDA_SUCCESS;
}

/* --- other contexts --- */

static CUresult create(CUcontext *out, unsigned int flags, CUdevice device) {
    struct CUctx_st *context;
    CUresult result;

    if (out == NULL || !context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    context = make(device, flags, false);
    result = start(context);
    if (result == CUDA_SUCCESS) {
        context->retains = 1;
        push(context);
        *out = context;
    } else {
        context->state = CONTEXT_DESTROYED;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device) {
    ENTER(cuCtxCreate);
    return create(out, flags, device);
}

SIM_EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device) {
    ENTER(cuCtxCreate_v2);
    return create(out, flags, device);
}

SIM_EXPORT CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinities, int count,
                                   unsigned int flags, CUdevice device) {
    ENTER(cuCtxCreate_v3);
    if (affinities != NULL && count != 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, device);
}

/* Parameters that ask for nothing are as none (assumed: NVIDIA's samples pass such). */
SIM_EXPORT CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *parameters,
                                   unsigned int flags, CUdevice device) {
    ENTER(cuCtxCreate_v4);
    if (parameters != NULL && parameters->cigParams != NULL)
        return parameters->execAffinityParams != NULL ? CUDA_ERROR_INVALID_VALUE
                                                      : entry_not_simulated("graphics");
    if (parameters != NULL && parameters->execAffinityParams != NULL &&
        parameters->numExecAffinityParams != 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, device);
}

/* A destroyed context leaves the calling thread's stack if it is on top; elsewhere it stays and
 * answers CONTEXT_IS_DESTROYED (cuCtxDestroy's documentation). */
static CUresult destroy(CUcontext context) {
    CUresult result = CUDA_SUCCESS;

    sim_lock();
    if (context == NULL || !context_known(context) || context->primary || context->green != NULL)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (context->state != CONTEXT_LIVE)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result == CUDA_SUCCESS && !finish_work(context))
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result == CUDA_SUCCESS) {
        end(context);
        context->state = CONTEXT_DESTROYED;
        if (top() == context)
            stack_depth--;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxDestroy(CUcontext context) {
    ENTER(cuCtxDestroy);
    return destroy(context);
}

SIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
    ENTER(cuCtxDestroy_v2);
    return destroy(context);
}

SIM_EXPORT CUresult cuCtxAttach(CUcontext *out, unsigned int flags) {
    CUresult result;

    ENTER(cuCtxAttach);
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(out);
    if (result == CUDA_SUCCESS)
        (*out)->retains++;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxDetach(CUcontext handle) {
    struct CUctx_st *context;
    bool last = false;
    CUresult result;

    ENTER(cuCtxDetach);
    sim_lock();
    result = context_check(handle, &context);
    if (result == CUDA_SUCCESS && context->primary)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        last = --context->retains == 0;
    sim_unlock();
    return last ? destroy(handle) : result;
}

/* --- the calling thread's stack --- */

static CUresult push_current(CUcontext context) {
    CUresult result = CUDA_SUCCESS;

    sim_lock();
    if (context == NULL || !context_known(context))
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (context->state == CONTEXT_DESTROYED)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else
        push(context);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
    ENTER(cuCtxPushCurrent);
    return push_current(context);
}

SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    ENTER(cuCtxPushCurrent_v2);
    return push_current(context);
}

static CUresult pop_current(CUcontext *out) {
    if (stack_depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out != NULL)
        *out = top();
    stack_depth--;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuCtxPopCurrent(CUcontext *out) {
    ENTER(cuCtxPopCurrent);
    return pop_current(out);
}

SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out) {
    ENTER(cuCtxPopCurrent_v2);
    return pop_current(out);
}

/* Replaces the top of the stack; NULL removes it (cuCtxSetCurrent's documentation). */
SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    CUresult result = CUDA_SUCCESS;

    ENTER(cuCtxSetCurrent);
    if (context == NULL) {
        if (stack_depth != 0)
            stack_depth--;
        return CUDA_SUCCESS;
    }
    sim_lock();
    if (!context_known(context))
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (context->state == CONTEXT_DESTROYED)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else if (stack_depth == 0)
        push(context);
    else
        stack[stack_depth - 1] = context;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext *out) {
    ENTER(cuCtxGetCurrent);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = top();
    return CUDA_SUCCESS;
}
