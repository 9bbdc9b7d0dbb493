/* Textures and surfaces, as objects. The two interfaces describe an element of linear memory in two
 * ways, and the runtime has flags as members. */
#include "array.h"
#include "forms.h"

#include <string.h>

static cudaError_t to_driver(const struct cudaResourceDesc *from, CUDA_RESOURCE_DESC *to) {
    const struct cudaChannelFormatDesc *element =
        from->resType == cudaResourceTypeLinear ? &from->res.linear.desc : &from->res.pitch2D.desc;
    CUarray_format format = (CUarray_format)0;
    unsigned int channels = 0;

    memset(to, 0, sizeof *to);
    to->resType = (CUresourcetype)from->resType;
    if (from->resType == cudaResourceTypeLinear || from->resType == cudaResourceTypePitch2D) {
        if (!array_element(element, &format, &channels))
            return cudaErrorInvalidChannelDescriptor;
    }
    switch (from->resType) {
    case cudaResourceTypeArray:
        to->res.array.hArray = (CUarray)from->res.array.array;
        return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
        to->res.mipmap.hMipmappedArray = (CUmipmappedArray)from->res.mipmap.mipmap;
        return cudaSuccess;
    case cudaResourceTypeLinear:
        to->res.linear.devPtr = (CUdeviceptr)from->res.linear.devPtr;
        to->res.linear.format = format;
        to->res.linear.numChannels = channels;
        to->res.linear.sizeInBytes = from->res.linear.sizeInBytes;
        return cudaSuccess;
    case cudaResourceTypePitch2D:
        to->res.pitch2D.devPtr = (CUdeviceptr)from->res.pitch2D.devPtr;
        to->res.pitch2D.format = format;
        to->res.pitch2D.numChannels = channels;
        to->res.pitch2D.width = from->res.pitch2D.width;
        to->res.pitch2D.height = from->res.pitch2D.height;
        to->res.pitch2D.pitchInBytes = from->res.pitch2D.pitchInBytes;
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
}

static void from_driver(const CUDA_RESOURCE_DESC *from, struct cudaResourceDesc *to) {
    memset(to, 0, sizeof *to);
    to->resType = (enum cudaResourceType)from->resType;
    switch (to->resType) {
    case cudaResourceTypeArray:
        to->res.array.array = (cudaArray_t)from->res.array.hArray;
        break;
    case cudaResourceTypeMipmappedArray:
        to->res.mipmap.mipmap = (cudaMipmappedArray_t)from->res.mipmap.hMipmappedArray;
        break;
    case cudaResourceTypeLinear:
        to->res.linear.devPtr = (void *)from->res.linear.devPtr;
        to->res.linear.desc = array_channels(from->res.linear.format, from->res.linear.numChannels);
        to->res.linear.sizeInBytes = from->res.linear.sizeInBytes;
        break;
    case cudaResourceTypePitch2D:
        to->res.pitch2D.devPtr = (void *)from->res.pitch2D.devPtr;
        to->res.pitch2D.desc =
            array_channels(from->res.pitch2D.format, from->res.pitch2D.numChannels);
        to->res.pitch2D.width = from->res.pitch2D.width;
        to->res.pitch2D.height = from->res.pitch2D.height;
        to->res.pitch2D.pitchInBytes = from->res.pitch2D.pitchInBytes;
        break;
    }
}

static CUDA_TEXTURE_DESC texture_to_driver(const struct cudaTextureDesc *from) {
    CUDA_TEXTURE_DESC to = {.filterMode = (CUfilter_mode)from->filterMode,
                            .maxAnisotropy = from->maxAnisotropy,
                            .mipmapFilterMode = (CUfilter_mode)from->mipmapFilterMode,
                            .mipmapLevelBias = from->mipmapLevelBias,
                            .minMipmapLevelClamp = from->minMipmapLevelClamp,
                            .maxMipmapLevelClamp = from->maxMipmapLevelClamp};

    for (int i = 0; i < 3; i++)
        to.addressMode[i] = (CUaddress_mode)from->addressMode[i];
    memcpy(to.borderColor, from->borderColor, sizeof to.borderColor);
    to.flags = (from->readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0) |
               (from->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0) |
               (from->sRGB ? CU_TRSF_SRGB : 0) |
               (from->disableTrilinearOptimization ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0) |
               (from->seamlessCubemap ? CU_TRSF_SEAMLESS_CUBEMAP : 0);
    return to;
}

static struct cudaTextureDesc texture_from_driver(const CUDA_TEXTURE_DESC *from) {
    struct cudaTextureDesc to = {
        .filterMode = (enum cudaTextureFilterMode)from->filterMode,
        .readMode = from->flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType
                                                          : cudaReadModeNormalizedFloat,
        .sRGB = (from->flags & CU_TRSF_SRGB) != 0,
        .normalizedCoords = (from->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0,
        .maxAnisotropy = from->maxAnisotropy,
        .mipmapFilterMode = (enum cudaTextureFilterMode)from->mipmapFilterMode,
        .mipmapLevelBias = from->mipmapLevelBias,
        .minMipmapLevelClamp = from->minMipmapLevelClamp,
        .maxMipmapLevelClamp = from->maxMipmapLevelClamp,
        .disableTrilinearOptimization = (from->flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0,
        .seamlessCubemap = (from->flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0};

    for (int i = 0; i < 3; i++)
        to.addressMode[i] = (enum cudaTextureAddressMode)from->addressMode[i];
    memcpy(to.borderColor, from->borderColor, sizeof to.borderColor);
    return to;
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object,
                                    const struct cudaResourceDesc *resource,
                                    const struct cudaTextureDesc *texture,
                                    const struct cudaResourceViewDesc *view) {
    CUDA_RESOURCE_DESC of_driver;
    ENTER();
    if (!resource || !texture)
        return state_result(cudaErrorInvalidValue);
    cudaError_t described = to_driver(resource, &of_driver);
    if (described != cudaSuccess)
        return state_result(described);
    CUDA_TEXTURE_DESC settings = texture_to_driver(texture);
    /* a view has one layout in both interfaces */
    return DRIVER(driver.cuTexObjectCreate((CUtexObject *)object, &of_driver, &settings,
                                           (const CUDA_RESOURCE_VIEW_DESC *)view));
}

FORWARD(cudaDestroyTextureObject, (cudaTextureObject_t object), driver.cuTexObjectDestroy(object))

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *resource,
                                             cudaTextureObject_t object) {
    CUDA_RESOURCE_DESC of_driver;
    ENTER();
    CUresult result = driver.cuTexObjectGetResourceDesc(&of_driver, object);
    if (result == CUDA_SUCCESS && resource)
        from_driver(&of_driver, resource);
    return resource ? DRIVER(result) : state_result(cudaErrorInvalidValue);
}

cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *texture,
                                            cudaTextureObject_t object) {
    CUDA_TEXTURE_DESC of_driver;
    ENTER();
    CUresult result = driver.cuTexObjectGetTextureDesc(&of_driver, object);
    if (result == CUDA_SUCCESS && texture)
        *texture = texture_from_driver(&of_driver);
    return texture ? DRIVER(result) : state_result(cudaErrorInvalidValue);
}

FORWARD(cudaGetTextureObjectResourceViewDesc,
        (struct cudaResourceViewDesc * view, cudaTextureObject_t object),
        driver.cuTexObjectGetResourceViewDesc((CUDA_RESOURCE_VIEW_DESC *)view, object))

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object,
                                    const struct cudaResourceDesc *resource) {
    CUDA_RESOURCE_DESC of_driver;
    ENTER();
    if (!resource)
        return state_result(cudaErrorInvalidValue);
    cudaError_t described = to_driver(resource, &of_driver);
    if (described != cudaSuccess)
        return state_result(described);
    return DRIVER(driver.cuSurfObjectCreate((CUsurfObject *)object, &of_driver));
}

FORWARD(cudaDestroySurfaceObject, (cudaSurfaceObject_t object), driver.cuSurfObjectDestroy(object))

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *resource,
                                             cudaSurfaceObject_t object) {
    CUDA_RESOURCE_DESC of_driver;
    ENTER();
    CUresult result = driver.cuSurfObjectGetResourceDesc(&of_driver, object);
    if (result == CUDA_SUCCESS && resource)
        from_driver(&of_driver, resource);
    return resource ? DRIVER(result) : state_result(cudaErrorInvalidValue);
}
