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

/* One side of a 2D or 3D copy, as the program says it. */
struct pitched {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t pitch, height; /* 0: not specified */
    size_t x, y, z;
};

/* Whether `count` from `offset` on are among `size`. */
static bool within(size_t offset, size_t count, size_t size) {
    return offset <= size && count <= size - offset;
}

static bool make_array_side(struct copy_side *side, const struct pitched *of,
                            const struct copy *copy) {
    struct array_place place = {0};

    if (!array_place(of->array, &place) || of->x % place.element != 0 ||
        !within(of->x, copy->width, place.width) || !within(of->y, copy->rows, place.rows) ||
        !within(of->z, copy->slices, place.slices))
        return false;
    side->pitch = place.pitch;
    side->slice = place.pitch * place.rows;
    side->address = place.address + of->x + of->y * side->pitch + of->z * side->slice;
    return true;
}

/* "If specified, srcPitch must be greater than or equal to WidthInBytes + srcXInBytes", and
 * "srcHeight must be greater than or equal to Height + srcY". */
static bool make_memory_side(struct copy_side *side, const struct pitched *of,
                             const struct copy *copy) {
    size_t most = (size_t)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0), before;

    if (of->type != CU_MEMORYTYPE_HOST && of->type != CU_MEMORYTYPE_DEVICE &&
        of->type != CU_MEMORYTYPE_UNIFIED)
        return false;
    side->address = of->type == CU_MEMORYTYPE_HOST ? HOST(of->host) : of->device;
    side->pitch = of->pitch;
    if (side->address == 0 || of->pitch > most ||
        (of->pitch != 0 && !within(of->x, copy->width, of->pitch)) ||
        (of->height != 0 && !within(of->y, copy->rows, of->height)) ||
        __builtin_mul_overflow(of->pitch, of->height, &side->slice) ||
        __builtin_mul_overflow(of->z, side->slice, &before) ||
        __builtin_add_overflow(side->address, before, &side->address) ||
        __builtin_mul_overflow(of->y, of->pitch, &before) ||
        __builtin_add_overflow(side->address, before, &side->address) ||
        __builtin_add_overflow(side->address, of->x, &side->address))
        return false;
    return copy->rows <= 1 || of->pitch >= copy->width;
}

/* False if the copy cannot be. Lock held. */
static bool make_sides(struct copy *copy, const struct pitched *to, const struct pitched *from) {
    sim_check_held();
    if (copy->width == 0 || copy->rows == 0 || copy->slices == 0)
        return true; /* nothing is copied */
    return (to->type == CU_MEMORYTYPE_ARRAY ? make_array_side(&copy->to, to, copy)
                                            : make_memory_side(&copy->to, to, copy)) &&
           (from->type == CU_MEMORYTYPE_ARRAY ? make_array_side(&copy->from, from, copy)
                                              : make_memory_side(&copy->from, from, copy));
}

static CUresult pitched_2d(const CUDA_MEMCPY2D *of, CUstream stream, enum null_stream null_stream,
                           bool synchronous) {
    struct copy copy = {.slices = 1};
    struct pitched to, from;
    bool valid;

    if (of == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    to = (struct pitched){of->dstMemoryType, of->dstHost,  of->dstDevice,
                          of->dstArray,      of->dstPitch, 0,
                          of->dstXInBytes,   of->dstY,     0};
    from = (struct pitched){of->srcMemoryType, of->srcHost,  of->srcDevice,
                            of->srcArray,      of->srcPitch, 0,
                            of->srcXInBytes,   of->srcY,     0};
    copy.width = of->WidthInBytes;
    copy.rows = of->Height;
    sim_lock();
    valid = make_sides(&copy, &to, &from);
    sim_unlock();
    return valid ? copy_run(&copy, stream, null_stream, synchronous) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT_FORMS(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *copy),
             pitched_2d(copy, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *copy),
             pitched_2d(copy, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream),
             pitched_2d(copy, stream, null_stream, false))

/* Lock held. */
static bool from_3d_peer(const CUDA_MEMCPY3D_PEER *of, struct copy *copy) {
    sim_check_held();
    const struct pitched to = {of->dstMemoryType, of->dstHost,  of->dstDevice,
                               of->dstArray,      of->dstPitch, of->dstHeight,
                               of->dstXInBytes,   of->dstY,     of->dstZ},
                         from = {of->srcMemoryType, of->srcHost,  of->srcDevice,
                                 of->srcArray,      of->srcPitch, of->srcHeight,
                                 of->srcXInBytes,   of->srcY,     of->srcZ};

    *copy = (struct copy){.width = of->WidthInBytes, .rows = of->Height, .slices = of->Depth};
    return make_sides(copy, &to, &from);
}

static CUresult pitched_3d(const CUDA_MEMCPY3D_PEER *of, CUstream stream,
                           enum null_stream null_stream, bool synchronous) {
    struct copy copy;
    bool valid;

    sim_lock();
    valid = from_3d_peer(of, &copy);
    sim_unlock();
    return valid ? copy_run(&copy, stream, null_stream, synchronous) : CUDA_ERROR_INVALID_VALUE;
}

static CUDA_MEMCPY3D_PEER as_peer(const CUDA_MEMCPY3D *of) {
    return (CUDA_MEMCPY3D_PEER){.srcXInBytes = of->srcXInBytes,
                                .srcY = of->srcY,
                                .srcZ = of->srcZ,
                                .srcMemoryType = of->srcMemoryType,
                                .srcHost = of->srcHost,
                                .srcDevice = of->srcDevice,
                                .srcArray = of->srcArray,
                                .srcPitch = of->srcPitch,
                                .srcHeight = of->srcHeight,
                                .dstXInBytes = of->dstXInBytes,
                                .dstY = of->dstY,
                                .dstZ = of->dstZ,
                                .dstMemoryType = of->dstMemoryType,
                                .dstHost = of->dstHost,
                                .dstDevice = of->dstDevice,
                                .dstArray = of->dstArray,
                                .dstPitch = of->dstPitch,
                                .dstHeight = of->dstHeight,
                                .WidthInBytes = of->WidthInBytes,
                                .Height = of->Height,
                                .Depth = of->Depth};
}

bool copy_from_3d(const CUDA_MEMCPY3D *of, struct copy *copy) {
    sim_check_held();
    const CUDA_MEMCPY3D_PEER peer_of = as_peer(of);

    return from_3d_peer(&peer_of, copy);
}

static CUresult plain_3d(const CUDA_MEMCPY3D *of, CUstream stream, enum null_stream null_stream,
                         bool synchronous) {
    CUDA_MEMCPY3D_PEER peer_of;

    if (of == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    peer_of = as_peer(of);
    return pitched_3d(&peer_of, stream, null_stream, synchronous);
}

EXPORT_FORMS(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *copy),
             plain_3d(copy, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *copy, CUstream stream),
             plain_3d(copy, stream, null_stream, false))

/* The context of a side counts for device memory only: arrays have their own, the host has none. */
static CUresult check_side(CUmemorytype type, CUcontext handle) {
    struct CUctx_st *context;
    CUresult result;

    if (type == CU_MEMORYTYPE_ARRAY || type == CU_MEMORYTYPE_HOST)
        return CUDA_SUCCESS;
    sim_lock();
    result = context_check(handle, &context);
    sim_unlock();
    return result;
}

static CUresult peer_3d(const CUDA_MEMCPY3D_PEER *of, CUstream stream, enum null_stream null_stream,
                        bool synchronous) {
    CUresult result =
        of == NULL ? CUDA_ERROR_INVALID_VALUE : check_side(of->dstMemoryType, of->dstContext);

    if (result == CUDA_SUCCESS)
        result = check_side(of->srcMemoryType, of->srcContext);
    return result == CUDA_SUCCESS ? pitched_3d(of, stream, null_stream, synchronous) : result;
}

EXPORT_FORMS(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *copy),
             peer_3d(copy, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream),
             peer_3d(copy, stream, null_stream, false))

