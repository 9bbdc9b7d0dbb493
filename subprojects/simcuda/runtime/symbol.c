/* Variables of the device that the program names by those of the host that stand for them. */
#include "copy.h"
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

/* The bytes of a variable that a copy is about. against: the direction that it cannot have, besides
 * the one between two places of the host. */
static cudaError_t part_of(const void *symbol, size_t offset, size_t count,
                           enum cudaMemcpyKind kind, enum cudaMemcpyKind against, void **part) {
    CUdeviceptr address;
    size_t bytes;
    FIND(symbol, &address, &bytes);
    if (offset > bytes || count > bytes - offset)
        return state_result(cudaErrorInvalidValue);
    if (kind == against || kind == cudaMemcpyHostToHost)
        return state_result(cudaErrorInvalidMemcpyDirection);
    *part = (void *)(address + offset);
    return cudaSuccess;
}

static cudaError_t to_symbol(const void *symbol, const void *from, size_t count, size_t offset,
                             enum cudaMemcpyKind kind, bool per_thread) {
    void *to = NULL;
    cudaError_t found = part_of(symbol, offset, count, kind, cudaMemcpyDeviceToHost, &to);

    return found == cudaSuccess ? copy_row(to, from, count, kind, per_thread) : found;
}

static cudaError_t to_symbol_async(const void *symbol, const void *from, size_t count,
                                   size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream,
                                   bool per_thread) {
    void *to = NULL;
    cudaError_t found = part_of(symbol, offset, count, kind, cudaMemcpyDeviceToHost, &to);

    return found == cudaSuccess ? copy_row_async(to, from, count, kind, stream, per_thread) : found;
}

static cudaError_t from_symbol(void *to, const void *symbol, size_t count, size_t offset,
                               enum cudaMemcpyKind kind, bool per_thread) {
    void *from = NULL;
    cudaError_t found = part_of(symbol, offset, count, kind, cudaMemcpyHostToDevice, &from);

    return found == cudaSuccess ? copy_row(to, from, count, kind, per_thread) : found;
}

static cudaError_t from_symbol_async(void *to, const void *symbol, size_t count, size_t offset,
                                     enum cudaMemcpyKind kind, cudaStream_t stream,
                                     bool per_thread) {
    void *from = NULL;
    cudaError_t found = part_of(symbol, offset, count, kind, cudaMemcpyHostToDevice, &from);

    return found == cudaSuccess ? copy_row_async(to, from, count, kind, stream, per_thread) : found;
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
