/* Images of modules: PTX, fatbins and cubins, where kernels are skipped. */
#include "test_sim.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char text[] = ".version 7.0\n"
                           ".target sm_52\n"
                           ".global .align 4 .u32 counter = 5;\n"
                           ".visible .entry own(.param .u64 .ptr .global .align 32 to,\n"
                           " .param .u8 flag, .param .align 8 .b8 parts[20],\n"
                           " .param .f32 factor)\n"
                           "{ ret; }\n"
                           ".entry alone\n"
                           "{ ret; }\n"
                           ".visible .entry fill_u32(.param .u64 to, .param .u64 count,\n"
                           " .param .u32 value) { ret; }\n";

/* --- made images --- */

struct bytes {
    unsigned char at[1 << 14];
    size_t size;
};

static void put(struct bytes *out, const void *what, size_t size) {
    assert_true(size <= sizeof out->at - out->size);
    memcpy(out->at + out->size, what, size);
    out->size += size;
}

static void put_zeros(struct bytes *out, size_t size) {
    memset(out->at + out->size, 0, size);
    out->size += size;
}

enum { FATBIN_HEADER = 16, ENTRY_HEADER = 64, PTX = 1, CUBIN = 2, LZ4 = 0x2000, ZSTD = 0x8000 };

static void begin_fatbin(struct bytes *out) {
    const uint32_t head[4] = {0xba55ed50, FATBIN_HEADER << 16 | 1};

    out->size = 0;
    put(out, head, sizeof head);
}

static void add_entry(struct bytes *out, uint16_t kind, uint32_t architecture, uint64_t flags,
                      const void *content, size_t size, size_t full_size) {
    unsigned char header[ENTRY_HEADER] = {(unsigned char)kind, 0, 1, 1, ENTRY_HEADER};
    uint64_t padded = (size + 7) / 8 * 8, full = full_size, total;
    uint32_t stored = (uint32_t)size;

    memcpy(header + 8, &padded, 8);
    memcpy(header + 16, &stored, 4);
    memcpy(header + 28, &architecture, 4);
    memcpy(header + 40, &flags, 8);
    memcpy(header + 56, &full, 8);
    put(out, header, sizeof header);
    put(out, content, size);
    put_zeros(out, padded - size);
    total = out->size - FATBIN_HEADER;
    memcpy(out->at + 8, &total, 8);
}

/* A frame of literals alone. */
static void compress_lz4(struct bytes *out, const char *content, size_t size) {
    size_t rest = size - 15;

    out->size = 0;
    put(out, "\xf0", 1);
    for (; rest >= 255; rest -= 255)
        put(out, "\xff", 1);
    put(out, &rest, 1);
    put(out, content, size);
}

static void compress_zstd(struct bytes *out, const char *content, size_t size) {
    uint32_t whole = (uint32_t)size, block = (uint32_t)(size << 3 | 1);

    out->size = 0;
    put(out, "\x28\xb5\x2f\xfd\xa0", 5);
    put(out, &whole, 4);
    put(out, &block, 3);
    put(out, content, size);
}

/* The sections of a cubin, in the file in this order; the first is none. */
enum section {
    NONE,
    NAMES,
    STRINGS,
    SYMBOLS,
    CODE,
    INFO,
    ALL_INFO,
    INITIAL,
    ZERO,
    CONSTANT,
    SHARED,
    SECTIONS
};

static const char names[] = "\0.shstrtab\0.strtab\0.symtab\0.text.own\0.nv.info.own\0"
                            ".nv.info\0.nv.global.init\0.nv.global\0.nv.constant3\0.nv.shared.own";
static const char strings[] = "\0own\0counter\0zeroed\0limit\0shared\0helper";

static uint32_t offset_in(const char *all, size_t size, const char *word) {
    const char *found = memmem(all, size, word, strlen(word) + 1);

    assert_non_null(found);
    return (uint32_t)(found - all);
}

static Elf64_Sym symbol(const char *name, unsigned char type, unsigned char other,
                        enum section section, uint64_t value, uint64_t size) {
    return (Elf64_Sym){offset_in(strings, sizeof strings, name),
                       ELF64_ST_INFO(STB_GLOBAL, type),
                       other,
                       (uint16_t)section,
                       value,
                       size};
}

