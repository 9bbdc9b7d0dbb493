/* Copies of a row of bytes, as cudaMemcpy and cudaMemcpyAsync make them. */
#ifndef SIMCUDA_RUNTIME_COPY_H
#define SIMCUDA_RUNTIME_COPY_H

#include "driver_calls.h"

#include <stdbool.h>

/* What they return is noted as the thread's error. per_thread: the default stream is its own. */
cudaError_t copy_row(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                     bool per_thread);
cudaError_t copy_row_async(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                           cudaStream_t stream, bool per_thread);

#endif
