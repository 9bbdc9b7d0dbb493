/* Textures and surfaces: references that modules name, and objects. */
#include "test_sim.h"

#include <string.h>

static const char text[] = ".version 7.0\n"
                           ".target sm_60\n"
                           ".visible .global .texref texture;\n"
                           ".visible .global .surfref surface;\n"
                           ".global .samplerref sampler;\n"
                           ".visible .entry fill_u32() { ret; }\n";

static CUmodule module;

static int set_up(void **state) {
    set_up_context(state);
    assert_ok(cuModuleLoadData(&module, text));
    return 0;
}

static int tear_down(void **state) {
    assert_ok(cuModuleUnload(module));
    return tear_down_context(state);
}

static CUtexref texture_of(CUmodule owner) {
    CUtexref texture;

    assert_ok(cuModuleGetTexRef(&texture, owner, "texture"));
    return texture;
}

static CUarray make_array(unsigned int flags) {
    CUarray array;

    assert_ok(
        cuArray3DCreate_v2(&array, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = 16,
                                                              .Height = 8,
                                                              .Format = CU_AD_FORMAT_UNSIGNED_INT16,
                                                              .NumChannels = 2,
                                                              .Flags = flags}));
    return array;
}

static void test_references_of_a_module(void **state) {
    CUtexref texture = texture_of(module), other;
    CUsurfref surface;

    (void)state;
    assert_ptr_equal(texture, texture_of(module));
    assert_ok(cuModuleGetSurfRef(&surface, module, "surface"));
    assert_int_equal(cuModuleGetTexRef(&other, module, "surface"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetTexRef(&other, module, "sampler"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetSurfRef(&surface, module, "texture"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetTexRef(NULL, module, "texture"), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuModuleGetTexRef(&other, module, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuModuleGetTexRef(&other, (CUmodule)&other, "texture"),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuTexRefDestroy(texture), CUDA_ERROR_INVALID_VALUE);
}

static void test_what_is_set_is_answered_again(void **state) {
    CUtexref texture;
    CUarray_format format;
    CUaddress_mode mode;
    CUfilter_mode filter;
    float color[4] = {1, 2, 3, 4}, least, most, found[4];
    unsigned int flags;
    int channels;

    (void)state;
    assert_ok(cuTexRefCreate(&texture));
    assert_ok(cuTexRefSetFormat(texture, CU_AD_FORMAT_SIGNED_INT8, 4));
    assert_ok(cuTexRefGetFormat(&format, &channels, texture));
    assert_int_equal(format, CU_AD_FORMAT_SIGNED_INT8);
    assert_int_equal(channels, 4);
    assert_int_equal(cuTexRefSetFormat(texture, CU_AD_FORMAT_SIGNED_INT8, 3),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexRefSetAddressMode(texture, 2, CU_TR_ADDRESS_MODE_MIRROR));
    assert_ok(cuTexRefGetAddressMode(&mode, texture, 2));
    assert_int_equal(mode, CU_TR_ADDRESS_MODE_MIRROR);
    assert_ok(cuTexRefGetAddressMode(&mode, texture, 1));
    assert_int_equal(mode, CU_TR_ADDRESS_MODE_CLAMP);
    assert_int_equal(cuTexRefSetAddressMode(texture, 3, CU_TR_ADDRESS_MODE_CLAMP),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefSetAddressMode(texture, 0, (CUaddress_mode)4),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexRefSetFilterMode(texture, CU_TR_FILTER_MODE_LINEAR));
    assert_ok(cuTexRefGetFilterMode(&filter, texture));
    assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
    assert_int_equal(cuTexRefSetFilterMode(texture, (CUfilter_mode)2), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexRefSetMipmapFilterMode(texture, CU_TR_FILTER_MODE_LINEAR));
    assert_ok(cuTexRefGetMipmapFilterMode(&filter, texture));
    assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
    assert_ok(cuTexRefSetMipmapLevelBias(texture, 1.5f));
    assert_ok(cuTexRefGetMipmapLevelBias(&least, texture));
    assert_true(least == 1.5f);
    assert_ok(cuTexRefSetMipmapLevelClamp(texture, 1, 2));
    assert_ok(cuTexRefGetMipmapLevelClamp(&least, &most, texture));
    assert_true(least == 1 && most == 2);
    assert_ok(cuTexRefSetMaxAnisotropy(texture, 8));
    assert_ok(cuTexRefGetMaxAnisotropy(&channels, texture));
    assert_int_equal(channels, 8);
    assert_ok(cuTexRefSetBorderColor(texture, color));
    assert_ok(cuTexRefGetBorderColor(found, texture));
    assert_memory_equal(found, color, sizeof color);
    assert_ok(cuTexRefSetFlags(texture, CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES));
    assert_ok(cuTexRefGetFlags(&flags, texture));
    assert_int_equal(flags, CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES);
    assert_int_equal(cuTexRefSetFlags(texture, 0x100), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefGetFlags(NULL, texture), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexRefDestroy(texture));
    assert_int_equal(cuTexRefSetFlags(texture, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefDestroy(texture), CUDA_ERROR_INVALID_VALUE);
}

static void test_a_texture_is_bound_to_one_thing(void **state) {
    const CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 100, .Height = 10, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUtexref texture = texture_of(module);
    CUmipmappedArray mipmap, found_mipmap;
    CUarray array = make_array(0), found;
    CUdeviceptr memory, address;
    CUarray_format format;
    int channels;
    size_t offset;

    (void)state;
    assert_ok(cuMemAlloc_v2(&memory, 8192));
    assert_int_equal(cuTexRefGetArray(&found, texture), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefGetAddress_v2(&address, texture), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexRefSetArray(texture, array, CU_TRSA_OVERRIDE_FORMAT));
    assert_ok(cuTexRefGetArray(&found, texture));
    assert_ptr_equal(found, array);
    assert_ok(cuTexRefGetFormat(&format, &channels, texture)); /* the array's */
    assert_int_equal(format, CU_AD_FORMAT_UNSIGNED_INT16);
    assert_int_equal(channels, 2);
    assert_int_equal(cuTexRefSetArray(texture, array, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefSetArray(texture, (CUarray)&found, CU_TRSA_OVERRIDE_FORMAT),
                     CUDA_ERROR_INVALID_VALUE);

    assert_ok(cuTexRefSetAddress_v2(&offset, texture, memory, 4096));
    assert_int_equal(offset, 0);
    assert_int_equal(cuTexRefGetArray(&found, texture), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexRefGetAddress_v2(&address, texture));
    assert_int_equal(address, memory);
    assert_ok(cuTexRefSetAddress_v2(&offset, texture, memory + 16, 64));
    assert_int_equal(offset, 16);
    assert_int_equal(cuTexRefSetAddress_v2(NULL, texture, memory + 16, 64),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefSetAddress_v2(&offset, texture, memory, 1 << 20),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefSetAddress_v2(&offset, texture, 0, 64), CUDA_ERROR_INVALID_VALUE);

    assert_ok(cuTexRefSetAddress2D_v3(texture, &shape, memory, 512));
    assert_ok(cuTexRefGetFormat(&format, &channels, texture));
    assert_int_equal(format, CU_AD_FORMAT_FLOAT);
    assert_ok(cuTexRefSetAddress2D_v2(texture, &shape, memory, 416));
    assert_int_equal(cuTexRefSetAddress2D_v3(texture, &shape, memory + 4, 512),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefSetAddress2D_v3(texture, &shape, memory, 404),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefSetAddress2D_v3(texture, &shape, memory, 384),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefSetAddress2D_v3(texture, &shape, memory, 1024),
                     CUDA_ERROR_INVALID_VALUE); /* there is less memory */
    assert_int_equal(cuTexRefSetAddress2D_v3(texture, NULL, memory, 512), CUDA_ERROR_INVALID_VALUE);

    assert_ok(cuMipmappedArrayCreate(
        &mipmap,
        &(CUDA_ARRAY3D_DESCRIPTOR){.Width = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1}, 2));
    assert_ok(cuTexRefSetMipmappedArray(texture, mipmap, CU_TRSA_OVERRIDE_FORMAT));
    assert_ok(cuTexRefGetMipmappedArray(&found_mipmap, texture));
    assert_ptr_equal(found_mipmap, mipmap);
    assert_ok(cuMipmappedArrayDestroy(mipmap));
    assert_int_equal(cuTexRefGetMipmappedArray(&found_mipmap, texture), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexRefSetArray(texture, array, CU_TRSA_OVERRIDE_FORMAT));
    assert_ok(cuArrayDestroy(array));
    assert_int_equal(cuTexRefGetArray(&found, texture), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(memory));
}

static void test_a_surface_wants_an_array_that_can_be_written(void **state) {
    CUarray plain = make_array(0), writable = make_array(CUDA_ARRAY3D_SURFACE_LDST), found;
    CUsurfref surface;

    (void)state;
    assert_ok(cuModuleGetSurfRef(&surface, module, "surface"));
    assert_int_equal(cuSurfRefGetArray(&found, surface), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuSurfRefSetArray(surface, plain, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuSurfRefSetArray(surface, writable, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuSurfRefSetArray(surface, writable, 0));
    assert_ok(cuSurfRefGetArray(&found, surface));
    assert_ptr_equal(found, writable);
    assert_int_equal(cuTexRefGetArray(&found, (CUtexref)surface), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuArrayDestroy(plain));
    assert_ok(cuArrayDestroy(writable));
}

static void test_references_end_with_their_module_and_their_context(void **state) {
    CUtexref texture, made;
    unsigned int flags;
    CUcontext context;
    CUmodule other;

    (void)state;
    assert_ok(cuModuleLoadData(&other, text));
    texture = texture_of(other);
    assert_ok(cuTexRefGetFlags(&flags, texture));
    assert_ok(cuModuleUnload(other));
    assert_int_equal(cuTexRefGetFlags(&flags, texture), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuModuleLoadData(&other, text));
    texture = texture_of(other);
    assert_ok(cuTexRefCreate(&made));
    assert_ok(cuCtxDestroy_v2(context));
    assert_int_equal(cuTexRefGetFlags(&flags, texture), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexRefDestroy(made), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuModuleUnload(other));
}

static void test_texture_objects_keep_their_descriptions(void **state) {
    const CUDA_TEXTURE_DESC how = {.addressMode = {CU_TR_ADDRESS_MODE_BORDER},
                                   .filterMode = CU_TR_FILTER_MODE_LINEAR,
                                   .maxAnisotropy = 2,
                                   .flags = CU_TRSF_NORMALIZED_COORDINATES};
    const CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_UINT_2X16, .width = 16};
    CUarray array = make_array(0);
    CUDA_RESOURCE_DESC what = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
    CUDA_RESOURCE_DESC found_what;
    CUDA_RESOURCE_VIEW_DESC found_view;
    CUDA_TEXTURE_DESC found_how;
    CUtexObject viewed, plain;

    (void)state;
    assert_ok(cuTexObjectCreate(&viewed, &what, &how, &view));
    assert_ok(cuTexObjectCreate(&plain, &what, &how, NULL));
    assert_int_not_equal(viewed, 0);
    assert_int_not_equal(viewed, plain);
    assert_ok(cuTexObjectGetResourceDesc(&found_what, viewed));
    assert_ptr_equal(found_what.res.array.hArray, array);
    assert_ok(cuTexObjectGetTextureDesc(&found_how, viewed));
    assert_memory_equal(&found_how, &how, sizeof how);
    assert_ok(cuTexObjectGetResourceViewDesc(&found_view, viewed));
    assert_int_equal(found_view.width, 16);
    assert_int_equal(cuTexObjectGetResourceViewDesc(&found_view, plain), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuSurfObjectGetResourceDesc(&found_what, plain), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuTexObjectDestroy(viewed));
    assert_ok(cuTexObjectDestroy(plain));
    assert_int_equal(cuTexObjectDestroy(plain), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexObjectGetTextureDesc(&found_how, plain), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexObjectCreate(&plain, NULL, &how, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuTexObjectCreate(&plain, &what, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuArrayDestroy(array));
    assert_int_equal(cuTexObjectCreate(&plain, &what, &how, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void test_texture_objects_of_memory(void **state) {
    const CUDA_TEXTURE_DESC how = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP}};
    CUDA_RESOURCE_DESC row = {.resType = CU_RESOURCE_TYPE_LINEAR},
                       rows = {.resType = CU_RESOURCE_TYPE_PITCH2D};
    CUDA_RESOURCE_VIEW_DESC view = {.width = 1};
    CUdeviceptr memory;
    CUtexObject object;

    (void)state;
    assert_ok(cuMemAlloc_v2(&memory, 4096));
    row.res.linear.devPtr = memory;
    row.res.linear.format = CU_AD_FORMAT_FLOAT;
    row.res.linear.numChannels = 4;
    row.res.linear.sizeInBytes = 4096;
    assert_ok(cuTexObjectCreate(&object, &row, &how, NULL));
    assert_ok(cuTexObjectDestroy(object));
    assert_int_equal(cuTexObjectCreate(&object, &row, &how, &view), CUDA_ERROR_INVALID_VALUE);
    row.res.linear.sizeInBytes = 1 << 20;
    assert_int_equal(cuTexObjectCreate(&object, &row, &how, NULL), CUDA_ERROR_INVALID_VALUE);
    row.res.linear.sizeInBytes = 64;
    row.res.linear.devPtr = memory + 16;
    assert_int_equal(cuTexObjectCreate(&object, &row, &how, NULL), CUDA_ERROR_INVALID_VALUE);
    row.res.linear.devPtr = memory;
    row.flags = 1;
    assert_int_equal(cuTexObjectCreate(&object, &row, &how, NULL), CUDA_ERROR_INVALID_VALUE);
    rows.res.pitch2D.devPtr = memory;
    rows.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT8;
    rows.res.pitch2D.numChannels = 1;
    rows.res.pitch2D.width = 100;
    rows.res.pitch2D.height = 32;
    rows.res.pitch2D.pitchInBytes = 128;
    assert_ok(cuTexObjectCreate(&object, &rows, &how, NULL));
    assert_ok(cuTexObjectDestroy(object));
    rows.res.pitch2D.height = 33;
    assert_int_equal(cuTexObjectCreate(&object, &rows, &how, NULL), CUDA_ERROR_INVALID_VALUE);
    rows.res.pitch2D.height = 1;
    rows.res.pitch2D.pitchInBytes = 100;
    assert_int_equal(cuTexObjectCreate(&object, &rows, &how, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(memory));
}

static void test_objects_end_with_their_context(void **state) {
    CUarray array;
    CUDA_RESOURCE_DESC what = {.resType = CU_RESOURCE_TYPE_ARRAY}, found;
    CUsurfObject surface, other;
    CUcontext context;

    (void)state;
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    array = make_array(CUDA_ARRAY3D_SURFACE_LDST);
    what.res.array.hArray = array;
    assert_ok(cuSurfObjectCreate(&surface, &what));
    assert_ok(cuSurfObjectCreate(&other, &what));
    assert_ok(cuSurfObjectGetResourceDesc(&found, surface));
    assert_ptr_equal(found.res.array.hArray, array);
    assert_ok(cuSurfObjectDestroy(surface));
    assert_int_equal(cuSurfObjectDestroy(surface), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxDestroy_v2(context));
    assert_int_equal(cuSurfObjectDestroy(other), CUDA_ERROR_INVALID_VALUE);
    array = make_array(0);
    what.res.array.hArray = array;
    assert_int_equal(cuSurfObjectCreate(&surface, &what), CUDA_ERROR_INVALID_VALUE);
    what.resType = CU_RESOURCE_TYPE_LINEAR;
    assert_int_equal(cuSurfObjectCreate(&surface, &what), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuArrayDestroy(array));
}

static void test_the_widest_row(void **state) {
    size_t width;

    (void)state;
    assert_ok(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, 0));
    assert_int_equal(width, 1 << 28);
    assert_int_equal(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 3, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 1, 2),
                     CUDA_ERROR_INVALID_DEVICE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references_of_a_module),
        cmocka_unit_test(test_what_is_set_is_answered_again),
        cmocka_unit_test(test_a_texture_is_bound_to_one_thing),
        cmocka_unit_test(test_a_surface_wants_an_array_that_can_be_written),
        cmocka_unit_test(test_references_end_with_their_module_and_their_context),
        cmocka_unit_test(test_texture_objects_keep_their_descriptions),
        cmocka_unit_test(test_texture_objects_of_memory),
        cmocka_unit_test(test_objects_end_with_their_context),
        cmocka_unit_test(test_the_widest_row),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
