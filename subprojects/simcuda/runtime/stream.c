/* Streams, events, host functions, stream-ordered memory, capture and graphs. */
#include "forms.h"

#include <stdlib.h>

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

FORWARD_FORMS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream),
              driver.cuStreamSynchronize[per_thread](stream))
FORWARD_FORMS(cudaStreamQuery, _ptsz, (cudaStream_t stream),
              driver.cuStreamQuery[per_thread](stream))
FORWARD_FORMS(cudaStreamWaitEvent, _ptsz,
              (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
              driver.cuStreamWaitEvent[per_thread](stream, event, flags))
FORWARD_FORMS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
              driver.cuEventRecord[per_thread](event, stream))
FORWARD_FORMS(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void *data),
              driver.cuLaunchHostFunc[per_thread](stream, function, data))
FORWARD_FORMS(cudaMallocAsync, _ptsz, (void **pointer, size_t bytes, cudaStream_t stream),
              owned(pointer, bytes, SITE(),
                    driver.cuMemAllocAsync[per_thread]((CUdeviceptr *)pointer, bytes, stream)))
FORWARD_FORMS(cudaFreeAsync, _ptsz, (void *pointer, cudaStream_t stream),
              (disown((CUdeviceptr)pointer, SITE()),
               driver.cuMemFreeAsync[per_thread]((CUdeviceptr)pointer, stream)))
FORWARD_FORMS(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
              driver.cuStreamBeginCapture[per_thread](stream, (CUstreamCaptureMode)mode))
FORWARD_FORMS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *graph),
              driver.cuStreamEndCapture[per_thread](stream, graph))
FORWARD_FORMS(cudaStreamIsCapturing, _ptsz,
              (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
              driver.cuStreamIsCapturing[per_thread](stream, (CUstreamCaptureStatus *)status))
FORWARD_FORMS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graph, cudaStream_t stream),
              driver.cuGraphLaunch[per_thread](graph, stream))

FORWARD_FORMS(cudaEventRecordWithFlags, _ptsz,
              (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
              driver.cuEventRecordWithFlags[per_thread](event, stream, flags))
FORWARD_FORMS(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned int *flags),
              driver.cuStreamGetFlags[per_thread](stream, flags))
FORWARD_FORMS(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int *priority),
              driver.cuStreamGetPriority[per_thread](stream, priority))
FORWARD_FORMS(cudaGraphUpload, _ptsz, (cudaGraphExec_t graph, cudaStream_t stream),
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

FORMS(cudaStreamAddCallback, _ptsz,
      (cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned int flags),
      add_callback(stream, function, data, flags, per_thread))

FORWARD(cudaStreamCreate, (cudaStream_t * stream),
        driver.cuStreamCreateWithPriority(stream, CU_STREAM_DEFAULT, 0))
FORWARD(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned int flags),
        driver.cuStreamCreateWithPriority(stream, flags, 0))
FORWARD(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned int flags, int priority),
        driver.cuStreamCreateWithPriority(stream, flags, priority))
FORWARD(cudaStreamDestroy, (cudaStream_t stream), driver.cuStreamDestroy(stream))
FORWARD(cudaEventCreate, (cudaEvent_t * event), driver.cuEventCreate(event, CU_EVENT_DEFAULT))
FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
        driver.cuEventCreate(event, flags))
FORWARD(cudaEventDestroy, (cudaEvent_t event), driver.cuEventDestroy(event))
FORWARD(cudaEventQuery, (cudaEvent_t event), driver.cuEventQuery(event))
FORWARD(cudaEventSynchronize, (cudaEvent_t event), driver.cuEventSynchronize(event))
FORWARD(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
        driver.cuEventElapsedTime(ms, start, end))
FORWARD(cudaGraphInstantiate,
        (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
        driver.cuGraphInstantiateWithFlags(executable, graph, flags))
FORWARD(cudaGraphDestroy, (cudaGraph_t graph), driver.cuGraphDestroy(graph))
FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t graph), driver.cuGraphExecDestroy(graph))
FORWARD(cudaGraphInstantiateWithFlags,
        (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
        driver.cuGraphInstantiateWithFlags(executable, graph, flags))
FORWARD(cudaGraphCreate, (cudaGraph_t * graph, unsigned int flags),
        driver.cuGraphCreate(graph, flags))
FORWARD(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
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
