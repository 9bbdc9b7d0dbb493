/* Tensor maps: what describes a tensor to the units that copy parts of it. Its 128 bytes are
 * opaque: here they hold the arguments, so that the same arguments make the same map. */
#include "context.h"
#include "lock.h"

#include <stdint.h>
#include <string.h>

enum { RANK_MOST = 5, BOX_MOST = 256, STRIDE_STEP_MOST = 8, PIXELS_MOST = 1024 };
enum { FIRST_CAPABILITY = 9, FIRST_WIDE_CAPABILITY }; /* major: older devices have no such units */
enum { TILED, IM2COL, IM2COL_WIDE };                  /* of a map: what it describes */

/* Types and swizzles that headers before 12.8 lack. */
enum { TYPE_16U4_ALIGN8B = 13, TYPE_16U4_ALIGN16B, TYPE_16U6_ALIGN16B, TYPES };
enum { SWIZZLE_128B_ATOM_32B = 4, SWIZZLE_128B_ATOM_64B = 6, SWIZZLES };

/* What both kinds of map have. Invariant: its fields are in the ranges that `check_common` knows.
 */
struct tensor {
    CUtensorMapDataType type;
    cuuint32_t rank;
    cuuint64_t address;
    const cuuint64_t *sizes;   /* elements */
    const cuuint64_t *strides; /* bytes; none for the innermost dimension */
    const cuuint32_t *steps;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
};

/* The map's content. Every byte is a field's: no padding may differ. */
struct content {
    cuuint64_t address;
    cuuint64_t strides[RANK_MOST - 1];
    cuuint32_t last_index[RANK_MOST]; /* a size less one: sizes reach 2^32 */
    uint16_t box[RANK_MOST];          /* of im2col: channels, pixels */
    uint16_t corners[2][3];
    unsigned char steps[RANK_MOST];
    unsigned char kind, type, rank, interleave, swizzle, promotion, fill;
    unsigned char mode; /* of a wide one */
    unsigned char zero;
};
_Static_assert(sizeof(struct content) == 96 && sizeof(CUtensorMap) == 128, "a map holds it");

static unsigned int bits_of(int type) {
    static const unsigned char bits[TYPES] = {8,  16, 32, 32, 64, 64, 16, 32,
                                              64, 16, 32, 32, 32, 4,  4,  6};

    return bits[type];
}

