/* Tensor maps, on a device of compute capability 9.0. */
#include "test_sim.h"

#include <string.h>

/* The arguments of a map that is right; tests change one. */
struct arguments {
    CUtensorMapDataType type;
    cuuint32_t rank;
    uintptr_t address;
    cuuint64_t sizes[5], strides[4];
    cuuint32_t box[5], steps[5];
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
    int lower[3], upper[3];
    cuuint32_t channels, pixels;
};

static const struct arguments right = {
    .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    .rank = 3,
    .address = 0x10000,
    .sizes = {64, 32, 16, 8, 4},
    .strides = {128, 4096, 65536, 1 << 20},
    .box = {64, 8, 8, 4, 4},
    .steps = {1, 1, 1, 1, 1},
    .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    .fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    .lower = {-1, -1, -1},
    .upper = {1, 1, 1},
    .channels = 64,
    .pixels = 128,
};

static CUresult tiled(CUtensorMap *map, const struct arguments *with) {
    return cuTensorMapEncodeTiled(map, with->type, with->rank, (void *)with->address, with->sizes,
                                  with->strides, with->box, with->steps, with->interleave,
                                  with->swizzle, with->promotion, with->fill);
}

static CUresult im2col(CUtensorMap *map, const struct arguments *with) {
    return cuTensorMapEncodeIm2col(map, with->type, with->rank, (void *)with->address, with->sizes,
                                   with->strides, with->lower, with->upper, with->channels,
                                   with->pixels, with->steps, with->interleave, with->swizzle,
                                   with->promotion, with->fill);
}

static void test_the_same_arguments_make_the_same_map(void **state) {
    static CUtensorMap map, same, other;
    struct arguments changed = right;

    (void)state;
    memset(&same, 0xff, sizeof same);
    assert_ok(tiled(&map, &right));
    assert_ok(tiled(&same, &right));
    assert_memory_equal(&map, &same, sizeof map);
    changed.box[2] = 4;
    assert_ok(tiled(&other, &changed));
    assert_memory_not_equal(&map, &other, sizeof map);
    assert_ok(im2col(&other, &right));
    assert_memory_not_equal(&map, &other, sizeof map);
    assert_ok(im2col(&same, &right));
    assert_memory_equal(&other, &same, sizeof map);
}

static void test_an_address_is_replaced(void **state) {
    static CUtensorMap map, moved;
    struct arguments there = right;

    (void)state;
    there.address = 0x20000;
    assert_ok(tiled(&map, &right));
    assert_ok(tiled(&moved, &there));
    assert_ok(cuTensorMapReplaceAddress(&map, (void *)there.address));
    assert_memory_equal(&map, &moved, sizeof map);
    assert_int_equal(cuTensorMapReplaceAddress(&map, (void *)0x20008), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTensorMapReplaceAddress(NULL, (void *)0x20000), CUDA_ERROR_INVALID_VALUE);
}

#define assert_wrong(kind, change)                                                                 \
    do {                                                                                           \
        struct arguments with = right;                                                             \
        change;                                                                                    \
        assert_int_equal(kind(&map, &with), CUDA_ERROR_INVALID_VALUE);                             \
    } while (0)

