/* Each form of an instruction that computes, by hand: that its text leads to its function, that its
 * operands are in their places and its modifiers do what they say. The expected values are worked
 * out from the PTX ISA. */
#include "test_ptx.h"

/* The operands are in %r1 to %r4, %l1 to %l4, %h1 to %h4, %f1 to %f4 and %d1 to %d4, the same bits
 * in all; %p1 and %p2 are whether a and b are not 0. `to` names the result: r, l, h, f, d or p. */
struct instruction_case {
    char to;
    const char *text;
    uint64_t a, b, c;
    uint64_t expected;
};

#define F1   0x3f800000u /* 1.0f */
#define F2   0x40000000u
#define F3   0x40400000u
#define D1   0x3ff0000000000000ull
#define D2   0x4000000000000000ull
#define D3   0x4008000000000000ull
#define FINF 0x7f800000u

static const struct instruction_case cases[] = {
    /* Integer arithmetic. */
    {'r', "add.s32 %r0, %r1, %r2", 7, 0xffffffff, 0, 6},
    {'r', "add.sat.s32 %r0, %r1, %r2", 0x7fffffff, 1, 0, 0x7fffffff},
    {'l', "add.u64 %l0, %l1, -1", 1ull << 40, 0, 0, (1ull << 40) - 1},
    {'h', "sub.u16 %h0, %h1, %h2", 1, 2, 0, 0xffff},
    {'r', "mul.lo.u32 %r0, %r1, %r2", 0x10001, 0x10001, 0, 0x20001},
    {'r', "mul.hi.s32 %r0, %r1, %r2", 0xffffffff, 2, 0, 0xffffffff},
    {'r', "mul.hi.u32 %r0, %r1, %r2", 0xffffffff, 2, 0, 1},
    {'l', "mul.hi.u64 %l0, %l1, %l2", 1ull << 63, 4, 0, 2},
    {'l', "mul.wide.s32 %l0, %r1, %r2", 0xffffffff, 2, 0, (uint64_t)-2},
    {'l', "mul.wide.u32 %l0, %r1, %r2", 0xffffffff, 2, 0, 0x1fffffffe},
    {'r', "mul.wide.s16 %r0, %h1, %h2", 0xffff, 2, 0, 0xfffffffe},
    {'r', "mad.lo.s32 %r0, %r1, %r2, %r3", 3, 4, 5, 17},
    {'l', "mad.wide.u32 %l0, %r1, %r2, %l3", 3, 4, 1ull << 40, (1ull << 40) + 12},
    {'r', "mad.hi.u32 %r0, %r1, %r2, %r3", 0x80000000, 4, 5, 7},
    {'r', "mul24.lo.s32 %r0, %r1, %r2", 0x1000003, 5, 0, 15},
    {'r', "sad.s32 %r0, %r1, %r2, %r3", 0xffffffff, 4, 10, 15},
    {'r', "div.s32 %r0, %r1, %r2", (uint32_t)-7, 2, 0, (uint32_t)-3},
    {'r', "rem.s32 %r0, %r1, %r2", (uint32_t)-7, 2, 0, (uint32_t)-1},
    {'l', "div.u64 %l0, %l1, %l2", 100, 7, 0, 14},
    {'r', "abs.s32 %r0, %r1", (uint32_t)-9, 0, 0, 9},
    {'r', "neg.s32 %r0, %r1", 9, 0, 0, (uint32_t)-9},
    {'r', "min.s32 %r0, %r1, %r2", (uint32_t)-9, 4, 0, (uint32_t)-9},
    {'r', "max.u32 %r0, %r1, %r2", (uint32_t)-9, 4, 0, (uint32_t)-9},
    {'r', "max.s16x2 %r0, %r1, %r2", 0xffff0002, 0x0001ffff, 0, 0x00010002},
    {'r', "dp4a.u32.u32 %r0, %r1, %r2, %r3", 0x01020304, 0x01010101, 100, 110},
    {'r', "dp2a.lo.s32.u32 %r0, %r1, %r2, %r3", 0xffff0002, 0x0304, 10, 10 + 8 - 3},
    {'r', "add.cc.u32 %r0, %r1, %r2; addc.u32 %r0, 0, 0", 0xffffffff, 1, 0, 1},
    {'r', "sub.cc.u32 %r0, %r1, %r2; subc.u32 %r0, 5, 0", 0, 1, 0, 4},
    {'r', "sub.cc.u32 %r0, %r1, %r2; subc.u32 %r0, 5, 0", 1, 1, 0, 5},
    {'r', "sub.cc.u32 %r0, %r1, %r2; addc.u32 %r0, 0, 0", 0, 1, 0, 0}, /* as nvcc's division */
    {'r', "sub.cc.u32 %r0, %r1, %r2; addc.u32 %r0, 0, 0", 1, 1, 0, 1},
    {'r', "add.cc.u32 %r0, %r1, %r2; subc.u32 %r0, 5, 0", 1, 1, 0, 4},
    {'r', "add.cc.u32 %r0, %r1, %r2; subc.cc.u32 %r0, 5, 5; addc.u32 %r0, 0, 0", UINT32_MAX, 1, 0,
     1},
    {'l', "sub.cc.u64 %l0, %l1, %l2; subc.cc.u64 %l0, 0, 0; addc.u64 %l0, 0, 0", 0, 1, 0, 0},
    {'r', "mad.lo.cc.u32 %r0, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, 0", 0xffffffff, 1, 1, 1},
    {'l', "add.cc.u64 %l0, %l1, %l2; addc.cc.u64 %l0, 0, 0; addc.u64 %l0, 0, 0", UINT64_MAX, 1, 0,
     0},
    {'d', "cvt.rn.sat.f64.s32 %d0, %r1", 5, 0, 0, D1}, /* "cvt": .sat is for .f64, too */
    {'d', "cvt.rn.sat.f64.s64 %d0, %l1", (uint64_t)-5, 0, 0, 0},
    {'d', "cvt.rz.sat.f64.u64 %d0, %l1", UINT64_MAX, 0, 0, D1},
    /* Logic, shifts, bits. */
    {'r', "and.b32 %r0, %r1, %r2", 0xff00ff, 0xf0f0f0f, 0, 0xf000f},
    {'l', "or.b64 %l0, %l1, %l2", 1ull << 50, 3, 0, (1ull << 50) + 3},
    {'h', "xor.b16 %h0, %h1, %h2", 0xff, 0xf0, 0, 0x0f},
    {'r', "not.b32 %r0, %r1", 0xff, 0, 0, 0xffffff00},
    {'r', "cnot.b32 %r0, %r1", 0, 0, 0, 1},
    {'r', "shl.b32 %r0, %r1, %r2", 3, 32, 0, 0},
    {'r', "shr.s32 %r0, %r1, %r2", 0x80000000, 40, 0, 0xffffffff},
    {'r', "shr.u32 %r0, %r1, 4", 0x80000000, 0, 0, 0x08000000},
    {'r', "shf.l.wrap.b32 %r0, %r1, %r2, %r3", 0x80000000, 1, 1, 3},
    {'r', "shf.r.clamp.b32 %r0, %r1, %r2, %r3", 0x80000000, 1, 32, 1},
    {'r', "lop3.b32 %r0, %r1, %r2, %r3, 0x96", 0xf0, 0xcc, 0xaa, 0xf0 ^ 0xcc ^ 0xaa},
    {'p', "lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x80, %p2", 1, 0, 1, 0},
    {'r', "popc.b32 %r0, %r1", 0xf0f0, 0, 0, 8},
    {'r', "popc.b64 %r0, %l1", UINT64_MAX, 0, 0, 64},
    {'r', "clz.b32 %r0, %r1", 1, 0, 0, 31},
    {'r', "clz.b64 %r0, %l1", 0, 0, 0, 64},
    {'r', "brev.b32 %r0, %r1", 1, 0, 0, 0x80000000},
    {'r', "bfind.u32 %r0, %r1", 0x100, 0, 0, 8},
    {'r', "bfind.shiftamt.s32 %r0, %r1", 0x100, 0, 0, 23},
    {'r', "fns.b32 %r0, %r1, 0, %r2", 0xaa, 2, 0, 3},
    {'r', "bfe.u32 %r0, %r1, %r2, %r3", 0xabcd, 4, 8, 0xbc},
    {'r', "bfe.s32 %r0, %r1, %r2, %r3", 0xabcd, 4, 8, 0xffffffbc},
    {'l', "bfe.u64 %l0, %l1, %r2, %r3", 0xabcdull << 32, 36, 8, 0xbc},
    {'r', "bfi.b32 %r0, %r1, %r2, %r3, 8", 0xbc, 0xffffffff, 4, 0xfffffbcf},
    {'l', "bfi.b64 %l0, %l1, %l2, 32, 32", 5, 6, 0, (5ull << 32) + 6},
    {'r', "bmsk.clamp.b32 %r0, %r1, %r2", 4, 8, 0, 0xff0},
    {'r', "szext.wrap.s32 %r0, %r1, %r2", 0x80, 8, 0, 0xffffff80},
    {'r', "prmt.b32 %r0, %r1, %r2, 0x5410", 0x11112222, 0x33334444, 0, 0x44442222},
    {'r', "prmt.b32.rc8 %r0, %r1, %r2, %r3", 0x11223344, 0, 1, 0x33333333},
    /* Floating point. */
    {'f', "add.f32 %f0, %f1, %f2", F1, F2, 0, F3},
    {'f', "add.rz.f32 %f0, %f1, %f2", F1, 0x33ffffff, 0, F1},
    {'f', "add.rp.f32 %f0, %f1, %f2", F1, 1, 0, F1 + 1},
    {'f', "add.ftz.f32 %f0, %f1, %f2", 1, 1, 0, 0},
    {'f', "add.sat.f32 %f0, %f1, %f2", F1, F2, 0, F1},
    {'f', "mul.rn.f32 %f0, %f1, 0f40000000", F1, 0, 0, F2},
    {'f', "sub.f32 %f0, %f1, 1.0", F3, 0, 0, F2},
    {'f', "fma.rn.f32 %f0, %f1, %f2, %f3", F1, F2, F1, F3},
    {'f', "fma.rz.ftz.sat.f32 %f0, %f1, %f2, %f3", F1, F2, F1, F1},
    {'f', "mad.rn.f32 %f0, %f1, %f2, %f3", F1, F2, F1, F3},
    {'f', "div.rn.f32 %f0, %f1, %f2", F2, F2, 0, F1},
    {'f', "div.rz.f32 %f0, %f1, %f2", F1, F3, 0, 0x3eaaaaaa},
    {'f', "div.full.ftz.f32 %f0, %f1, %f2", F2, F1, 0, F2},
    {'f', "rcp.approx.ftz.f32 %f0, %f1", F2, 0, 0, 0x3f000000},
    {'f', "sqrt.rn.f32 %f0, %f1", 0x40800000, 0, 0, F2},
    {'f', "rsqrt.approx.f32 %f0, %f1", 0x40800000, 0, 0, 0x3f000000},
    {'f', "ex2.approx.ftz.f32 %f0, %f1", F1, 0, 0, F2},
    {'f', "lg2.approx.f32 %f0, %f1", F2, 0, 0, F1},
    {'f', "cos.approx.f32 %f0, %f1", 0, 0, 0, F1},
    {'f', "neg.f32 %f0, %f1", F1, 0, 0, F1 | 0x80000000},
    {'f', "abs.ftz.f32 %f0, %f1", F1 | 0x80000000, 0, 0, F1},
    {'f', "min.f32 %f0, %f1, %f2", F1, 0x7fc00000, 0, F1},
    {'f', "max.NaN.f32 %f0, %f1, %f2", F1, 0x7fc00000, 0, 0x7fffffff},
    {'f', "max.f32 %f0, %f1, %f2, %f3", F1, F3, F2, F3},
    {'f', "copysign.f32 %f0, %f1, %f2", 0x80000000, F2, 0, F2 | 0x80000000},
    {'d', "add.f64 %d0, %d1, %d2", D1, D2, 0, D3},
    {'d', "fma.rn.f64 %d0, %d1, %d2, %d3", D1, D2, D1, D3},
    {'d', "mul.rn.f64 %d0, %d1, 0d4000000000000000", D1, 0, 0, D2},
    {'d', "div.rn.f64 %d0, %d1, %d2", D2, D2, 0, D1},
    {'d', "sqrt.rn.f64 %d0, %d1", 0x4010000000000000, 0, 0, D2},
    {'d', "rcp.approx.ftz.f64 %d0, %d1", D2, 0, 0, 0x3fe0000000000000},
    {'d', "max.f64 %d0, %d1, %d2", D1, D2, 0, D2},
    {'p', "testp.infinite.f32 %p0, %f1", FINF, 0, 0, 1},
    {'p', "testp.normal.f64 %p0, %d1", 1, 0, 0, 0},
    {'h', "add.f16 %h0, %h1, %h2", 0x3c00, 0x4000, 0, 0x4200},
    {'r', "fma.rn.f16x2 %r0, %r1, %r2, %r3", 0x3c004000, 0x40004000, 0x3c003c00, 0x42004500},
    {'h', "mul.bf16 %h0, %h1, %h2", 0x3f80, 0x4000, 0, 0x4000},
    {'h', "fma.rn.relu.f16 %h0, %h1, %h2, %h3", 0xbc00, 0x4000, 0, 0},
    /* Conversions. */
    {'l', "cvt.s64.s32 %l0, %r1", 0xffffffff, 0, 0, UINT64_MAX},
    {'l', "cvt.u64.u32 %l0, %r1", 0xffffffff, 0, 0, 0xffffffff},
    {'r', "cvt.s32.s8 %r0, %r1", 0x80, 0, 0, 0xffffff80},
    {'r', "cvt.sat.u8.s32 %r0, %r1", 300, 0, 0, 255},
    {'h', "cvt.u16.u64 %h0, %l1", 0x12345678, 0, 0, 0x5678},
    {'f', "cvt.rn.f32.s32 %f0, %r1", 3, 0, 0, F3},
    {'f', "cvt.rn.f32.u64 %f0, %l1", 1ull << 63, 0, 0, 0x5f000000},
    {'r', "cvt.rzi.s32.f32 %r0, %f1", 0xc02ccccd, 0, 0, (uint32_t)-2},
    {'r', "cvt.rni.u32.f64 %r0, %d1", 0x400c000000000000, 0, 0, 4},
    {'f', "cvt.rmi.f32.f32 %f0, %f1", 0x402ccccd, 0, 0, F2},
    {'d', "cvt.f64.f32 %d0, %f1", F3, 0, 0, D3},
    {'f', "cvt.rn.f32.f64 %f0, %d1", D3, 0, 0, F3},
    {'h', "cvt.rn.f16.f32 %h0, %f1", F2, 0, 0, 0x4000},
    {'f', "cvt.f32.f16 %f0, %h1", 0x4000, 0, 0, F2},
    {'r', "cvt.rn.f16x2.f32 %r0, %f1, %f2", F2, F1, 0, 0x40003c00},
    {'h', "cvt.rn.bf16.f32 %h0, %f1", F2, 0, 0, 0x4000},
    {'r', "cvt.pack.sat.s16.s32 %r0, %r1, %r2", 70000, (uint32_t)-5, 0, 0x7ffffffb},
    {'h', "cvt.rn.satfinite.e4m3x2.f32 %h0, %f1, %f2", F1, F2, 0, 0x3840},
    /* Comparing, selecting, moving. */
    {'p', "setp.lt.s32 %p0, %r1, %r2", 0xffffffff, 1, 0, 1},
    {'p', "setp.lo.u32 %p0, %r1, %r2", 0xffffffff, 1, 0, 0},
    {'p', "setp.ge.and.u64 %p0, %l1, %l2, %p2", 5, 0, 0, 0},
    {'p', "setp.eq.or.f32 %p0, %f1, %f2, !%p2", F1, 0, 0, 1},
    {'p', "setp.neu.f64 %p0, %d1, %d2", 0x7ff8000000000000, D1, 0, 1},
    {'p', "setp.eq.s32 %p2|%p0, %r1, %r2", 1, 2, 0, 1},
    {'p', "setp.gt.f16 %p0, %h1, %h2", 0x4000, 0x3c00, 0, 1},
    {'r', "set.lt.u32.s32 %r0, %r1, %r2", 1, 2, 0, 0xffffffff},
    {'f', "set.gt.f32.u32 %f0, %r1, %r2", 2, 1, 0, F1},
    {'r', "selp.b32 %r0, %r1, %r2, %p2", 3, 4, 0, 3},
    {'d', "selp.f64 %d0, %d1, %d2, !%p2", D1, D2, 0, D2},
    {'r', "slct.s32.s32 %r0, %r1, %r2, %r3", 3, 4, (uint32_t)-1, 4},
    {'f', "slct.f32.f32 %f0, %f1, %f2, %f3", F1, F2, F3, F1},
    {'p', "xor.pred %p0, %p1, %p2", 1, 0, 0, 1},
    {'p', "not.pred %p0, %p1", 1, 0, 0, 0},
    {'p', "mov.pred %p0, !%p1", 1, 0, 0, 0},
    {'r', "mov.v2.u32 {%r1, %r2}, {%r2, %r1}; sub.u32 %r0, %r1, %r2", 1, 5, 0, 4},
    {'l', "mov.b64 %l0, {%r1, %r2}", 1, 2, 0, 0x200000001},
    {'r', "mov.b64 {%r2, %r0}, %l1", 0x500000001, 0, 0, 5},
    {'l', "mov.b64 %l0, {%h1, %h2, %h3, %h4}", 1, 2, 3, 0x0004000300020001},
    {'r', "mov.b32 {_, %h0}, %r1; cvt.u32.u16 %r0, %h0", 0xabcd0000, 0, 0, 0xabcd},
    {'r', "mov.b32 %r0, 0f3F800000", 0, 0, 0, F1},
    {'r', "mov.u32 %r0, WARP_SZ", 0, 0, 0, 32},
    {'r', "mov.u32 %r0, (1 << 4) + ~0", 0, 0, 0, 15},
    {'r', "add.u32 %r0, %r1, %ntid.x", 1, 0, 0, 2},
    {'r', "@%p1 mov.u32 %r0, 8; @!%p1 mov.u32 %r0, 9", 0, 0, 0, 9},
    {'r', "{ .reg .u32 %r1; mov.u32 %r1, 3; mov.u32 %r0, %r1; }", 0, 0, 0, 3},
    {'r', "{ .reg .v2 .u32 %v; mov.u32 %v.y, %r1; mov.u32 %v.x, 1; add.u32 %r0, %v.x, %v.y; }", 4,
     0, 0, 5},
    {'l', "{ .reg .b128 %q; mov.b128 %q, {%l1, %l2}; mov.b128 {_, %l0}, %q; }", 4, 6, 0, 6},
};