static bool is_float(int type) {
    return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

/* Whether the type's values are packed with gaps, which want wider alignment. */
static bool has_gaps(int type) {
    return type == TYPE_16U4_ALIGN16B || type == TYPE_16U6_ALIGN16B;
}

static bool is_alignment(const struct tensor *tensor, cuuint64_t value) {
    bool wide = tensor->interleave == CU_TENSOR_MAP_INTERLEAVE_32B || has_gaps((int)tensor->type);

    return value % (wide ? 32 : 16) == 0;
}

static bool are_words_valid(const struct tensor *tensor) {
    return (unsigned int)tensor->type < TYPES && (unsigned int)tensor->swizzle < SWIZZLES &&
           (unsigned int)tensor->interleave <= CU_TENSOR_MAP_INTERLEAVE_32B &&
           (unsigned int)tensor->promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
           (unsigned int)tensor->fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
}

static bool are_sizes_valid(const struct tensor *tensor) {
    for (cuuint32_t i = 0; i < tensor->rank; i++)
        if (tensor->sizes[i] == 0 || tensor->sizes[i] > 1ull << 32)
            return false;
    if (has_gaps((int)tensor->type))
        return tensor->sizes[0] % 128 == 0;
    return (int)tensor->type != TYPE_16U4_ALIGN8B || tensor->sizes[0] % 2 == 0;
}

static bool are_strides_valid(const struct tensor *tensor) {
    for (cuuint32_t i = 0; i + 1 < tensor->rank; i++)
        if (!is_alignment(tensor, tensor->strides[i]) || tensor->strides[i] >= 1ull << 40)
            return false;
    return true;
}

/* The first step counts where the layout is interleaved. */
static bool are_steps_valid(const struct tensor *tensor) {
    cuuint32_t first = tensor->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE ? 1 : 0;

    for (cuuint32_t i = first; i < tensor->rank; i++)
        if (tensor->steps[i] == 0 || tensor->steps[i] > STRIDE_STEP_MOST)
            return false;
    return true;
}

static bool is_swizzle_valid(const struct tensor *tensor) {
    int type = (int)tensor->type, swizzle = (int)tensor->swizzle;

    if (tensor->interleave == CU_TENSOR_MAP_INTERLEAVE_32B && swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
        return false;
    if (type == TYPE_16U6_ALIGN16B && tensor->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
        return false;
    if (!has_gaps(type) || swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ||
        swizzle == CU_TENSOR_MAP_SWIZZLE_128B || swizzle == SWIZZLE_128B_ATOM_32B)
        return true;
    return type == TYPE_16U6_ALIGN16B && swizzle == SWIZZLE_128B_ATOM_64B;
}

static bool is_common_valid(const struct tensor *tensor) {
    return are_words_valid(tensor) && tensor->sizes != NULL && tensor->steps != NULL &&
           (tensor->strides != NULL || tensor->rank == 1) &&
           is_alignment(tensor, tensor->address) && are_sizes_valid(tensor) &&
           are_strides_valid(tensor) && are_steps_valid(tensor) &&
           (tensor->fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || is_float((int)tensor->type));
}

/* Whether so many elements of the innermost dimension are as wide as the layout wants. */
static bool is_inner_valid(const struct tensor *tensor, cuuint32_t elements) {
    static const unsigned int spans[SWIZZLES] = {0, 32, 64, 128, 128, 128, 128};
    unsigned int bytes = elements * bits_of((int)tensor->type) / 8;

    if (has_gaps((int)tensor->type) && elements != 128)
        return false;
    return tensor->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
           tensor->swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || bytes <= spans[tensor->swizzle];
}

/* NOT_SUPPORTED: the current device, of a lower capability, has no such maps. */
static CUresult check_device(int first) {
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS &&
        device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, context->device) < first)
        result = CUDA_ERROR_NOT_SUPPORTED;
    sim_unlock();
    return result;
}

static bool is_map(const CUtensorMap *map) {
    return map != NULL && (cuuint64_t)(uintptr_t)map % 64 == 0;
}

static struct content describe(const struct tensor *tensor) {
    struct content content;

    memset(&content, 0, sizeof content);
    content.address = tensor->address;
    content.type = (unsigned char)tensor->type;
    content.rank = (unsigned char)tensor->rank;
    content.interleave = (unsigned char)tensor->interleave;
    content.swizzle = (unsigned char)tensor->swizzle;
    content.promotion = (unsigned char)tensor->promotion;
    content.fill = (unsigned char)tensor->fill;
    for (cuuint32_t i = 0; i < tensor->rank; i++) {
        content.last_index[i] = (cuuint32_t)(tensor->sizes[i] - 1);
        content.steps[i] = (unsigned char)tensor->steps[i];
        if (i + 1 < tensor->rank)
            content.strides[i] = tensor->strides[i];
    }
    return content;
}

static void write_map(CUtensorMap *map, const struct content *content) {
    memset((void *)map, 0, sizeof *map);
    memcpy((void *)map, content, sizeof *content);
}

static bool is_box_valid(const struct tensor *tensor, const cuuint32_t *box) {
    for (cuuint32_t i = 0; i < tensor->rank; i++)
        if (box[i] == 0 || box[i] > BOX_MOST)
            return false;
    if (tensor->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
        box[0] * bits_of((int)tensor->type) % 128 != 0)
        return false;
    return is_inner_valid(tensor, box[0]);
}

SIM_EXPORT CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    const struct tensor tensor = {
        type,      rank, (cuuint64_t)(uintptr_t)address, sizes, strides, steps, interleave, swizzle,
        promotion, fill};
    struct content content;
    CUresult result;

    ENTER(cuTensorMapEncodeTiled);
    result = check_device(FIRST_CAPABILITY);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_map(map) || box == NULL || rank > RANK_MOST ||
        rank < (interleave == CU_TENSOR_MAP_INTERLEAVE_NONE ? 1 : 3) || !is_common_valid(&tensor) ||
        !is_swizzle_valid(&tensor) || !is_box_valid(&tensor, box))
        return CUDA_ERROR_INVALID_VALUE;
    content = describe(&tensor);
    for (cuuint32_t i = 0; i < rank; i++)
        content.box[i] = (uint16_t)box[i];
    write_map(map, &content);
    return CUDA_SUCCESS;
}

/* As many offsets as there are dimensions between the channels and the images; the more there are,
 * the narrower. */
static bool are_corners_valid(cuuint32_t rank, const int *corners) {
    static const int most[RANK_MOST + 1] = {[3] = 32768, [4] = 128, [5] = 16};

    for (cuuint32_t i = 0; i + 2 < rank; i++)
        if (corners[i] < -most[rank] || corners[i] >= most[rank])
            return false;
    return true;
}

