/* The whole contract between the pool and CUDA: every driver function that the pool itself calls.
 *
 * The struct is filled from the real driver (driver_load) or by a test. Nothing else in src/pool,
 * src/order or src/sources may call CUDA. All functions keep the semantics, error codes and
 * threading rules of the driver functions they are named after. */
#ifndef POOLCUDA_DRIVER_DRIVER_H
#define POOLCUDA_DRIVER_DRIVER_H

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>

/* DRIVER_ENTRY(field, exported symbol, parameter list, required)
 * A driver without a required entry is not used at all; others may be NULL in the struct. */
#define DRIVER_ENTRIES(X)                                                                          \
    X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t bytes), true)                     \
    X(mem_free, "cuMemFree_v2", (CUdeviceptr pointer), true)                                       \
    X(mem_alloc_pitch, "cuMemAllocPitch_v2",                                                       \
      (CUdeviceptr * pointer, size_t * pitch, size_t width_bytes, size_t height,                   \
       unsigned int element_bytes),                                                                \
      true)                                                                                        \
    X(mem_alloc_host, "cuMemAllocHost_v2", (void **memory, size_t bytes), false)                   \
    X(mem_host_alloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned int flags), false)  \
    X(mem_free_host, "cuMemFreeHost", (void *memory), false)                                       \
    X(mem_alloc_managed, "cuMemAllocManaged",                                                      \
      (CUdeviceptr * pointer, size_t bytes, unsigned int flags), false)                            \
    X(mem_advise, "cuMemAdvise",                                                                   \
      (CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device), false)            \
    X(stream_attach_mem, "cuStreamAttachMemAsync",                                                 \
      (CUstream stream, CUdeviceptr pointer, size_t bytes, unsigned int flags), false)             \
    X(mem_get_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes), true)          \
    X(ctx_get_current, "cuCtxGetCurrent", (CUcontext * context), true)                             \
    X(ctx_push_current, "cuCtxPushCurrent_v2", (CUcontext context), true)                          \
    X(ctx_pop_current, "cuCtxPopCurrent_v2", (CUcontext * context), true)                          \
    X(ctx_get_device, "cuCtxGetDevice", (CUdevice * device), true)                                 \
    X(ctx_get_id, "cuCtxGetId", (CUcontext context, unsigned long long *id), false)                \
    X(ctx_synchronize, "cuCtxSynchronize", (void), true)                                           \
    X(device_get_count, "cuDeviceGetCount", (int *count), false)                                   \
    X(device_total_mem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device), true)            \
    X(device_get_attribute, "cuDeviceGetAttribute",                                                \
      (int *value, CUdevice_attribute attribute, CUdevice device), true)                           \
    X(device_get_uuid, "cuDeviceGetUuid_v2", (CUuuid * uuid, CUdevice device), false)              \
    X(primary_ctx_get_state, "cuDevicePrimaryCtxGetState",                                         \
      (CUdevice device, unsigned int *flags, int *active), true)                                   \
    X(memset_d8, "cuMemsetD8_v2", (CUdeviceptr pointer, unsigned char value, size_t bytes), true)  \
    X(memset_d8_async, "cuMemsetD8Async",                                                          \
      (CUdeviceptr pointer, unsigned char value, size_t bytes, CUstream stream), false)            \
    X(mem_create, "cuMemCreate",                                                                   \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties, \
       unsigned long long flags),                                                                  \
      false)                                                                                       \
    X(mem_release, "cuMemRelease", (CUmemGenericAllocationHandle handle), false)                   \
    X(mem_address_reserve, "cuMemAddressReserve",                                                  \
      (CUdeviceptr * pointer, size_t bytes, size_t alignment, CUdeviceptr wanted,                  \
       unsigned long long flags),                                                                  \
      false)                                                                                       \
    X(mem_address_free, "cuMemAddressFree", (CUdeviceptr pointer, size_t bytes), false)            \
    X(mem_map, "cuMemMap",                                                                         \
      (CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,      \
       unsigned long long flags),                                                                  \
      false)                                                                                       \
    X(mem_unmap, "cuMemUnmap", (CUdeviceptr pointer, size_t bytes), false)                         \
    X(mem_set_access, "cuMemSetAccess",                                                            \
      (CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count), false)     \
    X(device_get_default_mem_pool, "cuDeviceGetDefaultMemPool",                                    \
      (CUmemoryPool * pool, CUdevice device), false)                                               \
    X(device_get_mem_pool, "cuDeviceGetMemPool", (CUmemoryPool * pool, CUdevice device), false)    \
    X(mem_pool_create, "cuMemPoolCreate", (CUmemoryPool * pool, const CUmemPoolProps *properties), \
      false)                                                                                       \
    X(mem_pool_destroy, "cuMemPoolDestroy", (CUmemoryPool pool), false)                            \
    X(mem_pool_set_attribute, "cuMemPoolSetAttribute",                                             \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), false)                      \
    X(mem_pool_get_attribute, "cuMemPoolGetAttribute",                                             \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), false)                      \
    X(mem_pool_trim_to, "cuMemPoolTrimTo", (CUmemoryPool pool, size_t bytes), false)               \
    X(mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync",                                        \
      (CUdeviceptr * pointer, size_t bytes, CUmemoryPool pool, CUstream stream), false)            \
    X(mem_free_async, "cuMemFreeAsync", (CUdeviceptr pointer, CUstream stream), false)             \
    X(pointer_get_attribute, "cuPointerGetAttribute",                                              \
      (void *value, CUpointer_attribute attribute, CUdeviceptr pointer), false)                    \
    X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned int flags), false)             \
    X(stream_create_with_priority, "cuStreamCreateWithPriority",                                   \
      (CUstream * stream, unsigned int flags, int priority), false)                                \
    X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream), false)                              \
    X(stream_get_ctx, "cuStreamGetCtx", (CUstream stream, CUcontext * context), false)             \
    X(stream_get_ctx_v2, "cuStreamGetCtx_v2",                                                      \
      (CUstream stream, CUcontext * context, void **green), false)                                 \
    X(stream_synchronize, "cuStreamSynchronize", (CUstream stream), false)                         \
    X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode",                           \
      (CUstreamCaptureMode * mode), false)                                                         \
    X(stream_is_capturing, "cuStreamIsCapturing",                                                  \
      (CUstream stream, CUstreamCaptureStatus * status), false)                                    \
    X(event_create, "cuEventCreate", (CUevent * event, unsigned int flags), false)                 \
    X(event_record, "cuEventRecord", (CUevent event, CUstream stream), false)                      \
    X(event_query, "cuEventQuery", (CUevent event), false)                                         \
    X(event_synchronize, "cuEventSynchronize", (CUevent event), false)                             \
    X(ctx_record_event, "cuCtxRecordEvent", (CUcontext context, CUevent event), false)             \
    X(stream_wait_event, "cuStreamWaitEvent",                                                      \
      (CUstream stream, CUevent event, unsigned int flags), false)                                 \
    X(mem_host_get_device_pointer, "cuMemHostGetDevicePointer_v2",                                 \
      (CUdeviceptr * pointer, void *memory, unsigned int flags), false)                            \
    X(module_load_data, "cuModuleLoadData", (CUmodule * module, const void *image), false)         \
    X(module_get_function, "cuModuleGetFunction",                                                  \
      (CUfunction * function, CUmodule module, const char *name), false)                           \
    X(launch_kernel, "cuLaunchKernel",                                                             \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,         \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, CUstream stream, void **arguments, void **extra),                \
      false)                                                                                       \
    X(ctx_wait_event, "cuCtxWaitEvent", (CUcontext context, CUevent event), false)                 \
    X(memcpy_htod_async, "cuMemcpyHtoDAsync_v2",                                                   \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), false)                    \
    X(func_get_name, "cuFuncGetName", (const char **name, CUfunction function), false)

struct driver {
#define DRIVER_FIELD(field, symbol, parameters, required) CUresult(*field) parameters;
    DRIVER_ENTRIES(DRIVER_FIELD)
#undef DRIVER_FIELD
    /* Where another tool stands between, its answers are not the driver's. own_mem_get_info: the
     * driver's, if mem_get_info is such a tool's, else NULL. others_pools: whether such a tool sees
     * some of the functions of memory pools, and of stream-ordered frees. */
    CUresult (*own_mem_get_info)(size_t *free_bytes, size_t *total_bytes);
    bool others_pools;
};

/* Fills *driver with the entries that find(symbol) returns (NULL: no such entry).
 * Returns false, with *driver unspecified, if a required entry is missing. */
bool driver_fill(struct driver *driver, void *(*find)(const char *symbol));

/* Says in the filled *driver where another tool stands between. find_own(symbol): the driver's own
 * entry, NULL: none. */
void driver_compare(struct driver *driver, void *(*find_own)(const char *symbol));

#endif
