/* Texture and surface references: what modules name and the program binds to memory. */
#include "allocate.h"
#include "array.h"
#include "image.h"
#include "lock.h"
#include "module.h"
#include "texture.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum binding { BOUND_TO_NOTHING, BOUND_TO_MEMORY, BOUND_TO_ARRAY, BOUND_TO_MIPMAP };

/* Invariant: module == NULL for what cuTexRefCreate made, and destroys; else the module's end is
 * its own. A surface has a binding alone. */
struct CUtexref_st {
    struct CUctx_st *context;
    const struct CUmod_st *module;
    const struct image_reference *declared; /* of the module's image */
    enum binding binding;
    CUdeviceptr address;
    CUarray array;
    CUmipmappedArray mipmap;
    CUarray_format format;
    int channels;
    CUaddress_mode address_modes[3];
    CUfilter_mode filter, mipmap_filter;
    float mipmap_bias, mipmap_least, mipmap_most;
    unsigned int anisotropy;
    float border[4];
    unsigned int flags;
    struct CUtexref_st *next;
};

/* Textures and surfaces. */
static struct CUtexref_st *references;

/* What a reference is before anything is set (assumed). */
static struct CUtexref_st *make(struct CUctx_st *context) {
    struct CUtexref_st *reference = allocate_zeroed(sizeof *reference);

    reference->context = context;
    reference->format = CU_AD_FORMAT_FLOAT;
    reference->channels = 1;
    for (int i = 0; i < 3; i++)
        reference->address_modes[i] = CU_TR_ADDRESS_MODE_CLAMP;
    reference->anisotropy = 1;
    LL_PREPEND(references, reference);
    return reference;
}

static void drop(struct CUtexref_st *reference) {
    LL_DELETE(references, reference);
    free(reference);
}

void texture_module_ending(struct CUmod_st *module) {
    sim_check_held();
    struct CUtexref_st *reference, *next;

    LL_FOREACH_SAFE(references, reference, next)
    if (reference->module == module)
        drop(reference);
}

void texture_context_ending(struct CUctx_st *context) {
    sim_check_held();
    struct CUtexref_st *reference, *next;

    LL_FOREACH_SAFE(references, reference, next)
    if (reference->context == context)
        drop(reference);
    texture_objects_ending(context);
}

static bool is_surface(const struct CUtexref_st *reference) {
    return reference->declared != NULL && reference->declared->surface;
}

bool texture_is_of_module(CUtexref handle, const struct CUmod_st *module) {
    sim_check_held();
    const struct CUtexref_st *reference;

    LL_FOREACH(references, reference)
    if (reference == handle)
        return reference->module == module && !is_surface(reference);
    return false;
}

/* INVALID_VALUE: it is none. The current context is looked at first. Lock not held
 * on entry; for CUDA_SUCCESS it is the caller's on return. */
static CUresult begin(CUtexref handle, bool surface) {
    sim_check_none();
    const struct CUtexref_st *reference;
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    LL_FOREACH(references, reference)
    if (reference == handle && is_surface(reference) == surface)
        break;
    if (result == CUDA_SUCCESS && reference == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        sim_unlock();
    return result;
}

/* The reference of that name, made when it is first asked for. */
static CUresult get_reference(CUtexref *out, CUmodule module, const char *name, bool surface) {
    const struct image_reference *declared;
    struct CUtexref_st *reference;

    LL_FOREACH(module->image->textures, declared)
    if (declared->surface == surface && strcmp(declared->name, name) == 0)
        break;
    if (declared == NULL)
        return CUDA_ERROR_NOT_FOUND;
    LL_FOREACH(references, reference)
    if (reference->module == module && reference->declared == declared)
        break;
    if (reference == NULL) {
        reference = make(module->context);
        reference->module = module;
        reference->declared = declared;
    }
    *out = reference;
    return CUDA_SUCCESS;
}

static CUresult get_of_module(CUtexref *out, CUmodule module, const char *name, bool surface) {
    struct CUctx_st *context;
    CUresult result;

    if (out == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS && (module_find(module) == NULL || module->context == NULL))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        result = get_reference(out, module, name, surface);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name) {
    ENTER(cuModuleGetTexRef);
    return get_of_module(reference, module, name, false);
}

SIM_EXPORT CUresult cuModuleGetSurfRef(CUsurfref *reference, CUmodule module, const char *name) {
    ENTER(cuModuleGetSurfRef);
    return get_of_module((CUtexref *)reference, module, name, true);
}

SIM_EXPORT CUresult cuTexRefCreate(CUtexref *out) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuTexRefCreate);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        *out = make(context);
    sim_unlock();
    return result;
}

/* INVALID_VALUE for a module's (assumed). */
SIM_EXPORT CUresult cuTexRefDestroy(CUtexref handle) {
    CUresult result;

    ENTER(cuTexRefDestroy);
    result = begin(handle, false);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle->module != NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        drop(handle);
    sim_unlock();
    return result;
}

