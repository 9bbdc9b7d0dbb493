/* CUDA's driver header with every exported symbol under its own name, whatever the header's age.
 *
 * Functions that an older header lacks are declared here with the types of CUDA 13's cuda.h. */
#ifndef SIMCUDA_CUDA_SYMBOLS_H
#define SIMCUDA_CUDA_SYMBOLS_H

/* keeps cuda.h from renaming functions by macro (cuMemAlloc to cuMemAlloc_v2 and so on) */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "simcuda.h"

/* this mode leaves this one renamed to an inline wrapper */
#undef cuGetProcAddress_v2

#define SIM_EXPORT SIMCUDA_API

/* cudaProfiler.h, which the headers of pip lack */
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

#if CUDA_VERSION < 12030
CUresult cuFuncGetName(const char **name, CUfunction function);
CUresult cuKernelGetName(const char **name, CUkernel kernel);
typedef struct CUgraphEdgeData_st {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies,
                                   const CUgraphEdgeData **edges, size_t *count);
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus *status,
                                        cuuint64_t *id, CUgraph *graph,
                                        const CUgraphNode **dependencies,
                                        const CUgraphEdgeData **edges, size_t *count);
#endif
#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags,
                        CUdevice dev);
CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel);
CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event);
CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event);
#endif
#if CUDA_VERSION < 12010
CUresult cuCtxSetFlags(unsigned int flags);
#endif
#if CUDA_VERSION < 12040
CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library);
CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int room, CUlibrary library);
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size);
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size);
typedef struct CUgreenCtx_st *CUgreenCtx;
#endif
#if CUDA_VERSION < 12050
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green);
CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *context, CUgreenCtx *green);
#endif
#if CUDA_VERSION >= 12040 && CUDA_VERSION < 12050
CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags,
                                int priority);
#endif
#if CUDA_VERSION >= 12040 && CUDA_VERSION < 13000
CUresult cuGreenCtxGetId(CUgreenCtx green, unsigned long long *id);
#endif
#if CUDA_VERSION < 12080
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end);
CUresult cuStreamGetDevice(CUstream stream, CUdevice *device);
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice *device);
#endif
#if CUDA_VERSION < 12020
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice,
                        CUmemLocation location);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation location,
                               unsigned int flags, CUstream stream);
#endif
/* No header has these but under a macro. */
CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                     unsigned int flags);
CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                     unsigned int flags);
CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                      unsigned int flags);
CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                      unsigned int flags);
CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams *batch, unsigned int flags);
CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t size, CUmemLocation location,
                                    unsigned int flags, CUstream stream);
CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *addresses, size_t *sizes, size_t count,
                                      CUmemLocation *places, size_t *first, size_t place_count,
                                      unsigned long long flags, CUstream stream);
CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr *addresses, size_t *sizes, size_t count,
                                     unsigned long long flags, CUstream stream);
CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *addresses, size_t *sizes, size_t count,
                                                CUmemLocation *places, size_t *first,
                                                size_t place_count, unsigned long long flags,
                                                CUstream stream);
#if CUDA_VERSION < 13030
typedef void (*CUgraphRecaptureCallback)(void); /* never called here */
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                                       CUgraphRecaptureCallback callback, void *data);
#endif
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, CUstreamCaptureMode mode,
                                            CUgraph graph, CUgraphRecaptureCallback callback,
                                            void *data);
#if CUDA_VERSION >= 12080
#if CUDA_VERSION < 13000
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attributes, size_t *first,
                               size_t attribute_count, CUstream stream);
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *copies,
                                 unsigned long long flags, CUstream stream);
#endif
#if CUDA_VERSION < 13020
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t size,
                                     CUmemcpyAttributes *attributes, CUstream stream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *copy, unsigned long long flags,
                                       CUstream stream);
#endif
/* No header has these but under a macro. */
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                                    CUmemcpyAttributes *attributes, size_t *first,
                                    size_t attribute_count, CUstream stream);
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP *copies,
                                      unsigned long long flags, CUstream stream);
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t size,
                                          CUmemcpyAttributes *attributes, CUstream stream);
CUresult cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP *copy, unsigned long long flags,
                                            CUstream stream);
