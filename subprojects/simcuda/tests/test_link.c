/* The linker: what it makes of texts, fatbins, objects and libraries, and what it says of errors.
 */
#include "test_sim.h"

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char head[] = ".version 7.0\n.target sm_60\n.address_size 64\n";

static const char kernels_text[] =
    ".version 7.0\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".extern .func (.param .b32 result) helper (.param .b32 value);\n"
    ".extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 values);\n"
    ".extern .global .align 4 .u32 counter;\n"
    ".visible .global .texref texture;\n"
    ".visible .const .align 8 .f64 limit = 0d4016000000000000;\n"
    ".visible .global .align 1 .b8 zeros[4000];\n"
    ".visible .global .attribute(.managed) .align 4 .u32 shared = 9;\n"
    ".global .align 4 .u32 own = 1;\n"
    ".visible .entry fill_u32(.param .u64 to, .param .u64 count, .param .u32 value)\n"
    ".maxntid 128\n"
    "{ .shared .align 4 .b8 tile[256]; .local .align 4 .b8 depot[32];\n" FILL_BODY
    ".weak .entry sum_u32(.param .u64 from, .param .u64 count, .param .u64 sum) { ret; }\n";

static const char helper_text[] =
    ".version 7.0\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 counter = 7;\n"
    ".global .align 4 .u32 own = 2;\n"
    ".visible .func (.param .b32 result) helper (.param .b32 value);\n"
    ".visible .func (.param .b32 result) helper (.param .b32 value) { ret; }\n"
    ".weak .entry sum_u32(.param .u64 from, .param .u64 count, .param .u64 sum) { ret; }\n";

/* The logs of a linker, as programs ask for them. */
struct logs {
    char info[512], error[512];
    CUjit_option options[6];
    void *values[6];
};

static CUlinkState begin(struct logs *logs, unsigned int count) {
    const struct logs all = {.options = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                                         CU_JIT_ERROR_LOG_BUFFER,
                                         CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME,
                                         CU_JIT_LOG_VERBOSE},
                             .values = {logs->info, (void *)sizeof logs->info, logs->error,
                                        (void *)sizeof logs->error, NULL, (void *)1}};
    CUlinkState state;

    memcpy(logs->options, all.options, sizeof all.options);
    memcpy(logs->values, all.values, sizeof all.values);
    memset(logs->info, 'x', sizeof logs->info);
    memset(logs->error, 'x', sizeof logs->error);
    assert_ok(cuLinkCreate_v2(count, logs->options, logs->values, &state));
    return state;
}

static CUresult add_text(CUlinkState state, const char *text, const char *name) {
    return cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1,
                            name, 0, NULL, NULL);
}

static void assert_error(const struct logs *logs, const char *line) {
    assert_non_null(strstr(logs->error, line));
    assert_int_equal((uintptr_t)logs->values[3], strlen(logs->error));
}

static void assert_value(CUmodule module, const char *name, const void *expected, size_t size) {
    unsigned char found[16];
    CUdeviceptr address;
    size_t found_size;

    assert_ok(cuModuleGetGlobal_v2(&address, &found_size, module, name));
    assert_int_equal(found_size, size);
    assert_ok(cuMemcpyDtoH_v2(found, address, size));
    assert_memory_equal(found, expected, size);
}

static void assert_attribute(CUfunction function, CUfunction_attribute attribute, int expected) {
    int value;

    assert_ok(cuFuncGetAttribute(&value, attribute, function));
    assert_int_equal(value, expected);
}

static void assert_parameter(CUfunction function, size_t index, size_t offset, size_t size) {
    size_t found_offset, found_size;

    assert_ok(cuFuncGetParamInfo(function, index, &found_offset, &found_size));
    assert_int_equal(found_offset, offset);
    assert_int_equal(found_size, size);
}

