/* Arrays: the runtime describes an element by its channels' bits, the driver by a format and a
 * number of channels. */
#include "array.h"

#include "forms.h"

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

bool array_element(const struct cudaChannelFormatDesc *element, CUarray_format *format,
                   unsigned int *channels) {
    *format = format_of(element);
    return count_channels(element, channels) && *format;
}

struct cudaChannelFormatDesc array_channels(CUarray_format format, unsigned int channels) {
    struct cudaChannelFormatDesc element = {.f = cudaChannelFormatKindNone};
    int *bits[] = {&element.x, &element.y, &element.z, &element.w};
    const struct cudaChannelFormatDesc all[] = {{8, 8, 8, 8, cudaChannelFormatKindUnsigned},
                                                {16, 16, 16, 16, cudaChannelFormatKindUnsigned},
                                                {32, 32, 32, 32, cudaChannelFormatKindUnsigned},
                                                {8, 8, 8, 8, cudaChannelFormatKindSigned},
                                                {16, 16, 16, 16, cudaChannelFormatKindSigned},
                                                {32, 32, 32, 32, cudaChannelFormatKindSigned},
                                                {16, 16, 16, 16, cudaChannelFormatKindFloat},
                                                {32, 32, 32, 32, cudaChannelFormatKindFloat}};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (format_of(&all[i]) != format)
            continue;
        element.f = all[i].f;
        for (unsigned int channel = 0; channel < channels && channel < 4; channel++)
            *bits[channel] = all[i].x;
    }
    return element;
}

/* The flags of both interfaces have the same values [driver_types.h, cuda.h]. */
static cudaError_t describe(const struct cudaChannelFormatDesc *element, struct cudaExtent extent,
                            unsigned int flags, CUDA_ARRAY3D_DESCRIPTOR *shape) {
    unsigned int channels;
    CUarray_format format;
    if (!element || !array_element(element, &format, &channels))
        return cudaErrorInvalidChannelDescriptor;
    *shape = (CUDA_ARRAY3D_DESCRIPTOR){.Width = extent.width,
                                       .Height = extent.height,
                                       .Depth = extent.depth,
                                       .Format = format,
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

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind kind) {
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *element, struct cudaExtent *extent,
                             unsigned int *flags, cudaArray_t array) {
    CUDA_ARRAY3D_DESCRIPTOR shape;
    ENTER();
    CUresult result = driver.cuArray3DGetDescriptor(&shape, (CUarray)array);
    if (result != CUDA_SUCCESS)
        return DRIVER(result);
    if (element)
        *element = array_channels(shape.Format, shape.NumChannels);
    if (extent)
        *extent = (struct cudaExtent){shape.Width, shape.Height, shape.Depth};
    if (flags)
        *flags = shape.Flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *element, cudaArray_const_t array) {
    return cudaArrayGetInfo(element, NULL, NULL, (cudaArray_t)array);
}

cudaError_t array_element_size(cudaArray_const_t array, size_t *size) {
    CUDA_ARRAY3D_DESCRIPTOR shape;
    CUresult result = driver.cuArray3DGetDescriptor(&shape, (CUarray)(uintptr_t)array);

    if (result != CUDA_SUCCESS)
        return (cudaError_t)result;
    struct cudaChannelFormatDesc element = array_channels(shape.Format, shape.NumChannels);
    *size = (size_t)(element.x + element.y + element.z + element.w) / 8;
    return *size ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
}