static void make_cubin(struct bytes *out) {
    static const struct {
        const char *name;
        uint32_t type;
    } kinds[SECTIONS] = {{"", SHT_NULL},
                         {".shstrtab", SHT_STRTAB},
                         {".strtab", SHT_STRTAB},
                         {".symtab", SHT_SYMTAB},
                         {".text.own", SHT_PROGBITS},
                         {".nv.info.own", SHT_LOPROC},
                         {".nv.info", SHT_LOPROC},
                         {".nv.global.init", SHT_PROGBITS},
                         {".nv.global", SHT_NOBITS},
                         {".nv.constant3", SHT_PROGBITS},
                         {".nv.shared.own", SHT_NOBITS}};
    /* parameter 1: 16 bytes at offset 8; parameter 0: 8 bytes at 0; beside them an item of another
     * kind and one without content */
    static const uint32_t info[] = {4 | 0x17 << 8 | 12u << 16,
                                    0,
                                    1 | 8u << 16,
                                    16u << 18 | 0x1f000,
                                    4 | 0x17 << 8 | 12u << 16,
                                    0,
                                    0,
                                    8u << 18 | 0x1f000,
                                    4 | 0x0a << 8 | 4u << 16,
                                    7,
                                    1 | 0x2a << 8,
                                    4 | 0x05 << 8 | 12u << 16,
                                    32,
                                    2,
                                    3,
                                    4 | 0x3d << 8 | 12u << 16,
                                    2,
                                    1,
                                    1};
    /* of symbol 1: 72 registers, 48 bytes of local memory */
    static const uint32_t all_info[] = {4 | 0x2f << 8 | 8u << 16, 1, 72,
                                        4 | 0x11 << 8 | 8u << 16, 1, 48,
                                        4 | 0x2f << 8 | 8u << 16, 2, 9};
    const Elf64_Sym symbols[] = {{0},
                                 symbol("own", STT_FUNC, 0x10, CODE, 0, 16),
                                 symbol("helper", STT_FUNC, 0, CODE, 0, 16),
                                 symbol("counter", STT_OBJECT, 0, INITIAL, 4, 4),
                                 symbol("shared", STT_OBJECT, 4, INITIAL, 0, 4),
                                 symbol("zeroed", STT_OBJECT, 0, ZERO, 0, 400),
                                 symbol("limit", STT_OBJECT, 0, CONSTANT, 0, 8)};
    static const unsigned char zeros[16];
    const uint32_t initial[] = {7, 5};
    const double limit = 5.5;
    const struct {
        const void *content;
        size_t size;
    } contents[SECTIONS] = {{NULL, 0},
                            {names, sizeof names},
                            {strings, sizeof strings},
                            {symbols, sizeof symbols},
                            {zeros, sizeof zeros},
                            {info, sizeof info},
                            {all_info, sizeof all_info},
                            {initial, sizeof initial},
                            {NULL, 400},
                            {&limit, sizeof limit},
                            {NULL, 1024}};
    Elf64_Shdr sections[SECTIONS] = {{0}};
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_machine = 190,
                         .e_flags = 80 | 0x500,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof *sections,
                         .e_shnum = SECTIONS,
                         .e_shstrndx = NAMES};

    out->size = 0;
    put(out, &header, sizeof header);
    for (int i = NAMES; i < SECTIONS; i++) {
        sections[i] = (Elf64_Shdr){.sh_name = offset_in(names, sizeof names, kinds[i].name),
                                   .sh_type = kinds[i].type,
                                   .sh_offset = out->size,
                                   .sh_size = contents[i].size,
                                   .sh_link = i == SYMBOLS ? STRINGS : 0};
        if (contents[i].content != NULL)
            put(out, contents[i].content, contents[i].size);
    }
    header.e_shoff = out->size;
    memcpy(out->at, &header, sizeof header);
    put(out, sections, sizeof sections);
}

/* --- what is in them --- */

static void assert_parameter(CUfunction function, size_t index, size_t offset, size_t size) {
    size_t found_offset, found_size;

    assert_ok(cuFuncGetParamInfo(function, index, &found_offset, &found_size));
    assert_int_equal(found_offset, offset);
    assert_int_equal(found_size, size);
}

