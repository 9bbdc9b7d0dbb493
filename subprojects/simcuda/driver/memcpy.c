/* The entry points that copy. */
#include "array.h"
#include "context.h"
#include "copy.h"
#include "lock.h"

#define HOST(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

static CUresult linear(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream,
                       enum null_stream null_stream, bool synchronous) {
    struct copy copy = {
        .to = {.address = to}, .from = {.address = from}, .width = size, .rows = 1, .slices = 1};

    if (size != 0 && (to == 0 || from == 0))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_run(&copy, stream, null_stream, synchronous);
}

EXPORT_FORMS(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size),
             linear(to, from, size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
             linear(to, from, size, stream, null_stream, false))
EXPORT_FORMS(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t size),
             linear(to, HOST(from), size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t size),
             linear(HOST(to), from, size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size),
             linear(to, from, size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyHtoDAsync_v2, _ptsz,
             (CUdeviceptr to, const void *from, size_t size, CUstream stream),
             linear(to, HOST(from), size, stream, null_stream, false))
EXPORT_FORMS(cuMemcpyDtoHAsync_v2, _ptsz,
             (void *to, CUdeviceptr from, size_t size, CUstream stream),
             linear(HOST(to), from, size, stream, null_stream, false))
EXPORT_FORMS(cuMemcpyDtoDAsync_v2, _ptsz,
             (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
             linear(to, from, size, stream, null_stream, false))

/* With unified addresses the contexts say nothing that the addresses do not. */
static CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                     size_t size, CUstream stream, enum null_stream null_stream, bool synchronous) {
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_check(to_context, &context);
    if (result == CUDA_SUCCESS)
        result = context_check(from_context, &context);
    sim_unlock();
    return result == CUDA_SUCCESS ? linear(to, from, size, stream, null_stream, synchronous)
                                  : result;
}

EXPORT_FORMS(cuMemcpyPeer, _ptds,
             (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t size),
             peer(to, to_context, from, from_context, size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyPeerAsync, _ptsz,
             (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t size, CUstream stream),
             peer(to, to_context, from, from_context, size, stream, null_stream, false))

/* --- pitched memory --- */

/* One side of a 2D or 3D copy; false if it cannot be one. */
static bool make_side(struct copy_side *side, CUmemorytype type, const void *host,
                      CUdeviceptr device, CUarray array, size_t pitch, size_t height, size_t x,
                      size_t y, size_t z) {
    bool known =
        type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;

    side->address = type == CU_MEMORYTYPE_HOST ? HOST(host) : device;
    side->pitch = pitch;
    if (type == CU_MEMORYTYPE_ARRAY) {
        sim_lock();
        known = array_place(array, &side->address, &side->pitch, &height);
        sim_unlock();
    }
    side->slice = side->pitch * height;
    side->address += x + y * side->pitch + z * side->slice;
    return known;
}

static CUresult pitched_2d(const CUDA_MEMCPY2D *of, CUstream stream, enum null_stream null_stream,
                           bool synchronous) {
    struct copy copy = {0};

    if (of == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    copy.width = of->WidthInBytes;
    copy.rows = of->Height;
    copy.slices = 1;
    if (!make_side(&copy.to, of->dstMemoryType, of->dstHost, of->dstDevice, of->dstArray,
                   of->dstPitch, 0, of->dstXInBytes, of->dstY, 0) ||
        !make_side(&copy.from, of->srcMemoryType, of->srcHost, of->srcDevice, of->srcArray,
                   of->srcPitch, 0, of->srcXInBytes, of->srcY, 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (copy.rows > 1 && (copy.to.pitch < copy.width || copy.from.pitch < copy.width))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_run(&copy, stream, null_stream, synchronous);
}

EXPORT_FORMS(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *copy),
             pitched_2d(copy, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *copy),
             pitched_2d(copy, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream),
             pitched_2d(copy, stream, null_stream, false))

static CUresult pitched_3d(const CUDA_MEMCPY3D *of, CUstream stream, enum null_stream null_stream,
                           bool synchronous) {
    struct copy copy = {0};

    if (of == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    copy.width = of->WidthInBytes;
    copy.rows = of->Height;
    copy.slices = of->Depth;
    if (!make_side(&copy.to, of->dstMemoryType, of->dstHost, of->dstDevice, of->dstArray,
                   of->dstPitch, of->dstHeight, of->dstXInBytes, of->dstY, of->dstZ) ||
        !make_side(&copy.from, of->srcMemoryType, of->srcHost, of->srcDevice, of->srcArray,
                   of->srcPitch, of->srcHeight, of->srcXInBytes, of->srcY, of->srcZ))
        return CUDA_ERROR_INVALID_VALUE;
    if (copy.rows > 1 && (copy.to.pitch < copy.width || copy.from.pitch < copy.width))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_run(&copy, stream, null_stream, synchronous);
}

EXPORT_FORMS(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *copy),
             pitched_3d(copy, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *copy, CUstream stream),
             pitched_3d(copy, stream, null_stream, false))
