/* Which PTX is loaded, what initial values mean, and that no text, however odd, ends the process.
 */
#include "test_ptx.h"

#include <ctype.h>

/* As in a locale whose numbers have a comma, which is the program's own affair. */
double strtod(const char *text, char **end) {
    double value = 0;

    for (; isdigit((unsigned char)*text); text++)
        value = value * 10 + (*text - '0');
    if (end != NULL)
        *end = (char *)text;
    return value;
}

static CUresult load(const char *text, char *log, size_t room) {
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)room};
    CUmodule module;
    CUresult result = cuModuleLoadDataEx(&module, text, 2, options, values);

    if (result == CUDA_SUCCESS)
        assert_ok(cuModuleUnload(module));
    return result;
}

static void assert_refused(const char *text, const char *expected) {
    char log[1024] = "";

    assert_int_equal(load(text, log, sizeof log), CUDA_ERROR_INVALID_PTX);
    if (strstr(log, expected) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", expected, log);
}

/* The parser calls itself for what is nested: a deep text must not use up the stack. */
static void test_what_is_nested_too_deep_fails_the_load(void **state) {
    enum { DEPTH = 200000 };
    static const struct {
        const char *before, *open, *behind, *expected;
        bool is_body;
    } deep[] = {
        {".global .u32 x = ", "(", "1;", "line 4: an expression has too many parts", false},
        {".global .u32 x = ", "- ", "1;", "line 4: an expression has too many parts", false},
        {".global .u32 x = ", "1?1:", "1;", "line 4: an expression has too many parts", false},
        {".global .u32 x[2] = ", "{", "1;", "line 4: there are too many braces", false},
        {".visible .entry k() { .reg .u32 %r1; ld.global.u32 %r1, ", "[", "1;}",
         "line 4: there are too many", true},
        {".visible .entry k() { ld.global.v2.u32 ", "{", "1;}", "line 4: there are too many", true},
        {".visible .entry k() { call ", "(", "1;}", "line 4: there are too many operands", true},
    };
    char *text = malloc(DEPTH * 5 + 1024);

    (void)state;
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        char *at = text + sprintf(text, "%s%s", PTX_HEAD, deep[i].before);

        for (int k = 0; k < DEPTH; k++)
            at = stpcpy(at, deep[i].open);
        at = stpcpy(at, deep[i].behind);
        for (int k = 0; deep[i].is_body && *deep[i].open == '{' && k < DEPTH; k++)
            at = stpcpy(at, "}"); /* a body ends with the brace that its first one needs */
        assert_refused(text, deep[i].expected);
    }
    free(text);
}