SIM_EXPORT CUresult cuTensorMapEncodeIm2col(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, const int *lower, const int *upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
    const struct tensor tensor = {
        type,      rank, (cuuint64_t)(uintptr_t)address, sizes, strides, steps, interleave, swizzle,
        promotion, fill};
    struct content content;
    CUresult result;

    ENTER(cuTensorMapEncodeIm2col);
    result = check_device(FIRST_CAPABILITY);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_map(map) || lower == NULL || upper == NULL || rank < 3 || rank > RANK_MOST ||
        !is_common_valid(&tensor) || !is_swizzle_valid(&tensor) ||
        !are_corners_valid(rank, lower) || !are_corners_valid(rank, upper) || channels > BOX_MOST ||
        pixels > PIXELS_MOST || !is_inner_valid(&tensor, channels))
        return CUDA_ERROR_INVALID_VALUE;
    content = describe(&tensor);
    content.kind = IM2COL;
    content.box[0] = (uint16_t)channels;
    content.box[1] = (uint16_t)pixels;
    for (cuuint32_t i = 0; i + 2 < rank; i++) {
        content.corners[0][i] = (uint16_t)lower[i];
        content.corners[1][i] = (uint16_t)upper[i];
    }
    write_map(map, &content);
    return CUDA_SUCCESS;
}

/* "Other swizzle modes are not supported." */
static bool is_wide_swizzle_valid(const struct tensor *tensor) {
    int type = (int)tensor->type, swizzle = (int)tensor->swizzle;

    if (type == TYPE_16U6_ALIGN16B && tensor->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
        return false;
    return swizzle == CU_TENSOR_MAP_SWIZZLE_128B || swizzle == SWIZZLE_128B_ATOM_32B ||
           (swizzle == CU_TENSOR_MAP_SWIZZLE_64B && type != TYPE_16U4_ALIGN16B);
}

static bool is_wide_corner_valid(int corner) {
    return corner >= INT16_MIN && corner <= INT16_MAX;
}

SIM_EXPORT CUresult cuTensorMapEncodeIm2colWide(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, int lower, int upper, cuuint32_t channels,
    cuuint32_t pixels, const cuuint32_t *steps, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
    const struct tensor tensor = {
        type,      rank, (cuuint64_t)(uintptr_t)address, sizes, strides, steps, interleave, swizzle,
        promotion, fill};
    bool counts_pixels = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W; /* else they are ignored */
    struct content content;
    CUresult result;

    ENTER(cuTensorMapEncodeIm2colWide);
    result = check_device(FIRST_WIDE_CAPABILITY);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_map(map) || (unsigned int)mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 || rank < 3 ||
        rank > RANK_MOST || !is_common_valid(&tensor) || !is_wide_swizzle_valid(&tensor) ||
        !is_wide_corner_valid(lower) || !is_wide_corner_valid(upper) || channels > BOX_MOST ||
        (counts_pixels && pixels > PIXELS_MOST) || !is_inner_valid(&tensor, channels))
        return CUDA_ERROR_INVALID_VALUE;
    content = describe(&tensor);
    content.kind = IM2COL_WIDE;
    content.mode = (unsigned char)mode;
    content.box[0] = (uint16_t)channels;
    content.box[1] = counts_pixels ? (uint16_t)pixels : 0;
    content.corners[0][0] = (uint16_t)lower;
    content.corners[1][0] = (uint16_t)upper;
    write_map(map, &content);
    return CUDA_SUCCESS;
}

/* The devices are ones "where allocation-class selection has no effect" (assumed). */
SIM_EXPORT CUresult cuTensorMapSetAllocationClass(CUtensorMap *map, CUtensorMapAllocClass asked,
                                                  CUtensorMapAllocClass *got) {
    CUresult result;

    ENTER(cuTensorMapSetAllocationClass);
    if (got != NULL)
        *got = CU_TENSOR_MAP_ALLOC_CLASS_SMALL;
    result = check_device(FIRST_CAPABILITY);
    if (result != CUDA_SUCCESS)
        return result;
    return is_map(map) && (unsigned int)asked <= CU_TENSOR_MAP_ALLOC_CLASS_LARGE
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
    struct content content;
    CUresult result;

    ENTER(cuTensorMapReplaceAddress);
    result = check_device(FIRST_CAPABILITY);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_map(map))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&content, (const void *)map, sizeof content);
    content.address = (cuuint64_t)(uintptr_t)address;
    if (content.rank == 0 || content.rank > RANK_MOST ||
        !is_alignment(&(struct tensor){.type = (CUtensorMapDataType)content.type,
                                       .interleave = (CUtensorMapInterleave)content.interleave},
                      content.address))
        return CUDA_ERROR_INVALID_VALUE;
    write_map(map, &content);
    return CUDA_SUCCESS;
}
