/* The entry points that take several copies at once, and those of one with a batch's attributes.
 * Hints where memory lies and how to copy change nothing. */
#include "allocate.h"
#include "array.h"
#include "context.h"
#include "copy.h"
#include "lock.h"

#include <stdlib.h>

#if CUDA_VERSION >= 12080

static bool read_order(CUmemcpySrcAccessOrder order, enum source_order *read) {
    switch (order) {
    case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM:
        *read = SOURCE_IN_STREAM;
        return true;
    case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL:
        *read = SOURCE_DURING_CALL;
        return true;
    case CU_MEMCPY_SRC_ACCESS_ORDER_ANY:
        *read = SOURCE_ANY;
        return true;
    default:
        return false;
    }
}

static bool valid_flags(unsigned int flags) {
    return (flags & ~(unsigned int)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) == 0;
}

/* --- from pointer to pointer --- */

struct batch {
    CUdeviceptr *to, *from;
    size_t *sizes, count;
    CUmemcpyAttributes *attributes;
    size_t *first, attribute_count; /* attributes[k] holds for the copies from first[k] on */
};

static bool valid_attributes(const struct batch *batch) {
    enum source_order order;

    for (size_t i = 0; i < batch->attribute_count; i++) {
        if (batch->first[i] >= batch->count ||
            (i == 0 ? batch->first[i] != 0 : batch->first[i] <= batch->first[i - 1]))
            return false;
        if (!read_order(batch->attributes[i].srcAccessOrder, &order) ||
            !valid_flags(batch->attributes[i].flags))
            return false;
    }
    return true;
}

static CUresult copy_batch(const struct batch *batch, size_t *failed, CUstream stream,
                           enum null_stream null_stream) {
    struct copy *copies;
    CUresult result;

    *failed = SIZE_MAX;
    if (batch->to == NULL || batch->from == NULL || batch->sizes == NULL || batch->count == 0 ||
        batch->attributes == NULL || batch->first == NULL || batch->attribute_count == 0 ||
        batch->attribute_count > batch->count || !valid_attributes(batch))
        return CUDA_ERROR_INVALID_VALUE;
    copies = allocate_zeroed(batch->count * sizeof *copies);
    for (size_t i = 0, k = 0; i < batch->count; i++) {
        if (batch->sizes[i] != 0 && (batch->to[i] == 0 || batch->from[i] == 0))
            *failed = *failed == SIZE_MAX ? i : *failed;
        if (k + 1 < batch->attribute_count && batch->first[k + 1] == i)
            k++;
        copies[i] = (struct copy){.to = {.address = batch->to[i]},
                                  .from = {.address = batch->from[i]},
                                  .width = batch->sizes[i],
                                  .rows = 1,
                                  .slices = 1};
        read_order(batch->attributes[k].srcAccessOrder, &copies[i].source_order);
    }
    result = *failed == SIZE_MAX ? copy_run_all(copies, batch->count, stream, null_stream, failed)
                                 : CUDA_ERROR_INVALID_VALUE;
    free(copies);
    return result;
}

EXPORT_FORMS(cuMemcpyBatchAsync_v2, _ptsz,
             (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count,
              CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
              CUstream stream),
             copy_batch(&(struct batch){to, from, sizes, count, attributes, first, attribute_count},
                        &(size_t){0}, stream, null_stream))
EXPORT_FORMS(cuMemcpyBatchAsync, _ptsz,
             (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count,
              CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count, size_t *failed,
              CUstream stream),
             copy_batch(&(struct batch){to, from, sizes, count, attributes, first, attribute_count},
                        failed != NULL ? failed : &(size_t){0}, stream, null_stream))

static CUresult copy_one(CUdeviceptr to, CUdeviceptr from, size_t size,
                         const CUmemcpyAttributes *attributes, CUstream stream,
                         enum null_stream null_stream) {
    struct copy copy = {
        .to = {.address = to}, .from = {.address = from}, .width = size, .rows = 1, .slices = 1};

    if (attributes == NULL || !read_order(attributes->srcAccessOrder, &copy.source_order) ||
        !valid_flags(attributes->flags) || (size != 0 && (to == 0 || from == 0)))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_run(&copy, stream, null_stream, false);
}

EXPORT_FORMS(cuMemcpyWithAttributesAsync, _ptsz,
             (CUdeviceptr to, CUdeviceptr from, size_t size, CUmemcpyAttributes *attributes,
              CUstream stream),
             copy_one(to, from, size, attributes, stream, null_stream))

/* --- pitched memory and arrays --- */

