/* Copies of boxes between arrays and memory, as the driver describes them. */
#ifndef SIMCUDA_RUNTIME_COPY_3D_H
#define SIMCUDA_RUNTIME_COPY_3D_H

#include "driver_calls.h"

cudaError_t copy_3d_to_driver(const struct cudaMemcpy3DParms *copy, CUDA_MEMCPY3D *of_driver);
void copy_3d_from_driver(const CUDA_MEMCPY3D *of_driver, struct cudaMemcpy3DParms *copy);

/* A row of bytes. */
struct cudaMemcpy3DParms copy_3d_of_row(void *to, const void *from, size_t bytes,
                                        enum cudaMemcpyKind kind);

#endif
