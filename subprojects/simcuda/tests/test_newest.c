/* What devices of compute capability 10.0 have that older ones lack. */
#include "test_sim.h"

#include <string.h>

/* The arguments of a wide map that is right; tests change one. */
struct arguments {
    CUtensorMapDataType type;
    cuuint32_t rank;
    uintptr_t address;
    cuuint64_t sizes[5], strides[4];
    cuuint32_t steps[5];
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    int lower, upper;
    cuuint32_t channels, pixels;
    CUtensorMapIm2ColWideMode mode;
};

static const struct arguments right = {
    .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    .rank = 4,
    .address = 0x10000,
    .sizes = {64, 32, 16, 8, 4},
    .strides = {128, 4096, 65536, 1 << 20},
    .steps = {1, 1, 1, 1, 1},
    .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    .lower = -32768,
    .upper = 32767,
    .channels = 64,
    .pixels = 1024,
};

static CUresult wide(CUtensorMap *map, const struct arguments *with) {
    return cuTensorMapEncodeIm2colWide(
        map, with->type, with->rank, (void *)with->address, with->sizes, with->strides, with->lower,
        with->upper, with->channels, with->pixels, with->steps, with->interleave, with->mode,
        with->swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void test_the_same_arguments_make_the_same_wide_map(void **state) {
    static CUtensorMap map, same, other;
    struct arguments changed = right;

    (void)state;
    memset(&same, 0xff, sizeof same);
    assert_ok(wide(&map, &right));
    assert_ok(wide(&same, &right));
    assert_memory_equal(&map, &same, sizeof map);
    changed.lower = 5;
    assert_ok(wide(&other, &changed));
    assert_memory_not_equal(&map, &other, sizeof map);
    changed = right;
    changed.mode = CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
    assert_ok(wide(&map, &changed));
    changed.pixels = 5000; /* which such a map has not */
    assert_ok(wide(&same, &changed));
    assert_memory_equal(&map, &same, sizeof map);
    assert_ok(cuTensorMapReplaceAddress(&map, (void *)0x20000));
    changed.address = 0x20000;
    assert_ok(wide(&same, &changed));
    assert_memory_equal(&map, &same, sizeof map);
}

#define assert_wrong(change)                                                                       \
    do {                                                                                           \
        struct arguments with = right;                                                             \
        change;                                                                                    \
        assert_int_equal(wide(&map, &with), CUDA_ERROR_INVALID_VALUE);                             \
    } while (0)

static void test_each_argument_of_a_wide_map_is_checked(void **state) {
    static CUtensorMap map;
    struct arguments packed = right;

    (void)state;
    assert_wrong(with.rank = 2);
    assert_wrong(with.rank = 6);
    assert_wrong(with.lower = -32769);
    assert_wrong(with.upper = 32768);
    assert_wrong(with.channels = 257);
    assert_wrong(with.channels = 65); /* more than the swizzle's span */
    assert_wrong(with.pixels = 1025);
    assert_wrong(with.mode = (CUtensorMapIm2ColWideMode)2);
    assert_wrong(with.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
    assert_wrong((with.swizzle = CU_TENSOR_MAP_SWIZZLE_32B, with.channels = 16));
    assert_wrong(with.sizes[3] = 0);
    assert_wrong(with.strides[0] = 136);
    assert_wrong(with.address += 8);
    assert_int_equal(wide(NULL, &right), CUDA_ERROR_INVALID_VALUE);
    packed.type = (CUtensorMapDataType)15; /* 16U6_ALIGN16B */
    packed.sizes[0] = packed.channels = 128;
    packed.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    assert_ok(wide(&map, &packed));
    packed.channels = 64;
    assert_int_equal(wide(&map, &packed), CUDA_ERROR_INVALID_VALUE);
}

#if CUDA_VERSION >= 13000
/* "On Compute Architecture 9.0+: 8 SMs and a multiple of 8" (cuda.h, green contexts). */
static void test_parts_of_the_device_are_larger(void **state) {
    CU_DEV_SM_RESOURCE_GROUP_PARAMS wish = {.coscheduledSmCount = 16};
    CUdevResource whole, group, rest;
    unsigned int count = 1, all;

    (void)state;
    assert_ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    all = whole.sm.smCount;
    assert_int_equal(whole.sm.minSmPartitionSize, 8);
    assert_int_equal(whole.sm.smCoscheduledAlignment, 8);
    assert_ok(cuDevSmResourceSplitByCount(&group, &count, &whole, &rest, 0, 9));
    assert_int_equal(group.sm.smCount, 16);
    assert_ok(cuDevSmResourceSplit(&group, 1, &whole, &rest, 0, &wish));
    assert_int_equal(group.sm.smCount, all / 16 * 16);
    assert_int_equal(rest.sm.smCount, all % 16);
    wish.smCount = 18; /* no multiple of 16 */
    assert_int_equal(cuDevSmResourceSplit(&group, 1, &whole, &rest, 0, &wish),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    wish.flags = 1; /* what does not fit is made up by others */
    assert_ok(cuDevSmResourceSplit(&group, 1, &whole, &rest, 0, &wish));
    assert_int_equal(group.sm.smCount, 18);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_arguments_make_the_same_wide_map),
        cmocka_unit_test(test_each_argument_of_a_wide_map_is_checked),
#if CUDA_VERSION >= 13000
        cmocka_unit_test(test_parts_of_the_device_are_larger),
#endif
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
