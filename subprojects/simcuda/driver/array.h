/* Arrays, simple ones: pitched device memory that only copies can reach. All below: lock held. */
#ifndef SIMCUDA_ARRAY_H
#define SIMCUDA_ARRAY_H

#include "context.h"

/* Where an array's elements are. */
struct array_place {
    CUdeviceptr address;
    size_t pitch; /* bytes from row to row */
    size_t width; /* bytes of a row */
    size_t rows;  /* of a slice */
    size_t slices;
    size_t element; /* bytes */
};

bool array_place(CUarray handle, struct array_place *place); /* false: it is no array */

/* False: it is no array. */
bool array_shape(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR *shape);
bool array_is_mipmapped(CUmipmappedArray handle);

/* Bytes of an element. 0: the device has no such format, or not with so many channels; lock not
 * needed. */
size_t array_element_size(CUarray_format format, unsigned int channels);

void array_context_ending(struct CUctx_st *context);

#endif