static void test_declarations_that_cannot_be_fail_the_load(void **state) {
    static const char *const bad[][2] = {
        /* "Kernel and Function Directives: .alias": an alias ends at a function */
        {".func f() { ret; }\n.alias f, f;", "line 5: 'f' is a function"},
        {".func f();\n.func g();\n.alias f, g;\n.alias g, f;", "line 7: 'g' is a function"},
        {".func g() { ret; }\n.func f();\n.alias f, g;\n.func f() { ret; }",
         "line 7: 'f' is an alias"},
        {".extern .shared .u32 x[];\n.global .u32 x[4];", "line 5: 'x' is declared in two"},
        {".extern .global .u32 x[];\n.shared .u32 x[4];", "line 5: 'x' is declared in two"},
        {".global .u32 x;\n.global .u32 x;", "line 5: 'x' is defined twice"},
        {".shared .u32 s[4];\n.global .u64 x = s;", "'s', an initial value of 'x', is in shared"},
        {".local .u32 x[4];", "line 4: a directive is expected before 'local'"},
        {".global .align 9223372036854775808 .u32 x;", "line 4: an alignment is to be"},
        {".visible .entry k(.param .align 9223372036854775808 .b8 x[4]) { ret; }",
         "line 4: an alignment is to be"},
        {".visible .entry k(.param .b8 x[1000000000000]) { ret; }", "line 4: 'x' is too large"},
        {".visible .entry k() {\n.shared .b8 x[1000000000000]; ret; }", "line 5: 'x' is too large"},
        {".global .b8 x[1000000000000] = {1};", "line 4: 'x' is too large"},
        {".global .b8 x = 0x1ff(y);", "line 4: a mask is to select 8 bits"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[1024];

        snprintf(text, sizeof text, "%s%s\n", PTX_HEAD, bad[i][0]);
        assert_refused(text, bad[i][1]);
    }
}

static void test_too_many_predicates_fail_the_load(void **state) {
    enum { DECLARATIONS = 1100 };
    char *text = malloc(DECLARATIONS * 64 + 1024);
    char *at = text + sprintf(text, "%s.visible .entry k() {\n", PTX_HEAD);

    (void)state;
    for (int i = 0; i < DECLARATIONS; i++)
        at += sprintf(at, ".reg .pred %%p%d_<4194000>;\n", i);
    stpcpy(at, "ret; }\n");
    assert_refused(text, "line 6: there are too many registers");
    free(text);
}

/* PTX ISA, "Integer Constant Expression Evaluation", "Variable Initialization". */
static void test_initial_values_are_what_their_expressions_say(void **state) {
    static const struct {
        const char *text;
        uint64_t expected;
    } cases[] = {
        {"-5+3", (uint64_t)-2},
        {"- 5 + 3", (uint64_t)-2},
        {"10-4+3", 9},
        {"1 ? 7 : 8", 7},
        {"0 ? 7 : 2 > 1 ? 5 : 6", 5},
        {"(1 ? 7 : 8) * 2", 14},
        {"0xffffffffffffffff >> 60", 15},
        {"(.s64)0xffffffffffffffff >> 60", UINT64_MAX},
        {"-16 >> 2", (uint64_t)-4},
        {"0xfffffffffffffff0U / 0x4000000000000000U", 3},
        {"-7 / 2", (uint64_t)-3},
        {"-7 % 4", (uint64_t)-3},
        {"-1 < 1", 1},
        {"(.u64)-1 < 1", 0},
        {"1 << 2 + 3", 32},
        {"WARP_SZ * 2 - 1", 63},
        {"~0 & 0xff | 0x100", 0x1ff},
        {"!5 + !0", 1},
    };
    CUmodule module;
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CUdeviceptr at;
        uint64_t value = 0;
        size_t size;

        snprintf(text, sizeof text, "%s.visible .global .u64 x = %s;\n", PTX_HEAD, cases[i].text);
        module = load_ptx(text);
        assert_ok(cuModuleGetGlobal_v2(&at, &size, module, "x"));
        assert_ok(cuMemcpyDtoH_v2(&value, at, sizeof value));
        if (value != cases[i].expected)
            fail_msg("%s: %lld", cases[i].text, (long long)value);
        assert_ok(cuModuleUnload(module));
    }
}

/* "Array Declarations": an extent is a constant expression. */
static void test_extents_are_expressions(void **state) {
    static const char text[] =
        PTX_HEAD ".visible .global .align 4 .u8 x[0x4 * 2][1 + 1] = {{1, 2}, {3, 4}, {5, 6}};\n"
                 ".visible .entry k(.param .u64 to, .param .align 4 .b8 p[2 * 0x4]) {\n"
                 ".reg .u64 %l; .reg .u32 %r; ld.param.u64 %l, [to]; ld.param.u32 %r, [p+4];\n"
                 "st.global.u32 [%l], %r; ret;\n}\n";
    const uint32_t parameter[2] = {8, 9};
    CUmodule module = load_ptx(text);
    CUfunction function;
    CUdeviceptr x;
    uint32_t value = 0;
    size_t size;

    (void)state;
    assert_ok(cuModuleGetGlobal_v2(&x, &size, module, "x"));
    assert_int_equal(size, 16);
    assert_ok(cuMemcpyDtoH_v2(&value, x + 2, sizeof value));
    assert_int_equal(value, 0x06050403);
    assert_ok(cuModuleGetFunction(&function, module, "k"));
    assert_ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
                             (void *[]){&x, (void *)(uintptr_t)parameter}, NULL));
    assert_ok(cuMemcpyDtoH_v2(&value, x, sizeof value));
    assert_int_equal(value, 9);
    assert_ok(cuModuleUnload(module));
}