enum { CASES = sizeof cases / sizeof *cases };

static const char *store_of(char to) {
    switch (to) {
    case 'l':
        return "st.global.u64 [%out], %l0;";
    case 'h':
        return "cvt.u64.u16 %l0, %h0; st.global.u64 [%out], %l0;";
    case 'f':
        return "mov.b32 %r0, %f0; cvt.u64.u32 %l0, %r0; st.global.u64 [%out], %l0;";
    case 'd':
        return "st.global.f64 [%out], %d0;";
    case 'p':
        return "selp.u64 %l0, 1, 0, %p0; st.global.u64 [%out], %l0;";
    default:
        return "cvt.u64.u32 %l0, %r0; st.global.u64 [%out], %l0;";
    }
}

static void print_case(char *text, size_t room, size_t number, const struct instruction_case *one) {
    size_t used = (size_t)snprintf(
        text, room,
        ".visible .entry case%zu(.param .u64 to)\n{\n.reg .u64 %%out;\n.reg .pred %%p<5>;\n"
        ".reg .u32 %%r<5>;\n.reg .u64 %%l<5>;\n.reg .b16 %%h<5>;\n.reg .f32 %%f<5>;\n"
        ".reg .f64 %%d<5>;\nld.param.u64 %%out, [to];\n",
        number);
    const uint64_t values[] = {one->a, one->b, one->c, 4};

    for (int i = 0; i < 4; i++)
        used += (size_t)snprintf(
            text + used, room - used,
            "mov.u64 %%l%d, %llu; cvt.u32.u64 %%r%d, %%l%d; cvt.u16.u64 %%h%d, %%l%d;\n"
            "mov.b32 %%f%d, %%r%d; mov.b64 %%d%d, %%l%d;\n",
            i + 1, (unsigned long long)values[i], i + 1, i + 1, i + 1, i + 1, i + 1, i + 1, i + 1,
            i + 1);
    snprintf(text + used, room - used,
             "setp.ne.u64 %%p1, %%l1, 0; setp.ne.u64 %%p2, %%l2, 0;\n%s;\n%s\nret;\n}\n", one->text,
             store_of(one->to));
}

