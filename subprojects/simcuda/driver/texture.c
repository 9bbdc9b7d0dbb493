/* What a texture or a surface may be of. */
#include "texture.h"

#include "array.h"
#include "lock.h"
#include "memory.h"

static size_t limit(CUdevice_attribute attribute) {
    return (size_t)device_attribute(attribute, 0); /* the devices are alike */
}

/* Whether the memory of `rows` rows exists, from `address` on. */
static bool exists(const struct texture_memory *memory, size_t element) {
    return memory_spans(memory->address,
                        memory->pitch * (memory->height - 1) + memory->width * element);
}

CUresult texture_check_row(const struct texture_memory *memory) {
    sim_check_held();
    size_t element = array_element_size(memory->format, memory->channels);

    if (element == 0 || memory->width == 0 ||
        memory->width > limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH))
        return CUDA_ERROR_INVALID_VALUE;
    return exists(memory, element) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult texture_check_rows(const struct texture_memory *memory) {
    sim_check_held();
    size_t element = array_element_size(memory->format, memory->channels);

    if (element == 0 || memory->width == 0 || memory->height == 0 ||
        memory->width > limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) ||
        memory->height > limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) ||
        memory->pitch > limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH) ||
        memory->pitch < memory->width * element ||
        memory->pitch % limit(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) != 0 ||
        memory->address % limit(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return exists(memory, element) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult texture_check_array(CUarray array) {
    sim_check_held();
    CUDA_ARRAY3D_DESCRIPTOR shape;

    return array_shape(array, &shape) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult texture_check_surface(CUarray array) {
    sim_check_held();
    CUDA_ARRAY3D_DESCRIPTOR shape;

    return array_shape(array, &shape) && (shape.Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult texture_check_mipmap(CUmipmappedArray mipmap) {
    sim_check_held();
    return array_is_mipmapped(mipmap) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool texture_is_address_mode(CUaddress_mode mode) {
    return (unsigned int)mode <= CU_TR_ADDRESS_MODE_BORDER;
}

bool texture_is_filter_mode(CUfilter_mode mode) {
    return (unsigned int)mode <= CU_TR_FILTER_MODE_LINEAR;
}

SIM_EXPORT CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format,
                                                       unsigned int channels, CUdevice device) {
    ENTER(cuDeviceGetTexture1DLinearMaxWidth);
    if (width == NULL || array_element_size(format, channels) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    *width = limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    return CUDA_SUCCESS;
}
