/* Kernels read through texture and surface objects. */
#include "test_ptx.h"

/* Reads at the coordinates that stand where the argument points to, two floats for each thread. */
#define FETCH(name, instruction)                                                                   \
    ".visible .entry " name "(.param .u64 to, .param .u64 object)\n{\n"                            \
    ".reg .u64 %l<8>; .reg .u32 %t, %r<8>; .reg .f32 %f<8>;\n"                                     \
    "ld.param.u64 %l1, [to]; ld.param.u64 %l2, [object]; mov.u32 %t, %tid.x;\n"                    \
    "mul.wide.u32 %l3, %t, 8; add.u64 %l3, %l1, %l3; ld.global.v2.f32 {%f1, %f2}, [%l3];\n"        \
    "cvt.rzi.s32.f32 %r1, %f1; cvt.rzi.s32.f32 %r2, %f2;\n" instruction                            \
    "st.global.f32 [%l3], %f4;\nret;\n}\n"

static const char text[] =
    PTX_HEAD FETCH("plane", "tex.2d.v4.f32.f32 {%f4, _, _, _}, [%l2, {%f1, %f2}];\n")
        FETCH("row", "tex.1d.v4.f32.s32 {%f4, _, _, _}, [%l2, {%r1}];\n")
            FETCH("words", "tex.2d.v4.u32.f32 {_, %r3, _, _}, [%l2, {%f1, %f2}];\n"
                           "cvt.rn.f32.u32 %f4, %r3;\n")
                FETCH("gather", "tld4.r.2d.v4.f32.f32 {_, _, %f4, _}, [%l2, {%f1, %f2}];\n")
                    FETCH("write", "shl.b32 %r4, %r1, 2;\n"
                                   "suld.b.2d.b32.trap {%r3}, [%l2, {%r4, %r2}];\n"
                                   "mov.b32 %f4, %r3; add.f32 %f5, %f4, 0f42C80000;\n"
                                   "mov.b32 %r5, %f5;\n"
                                   "sust.b.2d.b32.zero [%l2, {%r4, %r2}], {%r5};\n")
                        FETCH("query", "txq.width.b32 %r3, [%l2]; cvt.rn.f32.u32 %f4, %r3;\n");

static CUmodule module;

static int load(void **state) {
    set_up_context(state);
    module = load_ptx(text);
    return 0;
}

/* What the kernel reads at one place. */
static float fetched(const char *name, unsigned long long object, float x, float y) {
    float places[2] = {x, y};
    CUfunction function;
    CUdeviceptr to;

    assert_ok(cuMemAlloc_v2(&to, sizeof places));
    assert_ok(cuMemcpyHtoD_v2(to, places, sizeof places));
    assert_ok(cuModuleGetFunction(&function, module, name));
    assert_ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&to, &object}, NULL));
    assert_ok(cuMemcpyDtoH_v2(places, to, sizeof places));
    assert_ok(cuMemFree_v2(to));
    return places[0];
}

/* Four by four elements; that at (x, y) is x + 10 * y, of bytes in two channels the second one. */
static CUarray make_array(CUarray_format format, unsigned int channels) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 4,
                                     .Height = 4,
                                     .Format = format,
                                     .NumChannels = channels,
                                     .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    float floats[16];
    unsigned char bytes[32];
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_HOST, .dstMemoryType = CU_MEMORYTYPE_ARRAY, .Height = 4};

    for (unsigned int i = 0; i < 16; i++) {
        unsigned int row = i / 4;

        floats[i] = (float)(i % 4 + 10 * row);
        bytes[2 * i] = 255;
        bytes[2 * i + 1] = (unsigned char)floats[i];
    }
    assert_ok(cuArray3DCreate_v2(&copy.dstArray, &shape));
    copy.srcHost = channels == 1 ? (const void *)floats : bytes;
    copy.srcPitch = copy.WidthInBytes = channels == 1 ? 16 : 8;
    assert_ok(cuMemcpy2D_v2(&copy));
    return copy.dstArray;
}

static CUtexObject make_texture(CUarray array, CUfilter_mode filter, CUaddress_mode mode,
                                unsigned int flags) {
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC texture = {
        .addressMode = {mode, mode, mode}, .filterMode = filter, .flags = flags};
    CUtexObject object;

    texture.borderColor[0] = -1;
    resource.res.array.hArray = array;
    assert_ok(cuTexObjectCreate(&object, &resource, &texture, NULL));
    return object;
}

