/* Where the runtime counts in elements of an array the driver counts in bytes; and what it tells by
 * the kind of copy stands at each end for the driver. */
#include "copy_3d.h"

#include "array.h"
#include "forms.h"

#define POINTER(p) ((CUdeviceptr)(uintptr_t)(p))

static bool is_kind(enum cudaMemcpyKind kind) {
    return (unsigned int)kind <= cudaMemcpyDefault;
}

static CUmemorytype memory_of(enum cudaMemcpyKind kind, bool to) {
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    if (to)
        return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice
                   ? CU_MEMORYTYPE_DEVICE
                   : CU_MEMORYTYPE_HOST;
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ? CU_MEMORYTYPE_DEVICE
                                                                              : CU_MEMORYTYPE_HOST;
}

/* The size of what positions and widths along a row count: 1, or an array's element. */
static cudaError_t unit_of(const struct cudaMemcpy3DParms *copy, size_t *from, size_t *to) {
    cudaError_t result = cudaSuccess;

    *from = *to = 1;
    if (copy->srcArray)
        result = array_element_size(copy->srcArray, from);
    if (result == cudaSuccess && copy->dstArray)
        result = array_element_size(copy->dstArray, to);
    if (result == cudaSuccess && copy->srcArray && copy->dstArray && *from != *to)
        result = cudaErrorInvalidValue;
    return result;
}

cudaError_t copy_3d_to_driver(const struct cudaMemcpy3DParms *copy, CUDA_MEMCPY3D *of_driver) {
    size_t from, to;

    if (!is_kind(copy->kind))
        return cudaErrorInvalidMemcpyDirection;
    if (!copy->srcArray == !copy->srcPtr.ptr || !copy->dstArray == !copy->dstPtr.ptr)
        return cudaErrorInvalidValue;
    cudaError_t result = unit_of(copy, &from, &to);
    if (result != cudaSuccess)
        return result;
    /* an end in linear memory counts its position in bytes, whatever the other one is
     * [cudaMemcpy3D] */
    *of_driver = (CUDA_MEMCPY3D){
        .srcXInBytes = copy->srcPos.x * from,
        .srcY = copy->srcPos.y,
        .srcZ = copy->srcPos.z,
        .srcMemoryType = copy->srcArray ? CU_MEMORYTYPE_ARRAY : memory_of(copy->kind, false),
        .srcHost = copy->srcPtr.ptr,
        .srcDevice = POINTER(copy->srcPtr.ptr),
        .srcArray = (CUarray)copy->srcArray,
        .srcPitch = copy->srcPtr.pitch,
        .srcHeight = copy->srcPtr.ysize,
        .dstXInBytes = copy->dstPos.x * to,
        .dstY = copy->dstPos.y,
        .dstZ = copy->dstPos.z,
        .dstMemoryType = copy->dstArray ? CU_MEMORYTYPE_ARRAY : memory_of(copy->kind, true),
        .dstHost = copy->dstPtr.ptr,
        .dstDevice = POINTER(copy->dstPtr.ptr),
        .dstArray = (CUarray)copy->dstArray,
        .dstPitch = copy->dstPtr.pitch,
        .dstHeight = copy->dstPtr.ysize,
        .WidthInBytes = copy->extent.width * (copy->srcArray ? from : to),
        .Height = copy->extent.height,
        .Depth = copy->extent.depth,
    };
    return cudaSuccess;
}