/* --- rows of elements --- */

/* Finds `offset` bytes behind the begin of an array with one row, where `size` bytes are. */
static CUresult find_in_row(CUarray array, size_t offset, size_t size, CUdeviceptr *address,
                            size_t *element) {
    struct array_place place = {0};
    bool known;

    sim_lock();
    known = array_place(array, &place);
    sim_unlock();
    if (!known)
        return CUDA_ERROR_INVALID_VALUE;
    if (place.rows > 1 || place.slices > 1)
        return entry_not_simulated("an array of more than one row");
    if (offset > place.width || size > place.width - offset)
        return CUDA_ERROR_INVALID_VALUE;
    *address = place.address + offset;
    *element = place.element;
    return CUDA_SUCCESS;
}

static CUresult to_array(CUarray array, size_t offset, CUdeviceptr from, size_t size,
                         CUstream stream, enum null_stream null_stream, bool synchronous) {
    CUdeviceptr to = 0;
    size_t element;
    CUresult result = find_in_row(array, offset, size, &to, &element);

    return result == CUDA_SUCCESS ? linear(to, from, size, stream, null_stream, synchronous)
                                  : result;
}

static CUresult from_array(CUdeviceptr to, CUarray array, size_t offset, size_t size,
                           CUstream stream, enum null_stream null_stream, bool synchronous) {
    CUdeviceptr from = 0;
    size_t element;
    CUresult result = find_in_row(array, offset, size, &from, &element);

    return result == CUDA_SUCCESS ? linear(to, from, size, stream, null_stream, synchronous)
                                  : result;
}

/* "The elements must be the same size; and count must be evenly divisible by that size." */
static CUresult between_arrays(CUarray to_array, size_t to_offset, CUarray array, size_t offset,
                               size_t size, enum null_stream null_stream) {
    size_t to_element = 0, element = 0;
    CUdeviceptr to = 0, from = 0;
    CUresult result = find_in_row(to_array, to_offset, size, &to, &to_element);

    if (result == CUDA_SUCCESS)
        result = find_in_row(array, offset, size, &from, &element);
    if (result == CUDA_SUCCESS && (element == 0 || to_element != element || size % element != 0))
        result = CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? linear(to, from, size, NULL, null_stream, true) : result;
}

EXPORT_FORMS(cuMemcpyDtoA_v2, _ptds, (CUarray to, size_t offset, CUdeviceptr from, size_t size),
             to_array(to, offset, from, size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyHtoA_v2, _ptds, (CUarray to, size_t offset, const void *from, size_t size),
             to_array(to, offset, HOST(from), size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyHtoAAsync_v2, _ptsz,
             (CUarray to, size_t offset, const void *from, size_t size, CUstream stream),
             to_array(to, offset, HOST(from), size, stream, null_stream, false))
EXPORT_FORMS(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr to, CUarray from, size_t offset, size_t size),
             from_array(to, from, offset, size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyAtoH_v2, _ptds, (void *to, CUarray from, size_t offset, size_t size),
             from_array(HOST(to), from, offset, size, NULL, null_stream, true))
EXPORT_FORMS(cuMemcpyAtoHAsync_v2, _ptsz,
             (void *to, CUarray from, size_t offset, size_t size, CUstream stream),
             from_array(HOST(to), from, offset, size, stream, null_stream, false))
EXPORT_FORMS(cuMemcpyAtoA_v2, _ptds,
             (CUarray to, size_t to_offset, CUarray from, size_t offset, size_t size),
             between_arrays(to, to_offset, from, offset, size, null_stream))