static void test_a_texture_is_read_at_the_nearest_element(void **state) {
    CUarray array = make_array(CU_AD_FORMAT_FLOAT, 1);
    CUtexObject object = make_texture(array, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_CLAMP, 0);

    (void)state;
    assert_true(fetched("plane", object, 2.5f, 1.25f) == 12);
    assert_true(fetched("plane", object, -3, 9) == 30); /* clamped */
    assert_true(fetched("gather", object, 2, 2) == 12);
    assert_true(fetched("query", object, 0, 0) == 4);
    assert_ok(cuTexObjectDestroy(object));
    object = make_texture(array, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_WRAP,
                          CU_TRSF_NORMALIZED_COORDINATES);
    assert_true(fetched("plane", object, 1.25f + 0.01f, 0.5f) == 21);
    assert_ok(cuTexObjectDestroy(object));
    object = make_texture(array, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_MIRROR,
                          CU_TRSF_NORMALIZED_COORDINATES);
    assert_true(fetched("plane", object, 1.26f, 0) == 2);
    assert_ok(cuTexObjectDestroy(object));
    object = make_texture(array, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_BORDER, 0);
    assert_true(fetched("plane", object, 4.5f, 0) == -1);
    assert_ok(cuTexObjectDestroy(object));
    assert_ok(cuArrayDestroy(array));
}

static void test_a_texture_is_read_between_elements(void **state) {
    CUarray array = make_array(CU_AD_FORMAT_FLOAT, 1);
    CUtexObject object = make_texture(array, CU_TR_FILTER_MODE_LINEAR, CU_TR_ADDRESS_MODE_CLAMP, 0);

    (void)state;
    assert_true(fetched("plane", object, 2.5f, 1.5f) == 12);
    assert_true(fetched("plane", object, 2, 1) == 1.5f + 5);
    assert_true(fetched("plane", object, 0, 0) == 0);
    assert_true(fetched("plane", object, 2.75f, 0.5f) == 2.25f);
    assert_ok(cuTexObjectDestroy(object));
    assert_ok(cuArrayDestroy(array));
}

static void test_integers_are_read_as_they_are_or_as_fractions(void **state) {
    CUarray array = make_array(CU_AD_FORMAT_UNSIGNED_INT8, 2);
    CUtexObject object = make_texture(array, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_CLAMP,
                                      CU_TRSF_READ_AS_INTEGER);

    (void)state;
    assert_true(fetched("words", object, 3, 2) == 23);
    assert_ok(cuTexObjectDestroy(object));
    object = make_texture(array, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_CLAMP, 0);
    assert_true(fetched("plane", object, 3, 2) == 1); /* 255 */
    assert_ok(cuTexObjectDestroy(object));
    assert_ok(cuArrayDestroy(array));
}

static void test_linear_memory_is_read_by_its_indices(void **state) {
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
    CUDA_TEXTURE_DESC texture = {.flags = 0};
    float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    CUtexObject object;

    (void)state;
    assert_ok(cuMemAlloc_v2(&resource.res.linear.devPtr, sizeof numbers));
    assert_ok(cuMemcpyHtoD_v2(resource.res.linear.devPtr, numbers, sizeof numbers));
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = sizeof numbers;
    assert_ok(cuTexObjectCreate(&object, &resource, &texture, NULL));
    assert_true(fetched("row", object, 5, 0) == 5);
    assert_true(fetched("row", object, 8, 0) == 0); /* beyond its end */
    assert_ok(cuTexObjectDestroy(object));
    assert_ok(cuMemFree_v2(resource.res.linear.devPtr));
}

static void test_a_surface_is_read_and_written(void **state) {
    CUarray array = make_array(CU_AD_FORMAT_FLOAT, 1);
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUsurfObject object;
    CUtexObject texture = make_texture(array, CU_TR_FILTER_MODE_POINT, CU_TR_ADDRESS_MODE_CLAMP, 0);

    (void)state;
    resource.res.array.hArray = array;
    assert_ok(cuSurfObjectCreate(&object, &resource));
    assert_true(fetched("write", object, 1, 3) == 31);
    assert_true(fetched("plane", texture, 1, 3) == 131);
    assert_true(fetched("plane", texture, 2, 3) == 32);
    assert_ok(cuSurfObjectDestroy(object));
    assert_ok(cuTexObjectDestroy(texture));
    assert_ok(cuArrayDestroy(array));
}

/* The last one: it ends the context. */
static void test_an_object_that_is_none_faults(void **state) {
    unsigned long long object = 12345;
    CUfunction function;
    CUdeviceptr to;

    (void)state;
    assert_ok(cuMemAlloc_v2(&to, 8));
    assert_ok(cuModuleGetFunction(&function, module, "plane"));
    assert_ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&to, &object}, NULL));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_texture_is_read_at_the_nearest_element),
        cmocka_unit_test(test_a_texture_is_read_between_elements),
        cmocka_unit_test(test_integers_are_read_as_they_are_or_as_fractions),
        cmocka_unit_test(test_linear_memory_is_read_by_its_indices),
        cmocka_unit_test(test_a_surface_is_read_and_written),
        cmocka_unit_test(test_an_object_that_is_none_faults),
    };

    return cmocka_run_group_tests(tests, load, NULL);
}