static void test_instructions_compute_what_the_isa_says(void **state) {
    enum { ROOM = 4096 };
    char *text = calloc(CASES + 1, ROOM);
    CUdeviceptr to;
    CUmodule module;

    (void)state;
    snprintf(text, ROOM, "%s", PTX_HEAD);
    for (size_t i = 0; i < CASES; i++)
        print_case(text + strlen(text), ROOM, i, &cases[i]);
    module = load_ptx(text);
    assert_ok(cuMemAlloc_v2(&to, sizeof(uint64_t)));
    for (size_t i = 0; i < CASES; i++) {
        uint64_t result = 0;
        char name[32];

        snprintf(name, sizeof name, "case%zu", i);
        assert_ok(run_kernel(module, name, 1, 1, 0, to));
        assert_ok(cuMemcpyDtoH_v2(&result, to, sizeof result));
        if (result != cases[i].expected)
            fail_msg("%s: 0x%llx, expected 0x%llx", cases[i].text, (unsigned long long)result,
                     (unsigned long long)cases[i].expected);
    }
    assert_ok(cuMemFree_v2(to));
    assert_ok(cuModuleUnload(module));
    free(text);
}

static void test_what_is_unknown_fails_the_load_with_its_line(void **state) {
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"add.s33 %r0, %r0, 1;", "line 9: add: the instruction 'add.s33' is unknown"},
        {"frob.b32 %r0, %r0;", "line 9: frob: the instruction 'frob.b32' is unknown"},
        {"ld.global.frob.u32 %r0, [%l0];", "line 9: ld: the modifier '.frob' is unknown"},
        {"add.rn.s32 %r0, %r0, 1;", "line 9: add: the modifier '.rn' is not one of add.s32"},
        {"add.s32 %r0, %r9, 1;", "line 9: '%r9' is not declared"},
        {"bra nowhere;", "line 9: there is no label 'nowhere'"},
        {"add.s32 %r0, %r0;", "line 9: add: operands are missing"},
        {"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0}, {%r0}, {%r0}, {%r0};",
         "line 9: mma"},
        {"add.f32 %f0, %f0, 1;", "line 9: add: a number in floating point is expected"},
        {"red.global.add.v2.f32 [%l0], {%f0, %f0, %f0, %f0};", "line 9: red: vectors of 2 parts"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[1024], log[1024] = "";
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {log, (void *)sizeof log};
        CUmodule module;

        snprintf(text, sizeof text,
                 PTX_HEAD ".visible .entry k()\n{\n.reg .u32 %%r<4>; .reg .u64 %%l<4>;\n"
                          ".reg .f32 %%f<4>; /* a\ncomment */\n%s\nret;\n}\n",
                 bad[i].text);
        assert_int_equal(cuModuleLoadDataEx(&module, text, 2, options, values),
                         CUDA_ERROR_INVALID_PTX);
        if (strstr(log, bad[i].expected) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", bad[i].expected, log);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instructions_compute_what_the_isa_says),
        cmocka_unit_test(test_what_is_unknown_fails_the_load_with_its_line),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
