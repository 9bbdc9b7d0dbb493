/* Streams, events, host functions, stream-ordered memory, capture and graphs. */
#include "state.h"

#include <stdlib.h>

#define BOTH(name, parameters, call)                                                               \
    cudaError_t name parameters;                                                                   \
    cudaError_t name##_ptsz parameters;                                                            \
    cudaError_t name parameters {                                                                  \
        const bool per_thread = false;                                                             \
        ENTER();                                                                                   \
        return DRIVER(call);                                                                       \
    }                                                                                              \
    cudaError_t name##_ptsz parameters {                                                           \
        const bool per_thread = true;                                                              \
        ENTER();                                                                                   \
        return DRIVER(call);                                                                       \
    }

#define SITE() ((uintptr_t)__builtin_return_address(0))

/* The program has memory for the hazard detector from when the call returns on, and until it calls
 * to free it. */
static CUresult owned(void *const *pointer, size_t bytes, uintptr_t site, CUresult result) {
    if (result == CUDA_SUCCESS && driver_owner_begin)
        driver_owner_begin((CUdeviceptr)*pointer, bytes, site);
    return result;
}

static void disown(CUdeviceptr pointer, uintptr_t site) {
    if (pointer && driver_owner_end)
        driver_owner_end(pointer, site);
}

BOTH(cudaStreamSynchronize, (cudaStream_t stream), driver.cuStreamSynchronize[per_thread](stream))
BOTH(cudaStreamQuery, (cudaStream_t stream), driver.cuStreamQuery[per_thread](stream))
BOTH(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
     driver.cuStreamWaitEvent[per_thread](stream, event, flags))
BOTH(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream),
     driver.cuEventRecord[per_thread](event, stream))
BOTH(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
     driver.cuLaunchHostFunc[per_thread](stream, function, data))
BOTH(cudaMallocAsync, (void **pointer, size_t bytes, cudaStream_t stream),
     owned(pointer, bytes, SITE(),
           driver.cuMemAllocAsync[per_thread]((CUdeviceptr *)pointer, bytes, stream)))
BOTH(cudaFreeAsync, (void *pointer, cudaStream_t stream),
     (disown((CUdeviceptr)pointer, SITE()),
      driver.cuMemFreeAsync[per_thread]((CUdeviceptr)pointer, stream)))
BOTH(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
     driver.cuStreamBeginCapture[per_thread](stream, (CUstreamCaptureMode)mode))
BOTH(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
     driver.cuStreamEndCapture[per_thread](stream, graph))
BOTH(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
     driver.cuStreamIsCapturing[per_thread](stream, (CUstreamCaptureStatus *)status))
BOTH(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream),
     driver.cuGraphLaunch[per_thread](graph, stream))

BOTH(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
     driver.cuEventRecordWithFlags[per_thread](event, stream, flags))
BOTH(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags),
     driver.cuStreamGetFlags[per_thread](stream, flags))
BOTH(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
     driver.cuStreamGetPriority[per_thread](stream, priority))
BOTH(cudaGraphUpload, (cudaGraphExec_t graph, cudaStream_t stream),
     driver.cuGraphUpload[per_thread](graph, stream))

/* A callback of the runtime gets a cudaError_t where the driver's gets a CUresult. */
struct callback {
    cudaStreamCallback_t function;
    void *data;
};

static void CUDA_CB call_back(CUstream stream, CUresult status, void *data) {
    struct callback callback = *(struct callback *)data;
    free(data);
    callback.function(stream, (cudaError_t)status, callback.data);
}

static cudaError_t add_callback(cudaStream_t stream, cudaStreamCallback_t function, void *data,
                                unsigned int flags, bool per_thread) {
    struct callback *callback;
    ENTER();
    if (!function)
        return state_result(cudaErrorInvalidValue);
    callback = malloc(sizeof *callback);
    if (!callback)
        return state_result(cudaErrorMemoryAllocation);
    *callback = (struct callback){function, data};
    cudaError_t result =
        DRIVER(driver.cuStreamAddCallback[per_thread](stream, call_back, callback, flags));
    if (result != cudaSuccess)
        free(callback);
    return result;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void *data,
                                  unsigned int flags) {
    return add_callback(stream, function, data, flags, false);
}

cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t function,
                                       void *data, unsigned int flags);
cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t function,
                                       void *data, unsigned int flags) {
    return add_callback(stream, function, data, flags, true);
}

#define PLAIN(name, parameters, call)                                                              \
    cudaError_t name parameters;                                                                   \
    cudaError_t name parameters {                                                                  \
        ENTER();                                                                                   \
        return DRIVER(call);                                                                       \
    }

PLAIN(cudaStreamCreate, (cudaStream_t * stream),
      driver.cuStreamCreateWithPriority(stream, CU_STREAM_DEFAULT, 0))
PLAIN(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned int flags),
      driver.cuStreamCreateWithPriority(stream, flags, 0))
PLAIN(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned int flags, int priority),
      driver.cuStreamCreateWithPriority(stream, flags, priority))
PLAIN(cudaStreamDestroy, (cudaStream_t stream), driver.cuStreamDestroy(stream))
PLAIN(cudaEventCreate, (cudaEvent_t * event), driver.cuEventCreate(event, CU_EVENT_DEFAULT))
PLAIN(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
      driver.cuEventCreate(event, flags))
PLAIN(cudaEventDestroy, (cudaEvent_t event), driver.cuEventDestroy(event))
PLAIN(cudaEventQuery, (cudaEvent_t event), driver.cuEventQuery(event))
PLAIN(cudaEventSynchronize, (cudaEvent_t event), driver.cuEventSynchronize(event))
PLAIN(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
      driver.cuEventElapsedTime(ms, start, end))
PLAIN(cudaGraphInstantiate,
      (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
      driver.cuGraphInstantiateWithFlags(executable, graph, flags))
PLAIN(cudaGraphDestroy, (cudaGraph_t graph), driver.cuGraphDestroy(graph))
PLAIN(cudaGraphExecDestroy, (cudaGraphExec_t graph), driver.cuGraphExecDestroy(graph))
PLAIN(cudaGraphInstantiateWithFlags,
      (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
      driver.cuGraphInstantiateWithFlags(executable, graph, flags))
PLAIN(cudaGraphCreate, (cudaGraph_t * graph, unsigned int flags),
      driver.cuGraphCreate(graph, flags))
PLAIN(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
      driver.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    ENTER();
    return DRIVER(driver.cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    CUipcEventHandle driver_handle;
    ENTER();
    __builtin_memcpy(&driver_handle, &handle, sizeof driver_handle);
    return DRIVER(driver.cuIpcOpenEventHandle(event, driver_handle));
}