#endif
#if CUDA_VERSION < 12080
typedef enum CUtensorMapIm2ColWideMode_enum {
    CU_TENSOR_MAP_IM2COL_WIDE_MODE_W = 0,
    CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128
} CUtensorMapIm2ColWideMode;
CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                     void *address, const cuuint64_t *sizes,
                                     const cuuint64_t *strides, int lower, int upper,
                                     cuuint32_t channels, cuuint32_t pixels,
                                     const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill);
#endif
#if CUDA_VERSION < 13050
typedef enum CUtensorMapAllocClass_enum {
    CU_TENSOR_MAP_ALLOC_CLASS_AUTO = 0,
    CU_TENSOR_MAP_ALLOC_CLASS_SMALL = 1,
    CU_TENSOR_MAP_ALLOC_CLASS_LARGE = 2
} CUtensorMapAllocClass;
CUresult cuTensorMapSetAllocationClass(CUtensorMap *map, CUtensorMapAllocClass asked,
                                       CUtensorMapAllocClass *got);
#endif
#if CUDA_VERSION < 13040
CUresult cuMemGetLocationInfo(CUdeviceptr address, size_t size, size_t region, size_t step,
                              CUmemLocation *out);
#endif
#if CUDA_VERSION < 13020
CUresult cuFuncGetParamCount(CUfunction function, size_t *count);
CUresult cuKernelGetParamCount(CUkernel kernel, size_t *count);
typedef struct CUcoredumpCallbackEntry_st *CUcoredumpCallbackHandle;
typedef void (*CUcoredumpStatusCallback)(void *data, int process, CUdevice device);
CUresult cuCoredumpRegisterStartCallback(CUcoredumpStatusCallback function, void *data,
                                         CUcoredumpCallbackHandle *handle);
CUresult cuCoredumpRegisterCompleteCallback(CUcoredumpStatusCallback function, void *data,
                                            CUcoredumpCallbackHandle *handle);
CUresult cuCoredumpDeregisterStartCallback(CUcoredumpCallbackHandle handle);
CUresult cuCoredumpDeregisterCompleteCallback(CUcoredumpCallbackHandle handle);
#endif
#if CUDA_VERSION < 13010
CUresult cuGraphGetId(CUgraph graph, unsigned int *id);
CUresult cuGraphExecGetId(CUgraphExec executable, unsigned int *id);
CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned int *id);
CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long *id);
CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph);
#endif
#if CUDA_VERSION >= 12030
#if CUDA_VERSION < 13020
CUresult cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams *told);
#endif
#if CUDA_VERSION < 13040
CUresult cuGraphAddNode_v3(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *of);
CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *of);
#endif
#endif
#if CUDA_VERSION >= 12040
#if CUDA_VERSION < 13010
typedef struct CU_DEV_SM_RESOURCE_GROUP_PARAMS_st {
    unsigned int smCount, coscheduledSmCount, preferredCoscheduledSmCount, flags;
    unsigned int reserved[12];
} CU_DEV_SM_RESOURCE_GROUP_PARAMS;
CUresult cuDevSmResourceSplit(CUdevResource *groups, unsigned int count, const CUdevResource *input,
                              CUdevResource *remaining, unsigned int flags,
                              CU_DEV_SM_RESOURCE_GROUP_PARAMS *wishes);
CUresult cuStreamGetDevResource(CUstream stream, CUdevResource *resource, CUdevResourceType type);
#endif
CUresult cuStreamGetDevResource_ptsz(CUstream stream, CUdevResource *resource,
                                     CUdevResourceType type);
#endif
#if CUDA_VERSION < 13010
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data, unsigned int mode);
#endif
CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *data,
                                  unsigned int mode);
#if CUDA_VERSION < 13000
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
                                 CUmemLocation *places, size_t *first, size_t place_count,
                                 unsigned long long flags, CUstream stream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
                                unsigned long long flags, CUstream stream);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
                                           CUmemLocation *places, size_t *first, size_t place_count,
                                           unsigned long long flags, CUstream stream);
CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                CUmemAllocationType type);
CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type);
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool);
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx);
CUresult cuCtxSynchronize_v2(CUcontext ctx);
#endif

#endif