static void assert_is_whole(const void *cubin) {
    CUfunction function;
    CUdeviceptr memory, shared;
    uint64_t count = 4;
    uint32_t value = 3, back[4];
    CUmodule module;
    size_t size;

    assert_ok(cuModuleLoadData(&module, cubin));
    assert_value(module, "counter", &(uint32_t){7}, 4);
    assert_value(module, "limit", &(double){5.5}, 8);
    assert_value(module, "own", &(uint32_t){1}, 4); /* the first one's */
    assert_ok(cuModuleGetGlobal_v2(&memory, &size, module, "zeros"));
    assert_int_equal(size, 4000);
    assert_ok(cuModuleGetGlobal_v2(&shared, NULL, module, "shared"));
    assert_int_equal(*(uint32_t *)(uintptr_t)shared, 9);
    assert_ok(cuModuleGetFunction(&function, module, "sum_u32"));
    assert_ok(cuModuleGetFunction(&function, module, "fill_u32"));
    assert_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 128);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 256);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 32);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 8);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_PTX_VERSION, 60);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_BINARY_VERSION, 75);
    assert_ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
                             (void *[]){&memory, &count, &value}, NULL));
    assert_ok(cuMemcpyDtoH_v2(back, memory, sizeof back));
    assert_int_equal(back[3], 3);
    assert_ok(cuModuleUnload(module));
}