/* --- what it is bound to --- */

static CUresult bind_array(CUtexref handle, CUarray array) {
    CUDA_ARRAY3D_DESCRIPTOR shape;

    if (!array_shape(array, &shape))
        return CUDA_ERROR_INVALID_VALUE;
    handle->binding = BOUND_TO_ARRAY;
    handle->array = array;
    handle->format = shape.Format;
    handle->channels = (int)shape.NumChannels;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuTexRefSetArray(CUtexref handle, CUarray array, unsigned int flags) {
    CUresult result;

    ENTER(cuTexRefSetArray);
    if (flags != CU_TRSA_OVERRIDE_FORMAT)
        return CUDA_ERROR_INVALID_VALUE;
    result = begin(handle, false);
    if (result != CUDA_SUCCESS)
        return result;
    result = bind_array(handle, array);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuTexRefSetMipmappedArray(CUtexref handle, CUmipmappedArray mipmap,
                                              unsigned int flags) {
    CUresult result;

    ENTER(cuTexRefSetMipmappedArray);
    if (flags != CU_TRSA_OVERRIDE_FORMAT)
        return CUDA_ERROR_INVALID_VALUE;
    result = begin(handle, false);
    if (result != CUDA_SUCCESS)
        return result;
    result = texture_check_mipmap(mipmap);
    if (result == CUDA_SUCCESS) {
        handle->binding = BOUND_TO_MIPMAP;
        handle->mipmap = mipmap;
    }
    sim_unlock();
    return result;
}

/* An address that is not aligned is bound if the program takes the rest as an offset. */
static CUresult bind_row(size_t *offset, CUtexref handle, CUdeviceptr address, size_t bytes) {
    const size_t alignment = (size_t)device_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 0);
    size_t element = array_element_size(handle->format, (unsigned int)handle->channels);
    CUresult result = texture_check_row(&(struct texture_memory){
        address, handle->format, (unsigned int)handle->channels, bytes / element, 1, 0});

    if (result != CUDA_SUCCESS)
        return result;
    if (address % alignment != 0 && offset == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (offset != NULL)
        *offset = address % alignment;
    handle->binding = BOUND_TO_MEMORY;
    handle->address = address;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuTexRefSetAddress_v2(size_t *offset, CUtexref handle, CUdeviceptr address,
                                          size_t bytes) {
    CUresult result;

    ENTER(cuTexRefSetAddress_v2);
    result = begin(handle, false);
    if (result != CUDA_SUCCESS)
        return result;
    result = bind_row(offset, handle, address, bytes);
    sim_unlock();
    return result;
}

static CUresult bind_rows(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr address,
                          size_t pitch) {
    CUresult result = shape == NULL ? CUDA_ERROR_INVALID_VALUE : begin(handle, false);

    if (result != CUDA_SUCCESS)
        return result;
    result = texture_check_rows(&(struct texture_memory){address, shape->Format, shape->NumChannels,
                                                         shape->Width, shape->Height, pitch});
    if (result == CUDA_SUCCESS) {
        handle->binding = BOUND_TO_MEMORY;
        handle->address = address;
        handle->format = shape->Format;
        handle->channels = (int)shape->NumChannels;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuTexRefSetAddress2D_v2(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR *shape,
                                            CUdeviceptr address, size_t pitch) {
    ENTER(cuTexRefSetAddress2D_v2);
    return bind_rows(handle, shape, address, pitch);
}

SIM_EXPORT CUresult cuTexRefSetAddress2D_v3(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR *shape,
                                            CUdeviceptr address, size_t pitch) {
    ENTER(cuTexRefSetAddress2D_v3);
    return bind_rows(handle, shape, address, pitch);
}

SIM_EXPORT CUresult cuTexRefGetAddress_v2(CUdeviceptr *address, CUtexref handle) {
    CUresult result;

    ENTER(cuTexRefGetAddress_v2);
    result = address == NULL ? CUDA_ERROR_INVALID_VALUE : begin(handle, false);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle->binding == BOUND_TO_MEMORY)
        *address = handle->address;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

/* An array that was destroyed is bound to nothing any more. */
static CUresult get_array(CUarray *array, CUtexref handle, bool surface) {
    CUresult result = array == NULL ? CUDA_ERROR_INVALID_VALUE : begin(handle, surface);

    if (result != CUDA_SUCCESS)
        return result;
    if (handle->binding == BOUND_TO_ARRAY)
        result = texture_check_array(handle->array);
    else
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *array = handle->array;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuTexRefGetArray(CUarray *array, CUtexref handle) {
    ENTER(cuTexRefGetArray);
    return get_array(array, handle, false);
}

SIM_EXPORT CUresult cuSurfRefGetArray(CUarray *array, CUsurfref handle) {
    ENTER(cuSurfRefGetArray);
    return get_array(array, (CUtexref)handle, true);
}

SIM_EXPORT CUresult cuSurfRefSetArray(CUsurfref handle, CUarray array, unsigned int flags) {
    CUtexref reference = (CUtexref)handle;
    CUresult result;

    ENTER(cuSurfRefSetArray);
    result = flags != 0 ? CUDA_ERROR_INVALID_VALUE : begin(reference, true);
    if (result != CUDA_SUCCESS)
        return result;
    result = texture_check_surface(array);
    if (result == CUDA_SUCCESS)
        result = bind_array(reference, array);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *mipmap, CUtexref handle) {
    CUresult result;

    ENTER(cuTexRefGetMipmappedArray);
    result = mipmap == NULL ? CUDA_ERROR_INVALID_VALUE : begin(handle, false);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle->binding == BOUND_TO_MIPMAP)
        result = texture_check_mipmap(handle->mipmap);
    else
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *mipmap = handle->mipmap;
    sim_unlock();
    return result;
}

/* --- how it is read --- */

/* Defines a function that does `what` to the texture `handle`, if `valid`. */
#define TEXTURE_CALL(name, parameters, valid, what)                                                \
    SIM_EXPORT CUresult name parameters {                                                          \
        CUresult result;                                                                           \
                                                                                                   \
        ENTER(name);                                                                               \
        result = (valid) ? begin(handle, false) : CUDA_ERROR_INVALID_VALUE;                        \
        if (result != CUDA_SUCCESS)                                                                \
            return result;                                                                         \
        what;                                                                                      \
        sim_unlock();                                                                              \
        return CUDA_SUCCESS;                                                                       \
    }

TEXTURE_CALL(cuTexRefSetFormat, (CUtexref handle, CUarray_format format, int channels),
             channels > 0 && array_element_size(format, (unsigned int)channels) != 0,
             (handle->format = format, handle->channels = channels))
TEXTURE_CALL(cuTexRefGetFormat, (CUarray_format * format, int *channels, CUtexref handle),
             format != NULL && channels != NULL,
             (*format = handle->format, *channels = handle->channels))

TEXTURE_CALL(cuTexRefSetAddressMode, (CUtexref handle, int dimension, CUaddress_mode mode),
             dimension >= 0 && dimension < 3 && texture_is_address_mode(mode),
             handle->address_modes[dimension] = mode)
TEXTURE_CALL(cuTexRefGetAddressMode, (CUaddress_mode * mode, CUtexref handle, int dimension),
             mode != NULL && dimension >= 0 && dimension < 3,
             *mode = handle->address_modes[dimension])

TEXTURE_CALL(cuTexRefSetFilterMode, (CUtexref handle, CUfilter_mode mode),
             texture_is_filter_mode(mode), handle->filter = mode)
TEXTURE_CALL(cuTexRefGetFilterMode, (CUfilter_mode * mode, CUtexref handle), mode != NULL,
             *mode = handle->filter)

TEXTURE_CALL(cuTexRefSetMipmapFilterMode, (CUtexref handle, CUfilter_mode mode),
             texture_is_filter_mode(mode), handle->mipmap_filter = mode)
TEXTURE_CALL(cuTexRefGetMipmapFilterMode, (CUfilter_mode * mode, CUtexref handle), mode != NULL,
             *mode = handle->mipmap_filter)

TEXTURE_CALL(cuTexRefSetMipmapLevelBias, (CUtexref handle, float bias), true,
             handle->mipmap_bias = bias)
TEXTURE_CALL(cuTexRefGetMipmapLevelBias, (float *bias, CUtexref handle), bias != NULL,
             *bias = handle->mipmap_bias)

TEXTURE_CALL(cuTexRefSetMipmapLevelClamp, (CUtexref handle, float least, float most), true,
             (handle->mipmap_least = least, handle->mipmap_most = most))
TEXTURE_CALL(cuTexRefGetMipmapLevelClamp, (float *least, float *most, CUtexref handle),
             least != NULL && most != NULL,
             (*least = handle->mipmap_least, *most = handle->mipmap_most))

TEXTURE_CALL(cuTexRefSetMaxAnisotropy, (CUtexref handle, unsigned int most), true,
             handle->anisotropy = most)
TEXTURE_CALL(cuTexRefGetMaxAnisotropy, (int *most, CUtexref handle), most != NULL,
             *most = (int)handle->anisotropy)

TEXTURE_CALL(cuTexRefSetBorderColor, (CUtexref handle, float *color), color != NULL,
             memcpy(handle->border, color, sizeof handle->border))
TEXTURE_CALL(cuTexRefGetBorderColor, (float *color, CUtexref handle), color != NULL,
             memcpy(color, handle->border, sizeof handle->border))

TEXTURE_CALL(cuTexRefSetFlags, (CUtexref handle, unsigned int flags),
             (flags & ~(unsigned int)(CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                                      CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION)) == 0,
             handle->flags = flags)
TEXTURE_CALL(cuTexRefGetFlags, (unsigned int *flags, CUtexref handle), flags != NULL,
             *flags = handle->flags)