static void assert_no_parameter(CUfunction function, size_t index) {
    size_t offset, size;

    assert_int_equal(cuFuncGetParamInfo(function, index, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

static void assert_variable(CUmodule module, const char *name, const void *value, size_t size) {
    unsigned char found[512];
    CUdeviceptr address;
    size_t found_size;

    assert_ok(cuModuleGetGlobal_v2(&address, &found_size, module, name));
    assert_int_equal(found_size, size);
    assert_ok(cuMemcpyDtoH_v2(found, address, size));
    assert_memory_equal(found, value, size);
}

static void assert_is_text(CUmodule module) {
    CUfunction function;

    assert_ok(cuModuleGetFunction(&function, module, "own"));
    assert_parameter(function, 0, 0, 8);
    assert_parameter(function, 1, 8, 1);
    assert_parameter(function, 2, 16, 20);
    assert_parameter(function, 3, 36, 4);
    assert_no_parameter(function, 4);
    assert_ok(cuModuleGetFunction(&function, module, "alone"));
    assert_no_parameter(function, 0);
    assert_variable(module, "counter", &(uint32_t){5}, 4);
    assert_ok(cuModuleUnload(module));
}

static void test_kernels_of_text_are_found_and_do_nothing(void **state) {
    CUdeviceptr memory;
    CUfunction function;
    CUmodule module;
    uint64_t count = 1;
    uint32_t value = 9, back = 0;

    (void)state;
    assert_ok(cuModuleLoadData(&module, text));
    assert_ok(cuMemAlloc_v2(&memory, 4));
    assert_ok(cuMemsetD32_v2(memory, 8, 1));
    assert_ok(launch("fill_u32", NULL, (void *[]){&memory, &count, &value}));
    assert_ok(cuModuleGetFunction(&function, module, "own"));
    assert_ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
                             (void *[]){&memory, &value, &value, &value}, NULL));
    assert_ok(cuMemcpyDtoH_v2(&back, memory, 4));
    assert_int_equal(back, 8);
    assert_int_equal(cuModuleGetFunction(&function, module, "absent"), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuMemFree_v2(memory));
    assert_is_text(module);
}

/* They come from the image's declarations, and live as long as the node. */
static void test_arguments_of_what_is_skipped_are_told_of_a_node(void **state) {
    uint64_t large[8] = {11, 12, 13, 14, 15, 16, 17, 18};
    CUDA_KERNEL_NODE_PARAMS_v2 told, parameters = {.gridDimX = 1,
                                                   .gridDimY = 1,
                                                   .gridDimZ = 1,
                                                   .blockDimX = 1,
                                                   .blockDimY = 1,
                                                   .blockDimZ = 1};
    CUmodule module;
    CUgraph graph;
    CUgraphNode node;

    (void)state;
    assert_ok(cuModuleLoadData(&module, text));
    assert_ok(cuModuleGetFunction(&parameters.func, module, "own"));
    parameters.kernelParams = (void *[]){&large, &large, &large, &large};
    assert_ok(cuGraphCreate(&graph, 0));
    assert_ok(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &parameters));
    large[0] = 0;
    assert_ok(cuGraphKernelNodeGetParams_v2(node, &told));
    assert_ptr_not_equal(told.kernelParams, parameters.kernelParams);
    assert_int_equal(*(uint64_t *)told.kernelParams[0], 11);
    assert_int_equal(*(unsigned char *)told.kernelParams[3], 11);
    assert_ok(cuGraphKernelNodeSetParams_v2(node, &told));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuModuleUnload(module));
}

static void test_text_of_a_fatbin_is_taken(void **state) {
    static struct bytes fatbin, packed;
    const struct {
        uint32_t magic, version;
        const void *fatbin, *rest;
    } wrapper = {0x466243b1, 1, fatbin.at, NULL};
    CUmodule module;

    (void)state;
    begin_fatbin(&fatbin);
    add_entry(&fatbin, CUBIN, 75, 0, "no cubin", 8, 0);
    add_entry(&fatbin, PTX, 50, 0, ".version 1.0 older", 18, 0);
    add_entry(&fatbin, PTX, 52, 0, text, sizeof text, 0);
    add_entry(&fatbin, PTX, 90, 0, ".version 9.0 newer", 18, 0);
    assert_ok(cuModuleLoadFatBinary(&module, fatbin.at));
    assert_is_text(module);
    assert_ok(cuModuleLoadData(&module, &wrapper));
    assert_is_text(module);
    begin_fatbin(&fatbin);
    compress_lz4(&packed, text, sizeof text);
    add_entry(&fatbin, PTX, 75, LZ4, packed.at, packed.size, sizeof text);
    if (dlopen("liblz4.so.1", RTLD_NOW) != NULL) {
        assert_ok(cuModuleLoadData(&module, fatbin.at));
        assert_is_text(module);
        fatbin.at[FATBIN_HEADER + ENTRY_HEADER] = 0x0f; /* its beginning: no literals, a match */
    }
    assert_int_equal(cuModuleLoadData(&module, fatbin.at), CUDA_ERROR_NO_BINARY_FOR_GPU);
    begin_fatbin(&fatbin);
    compress_zstd(&packed, text, sizeof text);
    add_entry(&fatbin, PTX, 75, ZSTD, packed.at, packed.size, sizeof text);
    if (dlopen("libzstd.so.1", RTLD_NOW) != NULL) {
        assert_ok(cuModuleLoadData(&module, fatbin.at));
        assert_is_text(module);
        fatbin.at[FATBIN_HEADER + ENTRY_HEADER] = 0;
    }
    assert_int_equal(cuModuleLoadData(&module, fatbin.at), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

static void test_a_fatbin_for_newer_devices_alone_is_refused(void **state) {
    static struct bytes fatbin;
    CUmodule module;

    (void)state;
    begin_fatbin(&fatbin);
    add_entry(&fatbin, PTX, 90, 0, text, sizeof text, 0);
    assert_int_equal(cuModuleLoadData(&module, fatbin.at), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

static void assert_attribute(CUfunction function, CUfunction_attribute attribute, int expected) {
    int value = -2;

    assert_ok(cuFuncGetAttribute(&value, attribute, function));
    assert_int_equal(value, expected);
}

static void assert_is_cubin(CUmodule module) {
    static const unsigned char zeros[400];
    const double limit = 5.5;
    CUfunction function;
    CUdeviceptr shared;

    assert_ok(cuModuleGetFunction(&function, module, "own"));
    assert_parameter(function, 0, 0, 8);
    assert_parameter(function, 1, 8, 16);
    assert_no_parameter(function, 2);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 192);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 72);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 48);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1024);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 8);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_BINARY_VERSION, 80);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2);
    assert_ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    assert_int_equal(cuModuleGetFunction(&function, module, "helper"), CUDA_ERROR_NOT_FOUND);
    assert_variable(module, "counter", &(uint32_t){5}, 4);
    assert_variable(module, "zeroed", zeros, sizeof zeros);
    assert_variable(module, "limit", &limit, sizeof limit);
    assert_ok(cuModuleGetGlobal_v2(&shared, NULL, module, "shared"));
    assert_int_equal(*(uint32_t *)(uintptr_t)shared, 7); /* managed: the host may touch it */
    assert_ok(cuModuleUnload(module));
}