static enum cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to) {
    if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
        return cudaMemcpyDefault;
    if (from == CU_MEMORYTYPE_HOST)
        return to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
    return to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

void copy_3d_from_driver(const CUDA_MEMCPY3D *of_driver, struct cudaMemcpy3DParms *copy) {
    size_t from = 1, to = 1;
    bool from_array = of_driver->srcMemoryType == CU_MEMORYTYPE_ARRAY;
    bool to_array = of_driver->dstMemoryType == CU_MEMORYTYPE_ARRAY;
    void *source = of_driver->srcMemoryType == CU_MEMORYTYPE_HOST ? (void *)of_driver->srcHost
                                                                  : (void *)of_driver->srcDevice;
    void *target = of_driver->dstMemoryType == CU_MEMORYTYPE_HOST ? of_driver->dstHost
                                                                  : (void *)of_driver->dstDevice;

    *copy = (struct cudaMemcpy3DParms){
        .srcArray = from_array ? (cudaArray_t)of_driver->srcArray : NULL,
        .dstArray = to_array ? (cudaArray_t)of_driver->dstArray : NULL,
        .kind = kind_of(of_driver->srcMemoryType, of_driver->dstMemoryType)};
    (void)unit_of(copy, &from, &to);
    copy->srcPos =
        (struct cudaPos){of_driver->srcXInBytes / from, of_driver->srcY, of_driver->srcZ};
    copy->dstPos = (struct cudaPos){of_driver->dstXInBytes / to, of_driver->dstY, of_driver->dstZ};
    if (!from_array)
        copy->srcPtr = (struct cudaPitchedPtr){source, of_driver->srcPitch, of_driver->WidthInBytes,
                                               of_driver->srcHeight};
    if (!to_array)
        copy->dstPtr = (struct cudaPitchedPtr){target, of_driver->dstPitch, of_driver->WidthInBytes,
                                               of_driver->dstHeight};
    copy->extent = (struct cudaExtent){of_driver->WidthInBytes / (from_array ? from : to),
                                       of_driver->Height, of_driver->Depth};
}

struct cudaMemcpy3DParms copy_3d_of_row(void *to, const void *from, size_t bytes,
                                        enum cudaMemcpyKind kind) {
    return (struct cudaMemcpy3DParms){
        .srcPtr = {(void *)(uintptr_t)from, bytes, bytes, 1},
        .dstPtr = {to, bytes, bytes, 1},
        .extent = {bytes, 1, 1},
        .kind = kind,
    };
}

static cudaError_t copy_3d(const struct cudaMemcpy3DParms *copy, bool per_thread) {
    CUDA_MEMCPY3D of_driver;
    ENTER();
    if (!copy)
        return state_result(cudaErrorInvalidValue);
    cudaError_t described = copy_3d_to_driver(copy, &of_driver);
    return described != cudaSuccess ? state_result(described)
                                    : DRIVER(driver.cuMemcpy3D[per_thread](&of_driver));
}

static cudaError_t copy_3d_async(const struct cudaMemcpy3DParms *copy, cudaStream_t stream,
                                 bool per_thread) {
    CUDA_MEMCPY3D of_driver;
    ENTER();
    if (!copy)
        return state_result(cudaErrorInvalidValue);
    cudaError_t described = copy_3d_to_driver(copy, &of_driver);
    return described != cudaSuccess
               ? state_result(described)
               : DRIVER(driver.cuMemcpy3DAsync[per_thread](&of_driver, stream));
}

FORMS(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *copy), copy_3d(copy, per_thread))
FORMS(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *copy, cudaStream_t stream),
      copy_3d_async(copy, stream, per_thread))

/* --- between arrays and pitched memory; along a row these count in bytes --- */

static CUDA_MEMCPY2D to_array(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind) {
    return (CUDA_MEMCPY2D){.srcMemoryType = memory_of(kind, false),
                           .srcHost = from,
                           .srcDevice = POINTER(from),
                           .srcPitch = pitch,
                           .dstXInBytes = x,
                           .dstY = y,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = (CUarray)to,
                           .WidthInBytes = width,
                           .Height = height};
}

static CUDA_MEMCPY2D from_array(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                size_t width, size_t height, enum cudaMemcpyKind kind) {
    return (CUDA_MEMCPY2D){.srcXInBytes = x,
                           .srcY = y,
                           .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = (CUarray)(uintptr_t)from,
                           .dstMemoryType = memory_of(kind, true),
                           .dstHost = to,
                           .dstDevice = POINTER(to),
                           .dstPitch = pitch,
                           .WidthInBytes = width,
                           .Height = height};
}

static CUDA_MEMCPY2D array_to_array(cudaArray_t to, size_t x, size_t y, cudaArray_const_t from,
                                    size_t from_x, size_t from_y, size_t width, size_t height) {
    return (CUDA_MEMCPY2D){.srcXInBytes = from_x,
                           .srcY = from_y,
                           .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = (CUarray)(uintptr_t)from,
                           .dstXInBytes = x,
                           .dstY = y,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = (CUarray)to,
                           .WidthInBytes = width,
                           .Height = height};
}

static cudaError_t copy_2d(CUDA_MEMCPY2D copy, enum cudaMemcpyKind kind, bool per_thread) {
    ENTER();
    if (!is_kind(kind))
        return state_result(cudaErrorInvalidMemcpyDirection);
    return DRIVER(driver.cuMemcpy2DUnaligned[per_thread](&copy));
}

static cudaError_t copy_2d_async(CUDA_MEMCPY2D copy, enum cudaMemcpyKind kind, cudaStream_t stream,
                                 bool per_thread) {
    ENTER();
    if (!is_kind(kind))
        return state_result(cudaErrorInvalidMemcpyDirection);
    return DRIVER(driver.cuMemcpy2DAsync[per_thread](&copy, stream));
}

FORMS(cudaMemcpy2DToArray, _ptds,
      (cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
       size_t height, enum cudaMemcpyKind kind),
      copy_2d(to_array(to, x, y, from, pitch, width, height, kind), kind, per_thread))
