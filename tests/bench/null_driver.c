/* A libcuda.so.1 that does next to nothing: addresses are counted up, every call succeeds at once.
 * What a program costs on it is the program's own, and that of what stands between the two.
 *
 * One device of 1 TiB with one context, which is current in every thread. No memory is behind the
 * addresses, and none is given out twice. With NULL_DRIVER_PAGEABLE in the environment its kernels
 * reach plain host memory, as it says. Functions that would need more are left out: callers that
 * look them up by name find nothing, as in an old driver. */
#include "null_driver.h"

#include "driver/driver.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(field, symbol, parameters, required)                                               \
    CUresult null_##field parameters __asm__(symbol);
DRIVER_ENTRIES(DECLARE)
#undef DECLARE

static const size_t device_bytes = (size_t)1 << 40, small_page = 512, large_page = 2 << 20;
static const size_t pitch_alignment = 512;

static struct null_driver_counts counts;
static _Atomic CUdeviceptr next_address = (CUdeviceptr)1 << 44;
static char the_context, an_event, streams[64];
static _Atomic unsigned streams_made; /* handles come again after so many */

const struct null_driver_counts *null_driver_counted(void) {
    return &counts;
}

/* As the real one and the simulated one: what is large lies in pages of its own. */
CUresult null_mem_alloc(CUdeviceptr *pointer, size_t bytes) {
    if (!pointer || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > device_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t unit = bytes < large_page ? small_page : large_page, size = (bytes + unit - 1) & -unit;
    *pointer = atomic_fetch_add_explicit(&next_address, size, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts.bytes, size, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts.allocations, 1, memory_order_relaxed);
    return CUDA_SUCCESS;
}

CUresult null_mem_free(CUdeviceptr pointer) {
    (void)pointer;
    atomic_fetch_add_explicit(&counts.frees, 1, memory_order_relaxed);
    return CUDA_SUCCESS;
}

CUresult null_mem_alloc_pitch(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                              unsigned int element) {
    (void)element;
    *pitch = (width + pitch_alignment - 1) & -pitch_alignment;
    return null_mem_alloc(pointer, *pitch * height);
}

CUresult null_mem_get_info(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = device_bytes;
    return CUDA_SUCCESS;
}

CUresult null_ctx_get_current(CUcontext *context) {
    *context = (CUcontext)&the_context;
    return CUDA_SUCCESS;
}

CUresult null_ctx_push_current(CUcontext context) {
    (void)context;
    return CUDA_SUCCESS;
}

CUresult null_ctx_pop_current(CUcontext *context) {
    *context = (CUcontext)&the_context;
    return CUDA_SUCCESS;
}

CUresult null_ctx_get_device(CUdevice *device) {
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult null_ctx_synchronize(void) {
    atomic_fetch_add_explicit(&counts.waits, 1, memory_order_relaxed);
    return CUDA_SUCCESS;
}

CUresult null_device_total_mem(size_t *bytes, CUdevice device) {
    (void)device;
    *bytes = device_bytes;
    return CUDA_SUCCESS;
}

CUresult null_device_get_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS &&
             getenv("NULL_DRIVER_PAGEABLE") != NULL;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult null_device_get_uuid(CUuuid *uuid, CUdevice device) {
    (void)device;
    memset(uuid, 1, sizeof *uuid);
    return CUDA_SUCCESS;
}

CUresult null_primary_ctx_get_state(CUdevice device, unsigned int *flags, int *active) {
    (void)device;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

CUresult null_memset_d8(CUdeviceptr pointer, unsigned char value, size_t bytes) {
    (void)pointer;
    (void)value;
    (void)bytes;
    return CUDA_SUCCESS;
}

CUresult null_stream_create(CUstream *stream, unsigned int flags) {
    (void)flags;
    *stream = (CUstream)&streams[streams_made++ % sizeof streams];
    return CUDA_SUCCESS;
}

CUresult null_stream_destroy(CUstream stream) {
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult null_stream_synchronize(CUstream stream) {
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult null_thread_exchange_capture_mode(CUstreamCaptureMode *mode) {
    (void)mode;
    return CUDA_SUCCESS;
}

CUresult null_stream_is_capturing(CUstream stream, CUstreamCaptureStatus *status) {
    (void)stream;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult null_event_create(CUevent *event, unsigned int flags) {
    (void)flags;
    *event = (CUevent)&an_event;
    return CUDA_SUCCESS;
}

CUresult null_event_record(CUevent event, CUstream stream) {
    (void)event;
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult null_event_query(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

CUresult null_event_synchronize(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

CUresult null_stream_wait_event(CUstream stream, CUevent event, unsigned int flags) {
    (void)stream;
    (void)event;
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult null_ctx_record_event(CUcontext context, CUevent event) {
    (void)context;
    (void)event;
    return CUDA_SUCCESS;
}

/* What runtimes call beside those. */

CUresult cuInit(unsigned int flags) {
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = 0;
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    (void)device;
    return null_ctx_get_current(context);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    (void)context;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

/* --- launches --- */

CUresult null_launch_kernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                            unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                            unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                            void **arguments, void **extra) {
    (void)function;
    (void)grid_x;
    (void)grid_y;
    (void)grid_z;
    (void)block_x;
    (void)block_y;
    (void)block_z;
    (void)shared_bytes;
    (void)stream;
    (void)arguments;
    (void)extra;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments,
                          void **extra) {
    (void)config;
    (void)function;
    (void)arguments;
    (void)extra;
    return CUDA_SUCCESS;
}

CUresult null_memcpy_htod_async(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    (void)to;
    (void)from;
    (void)bytes;
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    (void)to;
    (void)value;
    (void)bytes;
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
    (void)to;
    (void)pitch;
    (void)value;
    (void)width;
    (void)height;
    (void)stream;
    return CUDA_SUCCESS;
}

/* --- where a null stream is the thread's own --- */

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                             unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                             unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                             void **arguments, void **extra) {
    return null_launch_kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                              shared_bytes, stream, arguments, extra);
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    return cuMemsetD8Async(to, value, bytes, stream);
}

/* A function has the arguments that its handle says (null_driver_function). */
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    const struct null_driver_function *of = (const struct null_driver_function *)function;
    if (index >= of->arguments)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = index * of->bytes;
    *size = of->bytes;
    return CUDA_SUCCESS;
}

/* --- lookups by name --- */

#define HAVE(symbol)         {#symbol, (void *)(symbol)},
#define FIELD(field, symbol) {symbol, (void *)null_##field},
static const struct {
    const char *symbol;
    void *function;
} functions[] = {
    HAVE(cuInit) HAVE(cuDriverGetVersion) HAVE(cuDeviceGetCount) HAVE(cuDeviceGet)
        HAVE(cuDevicePrimaryCtxRetain) HAVE(cuCtxSetCurrent) HAVE(cuEventDestroy_v2) HAVE(
            cuGetProcAddress_v2) HAVE(cuGetProcAddress) FIELD(mem_alloc, "cuMemAlloc_v2")
            FIELD(mem_free, "cuMemFree_v2") FIELD(mem_alloc_pitch, "cuMemAllocPitch_v2") FIELD(
                mem_get_info, "cuMemGetInfo_v2") FIELD(ctx_get_current, "cuCtxGetCurrent")
                FIELD(ctx_get_device, "cuCtxGetDevice") FIELD(ctx_synchronize, "cuCtxSynchronize")
                    FIELD(device_total_mem, "cuDeviceTotalMem_v2")
                        FIELD(device_get_attribute, "cuDeviceGetAttribute")
                            FIELD(device_get_uuid, "cuDeviceGetUuid_v2") FIELD(
                                event_create, "cuEventCreate") FIELD(event_record, "cuEventRecord")
                                FIELD(event_query, "cuEventQuery")
                                    FIELD(event_synchronize, "cuEventSynchronize")
                                        FIELD(stream_destroy, "cuStreamDestroy_v2")
                                            FIELD(stream_synchronize, "cuStreamSynchronize")};

/* Whether `symbol` is `name`, or a later form of it. */
static int is_form(const char *symbol, const char *name) {
    size_t length = strlen(name);
    return strncmp(symbol, name, length) == 0 &&
           (!symbol[length] || strcmp(symbol + length, "_v2") == 0);
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
    (void)version;
    (void)flags;
    *function = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !*function; i++)
        if (is_form(functions[i].symbol, name))
            *function = functions[i].function;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    CUresult result = cuGetProcAddress(name, function, version, flags);
    if (status)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return result;
}
