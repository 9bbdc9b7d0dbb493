#include "array.h"

#include "allocate.h"
#include "capture.h"
#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>
#include <utlist.h>

enum { ROW_ALIGNMENT = 32, LEVELS_MAX = 32 }; /* CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT */

/* Invariant: its memory is the block at `address`, which no free takes. */
struct CUarray_st {
    struct CUctx_st *context;
    CUDA_ARRAY3D_DESCRIPTOR shape;
    CUdeviceptr address;
    size_t pitch;
    bool is_level; /* of a mipmapped array, which alone destroys it */
    struct CUarray_st *next;
};

/* Invariant: levels[0..count) are arrays, each half as wide, high and deep as the one before. */
struct CUmipmappedArray_st {
    struct CUctx_st *context;
    struct CUarray_st *levels[LEVELS_MAX];
    unsigned int count;
    struct CUmipmappedArray_st *next;
};

static struct CUarray_st *arrays;
static struct CUmipmappedArray_st *mipmaps;

static struct CUarray_st *find(CUarray handle) {
    struct CUarray_st *array;

    LL_FOREACH(arrays, array)
    if (array == handle)
        return array;
    return NULL;
}

static struct CUmipmappedArray_st *find_mipmap(CUmipmappedArray handle) {
    struct CUmipmappedArray_st *mipmap;

    LL_FOREACH(mipmaps, mipmap)
    if (mipmap == handle)
        return mipmap;
    return NULL;
}

static size_t at_least_one(size_t extent) {
    return extent != 0 ? extent : 1;
}

/* Bytes of one channel; 0 for the formats that the simulated device lacks. */
static size_t channel_size(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    const size_t most = (size_t)1 << 20;
    unsigned int channels = shape->NumChannels;

    if (shape->Width == 0 || shape->Width > most || shape->Height > most || shape->Depth > most ||
        (channels != 1 && channels != 2 && channels != 4))
        return CUDA_ERROR_INVALID_VALUE;
    if (shape->Depth != 0 && shape->Height == 0 && (shape->Flags & CUDA_ARRAY3D_LAYERED) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0)
        return entry_not_simulated("an array that is mapped later");
    return channel_size(shape->Format) != 0 ? CUDA_SUCCESS : entry_not_simulated("the format");
}

static CUresult create(struct CUctx_st *context, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                       struct CUarray_st **out, uint64_t *cost_ns) {
    size_t row = shape->Width * shape->NumChannels * channel_size(shape->Format);
    size_t pitch = (row + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
    struct block *block;
    CUresult result =
        memory_allocate(context, pitch * at_least_one(shape->Height) * at_least_one(shape->Depth),
                        MEMORY_DEVICE, 0, &block, cost_ns);

    if (result != CUDA_SUCCESS)
        return result;
    block->of_object = true;
    *out = allocate_zeroed(sizeof **out);
    (*out)->context = context;
    (*out)->shape = *shape;
    (*out)->address = block->address;
    (*out)->pitch = pitch;
    LL_PREPEND(arrays, *out);
    return CUDA_SUCCESS;
}

static void destroy(struct CUarray_st *array) {
    uint64_t unspent;

    memory_release(memory_at(array->address), &host_clock, 0, &unspent);
    LL_DELETE(arrays, array);
    free(array);
}

static void destroy_mipmap(struct CUmipmappedArray_st *mipmap) {
    for (unsigned int i = 0; i < mipmap->count; i++)
        destroy(mipmap->levels[i]);
    LL_DELETE(mipmaps, mipmap);
    free(mipmap);
}

void array_context_ending(struct CUctx_st *context) {
    sim_check_held();
    struct CUmipmappedArray_st *mipmap, *next_mipmap;
    struct CUarray_st *array, *next_array;

    LL_FOREACH_SAFE(mipmaps, mipmap, next_mipmap)
    if (mipmap->context == context)
        destroy_mipmap(mipmap);
    LL_FOREACH_SAFE(arrays, array, next_array)
    if (array->context == context)
        destroy(array);
}

bool array_place(CUarray handle, struct array_place *place) {
    sim_check_held();
    const struct CUarray_st *array = find(handle);

    if (array == NULL)
        return false;
    place->address = array->address;
    place->pitch = array->pitch;
    place->element = array->shape.NumChannels * channel_size(array->shape.Format);
    place->width = array->shape.Width * place->element;
    place->rows = at_least_one(array->shape.Height);
    place->slices = at_least_one(array->shape.Depth);
    return true;
}

bool array_shape(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR *shape) {
    sim_check_held();
    const struct CUarray_st *array = find(handle);

    if (array != NULL)
        *shape = array->shape;
    return array != NULL;
}

bool array_is_mipmapped(CUmipmappedArray handle) {
    sim_check_held();
    return find_mipmap(handle) != NULL;
}

size_t array_element_size(CUarray_format format, unsigned int channels) {
    return channels == 1 || channels == 2 || channels == 4 ? channels * channel_size(format) : 0;
}

/* --- entry points --- */

static CUresult create_array(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    struct CUctx_st *context;
    uint64_t cost_ns = 0;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    if (result == CUDA_SUCCESS)
        result = check(shape);
    if (result == CUDA_SUCCESS)
        result = create(context, shape, out, &cost_ns);
    sim_unlock();
    cost_spend(cost_ns);
    return result;
}

SIM_EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape) {
    ENTER(cuArrayCreate_v2);
    if (array == NULL || shape == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return create_array(array, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = shape->Width,
                                                          .Height = shape->Height,
                                                          .Format = shape->Format,
                                                          .NumChannels = shape->NumChannels});
}