static void test_texts_become_one_image(void **state) {
    struct logs logs;
    CUlinkState linker = begin(&logs, 6);
    void *cubin, *again, *copy;
    size_t size;
    float time;

    (void)state;
    assert_string_equal(logs.info, "");
    assert_ok(add_text(linker, kernels_text, "kernels"));
    assert_ok(add_text(linker, helper_text, NULL));
    assert_ok(cuLinkComplete(linker, &cubin, &size));
    assert_memory_equal(cubin, ELFMAG, SELFMAG);
    assert_is_whole(cubin);
    assert_ok(cuLinkComplete(linker, &again, NULL));
    assert_ptr_equal(cubin, again);
    assert_non_null(strstr(logs.info, "fill_u32"));
    assert_int_equal((uintptr_t)logs.values[1], strlen(logs.info));
    assert_int_equal((uintptr_t)logs.values[3], 0);
    memcpy(&time, &logs.values[4], sizeof time);
    assert_true(time > 0 && time < 1e6f);
    assert_int_equal(add_text(linker, helper_text, NULL), CUDA_ERROR_INVALID_VALUE);
    copy = memcpy(malloc(size), cubin, size); /* programs keep it beyond the linker */
    assert_ok(cuLinkDestroy(linker));
    assert_is_whole(copy);
    free(copy);
    assert_int_equal(cuLinkDestroy(linker), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLinkComplete(linker, &cubin, &size), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(add_text(linker, helper_text, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void test_a_linked_image_is_a_librarys_too(void **state) {
    struct logs logs;
    CUlinkState linker = begin(&logs, 0);
    CUlibrary library;
    CUkernel kernel;
    void *cubin;

    (void)state;
    assert_ok(add_text(linker, kernels_text, "kernels"));
    assert_ok(add_text(linker, helper_text, "helper"));
    assert_ok(cuLinkComplete(linker, &cubin, NULL));
    assert_ok(cuLibraryLoadData(&library, cubin, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLinkDestroy(linker));
    assert_ok(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    assert_ok(cuLibraryUnload(library));
}

/* As GCC writes it: comments that name what follows, a declaration before each body, names of
 * parameters with a percent sign, $ in names, conditions and labels in bodies. */
static void test_texts_of_gcc_are_linked(void **state) {
    static const char program[] =
        "// BEGIN PREAMBLE\n"
        ".version 6.0\n.target sm_30\n.address_size 64\n"
        "// END PREAMBLE\n"
        ".file 1 \"<dummy>\"\n"
        "// BEGIN FUNCTION DECL: fill_u32\n"
        ".entry fill_u32 (.param .u64 %in_ar0, .param .u64 %in_ar1, .param .u32 %in_ar2);\n"
        "// BEGIN GLOBAL FUNCTION DECL: middle$0\n"
        ".extern .func (.param .u64 %value_out) middle$0 (.param .u64 %in_ar0);\n"
        "// BEGIN GLOBAL VAR DECL: stacks\n"
        ".extern .shared .u64 stacks[32];\n"
        "// BEGIN FUNCTION DEF: fill_u32\n"
        ".entry fill_u32 (.param .u64 %in_ar0, .param .u64 %in_ar1, .param .u32 %in_ar2)\n"
        ".maxntid 32, 4\n"
        "{\n.reg .u64 %ar0;\nld.param.u64 %ar0,[%in_ar0];\n.reg .pred %r1;\n"
        "{\n.param .u64 %value_in;\n"
        "call (%value_in),middle$0,(%ar0);\n}\n"
        "@ %r1 bra $L2;\n// #APP\n// 1 \"a.h\" {\nbar.sync 0;\n$L2:\nret;\n}\n"
        "//:FUNC_MAP \"fill_u32\"\n";
    static const char runtime[] =
        "// BEGIN PREAMBLE\n"
        ".version 6.0\n.target sm_30\n.address_size 64\n"
        "// END PREAMBLE\n"
        ".visible .func (.param .u64 %value_out) middle$0 (.param .u64 %in_ar0);\n"
        "// BEGIN GLOBAL VAR DEF: stacks\n"
        ".visible .shared .align 8 .u64 stacks[32];\n"
        ".visible .func (.param .u64 %value_out) middle$0 (.param .u64 %in_ar0)\n{\nret;\n}\n";
    CUfunction function;
    CUlinkState linker;
    CUmodule module;
    void *cubin;

    (void)state;
    assert_ok(cuLinkCreate_v2(0, NULL, NULL, &linker));
    assert_ok(add_text(linker, program, NULL));
    assert_ok(add_text(linker, runtime, NULL));
    assert_ok(cuLinkComplete(linker, &cubin, NULL));
    assert_ok(cuModuleLoadData(&module, cubin));
    assert_ok(cuLinkDestroy(linker));
    assert_ok(cuModuleGetFunction(&function, module, "fill_u32"));
    assert_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 128); /* the body's */
    assert_parameter(function, 2, 16, 4);
    assert_ok(cuModuleUnload(module));
}

static void test_what_nobody_defines_is_an_error(void **state) {
    struct logs logs;
    CUlinkState linker = begin(&logs, 5);
    void *cubin;

    (void)state;
    assert_ok(add_text(linker, kernels_text, "kernels"));
    assert_int_equal(cuLinkComplete(linker, &cubin, NULL), CUDA_ERROR_UNKNOWN);
    assert_error(&logs, "Undefined reference to 'helper' in 'kernels'\n");
    assert_error(&logs, "Undefined reference to 'counter' in 'kernels'\n");
    assert_null(strstr(logs.error, "vprintf"));
    assert_ok(add_text(linker, helper_text, "helper")); /* what was missing may still come */
    assert_ok(cuLinkComplete(linker, &cubin, NULL));
    assert_ok(cuLinkDestroy(linker));
}

static void test_what_two_define_is_an_error(void **state) {
    struct logs logs;
    CUlinkState linker = begin(&logs, 4);
    void *cubin;

    (void)state;
    assert_ok(add_text(linker, kernels_text, "kernels"));
    assert_ok(add_text(linker, helper_text, "first"));
    assert_ok(add_text(linker, helper_text, "second"));
    assert_int_equal(cuLinkComplete(linker, &cubin, NULL), CUDA_ERROR_UNKNOWN);
    assert_error(&logs, "Multiple definition of 'helper' in 'second', first defined in 'first'\n");
    assert_null(strstr(logs.error, "sum_u32")); /* they are weak */
    assert_ok(cuLinkDestroy(linker));
}

static void test_logs_end_where_their_buffer_does(void **state) {
    struct logs logs;
    CUlinkState linker;
    void *cubin;

    (void)state;
    linker = begin(&logs, 0);
    assert_ok(cuLinkDestroy(linker));
    logs.values[3] = (void *)20;
    assert_ok(cuLinkCreate_v2(4, logs.options, logs.values, &linker));
    assert_ok(add_text(linker, kernels_text, "kernels"));
    assert_int_equal(cuLinkComplete(linker, &cubin, NULL), CUDA_ERROR_UNKNOWN);
    assert_int_equal(strlen(logs.error), 19);
    assert_int_equal((uintptr_t)logs.values[3], 19);
    assert_ok(cuLinkDestroy(linker));
}

static void test_damaged_inputs(void **state) {
    static const struct {
        const char *data;
        CUjitInputType type;
        CUresult result;
    } inputs[] = {
        {"no text", CU_JIT_INPUT_PTX, CUDA_ERROR_INVALID_PTX},
        {".version 7.0\n.visible .entry f( { ret; }", CU_JIT_INPUT_PTX, CUDA_ERROR_INVALID_PTX},
        {"\177ELF", CU_JIT_INPUT_PTX, CUDA_ERROR_INVALID_PTX},
        {".version 7.0", CU_JIT_INPUT_CUBIN, CUDA_ERROR_INVALID_IMAGE},
        {"\177ELF", CU_JIT_INPUT_CUBIN, CUDA_ERROR_INVALID_IMAGE},
        {".version 7.0", CU_JIT_INPUT_FATBINARY, CUDA_ERROR_INVALID_IMAGE},
        {"\177ELF", CU_JIT_INPUT_OBJECT, CUDA_ERROR_INVALID_IMAGE},
        {"no library", CU_JIT_INPUT_LIBRARY, CUDA_ERROR_INVALID_IMAGE},
        {"!<arch>\nname/           0           0     0     644     99        `\n",
         CU_JIT_INPUT_LIBRARY, CUDA_ERROR_INVALID_IMAGE},
        {".version 7.0", CU_JIT_NUM_INPUT_TYPES, CUDA_ERROR_INVALID_VALUE},
        {"", CU_JIT_INPUT_PTX, CUDA_ERROR_INVALID_VALUE},
    };
    struct logs logs;
    CUlinkState linker = begin(&logs, 4);

    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        assert_int_equal(cuLinkAddData_v2(linker, inputs[i].type, (void *)(uintptr_t)inputs[i].data,
                                          strlen(inputs[i].data), "bad", 0, NULL, NULL),
                         inputs[i].result);
    assert_error(&logs, "'bad' is no PTX");
    assert_int_equal(cuLinkAddFile_v2(linker, CU_JIT_INPUT_PTX, "/nonexistent", 0, NULL, NULL),
                     CUDA_ERROR_FILE_NOT_FOUND);
    assert_ok(cuLinkDestroy(linker));
}

static void test_options_are_checked(void **state) {
    static const struct {
        uintptr_t value;
        CUjit_option option;
        CUresult of_whole, of_input;
    } options[] = {
        {4, CU_JIT_OPTIMIZATION_LEVEL, CUDA_SUCCESS, CUDA_SUCCESS},
        {5, CU_JIT_OPTIMIZATION_LEVEL, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE},
        {CU_TARGET_COMPUTE_75, CU_JIT_TARGET, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE},
        {7, CU_JIT_TARGET, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE},
        {0, CU_JIT_TARGET_FROM_CUCONTEXT, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE},
        {0, CU_JIT_WALL_TIME, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE},
        {CU_PREFER_PTX, CU_JIT_FALLBACK_STRATEGY, CUDA_ERROR_INVALID_VALUE,
         CUDA_ERROR_INVALID_VALUE},
        {CU_JIT_CACHE_OPTION_CA, CU_JIT_CACHE_MODE, CUDA_SUCCESS, CUDA_SUCCESS},
        {3, CU_JIT_CACHE_MODE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE},
        {1, CU_JIT_GENERATE_LINE_INFO, CUDA_SUCCESS, CUDA_SUCCESS},
        {0, (CUjit_option)1000, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE},
    };
    CUjit_option pair[] = {CU_JIT_TARGET, CU_JIT_THREADS_PER_BLOCK};
    void *values[] = {(void *)CU_TARGET_COMPUTE_75, (void *)32};
    CUlinkState linker, other;

    (void)state;
    assert_ok(cuLinkCreate(0, NULL, NULL, &linker));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        CUjit_option option = options[i].option;
        void *value = (void *)options[i].value;

        assert_int_equal(cuLinkCreate_v2(1, &option, &value, &other), options[i].of_whole);
        if (options[i].of_whole == CUDA_SUCCESS)
            assert_ok(cuLinkDestroy(other));
        assert_int_equal(cuLinkAddData(linker, CU_JIT_INPUT_PTX, (void *)(uintptr_t)head,
                                       sizeof head, "head", 1, &option, &value),
                         options[i].of_input);
    }
    assert_int_equal(cuLinkCreate_v2(2, pair, values, &other), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLinkCreate_v2(1, NULL, NULL, &other), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLinkCreate_v2(0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLinkComplete(linker, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLinkDestroy(linker));
    CUcontext context;
    assert_ok(cuCtxPopCurrent_v2(&context));
    assert_int_equal(cuLinkCreate_v2(0, NULL, NULL, &other), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuCtxPushCurrent_v2(context));
}

static void test_a_target_of_another_architecture_does_not_load(void **state) {
    CUjit_option option = CU_JIT_TARGET;
    void *value = (void *)CU_TARGET_COMPUTE_90, *cubin;
    CUlinkState linker;
    CUmodule module;

    (void)state;
    assert_ok(cuLinkCreate_v2(1, &option, &value, &linker));
    assert_ok(add_text(linker, helper_text, "helper"));
    assert_ok(cuLinkComplete(linker, &cubin, NULL));
    assert_int_equal(cuModuleLoadData(&module, cubin), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_ok(cuLinkDestroy(linker));
}

static void test_bounds_of_the_options_are_the_kernels(void **state) {
    CUjit_option options[] = {CU_JIT_MAX_REGISTERS, (CUjit_option)32 /* the block's threads */};
    void *values[] = {(void *)20, (void *)64}, *cubin;
    CUfunction function;
    CUlinkState linker;
    CUmodule module;

    (void)state;
    assert_ok(cuLinkCreate_v2(0, NULL, NULL, &linker));
    assert_ok(cuLinkAddData_v2(linker, CU_JIT_INPUT_PTX, (void *)(uintptr_t)kernels_text,
                               sizeof kernels_text, "kernels", 2, options, values));
    assert_ok(add_text(linker, helper_text, "helper"));
    assert_ok(cuLinkComplete(linker, &cubin, NULL));
    assert_ok(cuModuleLoadData(&module, cubin));
    assert_ok(cuModuleGetFunction(&function, module, "fill_u32"));
    assert_attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 20);
    assert_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 128); /* the text's */
    assert_ok(cuModuleGetFunction(&function, module, "sum_u32"));
    assert_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 64);
    assert_ok(cuModuleUnload(module));
    assert_ok(cuLinkDestroy(linker));
}

/* --- fatbins, objects and libraries --- */

struct bytes {
    unsigned char at[1 << 13];
    size_t size;
};

static void put(struct bytes *out, const void *what, size_t size) {
    assert_true(size <= sizeof out->at - out->size);
    memcpy(out->at + out->size, what, size);
    out->size += size;
}

static void put_fatbin(struct bytes *out, const char *text) {
    uint64_t content = (strlen(text) + 8) / 8 * 8, all = 64 + content;
    const uint32_t begin[] = {0xba55ed50, 16u << 16 | 1};
    unsigned char entry[64] = {1, 0, 1, 1, 64};
    const uint32_t architecture = 60;

    put(out, begin, sizeof begin);
    put(out, &all, sizeof all);
    memcpy(entry + 8, &content, sizeof content);
    memcpy(entry + 28, &architecture, sizeof architecture);
    put(out, entry, sizeof entry);
    put(out, text, strlen(text));
    memset(out->at + out->size, 0, content - strlen(text));
    out->size += content - strlen(text);
}

/* An object of the host's with one section of fatbins. */
static void put_object(struct bytes *out, const char *const *texts, size_t count) {
    static const char names[] = "\0.shstrtab\0__nv_relfatbin";
    size_t start = out->size;
    Elf64_Shdr sections[3] = {{0}};
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_REL,
                         .e_machine = EM_X86_64,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof *sections,
                         .e_shnum = 3,
                         .e_shstrndx = 1};

    put(out, &header, sizeof header);
    sections[1] = (Elf64_Shdr){.sh_name = 1,
                               .sh_type = SHT_STRTAB,
                               .sh_offset = out->size - start,
                               .sh_size = sizeof names};
    put(out, names, sizeof names);
    sections[2] =
        (Elf64_Shdr){.sh_name = 11, .sh_type = SHT_PROGBITS, .sh_offset = out->size - start};
    for (size_t i = 0; i < count; i++)
        put_fatbin(out, texts[i]);
    sections[2].sh_size = out->size - start - sections[2].sh_offset;
    header.e_shoff = out->size - start;
    memcpy(out->at + start, &header, sizeof header);
    put(out, sections, sizeof sections);
}

static void put_member(struct bytes *library, const struct bytes *content) {
    char field[61];

    snprintf(field, sizeof field, "%-16s%-12d%-6d%-6d%-8s%-10zu`\n", "member/", 0, 0, 0, "644",
             content->size);
    put(library, field, 60);
    put(library, content->at, content->size);
    if (content->size % 2 != 0)
        put(library, "\n", 1);
}

static CUresult add_bytes(CUlinkState linker, CUjitInputType type, const struct bytes *bytes) {
    return cuLinkAddData_v2(linker, type, (void *)(uintptr_t)bytes->at, bytes->size, "bytes", 0,
                            NULL, NULL);
}

static void test_fatbins_and_objects_are_linked(void **state) {
    static struct bytes fatbin, object;
    struct logs logs;
    CUlinkState linker = begin(&logs, 0);
    void *cubin;

    (void)state;
    put_fatbin(&fatbin, helper_text);
    assert_ok(add_text(linker, kernels_text, "kernels"));
    assert_ok(add_bytes(linker, CU_JIT_INPUT_FATBINARY, &fatbin));
    assert_ok(cuLinkComplete(linker, &cubin, NULL));
    assert_is_whole(cubin);
    assert_ok(cuLinkDestroy(linker));
    put_object(&object, (const char *[]){kernels_text, helper_text}, 2);
    linker = begin(&logs, 0);
    assert_ok(add_bytes(linker, CU_JIT_INPUT_OBJECT, &object));
    assert_ok(cuLinkComplete(linker, &cubin, NULL));
    assert_is_whole(cubin);
    assert_ok(cuLinkDestroy(linker));
}

/* The device runtime, with which kernels launch kernels, asks the device for them. */
static void test_what_the_device_itself_defines_is_needed_of_no_input(void **state) {
    static const char user[] = ".version 7.0\n.target sm_60\n"
                               ".extern .func __cuda_syscall_cnpv2LaunchDevice();\n"
                               ".extern .func cnpGetLastError();\n"
                               ".extern .func cnGetLastError();\n"
                               ".visible .entry fill_u32() { ret; }\n";
    struct logs logs;
    CUlinkState linker = begin(&logs, 5);
    void *cubin;

    (void)state;
    assert_ok(add_text(linker, user, "user"));
    assert_int_equal(cuLinkComplete(linker, &cubin, NULL), CUDA_ERROR_UNKNOWN);
    assert_error(&logs, "Undefined reference to 'cnGetLastError' in 'user'\n");
    assert_null(strstr(logs.error, "cnp"));
    assert_ok(cuLinkDestroy(linker));
}

/* A library's member counts where it is needed, and so does what that needs. */
static void test_members_of_a_library_are_taken_on_demand(void **state) {
    static const char user[] = ".version 7.0\n.target sm_60\n"
                               ".extern .func middle();\n"
                               ".visible .entry fill_u32() { ret; }\n";
    static const char middle[] = ".version 7.0\n.target sm_60\n"
                                 ".extern .func last();\n"
                                 ".visible .func middle() { ret; }\n";
    static const char last[] = ".version 7.0\n.target sm_60\n"
                               ".visible .global .u32 marker = 5;\n"
                               ".visible .func last() { ret; }\n";
    static const char other[] = ".version 7.0\n.target sm_60\n"
                                ".visible .entry fill_u32() { ret; }\n"
                                ".extern .func absent();\n";
    static struct bytes library, member;
    const char *const texts[] = {last, other, middle};
    char path[] = "/tmp/simcuda-library-XXXXXX";
    CUlinkState linker;
    CUmodule module;
    void *cubin;
    int file = mkstemp(path);

    (void)state;
    put(&library, "!<arch>\n", 8);
    member.size = 3;
    memcpy(member.at, "abc", 3);
    put_member(&library, &member); /* an index, or whatever else is no object */
    for (size_t i = 0; i < 3; i++) {
        member.size = 0;
        put_object(&member, &texts[i], 1);
        put_member(&library, &member);
    }
    assert_int_equal(write(file, library.at, library.size), library.size);
    assert_ok(cuLinkCreate_v2(0, NULL, NULL, &linker));
    assert_ok(cuLinkAddFile(linker, CU_JIT_INPUT_LIBRARY, path, 0, NULL, NULL));
    assert_ok(add_text(linker, user, "user"));
    assert_ok(cuLinkComplete(linker, &cubin, NULL));
    assert_ok(cuModuleLoadData(&module, cubin));
    assert_value(module, "marker", &(uint32_t){5}, 4);
    assert_ok(cuModuleUnload(module));
    assert_ok(cuLinkDestroy(linker));
    close(file);
    unlink(path);
}

/* Whatever is cut off or changed, each input ends with a result (and AddressSanitizer is content).
 */
static void test_cut_and_changed_inputs_end_with_a_result(void **state) {
    static struct bytes object, library;
    CUlinkState linker;

    (void)state;
    put_object(&object, (const char *[]){helper_text, head}, 2);
    put(&library, "!<arch>\n", 8);
    put_member(&library, &object);
    assert_ok(cuLinkCreate_v2(0, NULL, NULL, &linker));
    for (size_t i = 1; i < object.size; i++) {
        struct bytes cut = object;

        cut.size = i;
        add_bytes(linker, CU_JIT_INPUT_OBJECT, &cut);
        cut.size = object.size;
        cut.at[i] ^= 0x5a;
        add_bytes(linker, CU_JIT_INPUT_OBJECT, &cut);
        cut = library;
        cut.at[i] ^= 0x5a;
        add_bytes(linker, CU_JIT_INPUT_LIBRARY, &cut);
    }
    assert_ok(cuLinkDestroy(linker));
}

static void test_a_load_writes_its_logs(void **state) {
    struct logs logs;
    CUmodule module;

    (void)state;
    assert_ok(cuLinkDestroy(begin(&logs, 0)));
    assert_ok(cuModuleLoadDataEx(&module, helper_text, 6, logs.options, logs.values));
    assert_ok(cuModuleUnload(module));
    assert_non_null(strstr(logs.info, "sum_u32"));
    assert_int_equal((uintptr_t)logs.values[1], strlen(logs.info));
    assert_string_equal(logs.error, "");
    assert_int_equal((uintptr_t)logs.values[3], 0);
    assert_ok(cuLinkDestroy(begin(&logs, 0)));
    assert_int_equal(
        cuModuleLoadDataEx(&module, ".version 7.0\n.entry f() {", 5, logs.options, logs.values),
        CUDA_ERROR_INVALID_PTX);
    assert_error(&logs, "line 2: '}' is expected");
}

static void *link_often(void *failed) {
    for (int i = 0; i < 50; i++) {
        CUlinkState linker;
        CUmodule module;
        void *cubin;

        if (cuCtxSetCurrent(test_context) != CUDA_SUCCESS ||
            cuLinkCreate_v2(0, NULL, NULL, &linker) != CUDA_SUCCESS ||
            add_text(linker, kernels_text, "kernels") != CUDA_SUCCESS ||
            add_text(linker, helper_text, "helper") != CUDA_SUCCESS ||
            cuLinkComplete(linker, &cubin, NULL) != CUDA_SUCCESS ||
            cuModuleLoadData(&module, cubin) != CUDA_SUCCESS ||
            cuLinkDestroy(linker) != CUDA_SUCCESS || cuModuleUnload(module) != CUDA_SUCCESS)
            *(bool *)failed = true;
    }
    return NULL;
}

static void test_threads_link_beside_each_other(void **state) {
    pthread_t threads[4];
    bool failed[4] = {false};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, link_often, &failed[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(failed[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_link_beside_each_other),
        cmocka_unit_test(test_texts_become_one_image),
        cmocka_unit_test(test_a_linked_image_is_a_librarys_too),
        cmocka_unit_test(test_texts_of_gcc_are_linked),
        cmocka_unit_test(test_what_nobody_defines_is_an_error),
        cmocka_unit_test(test_what_two_define_is_an_error),
        cmocka_unit_test(test_logs_end_where_their_buffer_does),
        cmocka_unit_test(test_damaged_inputs),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_a_target_of_another_architecture_does_not_load),
        cmocka_unit_test(test_bounds_of_the_options_are_the_kernels),
        cmocka_unit_test(test_fatbins_and_objects_are_linked),
        cmocka_unit_test(test_what_the_device_itself_defines_is_needed_of_no_input),
        cmocka_unit_test(test_members_of_a_library_are_taken_on_demand),
        cmocka_unit_test(test_cut_and_changed_inputs_end_with_a_result),
        cmocka_unit_test(test_a_load_writes_its_logs),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