static void test_each_argument_of_a_tile_is_checked(void **state) {
    static CUtensorMap map;

    (void)state;
    assert_wrong(tiled, with.rank = 0);
    assert_wrong(tiled, with.rank = 6);
    assert_wrong(tiled, with.type = (CUtensorMapDataType)16);
    assert_wrong(tiled, with.address += 8);
    assert_wrong(tiled, with.sizes[1] = 0);
    assert_wrong(tiled, with.sizes[1] = (1ull << 32) + 1);
    assert_wrong(tiled, with.strides[0] = 136);
    assert_wrong(tiled, with.strides[1] = 1ull << 40);
    assert_wrong(tiled, with.box[1] = 0);
    assert_wrong(tiled, with.box[1] = 257);
    assert_wrong(tiled, with.box[0] = 4);   /* no 16 bytes */
    assert_wrong(tiled, with.box[0] = 128); /* more than the swizzle's span */
    assert_wrong(tiled, with.steps[1] = 0);
    assert_wrong(tiled, with.steps[1] = 9);
    assert_wrong(tiled, with.interleave = CU_TENSOR_MAP_INTERLEAVE_32B); /* another swizzle */
    assert_wrong(tiled, with.interleave = (CUtensorMapInterleave)3);
    assert_wrong(tiled, (with.rank = 2, with.interleave = CU_TENSOR_MAP_INTERLEAVE_16B));
    assert_wrong(tiled, with.swizzle = (CUtensorMapSwizzle)7);
    assert_wrong(tiled, with.promotion = (CUtensorMapL2promotion)4);
    assert_wrong(tiled, with.type = CU_TENSOR_MAP_DATA_TYPE_UINT16); /* filled as floats are */
    assert_int_equal(tiled((CUtensorMap *)(void *)((char *)&map + 32), &right),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(tiled(NULL, &right), CUDA_ERROR_INVALID_VALUE);
}

static void test_each_argument_of_im2col_is_checked(void **state) {
    static CUtensorMap map;

    (void)state;
    assert_wrong(im2col, with.rank = 2);
    assert_wrong(im2col, with.lower[0] = -32769);
    assert_wrong(im2col, (with.rank = 4, with.upper[1] = 128));
    assert_wrong(im2col, (with.rank = 5, with.upper[2] = -17));
    assert_wrong(im2col, with.channels = 257);
    assert_wrong(im2col, with.channels = 65);
    assert_wrong(im2col, with.pixels = 1025);
    assert_wrong(im2col, with.sizes[2] = 0);
}

static void test_a_vector_has_no_strides(void **state) {
    static CUtensorMap map;
    const cuuint64_t size = 100;
    const cuuint32_t box = 64, step = 0;

    (void)state;
    assert_ok(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, (void *)0x1000,
                                     &size, NULL, &box, &step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                     CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

static void test_a_wide_map_needs_a_newer_device(void **state) {
    static CUtensorMap map;

    (void)state;
    assert_int_equal(cuTensorMapEncodeIm2colWide(&map, right.type, right.rank,
                                                 (void *)right.address, right.sizes, right.strides,
                                                 -1, 1, right.channels, right.pixels, right.steps,
                                                 right.interleave, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W,
                                                 right.swizzle, right.promotion, right.fill),
                     CUDA_ERROR_NOT_SUPPORTED);
}

static void test_a_class_of_memory_changes_no_map(void **state) {
    static CUtensorMap map, same;
    CUtensorMapAllocClass got = CU_TENSOR_MAP_ALLOC_CLASS_LARGE;

    (void)state;
    assert_ok(tiled(&map, &right));
    same = map;
    assert_ok(cuTensorMapSetAllocationClass(&map, CU_TENSOR_MAP_ALLOC_CLASS_LARGE, &got));
    assert_int_equal(got, CU_TENSOR_MAP_ALLOC_CLASS_SMALL);
    assert_memory_equal(&map, &same, sizeof map);
    assert_ok(cuTensorMapSetAllocationClass(&map, CU_TENSOR_MAP_ALLOC_CLASS_AUTO, NULL));
    got = CU_TENSOR_MAP_ALLOC_CLASS_LARGE;
    assert_int_equal(cuTensorMapSetAllocationClass(NULL, CU_TENSOR_MAP_ALLOC_CLASS_AUTO, &got),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(got, CU_TENSOR_MAP_ALLOC_CLASS_SMALL);
    assert_int_equal(cuTensorMapSetAllocationClass(&map, (CUtensorMapAllocClass)3, NULL),
                     CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_arguments_make_the_same_map),
        cmocka_unit_test(test_an_address_is_replaced),
        cmocka_unit_test(test_each_argument_of_a_tile_is_checked),
        cmocka_unit_test(test_each_argument_of_im2col_is_checked),
        cmocka_unit_test(test_a_vector_has_no_strides),
        cmocka_unit_test(test_a_wide_map_needs_a_newer_device),
        cmocka_unit_test(test_a_class_of_memory_changes_no_map),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
