/* Variables of the device that the program names by those of the host that stand for them. */
#include "forms.h"
#include "registered.h"

/* Ends a function of the runtime that did not find its variable. */
#define FIND(symbol, pointer, bytes)                                                               \
    do {                                                                                           \
        ENTER();                                                                                   \
        cudaError_t found = registered_variable(symbol, pointer, bytes);                           \
        if (found != cudaSuccess)                                                                  \
            return state_result(found);                                                            \
    } while (0)

cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol) {
    CUdeviceptr address;
    size_t bytes;
    FIND(symbol, &address, &bytes);
    if (!pointer)
        return state_result(cudaErrorInvalidValue);
    *pointer = (void *)address;
    return cudaSuccess;
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol) {
    CUdeviceptr address;
    size_t bytes;
    FIND(symbol, &address, &bytes);
    if (!size)
        return state_result(cudaErrorInvalidValue);
    *size = bytes;
    return cudaSuccess;
}

static bool is_beyond(size_t offset, size_t count, size_t bytes) {
    return offset > bytes || count > bytes - offset;
}

static cudaError_t to_symbol(const void *symbol, const void *from, size_t count, size_t offset,
                             enum cudaMemcpyKind kind, bool per_thread) {
    CUdeviceptr to;
    size_t bytes;
    FIND(symbol, &to, &bytes);
    if (is_beyond(offset, count, bytes))
        return state_result(cudaErrorInvalidValue);
    to += offset;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRIVER(driver.cuMemcpyHtoD[per_thread](to, from, count));
    case cudaMemcpyDeviceToDevice:
        return DRIVER(driver.cuMemcpyDtoD[per_thread](to, (CUdeviceptr)from, count));
    case cudaMemcpyDefault:
        return DRIVER(driver.cuMemcpy[per_thread](to, (CUdeviceptr)from, count));
    default:
        return state_result(cudaErrorInvalidMemcpyDirection);
    }
}

static cudaError_t to_symbol_async(const void *symbol, const void *from, size_t count,
                                   size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream,
                                   bool per_thread) {
    CUdeviceptr to;
    size_t bytes;
    FIND(symbol, &to, &bytes);
    if (is_beyond(offset, count, bytes))
        return state_result(cudaErrorInvalidValue);
    to += offset;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRIVER(driver.cuMemcpyHtoDAsync[per_thread](to, from, count, stream));
    case cudaMemcpyDeviceToDevice:
        return DRIVER(driver.cuMemcpyDtoDAsync[per_thread](to, (CUdeviceptr)from, count, stream));
    case cudaMemcpyDefault:
        return DRIVER(driver.cuMemcpyAsync[per_thread](to, (CUdeviceptr)from, count, stream));
    default:
        return state_result(cudaErrorInvalidMemcpyDirection);
    }
}

static cudaError_t from_symbol(void *to, const void *symbol, size_t count, size_t offset,
                               enum cudaMemcpyKind kind, bool per_thread) {
    CUdeviceptr from;
    size_t bytes;
    FIND(symbol, &from, &bytes);
    if (is_beyond(offset, count, bytes))
        return state_result(cudaErrorInvalidValue);
    from += offset;
    switch (kind) {
    case cudaMemcpyDeviceToHost:
        return DRIVER(driver.cuMemcpyDtoH[per_thread](to, from, count));
    case cudaMemcpyDeviceToDevice:
        return DRIVER(driver.cuMemcpyDtoD[per_thread]((CUdeviceptr)to, from, count));
    case cudaMemcpyDefault:
        return DRIVER(driver.cuMemcpy[per_thread]((CUdeviceptr)to, from, count));
    default:
        return state_result(cudaErrorInvalidMemcpyDirection);
    }
}

static cudaError_t from_symbol_async(void *to, const void *symbol, size_t count, size_t offset,
                                     enum cudaMemcpyKind kind, cudaStream_t stream,
                                     bool per_thread) {
    CUdeviceptr from;
    size_t bytes;
    FIND(symbol, &from, &bytes);
    if (is_beyond(offset, count, bytes))
        return state_result(cudaErrorInvalidValue);
    from += offset;
    switch (kind) {
    case cudaMemcpyDeviceToHost:
        return DRIVER(driver.cuMemcpyDtoHAsync[per_thread](to, from, count, stream));
    case cudaMemcpyDeviceToDevice:
        return DRIVER(driver.cuMemcpyDtoDAsync[per_thread]((CUdeviceptr)to, from, count, stream));
    case cudaMemcpyDefault:
        return DRIVER(driver.cuMemcpyAsync[per_thread]((CUdeviceptr)to, from, count, stream));
    default:
        return state_result(cudaErrorInvalidMemcpyDirection);
    }
}

FORMS(cudaMemcpyToSymbol, _ptds,
      (const void *symbol, const void *from, size_t count, size_t offset, enum cudaMemcpyKind kind),
      to_symbol(symbol, from, count, offset, kind, per_thread))
FORMS(cudaMemcpyToSymbolAsync, _ptsz,
      (const void *symbol, const void *from, size_t count, size_t offset, enum cudaMemcpyKind kind,
       cudaStream_t stream),
      to_symbol_async(symbol, from, count, offset, kind, stream, per_thread))
FORMS(cudaMemcpyFromSymbol, _ptds,
      (void *to, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
      from_symbol(to, symbol, count, offset, kind, per_thread))
FORMS(cudaMemcpyFromSymbolAsync, _ptsz,
      (void *to, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
       cudaStream_t stream),
      from_symbol_async(to, symbol, count, offset, kind, stream, per_thread))