SIM_EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    ENTER(cuArray3DCreate_v2);
    if (array == NULL || shape == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return create_array(array, shape);
}

static CUresult get_shape(CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray handle) {
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS && find(handle) == NULL)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        *shape = handle->shape;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray array) {
    ENTER(cuArray3DGetDescriptor_v2);
    return shape != NULL ? get_shape(shape, array) : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *shape, CUarray array) {
    CUDA_ARRAY3D_DESCRIPTOR whole;
    CUresult result;

    ENTER(cuArrayGetDescriptor_v2);
    if (shape == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = get_shape(&whole, array);
    if (result == CUDA_SUCCESS)
        *shape = (CUDA_ARRAY_DESCRIPTOR){.Width = whole.Width,
                                         .Height = whole.Height,
                                         .Format = whole.Format,
                                         .NumChannels = whole.NumChannels};
    return result;
}

/* Before memory that work may still use goes: the wait is cuMemFree's. [wait:array-destroy] assumed
 */
static CUresult begin_destruction(struct CUctx_st *owner) {
    struct CUctx_st *context;
    CUresult result = context_current(&context);

    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    return result == CUDA_SUCCESS ? context_wait(owner) : result;
}

SIM_EXPORT CUresult cuArrayDestroy(CUarray handle) {
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    ENTER(cuArrayDestroy);
    sim_lock();
    if (find(handle) != NULL && !handle->is_level)
        result = begin_destruction(handle->context);
    if (result == CUDA_SUCCESS && find(handle) != NULL) /* its context may have ended meanwhile */
        destroy(handle);
    sim_unlock();
    return result;
}

static void halve(size_t *extent) {
    *extent = *extent > 1 ? *extent / 2 : *extent;
}

static CUresult create_mipmap(struct CUctx_st *context, CUDA_ARRAY3D_DESCRIPTOR shape,
                              unsigned int levels, CUmipmappedArray *out) {
    struct CUmipmappedArray_st *mipmap = allocate_zeroed(sizeof *mipmap);
    bool layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
    CUresult result = CUDA_SUCCESS;
    uint64_t unspent;

    mipmap->context = context;
    LL_PREPEND(mipmaps, mipmap);
    do {
        result = create(context, &shape, &mipmap->levels[mipmap->count], &unspent);
        if (result != CUDA_SUCCESS) {
            destroy_mipmap(mipmap);
            return result;
        }
        mipmap->levels[mipmap->count++]->is_level = true;
        if (shape.Width == 1 && shape.Height <= 1 && (layered || shape.Depth <= 1))
            break; /* the longest chain ends with one element */
        halve(&shape.Width);
        halve(&shape.Height);
        if (!layered)
            halve(&shape.Depth);
    } while (mipmap->count < levels && mipmap->count < LEVELS_MAX);
    *out = mipmap;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *mipmap,
                                           const CUDA_ARRAY3D_DESCRIPTOR *shape,
                                           unsigned int levels) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuMipmappedArrayCreate);
    if (mipmap == NULL || shape == NULL || levels == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    if (result == CUDA_SUCCESS)
        result = check(shape);
    if (result == CUDA_SUCCESS)
        result = create_mipmap(context, *shape, levels, mipmap);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmap,
                                             unsigned int level) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuMipmappedArrayGetLevel);
    if (array == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS && find_mipmap(mipmap) == NULL)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && level >= mipmap->count)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *array = mipmap->levels[level];
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    ENTER(cuMipmappedArrayDestroy);
    sim_lock();
    if (find_mipmap(handle) != NULL)
        result = begin_destruction(handle->context);
    if (result == CUDA_SUCCESS && find_mipmap(handle) != NULL)
        destroy_mipmap(handle);
    sim_unlock();
    return result;
}

/* --- what is asked of arrays that do not exist here --- */

/* INVALID_VALUE for an array, as it is of another kind than the one asked for. */
static CUresult of_another_kind(bool mipmapped, const void *handle) {
    struct CUctx_st *context;
    CUresult result;
    bool known;

    sim_lock();
    result = context_current(&context);
    known =
        mipmapped ? find_mipmap((CUmipmappedArray)handle) != NULL : find((CUarray)handle) != NULL;
    sim_unlock();
    if (result != CUDA_SUCCESS)
        return result;
    return known ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

/* No format has planes. */
SIM_EXPORT CUresult cuArrayGetPlane(CUarray *plane, CUarray array, unsigned int index) {
    ENTER(cuArrayGetPlane);
    (void)index;
    return plane == NULL ? CUDA_ERROR_INVALID_VALUE : of_another_kind(false, array);
}

SIM_EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements,
                                                 CUarray array, CUdevice device) {
    ENTER(cuArrayGetMemoryRequirements);
    if (requirements == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return device_check(device) == CUDA_SUCCESS ? of_another_kind(false, array)
                                                : CUDA_ERROR_INVALID_DEVICE;
}

SIM_EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(
    CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUmipmappedArray mipmap, CUdevice device) {
    ENTER(cuMipmappedArrayGetMemoryRequirements);
    if (requirements == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return device_check(device) == CUDA_SUCCESS ? of_another_kind(true, mipmap)
                                                : CUDA_ERROR_INVALID_DEVICE;
}

SIM_EXPORT CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties,
                                               CUarray array) {
    ENTER(cuArrayGetSparseProperties);
    return properties == NULL ? CUDA_ERROR_INVALID_VALUE : of_another_kind(false, array);
}

SIM_EXPORT CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties,
                                                        CUmipmappedArray mipmap) {
    ENTER(cuMipmappedArrayGetSparseProperties);
    return properties == NULL ? CUDA_ERROR_INVALID_VALUE : of_another_kind(true, mipmap);
}
