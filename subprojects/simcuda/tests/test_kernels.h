/* The kernels that the tests launch, as PTX. Each may be launched with any grid of one dimension:
 * elements are divided among all threads, and the result does not depend on how many there are. */
#ifndef SIMCUDA_TEST_KERNELS_H
#define SIMCUDA_TEST_KERNELS_H

#define KERNELS_HEAD                                                                               \
    ".version 7.0\n"                                                                               \
    ".target sm_52\n"                                                                              \
    ".address_size 64\n"

/* The statements for each `i` of a thread below the parameter `count`, with %t = 4 * i. */
#define FOR_ELEMENTS(...)                                                                          \
    "  .reg .pred %p; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %i, %t, %step, %n, %a<9>;\n"     \
    "  ld.param.u64 %n, [count];\n"                                                                \
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, "            \
    "%nctaid.x;\n"                                                                                 \
    "  mul.wide.u32 %i, %r1, %r2; cvt.u64.u32 %t, %r3; add.u64 %i, %i, %t;\n"                      \
    "  mul.wide.u32 %step, %r2, %r4;\n"                                                            \
    "LOOP:\n"                                                                                      \
    "  setp.ge.u64 %p, %i, %n;\n"                                                                  \
    "  @%p bra DONE;\n"                                                                            \
    "  shl.b64 %t, %i, 2;\n" __VA_ARGS__ "  add.u64 %i, %i, %step;\n"                              \
    "  bra LOOP;\n"                                                                                \
    "DONE:\n"

/* The parameter `name`, an array, at this element: %a`n`. */
#define ELEMENT(name, n) "  ld.param.u64 %a" #n ", [" #name "]; add.u64 %a" #n ", %a" #n ", %t;\n"

/* fill_u32(u32 *to, u64 count, u32 value): to[i] = value */
#define FILL_BODY                                                                                  \
    FOR_ELEMENTS(ELEMENT(to, 1) "  ld.param.u32 %r5, [value]; st.global.u32 [%a1], %r5;\n")        \
    "  ret;\n}\n"
#define FILL_PTX                                                                                   \
    ".visible .entry fill_u32(.param .u64 to, .param .u64 count, .param .u32 value) {\n" FILL_BODY

/* sum_u32(const u32 *from, u64 count, u64 *sum): *sum += from[i] */
#define SUM_PTX                                                                                    \
    ".entry sum_u32(.param .u64 from, .param .u64 count, .param .u64 sum) {\n" FOR_ELEMENTS(       \
        ELEMENT(from, 1) "  ld.global.u32 %r5, [%a1]; cvt.u64.u32 %a2, %r5;\n"                     \
                         "  add.u64 %a3, %a3, %a2;\n") "  ld.param.u64 %a1, [sum]; "               \
                                                       "red.global.add.u64 [%a1], %a3; ret;\n}\n"

/* scale_f32(float *x, u64 count, float factor): x[i] *= factor */
#define SCALE_PTX                                                                                  \
    ".visible .entry scale_f32(.param .u64 x, .param .u64 count, .param .f32 factor) "             \
    "{\n" FOR_ELEMENTS(                                                                            \
        ELEMENT(x, 1) "  ld.param.f32 %f1, [factor]; ld.global.f32 %f2, [%a1];\n"                  \
                      "  mul.rn.f32 %f2, %f2, %f1; st.global.f32 [%a1], %f2;\n") "  ret;\n}\n"

/* Keeps the thread busy for %n nanoseconds. */
#define SPIN_PTX                                                                                   \
    "  mov.u64 %start, %globaltimer;\n"                                                            \
    "SPIN:\n"                                                                                      \
    "  mov.u64 %now, %globaltimer; sub.u64 %now, %now, %start; setp.lt.u64 %p, %now, %n;\n"        \
    "  @%p bra SPIN;\n"

static const char kernels_ptx[] = KERNELS_HEAD FILL_PTX
    ".visible " SUM_PTX SCALE_PTX
    /* add_u32(u32 *to, const u32 *a, const u32 *b, u64 count): to[i] = a[i] + b[i] */
    ".visible .entry add_u32(.param .u64 to, .param .u64 a, .param .u64 b, .param .u64 count) "
    "{\n" FOR_ELEMENTS(ELEMENT(a, 1) ELEMENT(b, 2) ELEMENT(
        to,
        3) "  ld.global.u32 %r5, [%a1]; ld.global.u32 %r6, [%a2]; add.u32 %r5, %r5, %r6;\n"
           "  st.global.u32 [%a3], %r5;\n") "  ret;\n}\n"
                                            /* saxpy_f32(float *y, const float *x, u64 count, float
                                               a): y[i] = a * x[i] + y[i] */
                                            ".visible .entry saxpy_f32(.param .u64 y, .param .u64 "
                                            "x, .param .u64 count, .param .f32 a) {\n" FOR_ELEMENTS(
                                                ELEMENT(x, 1)
                                                    ELEMENT(y, 2) "  ld.param.f32 %f1, [a]; "
                                                                  "ld.global.f32 %f2, [%a1]; "
                                                                  "ld.global.f32 %f3, [%a2];\n"
                                                                  "  fma.rn.f32 %f3, %f1, %f2, "
                                                                  "%f3; st.global.f32 [%a2], "
                                                                  "%f3;\n") "  ret;\n}\n"
                                                                            /* spin_ns(u64 ns) keeps
                                                                               its stream busy for
                                                                               so long */
                                                                            ".visible .entry "
                                                                            "spin_ns(.param .u64 "
                                                                            "ns) {\n"
                                                                            "  .reg .pred %p; .reg "
                                                                            ".b64 %n, %start, "
                                                                            "%now;\n"
                                                                            "  ld.param.u64 %n, "
                                                                            "[ns];\n" SPIN_PTX
                                                                            "  ret;\n}\n"
                                                                            /* wait_flag(const
                                                                               volatile u32 *flag)
                                                                               runs until *flag != 0
                                                                             */
                                                                            ".visible .entry "
                                                                            "wait_flag(.param .u64 "
                                                                            "flag) {\n"
                                                                            "  .reg .pred %p; .reg "
                                                                            ".b32 %r; .reg .b64 "
                                                                            "%a;\n"
                                                                            "  ld.param.u64 %a, "
                                                                            "[flag];\n"
                                                                            "LOOP:\n"
                                                                            "  "
                                                                            "ld.volatile.global."
                                                                            "u32 %r, [%a]; "
                                                                            "setp.eq.u32 %p, %r, "
                                                                            "0;\n"
                                                                            "  @%p bra LOOP;\n"
                                                                            "  ret;\n}\n"
                                                                            /* fault() writes to
                                                                               address 0, which
                                                                               costs the context */
                                                                            ".visible .entry "
                                                                            "fault() {\n"
                                                                            "  .reg .b32 %r; .reg "
                                                                            ".b64 %a;\n"
                                                                            "  mov.u64 %a, 0; "
                                                                            "mov.u32 %r, 1; "
                                                                            "st.global.u32 [%a], "
                                                                            "%r; ret;\n}\n";

#endif
