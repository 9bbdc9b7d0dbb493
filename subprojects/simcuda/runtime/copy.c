/* Copies and fills, each with a form whose default stream is the thread's own (_ptds, _ptsz). */
#include "copy.h"

#include "forms.h"

#include <string.h>

#define POINTER(p) ((CUdeviceptr)(uintptr_t)(p))

cudaError_t copy_row(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                     bool per_thread) {
    ENTER();
    switch (kind) {
    case cudaMemcpyHostToHost:
        memmove(to, from, bytes);
        return cudaSuccess;
    case cudaMemcpyHostToDevice:
        return DRIVER(driver.cuMemcpyHtoD[per_thread](POINTER(to), from, bytes));
    case cudaMemcpyDeviceToHost:
        return DRIVER(driver.cuMemcpyDtoH[per_thread](to, POINTER(from), bytes));
    case cudaMemcpyDeviceToDevice:
        return DRIVER(driver.cuMemcpyDtoD[per_thread](POINTER(to), POINTER(from), bytes));
    case cudaMemcpyDefault:
        return DRIVER(driver.cuMemcpy[per_thread](POINTER(to), POINTER(from), bytes));
    }
    return state_result(cudaErrorInvalidMemcpyDirection);
}

cudaError_t copy_row_async(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                           cudaStream_t stream, bool per_thread) {
    ENTER();
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRIVER(driver.cuMemcpyHtoDAsync[per_thread](POINTER(to), from, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return DRIVER(driver.cuMemcpyDtoHAsync[per_thread](to, POINTER(from), bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return DRIVER(
            driver.cuMemcpyDtoDAsync[per_thread](POINTER(to), POINTER(from), bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return DRIVER(driver.cuMemcpyAsync[per_thread](POINTER(to), POINTER(from), bytes, stream));
    }
    return state_result(cudaErrorInvalidMemcpyDirection);
}

/* cudaMemcpyDefault leaves it to the driver to tell from the addresses. */
static CUDA_MEMCPY2D describe_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                 size_t width, size_t height, enum cudaMemcpyKind kind) {
    bool unified = kind == cudaMemcpyDefault;
    bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
    bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
    return (CUDA_MEMCPY2D){
        .srcMemoryType = unified     ? CU_MEMORYTYPE_UNIFIED
                         : from_host ? CU_MEMORYTYPE_HOST
                                     : CU_MEMORYTYPE_DEVICE,
        .srcHost = from_host ? from : NULL,
        .srcDevice = from_host ? 0 : POINTER(from),
        .srcPitch = from_pitch,
        .dstMemoryType = unified   ? CU_MEMORYTYPE_UNIFIED
                         : to_host ? CU_MEMORYTYPE_HOST
                                   : CU_MEMORYTYPE_DEVICE,
        .dstHost = to_host ? to : NULL,
        .dstDevice = to_host ? 0 : POINTER(to),
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = height,
    };
}

static cudaError_t copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                           size_t width, size_t height, enum cudaMemcpyKind kind, bool per_thread) {
    CUDA_MEMCPY2D described = describe_2d(to, to_pitch, from, from_pitch, width, height, kind);
    ENTER();
    if ((unsigned int)kind > cudaMemcpyDefault)
        return state_result(cudaErrorInvalidMemcpyDirection);
    if (!width || !height)
        return cudaSuccess;
    return DRIVER(driver.cuMemcpy2DUnaligned[per_thread](&described));
}

static cudaError_t copy_2d_async(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                 size_t width, size_t height, enum cudaMemcpyKind kind,
                                 cudaStream_t stream, bool per_thread) {
    CUDA_MEMCPY2D described = describe_2d(to, to_pitch, from, from_pitch, width, height, kind);
    ENTER();
    if ((unsigned int)kind > cudaMemcpyDefault)
        return state_result(cudaErrorInvalidMemcpyDirection);
    if (!width || !height)
        return cudaSuccess;
    return DRIVER(driver.cuMemcpy2DAsync[per_thread](&described, stream));
}

static cudaError_t fill_2d(void *to, size_t pitch, int value, size_t width, size_t height,
                           bool per_thread) {
    ENTER();
    if (!width || !height)
        return cudaSuccess;
    return DRIVER(
        driver.cuMemsetD2D8[per_thread](POINTER(to), pitch, (unsigned char)value, width, height));
}

static cudaError_t fill_2d_async(void *to, size_t pitch, int value, size_t width, size_t height,
                                 cudaStream_t stream, bool per_thread) {
    ENTER();
    if (!width || !height)
        return cudaSuccess;
    return DRIVER(driver.cuMemsetD2D8Async[per_thread](POINTER(to), pitch, (unsigned char)value,
                                                       width, height, stream));
}

static cudaError_t fill(void *to, int value, size_t bytes, bool per_thread) {
    ENTER();
    return DRIVER(driver.cuMemsetD8[per_thread](POINTER(to), (unsigned char)value, bytes));
}

static cudaError_t fill_async(void *to, int value, size_t bytes, cudaStream_t stream,
                              bool per_thread) {
    ENTER();
    return DRIVER(
        driver.cuMemsetD8Async[per_thread](POINTER(to), (unsigned char)value, bytes, stream));
}

FORMS(cudaMemcpy, _ptds, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind),
      copy_row(to, from, bytes, kind, per_thread))
FORMS(cudaMemcpyAsync, _ptsz,
      (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
      copy_row_async(to, from, bytes, kind, stream, per_thread))
FORMS(cudaMemcpy2D, _ptds,
      (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
       enum cudaMemcpyKind kind),
      copy_2d(to, to_pitch, from, from_pitch, width, height, kind, per_thread))
FORMS(cudaMemset, _ptds, (void *to, int value, size_t bytes), fill(to, value, bytes, per_thread))
FORMS(cudaMemsetAsync, _ptsz, (void *to, int value, size_t bytes, cudaStream_t stream),
      fill_async(to, value, bytes, stream, per_thread))
FORMS(cudaMemcpy2DAsync, _ptsz,
      (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
       enum cudaMemcpyKind kind, cudaStream_t stream),
      copy_2d_async(to, to_pitch, from, from_pitch, width, height, kind, stream, per_thread))
FORMS(cudaMemset2D, _ptds, (void *to, size_t pitch, int value, size_t width, size_t height),
      fill_2d(to, pitch, value, width, height, per_thread))
FORMS(cudaMemset2DAsync, _ptsz,
      (void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
      fill_2d_async(to, pitch, value, width, height, stream, per_thread))
