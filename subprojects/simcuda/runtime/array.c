/* Arrays: the runtime describes an element by its channels' bits, the driver by a format and a
 * number of channels. */
#include "state.h"

static CUarray_format integer_format(int bits, bool is_signed) {
    switch (bits) {
    case 8:
        return is_signed ? CU_AD_FORMAT_SIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT8;
    case 16:
        return is_signed ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT16;
    case 32:
        return is_signed ? CU_AD_FORMAT_SIGNED_INT32 : CU_AD_FORMAT_UNSIGNED_INT32;
    default:
        return (CUarray_format)0;
    }
}

/* 0: there is none such. */
static CUarray_format format_of(const struct cudaChannelFormatDesc *element) {
    switch (element->f) {
    case cudaChannelFormatKindSigned:
        return integer_format(element->x, true);
    case cudaChannelFormatKindUnsigned:
        return integer_format(element->x, false);
    case cudaChannelFormatKindFloat:
        return element->x == 16   ? CU_AD_FORMAT_HALF
               : element->x == 32 ? CU_AD_FORMAT_FLOAT
                                  : (CUarray_format)0;
    default:
        return (CUarray_format)0;
    }
}

/* All channels are of the first one's width, and none follows one that is absent. False: not so. */
static bool count_channels(const struct cudaChannelFormatDesc *element, unsigned int *count) {
    const int bits[] = {element->x, element->y, element->z, element->w};
    *count = 0;
    while (*count < 4 && bits[*count] == element->x)
        ++*count;
    for (unsigned int i = *count; i < 4; i++)
        if (bits[i] != 0)
            return false;
    return element->x != 0;
}

/* The flags of both interfaces have the same values [driver_types.h, cuda.h]. */
static cudaError_t describe(const struct cudaChannelFormatDesc *element, struct cudaExtent extent,
                            unsigned int flags, CUDA_ARRAY3D_DESCRIPTOR *shape) {
    unsigned int channels;
    if (!element || !count_channels(element, &channels) || !format_of(element))
        return cudaErrorInvalidChannelDescriptor;
    *shape = (CUDA_ARRAY3D_DESCRIPTOR){.Width = extent.width,
                                       .Height = extent.height,
                                       .Depth = extent.depth,
                                       .Format = format_of(element),
                                       .NumChannels = channels,
                                       .Flags = flags};
    return cudaSuccess;
}

static cudaError_t create(cudaArray_t *array, const struct cudaChannelFormatDesc *element,
                          struct cudaExtent extent, unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR shape;
    ENTER();
    cudaError_t described = describe(element, extent, flags, &shape);
    if (!array || described != cudaSuccess)
        return state_result(array ? described : cudaErrorInvalidValue);
    return DRIVER(driver.cuArray3DCreate((CUarray *)array, &shape));
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *element,
                            size_t width, size_t height, unsigned int flags) {
    return create(array, element, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *element,
                              struct cudaExtent extent, unsigned int flags) {
    return create(array, element, extent, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
    ENTER();
    return array ? DRIVER(driver.cuArrayDestroy((CUarray)array)) : cudaSuccess;
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmap,
                                     const struct cudaChannelFormatDesc *element,
                                     struct cudaExtent extent, unsigned int levels,
                                     unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR shape;
    ENTER();
    cudaError_t described = describe(element, extent, flags, &shape);
    if (!mipmap || described != cudaSuccess)
        return state_result(mipmap ? described : cudaErrorInvalidValue);
    return DRIVER(driver.cuMipmappedArrayCreate((CUmipmappedArray *)mipmap, &shape, levels));
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *array, cudaMipmappedArray_const_t mipmap,
                                       unsigned int level) {
    ENTER();
    return DRIVER(
        driver.cuMipmappedArrayGetLevel((CUarray *)array, (CUmipmappedArray)mipmap, level));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmap) {
    ENTER();
    return mipmap ? DRIVER(driver.cuMipmappedArrayDestroy((CUmipmappedArray)mipmap)) : cudaSuccess;
}