static void test_offsets_of_addresses_are_expressions_with_a_sign(void **state) {
    uint64_t *results =
        results_of(PTX_HEAD PTX_KERNEL("k", ".reg .u64 %l<4>;\n",
                                       "mov.u64 %l1, 7; st.global.u64 [%out-4+4], %l1;\n"
                                       "add.u64 %l2, %out, 16; ld.global.u64 %l3, [%l2-8-8];\n"
                                       "add.u64 %l3, %l3, 1; st.global.u64 [%out+4-4], %l3;\n"),
                   1, 1, 0);

    (void)state;
    assert_int_equal(results[0], 8);
    free(results);
}

/* "Initializers", "mask() operator": so nvcc writes pointers in packed structs. */
static void test_an_initial_value_may_be_a_byte_of_an_address(void **state) {
    static const char text[] = PTX_HEAD
        ".visible .global .u32 y[4] = {1, 2, 3, 4};\n"
        ".visible .global .align 1 .u8 x[9] = {1, 0XFF(generic(y)+8), 0xFF00(generic(y)+8),\n"
        "0xFF0000(generic(y)+8), 0xFF000000(generic(y)+8), 0xFF00000000(y+8),\n"
        "0xFF0000000000(y+8), 0xFF000000000000(y+8), 0xFF00000000000000(y+8)};\n";
    CUmodule module = load_ptx(text);
    CUdeviceptr x, y, held;
    unsigned char bytes[9];
    size_t size;

    (void)state;
    assert_ok(cuModuleGetGlobal_v2(&x, &size, module, "x"));
    assert_int_equal(size, sizeof bytes);
    assert_ok(cuModuleGetGlobal_v2(&y, &size, module, "y"));
    assert_ok(cuMemcpyDtoH_v2(bytes, x, sizeof bytes));
    memcpy(&held, bytes + 1, sizeof held);
    assert_int_equal(bytes[0], 1);
    assert_int_equal(held, y + 8);
    assert_ok(cuModuleUnload(module));
}

/* "Control Flow Instructions: call": arguments may be constants, whose types the prototype says. */
static void test_constants_that_a_function_by_address_takes_have_its_types(void **state) {
    static const char text[] = PTX_HEAD
        ".func (.param .b32 r) f(.param .f32 a) {\n.reg .f32 %f<3>;\n"
        "ld.param.f32 %f1, [a]; add.f32 %f2, %f1, %f1; st.param.f32 [r], %f2; ret;\n}\n" PTX_KERNEL(
            "k", ".reg .u64 %l<4>; .reg .u32 %r<2>; .param .b32 r;\n",
            "how: .callprototype (.param .b32 _) _ (.param .f32 _);\n"
            "mov.u64 %l1, f; call (r), %l1, (1.5), how;\n"
            "ld.param.b32 %r1, [r]; cvt.u64.u32 %l2, %r1; st.global.u64 [%out], %l2;\n");
    uint64_t *results = results_of(text, 1, 1, 0);

    (void)state;
    assert_int_equal(results[0], 0x40400000);
    free(results);
}

static void test_numbers_have_a_point_in_every_locale(void **state) {
    static const char text[] = PTX_HEAD ".visible .global .f64 x = 2.5;\n";
    CUmodule module = load_ptx(text);
    CUdeviceptr x;
    double value;
    size_t size;

    (void)state;
    assert_ok(cuModuleGetGlobal_v2(&x, &size, module, "x"));
    assert_ok(cuMemcpyDtoH_v2(&value, x, sizeof value));
    assert_true(value == 2.5);
    assert_ok(cuModuleUnload(module));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_nested_too_deep_fails_the_load),
        cmocka_unit_test(test_declarations_that_cannot_be_fail_the_load),
        cmocka_unit_test(test_too_many_predicates_fail_the_load),
        cmocka_unit_test(test_initial_values_are_what_their_expressions_say),
        cmocka_unit_test(test_extents_are_expressions),
        cmocka_unit_test(test_offsets_of_addresses_are_expressions_with_a_sign),
        cmocka_unit_test(test_an_initial_value_may_be_a_byte_of_an_address),
        cmocka_unit_test(test_constants_that_a_function_by_address_takes_have_its_types),
        cmocka_unit_test(test_numbers_have_a_point_in_every_locale),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
