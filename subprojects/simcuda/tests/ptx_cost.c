/* Runs one of three kernels, for ptx_cost.py: `ptx_cost NAME SIZE`. It checks what the kernel has
 * computed and prints how many instructions the threads have executed. */
#include "test_ptx.h"

#include "simcuda.h"

enum { SIDE = 16 };

/* Each thread of a block of 16 * 16 has its place in a square of `n` words: %x, %y, at %here. */
#define SQUARE                                                                                     \
    ".reg .u32 %x, %y, %n, %i, %tx, %ty;\n.reg .u64 %to, %from, %l<16>;\n.reg .pred %p<8>;\n"      \
    ".reg .f32 %f<16>;\n.reg .u32 %r<16>;\n"                                                       \
    "ld.param.u64 %to, [to]; ld.param.u64 %from, [from]; ld.param.u32 %n, [n];\n"                  \
    "mov.u32 %tx, %tid.x; mov.u32 %ty, %tid.y; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y;\n"    \
    "mad.lo.u32 %x, %r1, 16, %tx; mad.lo.u32 %y, %r2, 16, %ty; mad.lo.u32 %i, %y, %n, %x;\n"       \
    "mul.wide.u32 %l1, %i, 4; add.u64 %l2, %from, %l1; add.u64 %l3, %to, %l1;\n"
#define PARAMETERS "(.param .u64 to, .param .u64 from, .param .u32 n)\n"

static const char text[] = PTX_HEAD
    /* The mean of a word's neighbours; words at the border stay. */
    ".visible .entry stencil" PARAMETERS "{\n" SQUARE
    "sub.u32 %r3, %n, 1; setp.eq.u32 %p1, %x, 0; setp.eq.or.u32 %p1, %y, 0, %p1;\n"
    "setp.eq.or.u32 %p1, %x, %r3, %p1; setp.eq.or.u32 %p1, %y, %r3, %p1; @%p1 bra done;\n"
    "mul.wide.u32 %l4, %n, 4; sub.u64 %l5, %l2, %l4; add.u64 %l6, %l2, %l4;\n"
    "ld.global.f32 %f1, [%l2-4]; ld.global.f32 %f2, [%l2+4]; ld.global.f32 %f3, [%l5];\n"
    "ld.global.f32 %f4, [%l6]; add.f32 %f1, %f1, %f2; add.f32 %f3, %f3, %f4;\n"
    "add.f32 %f1, %f1, %f3; mul.f32 %f1, %f1, 0f3E800000; st.global.f32 [%l3], %f1;\n"
    "done: ret;\n}\n"
    /* The product of the square with itself, by tiles in shared memory. */
    ".visible .entry product" PARAMETERS
    "{\n.shared .align 4 .b8 rows[1024], columns[1024];\n" SQUARE
    "mad.lo.u32 %r3, %ty, 16, %tx; shl.b32 %r3, %r3, 2; mov.u32 %r4, rows; mov.u32 %r5, columns;\n"
    "shl.b32 %r6, %ty, 6; add.u32 %r6, %r6, %r4; shl.b32 %r7, %tx, 2; add.u32 %r7, %r7, %r5;\n"
    "add.u32 %r8, %r4, %r3; add.u32 %r9, %r5, %r3; mov.f32 %f1, 0f00000000; mov.u32 %r10, 0;\n"
    "tile: mad.lo.u32 %r11, %y, %n, %r10; add.u32 %r11, %r11, %tx; mul.wide.u32 %l4, %r11, 4;\n"
    "add.u64 %l4, %from, %l4; ld.global.f32 %f2, [%l4]; st.shared.f32 [%r8], %f2;\n"
    "add.u32 %r11, %r10, %ty; mad.lo.u32 %r11, %r11, %n, %x; mul.wide.u32 %l4, %r11, 4;\n"
    "add.u64 %l4, %from, %l4; ld.global.f32 %f2, [%l4]; st.shared.f32 [%r9], %f2; bar.sync 0;\n"
    "mov.u32 %r12, %r6; mov.u32 %r13, %r7; mov.u32 %r14, 0;\n"
    "inner: ld.shared.f32 %f3, [%r12]; ld.shared.f32 %f4, [%r13]; fma.rn.f32 %f1, %f3, %f4, %f1;\n"
    "add.u32 %r12, %r12, 4; add.u32 %r13, %r13, 64; add.u32 %r14, %r14, 1;\n"
    "setp.lt.u32 %p1, %r14, 16; @%p1 bra inner; bar.sync 0; add.u32 %r10, %r10, 16;\n"
    "setp.lt.u32 %p1, %r10, %n; @%p1 bra tile; st.global.f32 [%l3], %f1;\nret;\n}\n"
    /* A step of a radix sort: each word's digit of four bits, and how many of its block's words
     * before it have the same. */
    ".visible .entry radix" PARAMETERS "{\n.shared .align 4 .b8 counts[512];\n" SQUARE
    "mad.lo.u32 %r3, %ty, 16, %tx; ld.global.u32 %r4, [%l2]; and.b32 %r5, %r4, 15;\n"
    "match.any.sync.b32 %r6, %r5, 0xffffffff; mov.u32 %r7, %lanemask_lt; and.b32 %r7, %r7, %r6;\n"
    "popc.b32 %r7, %r7; popc.b32 %r8, %r6; shr.u32 %r9, %r3, 5; mov.u32 %r10, counts;\n"
    "shl.b32 %r11, %r3, 1; add.u32 %r11, %r11, %r10; st.shared.u16 [%r11], 0; bar.sync 0;\n"
    "mad.lo.u32 %r11, %r9, 16, %r5; shl.b32 %r11, %r11, 2; add.u32 %r11, %r11, %r10;\n"
    "setp.eq.u32 %p1, %r7, 0; @%p1 st.shared.u32 [%r11], %r8; bar.sync 0;\n"
    "shl.b32 %r12, %r5, 2; add.u32 %r12, %r12, %r10; mov.u32 %r13, 0;\n"
    "warp: setp.ge.u32 %p2, %r13, %r9; @%p2 bra done; ld.shared.u32 %r14, [%r12];\n"
    "add.u32 %r7, %r7, %r14; add.u32 %r12, %r12, 64; add.u32 %r13, %r13, 1; bra warp;\n"
    "done: shl.b32 %r5, %r5, 16; or.b32 %r7, %r7, %r5; st.global.u32 [%l3], %r7;\nret;\n}\n";