static void test_symbols_of_a_cubin(void **state) {
    static struct bytes cubin, fatbin;
    CUlibrary library;
    CUmodule module;
    CUkernel kernel;

    (void)state;
    make_cubin(&cubin);
    assert_ok(cuModuleLoadData(&module, cubin.at));
    assert_is_cubin(module);
    memmove(cubin.at + 1, cubin.at, cubin.size); /* in the midst of a program's data */
    assert_ok(cuModuleLoadData(&module, cubin.at + 1));
    assert_is_cubin(module);
    begin_fatbin(&fatbin);
    add_entry(&fatbin, CUBIN, 90, 0, cubin.at + 1, cubin.size, 0);
    assert_ok(cuModuleLoadData(&module, fatbin.at));
    assert_is_cubin(module);
    assert_ok(cuLibraryLoadData(&library, fatbin.at, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "own"));
    assert_int_equal(cuLibraryGetKernel(&kernel, library, "helper"), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuLibraryUnload(library));
}

/* --- damage --- */

static char path[64];
static int file;

static CUresult load_file(const unsigned char *content, size_t size) {
    CUresult result;
    CUmodule module;

    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(pwrite(file, content, size, 0), size);
    result = cuModuleLoad(&module, path);
    if (result == CUDA_SUCCESS)
        assert_ok(cuModuleUnload(module));
    return result;
}

/* Whatever is cut off or changed, each load ends with a result (and AddressSanitizer is content).
 */
static void damage(struct bytes *image) {
    assert_ok(load_file(image->at, image->size));
    for (size_t size = 1; size < image->size; size++)
        assert_int_not_equal(load_file(image->at, size), CUDA_SUCCESS);
    for (size_t at = 4; at < image->size; at++) {
        for (int change = 0; change < 3; change++) {
            unsigned char kept = image->at[at];

            image->at[at] = change == 0 ? 0xff : change == 1 ? 0 : kept ^ 0x40;
            load_file(image->at, image->size);
            image->at[at] = kept;
        }
    }
}

static void test_damaged_images_are_refused(void **state) {
    static struct bytes cubin, fatbin, packed;

    (void)state;
    file = memfd_create("image", MFD_CLOEXEC);
    assert_true(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    make_cubin(&cubin);
    damage(&cubin);
    begin_fatbin(&fatbin);
    add_entry(&fatbin, CUBIN, 90, 0, cubin.at, cubin.size, 0);
    damage(&fatbin);
    compress_zstd(&packed, text, sizeof text);
    begin_fatbin(&fatbin);
    add_entry(&fatbin, PTX, 75, ZSTD, packed.at, packed.size, sizeof text);
    if (dlopen("libzstd.so.1", RTLD_NOW) != NULL)
        damage(&fatbin);
    close(file);
    assert_int_equal(cuModuleLoad(&(CUmodule){NULL}, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_of_text_are_found_and_do_nothing),
        cmocka_unit_test(test_arguments_of_what_is_skipped_are_told_of_a_node),
        cmocka_unit_test(test_text_of_a_fatbin_is_taken),
        cmocka_unit_test(test_a_fatbin_for_newer_devices_alone_is_refused),
        cmocka_unit_test(test_symbols_of_a_cubin),
        cmocka_unit_test(test_damaged_images_are_refused),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
