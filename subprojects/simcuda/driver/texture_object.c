/* Texture and surface objects. */
#include "allocate.h"
#include "array.h"
#include "lock.h"
#include "memory.h"
#include "simt.h"
#include "texture.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* One object of a context. */
struct object {
    unsigned long long handle; /* the key of `objects`; never used again */
    struct CUctx_st *context;
    bool surface;
    bool has_view;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUDA_RESOURCE_VIEW_DESC view;
    UT_hash_handle hh;
};

static struct object *objects;
static unsigned long long last_handle;

static struct object *find(unsigned long long handle, bool surface) {
    struct object *object;

    HASH_FIND(hh, objects, &handle, sizeof handle, object);
    return object != NULL && object->surface == surface ? object : NULL;
}

static void drop(struct object *object) {
    // NOLINTNEXTLINE(clang-analyzer-*): it is in the table
    HASH_DEL(objects, object);
    free(object);
}

void texture_objects_ending(struct CUctx_st *context) {
    sim_check_held();
    struct object *object, *next;

    HASH_ITER (hh, objects, object, next) {
        if (object->context == context)
            drop(object);
    }
}

static CUresult check_linear(const CUDA_RESOURCE_DESC *resource) {
    const CUdeviceptr alignment =
        (CUdeviceptr)device_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 0);
    size_t element =
        array_element_size(resource->res.linear.format, resource->res.linear.numChannels);

    if (element == 0 || resource->res.linear.devPtr % alignment != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return texture_check_row(&(struct texture_memory){
        resource->res.linear.devPtr, resource->res.linear.format, resource->res.linear.numChannels,
        resource->res.linear.sizeInBytes / element, 1, 0});
}

