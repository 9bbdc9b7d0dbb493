/* Arrays of the simulated device: shapes, memory, copies. */
#include "test_sim.h"

#include <string.h>

static size_t available(void) {
    size_t free_bytes, total;

    assert_ok(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static CUarray create(size_t width, size_t height, size_t depth, unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = width,
                                     .Height = height,
                                     .Depth = depth,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 2,
                                     .Flags = flags};
    CUarray array;

    assert_ok(cuArray3DCreate_v2(&array, &shape));
    return array;
}

static void test_memory(void **state) {
    size_t before = available();
    CUDA_ARRAY_DESCRIPTOR flat;
    CUDA_ARRAY3D_DESCRIPTOR whole;
    CUarray array = create(1024, 512, 0, 0), none = NULL;
    CUdeviceptr all;

    (void)state;
    assert_int_equal(available(), before - 4 * MiB);
    assert_ok(cuArrayGetDescriptor_v2(&flat, array));
    assert_true(flat.Width == 1024 && flat.Height == 512 && flat.NumChannels == 2);
    assert_ok(cuArray3DGetDescriptor_v2(&whole, array));
    assert_int_equal(whole.Depth, 0);
    assert_ok(cuArrayDestroy(array));
    assert_int_equal(available(), before);
    assert_int_equal(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuArrayGetDescriptor_v2(&flat, array), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuMemAlloc_v2(&all, before));
    assert_int_equal(cuArrayCreate_v2(&none, &flat), CUDA_ERROR_OUT_OF_MEMORY);
    assert_null(none);
    assert_int_equal(cuMipmappedArrayCreate(&(CUmipmappedArray){0}, &whole, 3),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemFree_v2(all));
}

static void test_shapes(void **state) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Format = CU_AD_FORMAT_HALF, .NumChannels = 1};
    CUarray array;

    (void)state;
    assert_int_equal(cuArray3DCreate_v2(&array, &shape), CUDA_ERROR_INVALID_VALUE); /* no width */
    shape.Width = 16;
    shape.NumChannels = 3;
    assert_int_equal(cuArray3DCreate_v2(&array, &shape), CUDA_ERROR_INVALID_VALUE);
    shape.NumChannels = 1;
    shape.Depth = 4; /* without height only if layered */
    assert_int_equal(cuArray3DCreate_v2(&array, &shape), CUDA_ERROR_INVALID_VALUE);
    shape.Flags = CUDA_ARRAY3D_LAYERED;
    assert_ok(cuArray3DCreate_v2(&array, &shape));
    assert_ok(cuArrayDestroy(array));
}

static void test_copies(void **state) {
    CUarray array = create(5, 3, 2, 0);
    float values[2][3][10], back[2][3][10];
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = values,
                          .srcPitch = sizeof values[0][0],
                          .srcHeight = 3,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = sizeof values[0][0],
                          .Height = 3,
                          .Depth = 2};

    (void)state;
    for (int i = 0; i < 60; i++)
        values[i / 30][i / 10 % 3][i % 10] = (float)i;
    assert_ok(cuMemcpy3D_v2(&copy));
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = array,
                           .srcY = 1,
                           .srcZ = 1,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = back,
                           .dstPitch = sizeof back[0][0],
                           .WidthInBytes = sizeof back[0][0],
                           .Height = 2,
                           .Depth = 1};
    assert_ok(cuMemcpy3D_v2(&copy));
    assert_memory_equal(back[0][0], values[1][1], 2 * sizeof back[0][0]);
    assert_ok(cuArrayDestroy(array));
    assert_int_equal(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
}

/* Destroying waits for work, as freeing does. */
static void test_destroying_waits(void **state) {
    CUarray array = create(5, 0, 0, 0);
    uint64_t pause = 20000000;
    CUevent event;
    CUstream stream;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(launch("spin_ns", stream, (void *[]){&pause}));
    assert_ok(cuEventRecord(event, stream));
    assert_ok(cuArrayDestroy(array));
    assert_ok(cuEventQuery(event));
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_mipmaps(void **state) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 16, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4};
    size_t before = available();
    CUmipmappedArray mipmap;
    CUarray level;

    (void)state;
    assert_int_equal(cuMipmappedArrayCreate(&mipmap, &shape, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMipmappedArrayCreate(&mipmap, &shape, 100));
    assert_true(available() < before);
    assert_ok(cuMipmappedArrayGetLevel(&level, mipmap, 4));
    assert_ok(cuArray3DGetDescriptor_v2(&shape, level));
    assert_true(shape.Width == 1 && shape.Height == 1);
    assert_int_equal(cuMipmappedArrayGetLevel(&level, mipmap, 5), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuMipmappedArrayDestroy(mipmap));
    assert_int_equal(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(available(), before);
}

static void test_end_of_a_context(void **state) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 4096, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    size_t before = available();
    CUmipmappedArray mipmap;
    CUcontext context;
    CUarray array;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuMipmappedArrayCreate(&mipmap, &shape, 2));
    array = create(1024, 1024, 0, 0);
    assert_ok(cuCtxDestroy_v2(context));
    assert_int_equal(available(), before);
    assert_int_equal(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_copies),  cmocka_unit_test(test_destroying_waits),
        cmocka_unit_test(test_mipmaps), cmocka_unit_test(test_end_of_a_context),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