static uint32_t word_at(unsigned int i) {
    return i * 2654435761u >> 7;
}

static float float_at(unsigned int i) {
    return (float)(word_at(i) % 8);
}

/* Sums of so small whole numbers are exact in any order. */
static float expected_product(unsigned int n, unsigned int x, unsigned int y) {
    float sum = 0;

    for (unsigned int k = 0; k < n; k++)
        sum += float_at(y * n + k) * float_at(k * n + x);
    return sum;
}

static float expected_stencil(unsigned int n, unsigned int x, unsigned int y) {
    unsigned int i = y * n + x;

    if (x == 0 || y == 0 || x == n - 1 || y == n - 1)
        return 0;
    return (float_at(i - 1) + float_at(i + 1) + float_at(i - n) + float_at(i + n)) / 4;
}

static uint32_t expected_radix(unsigned int n, unsigned int x, unsigned int y) {
    unsigned int digit = word_at(y * n + x) & 15, count = 0, left = x / SIDE * SIDE,
                 top = y / SIDE * SIDE, within = (y - top) * SIDE + x - left;

    for (unsigned int i = 0; i < within; i++)
        count += (word_at((top + i / SIDE) * n + left + i % SIDE) & 15) == digit;
    return count | digit << 16;
}

static bool is_right(const char *name, const void *results, unsigned int n, unsigned int x,
                     unsigned int y) {
    const float *floats = results;
    const uint32_t *words = results;
    unsigned int i = y * n + x;

    if (strcmp(name, "product") == 0)
        return floats[i] == expected_product(n, x, y);
    if (strcmp(name, "stencil") == 0)
        return floats[i] == expected_stencil(n, x, y);
    return words[i] == expected_radix(n, x, y);
}

int main(int count, char **arguments) {
    const char *name = count > 2 ? arguments[1] : "stencil";
    unsigned int n = count > 2 ? (unsigned int)strtoul(arguments[2], NULL, 10) : SIDE;
    size_t size = (size_t)n * n * 4;
    uint32_t *words = malloc(size);
    CUdeviceptr to, from;
    CUfunction function;

    set_up_context(NULL);
    for (unsigned int i = 0; i < n * n; i++) {
        float number = float_at(i);

        words[i] = word_at(i);
        if (strcmp(name, "radix") != 0)
            memcpy(&words[i], &number, sizeof number);
    }
    assert_ok(cuMemAlloc_v2(&to, size));
    assert_ok(cuMemAlloc_v2(&from, size));
    assert_ok(cuMemsetD8_v2(to, 0, size));
    assert_ok(cuMemcpyHtoD_v2(from, words, size));
    assert_ok(cuModuleGetFunction(&function, load_ptx(text), name));
    assert_ok(cuLaunchKernel(function, n / SIDE, n / SIDE, 1, SIDE, SIDE, 1, 0, NULL,
                             (void *[]){&to, &from, &n}, NULL));
    assert_ok(cuMemcpyDtoH_v2(words, to, size));
    for (unsigned int y = 0; y < n; y++) /* four of a row: the host's own work is counted */
        for (unsigned int x = y % 4; x < n; x += 1 + n / 4)
            if (!is_right(name, words, n, x, y)) {
                printf("%s: the result at %u, %u is wrong\n", name, x, y);
                return 1;
            }
    printf("%llu\n", (unsigned long long)simcuda_instructions());
    free(words);
    return 0;
}