static CUresult check_resource(const CUDA_RESOURCE_DESC *resource) {
    if (resource->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return texture_check_array(resource->res.array.hArray);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return texture_check_mipmap(resource->res.mipmap.hMipmappedArray);
    case CU_RESOURCE_TYPE_LINEAR:
        return check_linear(resource);
    case CU_RESOURCE_TYPE_PITCH2D:
        return texture_check_rows(&(struct texture_memory){
            resource->res.pitch2D.devPtr, resource->res.pitch2D.format,
            resource->res.pitch2D.numChannels, resource->res.pitch2D.width,
            resource->res.pitch2D.height, resource->res.pitch2D.pitchInBytes});
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult check_texture(const CUDA_RESOURCE_DESC *resource,
                              const CUDA_TEXTURE_DESC *texture) {
    const unsigned int flags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                               CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                               CU_TRSF_SEAMLESS_CUBEMAP;

    for (int i = 0; i < 3; i++)
        if (!texture_is_address_mode(texture->addressMode[i]))
            return CUDA_ERROR_INVALID_VALUE;
    if (!texture_is_filter_mode(texture->filterMode) ||
        !texture_is_filter_mode(texture->mipmapFilterMode) || (texture->flags & ~flags) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return resource->resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY ||
                   (texture->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static bool can_be_viewed(const CUDA_RESOURCE_DESC *resource) {
    return resource->resType == CU_RESOURCE_TYPE_ARRAY ||
           resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
}

/* --- what kernels read --- */

static enum simt_channel channel_of(CUarray_format format) {
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
        return SIMT_U8;
    case CU_AD_FORMAT_UNSIGNED_INT16:
        return SIMT_U16;
    case CU_AD_FORMAT_UNSIGNED_INT32:
        return SIMT_U32;
    case CU_AD_FORMAT_SIGNED_INT8:
        return SIMT_S8;
    case CU_AD_FORMAT_SIGNED_INT16:
        return SIMT_S16;
    case CU_AD_FORMAT_SIGNED_INT32:
        return SIMT_S32;
    case CU_AD_FORMAT_HALF:
        return SIMT_F16;
    default:
        return SIMT_F32;
    }
}

static bool bind_array(CUarray array, struct simt_texture *texture) {
    CUDA_ARRAY3D_DESCRIPTOR shape;
    struct array_place place;

    if (!array_shape(array, &shape) || !array_place(array, &place))
        return false;
    texture->address = place.address;
    texture->channel = channel_of(shape.Format);
    texture->channels = shape.NumChannels;
    texture->width = shape.Width;
    texture->height = shape.Height;
    if ((shape.Flags & CUDA_ARRAY3D_LAYERED) != 0)
        texture->layers = shape.Depth;
    else
        texture->depth = shape.Depth;
    texture->pitch = place.pitch;
    texture->slice = place.pitch * place.rows;
    return true;
}

static bool bind_memory(const CUDA_RESOURCE_DESC *resource, struct simt_texture *texture) {
    bool is_rows = resource->resType == CU_RESOURCE_TYPE_PITCH2D;
    CUarray_format format = is_rows ? resource->res.pitch2D.format : resource->res.linear.format;

    texture->address = is_rows ? resource->res.pitch2D.devPtr : resource->res.linear.devPtr;
    texture->channel = channel_of(format);
    texture->channels =
        is_rows ? resource->res.pitch2D.numChannels : resource->res.linear.numChannels;
    texture->width =
        is_rows ? resource->res.pitch2D.width
                : resource->res.linear.sizeInBytes / array_element_size(format, texture->channels);
    texture->height = is_rows ? resource->res.pitch2D.height : 0;
    texture->pitch = is_rows ? resource->res.pitch2D.pitchInBytes : 0;
    return true;
}

/* Bytes from the first element to behind the last one. */
static size_t bytes_of(const struct simt_texture *texture, size_t element) {
    size_t slices = texture->depth != 0 ? texture->depth : texture->layers;

    return texture->width * element +
           (texture->height > 1 ? (texture->height - 1) * texture->pitch : 0) +
           (slices > 1 ? (slices - 1) * texture->slice : 0);
}

static size_t element_of(const struct simt_texture *texture) {
    static const unsigned char sizes[] = {1, 2, 4, 1, 2, 4, 2, 4}; /* of the channels */

    return (size_t)sizes[texture->channel] * texture->channels;
}

bool texture_object_bound(unsigned long long handle, bool surface, struct simt_texture *texture) {
    sim_check_held();
    const struct object *object = find(handle, surface);
    bool bound;

    memset(texture, 0, sizeof *texture);
    if (object == NULL || object->resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        return false;
    bound = object->resource.resType == CU_RESOURCE_TYPE_ARRAY
                ? bind_array(object->resource.res.array.hArray, texture)
                : bind_memory(&object->resource, texture);
    if (!bound)
        return false;
    for (int i = 0; i < 3; i++)
        texture->mode[i] = (enum simt_address_mode)object->texture.addressMode[i];
    memcpy(texture->border, object->texture.borderColor, sizeof texture->border);
    texture->linear = object->texture.filterMode == CU_TR_FILTER_MODE_LINEAR;
    texture->normalized = (object->texture.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    texture->reads_integers = (object->texture.flags & CU_TRSF_READ_AS_INTEGER) != 0;
    texture->srgb = (object->texture.flags & CU_TRSF_SRGB) != 0;
    texture->memory = memory_reach_locked(texture->address, bytes_of(texture, element_of(texture)));
    return texture->memory != NULL;
}

static struct object *add(struct CUctx_st *context, const CUDA_RESOURCE_DESC *resource) {
    struct object *object = allocate_zeroed(sizeof *object);

    object->handle = ++last_handle;
    object->context = context;
    object->resource = *resource;
    HASH_ADD(hh, objects, handle, sizeof object->handle, object);
    return object;
}

SIM_EXPORT CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
                                      const CUDA_TEXTURE_DESC *texture,
                                      const CUDA_RESOURCE_VIEW_DESC *view) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuTexObjectCreate);
    if (out == NULL || resource == NULL || texture == NULL ||
        (view != NULL && !can_be_viewed(resource)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = check_resource(resource);
    if (result == CUDA_SUCCESS)
        result = check_texture(resource, texture);
    if (result == CUDA_SUCCESS) {
        struct object *object = add(context, resource);

        object->texture = *texture;
        object->has_view = view != NULL;
        if (view != NULL)
            object->view = *view;
        *out = object->handle;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *resource) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuSurfObjectCreate);
    if (out == NULL || resource == NULL || resource->resType != CU_RESOURCE_TYPE_ARRAY ||
        resource->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = texture_check_surface(resource->res.array.hArray);
    if (result == CUDA_SUCCESS) {
        struct object *object = add(context, resource);

        object->surface = true;
        *out = object->handle;
    }
    sim_unlock();
    return result;
}

/* What a handle denotes, copied: the object may end once the lock is free. */
static CUresult get(unsigned long long handle, bool surface, bool destroys, struct object *copy) {
    const struct object *object;
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    object = find(handle, surface);
    if (result == CUDA_SUCCESS && object == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *copy = *object;
        if (destroys)
            drop(find(handle, surface));
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuTexObjectDestroy(CUtexObject handle) {
    struct object object;

    ENTER(cuTexObjectDestroy);
    return get(handle, false, true, &object);
}

SIM_EXPORT CUresult cuSurfObjectDestroy(CUsurfObject handle) {
    struct object object;

    ENTER(cuSurfObjectDestroy);
    return get(handle, true, true, &object);
}

static CUresult get_resource(CUDA_RESOURCE_DESC *resource, unsigned long long handle,
                             bool surface) {
    struct object object;
    CUresult result =
        resource == NULL ? CUDA_ERROR_INVALID_VALUE : get(handle, surface, false, &object);

    if (result == CUDA_SUCCESS)
        *resource = object.resource;
    return result;
}

SIM_EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUtexObject handle) {
    ENTER(cuTexObjectGetResourceDesc);
    return get_resource(resource, handle, false);
}

SIM_EXPORT CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUsurfObject handle) {
    ENTER(cuSurfObjectGetResourceDesc);
    return get_resource(resource, handle, true);
}

SIM_EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *texture, CUtexObject handle) {
    struct object object;
    CUresult result;

    ENTER(cuTexObjectGetTextureDesc);
    result = texture == NULL ? CUDA_ERROR_INVALID_VALUE : get(handle, false, false, &object);
    if (result == CUDA_SUCCESS)
        *texture = object.texture;
    return result;
}

SIM_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *view,
                                                   CUtexObject handle) {
    struct object object;
    CUresult result;

    ENTER(cuTexObjectGetResourceViewDesc);
    result = view == NULL ? CUDA_ERROR_INVALID_VALUE : get(handle, false, false, &object);
    if (result != CUDA_SUCCESS)
        return result;
    if (!object.has_view)
        return CUDA_ERROR_INVALID_VALUE;
    *view = object.view;
    return CUDA_SUCCESS;
}
