/* What pitched copies and fills may reach: the parameters of cuMemcpy2D and cuMemcpy3D as their
 * documentation says, and sizes that no memory has. What is refused leaves its context as it is. */
#include "test_sim.h"

#include <stdlib.h>

enum { PITCH = 64, ROWS = 4, SLICES = 2 };

struct place {
    unsigned char *host;
    CUdeviceptr device;
    CUarray array; /* of 16 elements, 4 rows, 2 slices */
};

static struct place make_place(void) {
    const CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 16,
                                           .Height = ROWS,
                                           .Depth = SLICES,
                                           .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                           .NumChannels = 1};
    struct place place = {.host = calloc(1, MiB)};

    assert_non_null(place.host);
    assert_ok(cuMemAlloc_v2(&place.device, MiB));
    assert_ok(cuArray3DCreate_v2(&place.array, &shape));
    return place;
}

static void remove_place(struct place place) {
    assert_ok(cuCtxSynchronize());
    assert_ok(cuArrayDestroy(place.array));
    assert_ok(cuMemFree_v2(place.device));
    free(place.host);
}

static CUDA_MEMCPY2D rows_to_device(struct place place) {
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = place.host,
                           .srcPitch = PITCH,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = place.device,
                           .dstPitch = PITCH,
                           .WidthInBytes = PITCH,
                           .Height = ROWS};
}

static CUDA_MEMCPY3D box_to_device(struct place place) {
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = place.host,
                           .srcPitch = PITCH,
                           .srcHeight = ROWS,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = place.device,
                           .dstPitch = PITCH,
                           .dstHeight = ROWS,
                           .WidthInBytes = PITCH,
                           .Height = ROWS,
                           .Depth = SLICES};
}

static CUDA_MEMCPY3D box_to_array(struct place place) {
    CUDA_MEMCPY3D box = box_to_device(place);

    box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    box.dstArray = place.array;
    return box;
}

static void assert_refused_2d(CUDA_MEMCPY2D copy) {
    assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy2DAsync_v2(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxSynchronize());
}

static void assert_refused_3d(CUDA_MEMCPY3D copy) {
    CUgraphNode node;
    CUgraph graph;

    assert_int_equal(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy3DAsync_v2(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphCreate(&graph, 0));
    assert_int_equal(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, test_context),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuCtxSynchronize());
}

static void test_memory_at_null_is_refused_and_harms_nothing(void **state) {
    struct place place = make_place();
    CUDA_MEMCPY2D rows = rows_to_device(place);
    CUDA_MEMCPY3D box = box_to_device(place);

    (void)state;
    assert_ok(cuMemcpy2D_v2(&rows));
    rows.srcHost = NULL;
    rows.srcXInBytes = 4; /* which is no NULL any more */
    rows.WidthInBytes = 16;
    assert_refused_2d(rows);
    rows.Height = 0;
    assert_ok(cuMemcpy2D_v2(&rows)); /* of nothing */
    assert_ok(cuMemcpy3D_v2(&box));
    box.dstDevice = 0;
    assert_refused_3d(box);
    remove_place(place);
}

/* "If specified, srcPitch must be greater than or equal to WidthInBytes + srcXInBytes, and dstPitch
 * to WidthInBytes + dstXInBytes." */
static void test_a_row_ends_before_the_next_begins(void **state) {
    struct place place = make_place();
    CUDA_MEMCPY2D rows = rows_to_device(place);
    CUDA_MEMCPY3D box = box_to_device(place);

    (void)state;
    rows.srcXInBytes = 4;
    assert_refused_2d(rows);
    rows.WidthInBytes -= 4;
    assert_ok(cuMemcpy2D_v2(&rows));
    rows.dstXInBytes = 8;
    assert_refused_2d(rows);
    rows.dstXInBytes = 0;
    rows.dstPitch = (size_t)1 << 31; /* beyond CU_DEVICE_ATTRIBUTE_MAX_PITCH */
    rows.Height = 1;
    assert_refused_2d(rows);
    box.dstXInBytes = 1;
    assert_refused_3d(box);
    remove_place(place);
}

/* "If specified, srcHeight must be greater than or equal to Height + srcY, and dstHeight to Height
 * + dstY." */
static void test_a_slice_ends_before_the_next_begins(void **state) {
    struct place place = make_place();
    CUDA_MEMCPY3D box = box_to_device(place);

    (void)state;
    box.srcHeight = ROWS - 1;
    assert_refused_3d(box);
    box.srcHeight = ROWS;
    box.dstY = 1;
    assert_refused_3d(box);
    box.Height = ROWS - 1;
    assert_ok(cuMemcpy3D_v2(&box));
    remove_place(place);
}

static void test_an_array_has_its_rows_and_slices_and_no_more(void **state) {
    struct place place = make_place();
    CUDA_MEMCPY3D box = box_to_array(place);

    (void)state;
    assert_ok(cuMemcpy3D_v2(&box));
    box.Depth = 1;
    box.dstY = 1;
    assert_refused_3d(box); /* it would go on in the next slice */
    box.Height = 1;
    box.dstY = ROWS;
    assert_refused_3d(box);
    box.dstY = 0;
    box.dstZ = SLICES;
    assert_refused_3d(box);
    box.dstZ = 0;
    box.dstXInBytes = 4;
    assert_refused_3d(box);
    box.WidthInBytes = 8;
    box.dstXInBytes = 6; /* "must be evenly divisible by the array element size" */
    assert_refused_3d(box);
    remove_place(place);
}

static void test_sizes_beyond_all_numbers_are_refused(void **state) {
    struct place place = make_place();
    CUDA_MEMCPY3D box = box_to_device(place);
    CUDA_MEMCPY2D rows = rows_to_device(place);

    (void)state;
    box.Depth = SIZE_MAX;
    assert_refused_3d(box);
    rows.Height = SIZE_MAX / PITCH + 2; /* PITCH bytes, if one counts on */
    assert_refused_2d(rows);
    rows.Height = 2;
    rows.dstY = SIZE_MAX / PITCH + 1;
    assert_refused_2d(rows);
    assert_int_equal(cuMemsetD32_v2(place.device, 0, SIZE_MAX / 4 + 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD2D8_v2(place.device, PITCH, 0, PITCH, SIZE_MAX / PITCH + 2),
                     CUDA_ERROR_INVALID_VALUE);
    remove_place(place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_at_null_is_refused_and_harms_nothing),
        cmocka_unit_test(test_a_row_ends_before_the_next_begins),
        cmocka_unit_test(test_a_slice_ends_before_the_next_begins),
        cmocka_unit_test(test_an_array_has_its_rows_and_slices_and_no_more),
        cmocka_unit_test(test_sizes_beyond_all_numbers_are_refused),
    };

    return cmocka_run_group_tests_name("copy_bounds", tests, set_up_context, tear_down_context);
}
