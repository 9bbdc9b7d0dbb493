/* How an element of an array, texture or surface is described. */
#ifndef SIMCUDA_RUNTIME_ARRAY_H
#define SIMCUDA_RUNTIME_ARRAY_H

#include "driver_calls.h"

/* To the driver's words. False: the driver has none for it. */
bool array_element(const struct cudaChannelFormatDesc *element, CUarray_format *format,
                   unsigned int *channels);

/* From the driver's words; of no kind, where the runtime has none for them. */
struct cudaChannelFormatDesc array_channels(CUarray_format format, unsigned int channels);

/* Bytes. */
cudaError_t array_element_size(cudaArray_const_t array, size_t *size);

#endif