FORMS(cudaMemcpy2DToArrayAsync, _ptsz,
      (cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
       size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
      copy_2d_async(to_array(to, x, y, from, pitch, width, height, kind), kind, stream, per_thread))
FORMS(cudaMemcpy2DFromArray, _ptds,
      (void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
       size_t height, enum cudaMemcpyKind kind),
      copy_2d(from_array(to, pitch, from, x, y, width, height, kind), kind, per_thread))
FORMS(cudaMemcpy2DFromArrayAsync, _ptsz,
      (void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
       size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
      copy_2d_async(from_array(to, pitch, from, x, y, width, height, kind), kind, stream,
                    per_thread))
FORMS(cudaMemcpy2DArrayToArray, _ptds,
      (cudaArray_t to, size_t x, size_t y, cudaArray_const_t from, size_t from_x, size_t from_y,
       size_t width, size_t height, enum cudaMemcpyKind kind),
      copy_2d(array_to_array(to, x, y, from, from_x, from_y, width, height), kind, per_thread))

/* --- bytes one after another, which run on in the next rows of an array --- */

struct run {
    bool to; /* the array */
    cudaArray_const_t array;
    size_t x, y; /* where it begins there: bytes, rows */
    char *memory;
    size_t bytes;
    enum cudaMemcpyKind kind;
};

static struct run run_to(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
                         enum cudaMemcpyKind kind) {
    return (struct run){true, to, x, y, (char *)(uintptr_t)from, bytes, kind};
}

static struct run run_from(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                           enum cudaMemcpyKind kind) {
    return (struct run){false, from, x, y, to, bytes, kind};
}

/* The next box of it: the rest of a row, or all rows that it fills. */
static CUDA_MEMCPY2D next_box(const struct run *run, size_t row) {
    size_t rest = row - run->x, width = run->bytes < rest ? run->bytes : rest;
    size_t height = width == row ? run->bytes / row : 1;

    return run->to ? to_array((cudaArray_t)run->array, run->x, run->y, run->memory, width, width,
                              height, run->kind)
                   : from_array(run->memory, width, run->array, run->x, run->y, width, height,
                                run->kind);
}

/* The bytes of a row. 0: the run does not begin in the array, or goes beyond it. */
static size_t row_of(const struct run *run) {
    CUDA_ARRAY3D_DESCRIPTOR shape;
    size_t element, row, rows;

    if (array_element_size(run->array, &element) != cudaSuccess ||
        driver.cuArray3DGetDescriptor(&shape, (CUarray)(uintptr_t)run->array) != CUDA_SUCCESS)
        return 0;
    row = shape.Width * element;
    rows = shape.Height != 0 ? shape.Height : 1;
    if (run->x >= row || run->y >= rows || run->bytes > row * (rows - run->y) - run->x)
        return 0;
    return row;
}

static cudaError_t copy_run(struct run run, bool async, cudaStream_t stream, bool per_thread) {
    ENTER();
    size_t row = row_of(&run);
    cudaError_t result = cudaSuccess;

    if (row == 0)
        return state_result(cudaErrorInvalidValue);
    do {
        CUDA_MEMCPY2D box = next_box(&run, row);

        result = async ? copy_2d_async(box, run.kind, stream, per_thread)
                       : copy_2d(box, run.kind, per_thread);
        run.memory += box.WidthInBytes * box.Height;
        run.bytes -= box.WidthInBytes * box.Height;
        run.x = 0;
        run.y += box.Height;
    } while (result == cudaSuccess && run.bytes != 0);
    return result;
}

FORMS(cudaMemcpyToArray, _ptds,
      (cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
       enum cudaMemcpyKind kind),
      copy_run(run_to(to, x, y, from, bytes, kind), false, NULL, per_thread))
FORMS(cudaMemcpyToArrayAsync, _ptsz,
      (cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, enum cudaMemcpyKind kind,
       cudaStream_t stream),
      copy_run(run_to(to, x, y, from, bytes, kind), true, stream, per_thread))
FORMS(cudaMemcpyFromArray, _ptds,
      (void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
       enum cudaMemcpyKind kind),
      copy_run(run_from(to, from, x, y, bytes, kind), false, NULL, per_thread))
FORMS(cudaMemcpyFromArrayAsync, _ptsz,
      (void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, enum cudaMemcpyKind kind,
       cudaStream_t stream),
      copy_run(run_from(to, from, x, y, bytes, kind), true, stream, per_thread))

/* --- fills of boxes, slice by slice --- */

static CUresult fill_box(struct cudaPitchedPtr box, unsigned char value, struct cudaExtent extent,
                         bool async, cudaStream_t stream, bool per_thread) {
    CUresult result = CUDA_SUCCESS;

    for (size_t z = 0; z < extent.depth && result == CUDA_SUCCESS; z++) {
        CUdeviceptr slice = POINTER(box.ptr) + z * box.pitch * box.ysize;
        result = async ? driver.cuMemsetD2D8Async[per_thread](slice, box.pitch, value, extent.width,
                                                              extent.height, stream)
                       : driver.cuMemsetD2D8[per_thread](slice, box.pitch, value, extent.width,
                                                         extent.height);
    }
    return result;
}

FORWARD_FORMS(cudaMemset3D, _ptds, (struct cudaPitchedPtr box, int value, struct cudaExtent extent),
              fill_box(box, (unsigned char)value, extent, false, NULL, per_thread))
FORWARD_FORMS(cudaMemset3DAsync, _ptsz,
              (struct cudaPitchedPtr box, int value, struct cudaExtent extent, cudaStream_t stream),
              fill_box(box, (unsigned char)value, extent, true, stream, per_thread))