/* The size of an operand's elements; 0 where the other side says it. False: it is no operand. */
static bool find_operand(const CUmemcpy3DOperand *operand, struct array_place *array) {
    bool known = operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER;

    *array = (struct array_place){0};
    if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        sim_lock();
        known = array_place(operand->op.array.array, array);
        sim_unlock();
    }
    return known;
}

/* Whether [offset, offset + extent) lies in what is `size` long. */
static bool within(size_t offset, size_t extent, size_t size) {
    return offset <= size && extent <= size - offset;
}

static bool array_side(const CUmemcpy3DOperand *operand, const struct array_place *array,
                       const CUextent3D *extent, struct copy_side *side) {
    const CUoffset3D *at = &operand->op.array.offset;

    side->pitch = array->pitch;
    side->slice = array->pitch * array->rows;
    side->address =
        array->address + at->x * array->element + at->y * side->pitch + at->z * side->slice;
    return within(at->x, extent->width, array->width / array->element) &&
           within(at->y, extent->height, array->rows) &&
           within(at->z, extent->depth, array->slices);
}

static bool pointer_side(const CUmemcpy3DOperand *operand, size_t element, const CUextent3D *extent,
                         struct copy_side *side) {
    size_t row = operand->op.ptr.rowLength, height = operand->op.ptr.layerHeight;

    if ((row != 0 && row < extent->width) || (height != 0 && height < extent->height) ||
        operand->op.ptr.ptr == 0)
        return false;
    side->address = operand->op.ptr.ptr;
    side->pitch = (row != 0 ? row : extent->width) * element;
    side->slice = (height != 0 ? height : extent->height) * side->pitch;
    return true;
}

static bool read_copy(const CUDA_MEMCPY3D_BATCH_OP *of, struct copy *copy) {
    const CUextent3D *extent = &of->extent;
    struct array_place to, from;
    size_t element;

    if (extent->width == 0 || extent->height == 0 || extent->depth == 0 ||
        !read_order(of->srcAccessOrder, &copy->source_order) || !valid_flags(of->flags) ||
        !find_operand(&of->dst, &to) || !find_operand(&of->src, &from))
        return false;
    if (to.element != 0 && from.element != 0 && to.element != from.element)
        return false;
    element = to.element != 0 ? to.element : from.element != 0 ? from.element : 1;
    copy->width = extent->width * element;
    copy->rows = extent->height;
    copy->slices = extent->depth;
    return (to.element != 0 ? array_side(&of->dst, &to, extent, &copy->to)
                            : pointer_side(&of->dst, element, extent, &copy->to)) &&
           (from.element != 0 ? array_side(&of->src, &from, extent, &copy->from)
                              : pointer_side(&of->src, element, extent, &copy->from));
}

static CUresult copy_batch_3d(size_t count, const CUDA_MEMCPY3D_BATCH_OP *given, size_t *failed,
                              unsigned long long flags, CUstream stream,
                              enum null_stream null_stream) {
    struct copy *copies;
    CUresult result = CUDA_SUCCESS;

    *failed = SIZE_MAX;
    if (count == 0 || given == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    copies = allocate_zeroed(count * sizeof *copies);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        if (!read_copy(&given[i], &copies[i])) {
            *failed = i;
            result = CUDA_ERROR_INVALID_VALUE;
        }
    if (result == CUDA_SUCCESS)
        result = copy_run_all(copies, count, stream, null_stream, failed);
    free(copies);
    return result;
}

EXPORT_FORMS(cuMemcpy3DBatchAsync_v2, _ptsz,
             (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags,
              CUstream stream),
             copy_batch_3d(count, copies, &(size_t){0}, flags, stream, null_stream))
EXPORT_FORMS(cuMemcpy3DBatchAsync, _ptsz,
             (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed,
              unsigned long long flags, CUstream stream),
             copy_batch_3d(count, copies, failed != NULL ? failed : &(size_t){0}, flags, stream,
                           null_stream))

static CUresult copy_one_3d(const CUDA_MEMCPY3D_BATCH_OP *given, unsigned long long flags,
                            CUstream stream, enum null_stream null_stream) {
    struct copy copy = {0};

    if (given == NULL || flags != 0 || !read_copy(given, &copy))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_run(&copy, stream, null_stream, false);
}

EXPORT_FORMS(cuMemcpy3DWithAttributesAsync, _ptsz,
             (CUDA_MEMCPY3D_BATCH_OP * copy, unsigned long long flags, CUstream stream),
             copy_one_3d(copy, flags, stream, null_stream))

#endif
