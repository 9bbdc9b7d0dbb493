/* What kernels do besides computing: memory of all spaces, calls, barriers, atomic operations,
 * lanes that work together, and threads that wait for each other. */
#include "test_ptx.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define REGISTERS                                                                                  \
    ".reg .u32 %r<16>;\n.reg .u64 %l<16>;\n.reg .f32 %f<8>;\n.reg .pred %p<8>;\n.reg .b16 "        \
    "%h<4>;\n"
#define STORE "cvt.u64.u32 %l0, %r0;\nst.global.u64 [%out], %l0;\n"

struct machine_case {
    const char *name, *text;
    unsigned int blocks, threads, shared;
    uint64_t (*expected)(unsigned int thread); /* of the whole grid */
};

static uint64_t thread_number(unsigned int thread) {
    return thread;
}

static uint64_t partner(unsigned int thread) {
    return thread ^ 1;
}

static uint64_t forty_two(unsigned int thread) {
    (void)thread;
    return 42;
}

static uint64_t ten(unsigned int thread) {
    (void)thread;
    return 10;
}

static uint64_t sum_of_64(unsigned int thread) {
    (void)thread;
    return 64 * 63 / 2;
}

static uint64_t twice_and_one(unsigned int thread) {
    return 2 * thread + 1;
}

static uint64_t factorial(unsigned int thread) {
    uint64_t product = 1;

    for (unsigned int i = 2; i <= thread % 8; i++)
        product *= i;
    return product;
}

static uint64_t by_switch(unsigned int thread) {
    static const uint64_t values[] = {10, 20, 30, 40};

    return thread % 5 < 4 ? values[thread % 5] : 99;
}

static uint64_t odd_or_even(unsigned int thread) {
    return thread % 2 != 0 ? thread + 100 : thread * 2;
}

static uint64_t lanes_of_parity(unsigned int thread) {
    return thread % 2 != 0 ? 0xaaaaaaaa : 0x55555555;
}

static uint64_t sum_of_warp(unsigned int thread) {
    (void)thread;
    return 32 * 31 / 2;
}

static uint64_t sixty_four(unsigned int thread) {
    (void)thread;
    return 64;
}

static uint64_t steps(unsigned int thread) {
    return thread % 32;
}

static uint64_t bytes_swapped(unsigned int thread) {
    return (uint64_t)(thread & 0xff) << 8 | 0xfe;
}

static const struct machine_case cases[] = {
    {"special registers tell a thread its place",
     PTX_KERNEL("k", REGISTERS, "mov.u32 %r0, %t;\n" STORE), 3, 40, 0, thread_number},
    {"shared memory and bar.sync pass values between threads",
     PTX_KERNEL("k", REGISTERS ".shared .align 4 .b8 area[512];\n",
                "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, area;\n"
                "add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %t; bar.sync 0;\n"
                "xor.b32 %r2, %r2, 4; add.u32 %r4, %r3, %r2; ld.shared.u32 %r0, [%r4];\n" STORE),
     2, 64, 0, partner},
    {"dynamic shared memory is behind what the kernel declares",
     ".extern .shared .align 8 .b8 dynamic[];\n" PTX_KERNEL(
         "k", REGISTERS ".shared .u32 own[3];\n",
         "mov.u32 %r1, dynamic; mov.u32 %r2, %tid.x; shl.b32 %r2, %r2, 2;\n"
         "add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %t; st.shared.u32 [own+8], 7;\n"
         "bar.sync 0; ld.shared.u32 %r0, [%r1];\n" STORE),
     1, 64, 256, thread_number},
    {"generic addresses reach shared and local memory",
     PTX_KERNEL("k", REGISTERS ".shared .align 8 .b64 area[64];\n.local .align 8 .b64 own[2];\n",
                "mov.u64 %l1, area; cvta.shared.u64 %l1, %l1; mov.u32 %r1, %tid.x;\n"
                "mul.wide.u32 %l2, %r1, 8; add.u64 %l1, %l1, %l2; cvt.u64.u32 %l3, %t;\n"
                "st.u64 [%l1], %l3; bar.sync 0; ld.u64 %l4, [%l1];\n"
                "mov.u64 %l5, own; cvta.local.u64 %l5, %l5; st.u64 [%l5+8], %l4;\n"
                "ld.local.u64 %l6, [own+8]; isspacep.local %p1, %l5; isspacep.shared %p2, %l5;\n"
                "isspacep.global %p3, %out;\n"
                "@!%p1 mov.u64 %l6, 1000; @%p2 mov.u64 %l6, 1001; @!%p3 mov.u64 %l6, 1002;\n"
                "st.u64 [%out], %l6;\n"),
     1, 64, 0, thread_number},
    {"vectors, small types and their signs are loaded and stored",
     ".global .align 8 .b8 bytes[8] = {1, 2, 3, 4, 255, 6, 7, 8};\n" PTX_KERNEL(
         "k", REGISTERS,
         "ld.global.v4.u8 {%h0, _, _, %h1}, [bytes+4]; ld.global.s8 %r1, [bytes+4];\n"
         "setp.eq.s32 %p1, %r1, -1; add.u16 %h0, %h0, %h1; cvt.u32.u16 %r2, %h0;\n"
         "ld.global.nc.v2.u32 {%r4, %r5}, [bytes]; shr.u32 %r4, %r4, 24; sub.u32 %r2, %r2, %r4;\n"
         "selp.u32 %r0, %r2, 0, %p1; sub.u32 %r0, %r0, 217;\n" STORE),
     1, 8, 0, forty_two},
    {"variables hold the addresses of others",
     ".global .u32 target = 42;\n.global .u64 pointer = generic(target);\n"
     ".const .align 8 .u64 behind[2] = {0, pointer};\n" PTX_KERNEL(
         "k", REGISTERS,
         "ld.const.u64 %l1, [behind+8]; ld.global.u64 %l2, [%l1]; ld.u32 %r0, [%l2];\n" STORE),
     1, 4, 0, forty_two},
    {"functions take parameters and return results, also recursively",
     ".func (.param .b64 result) product(.param .b32 n)\n{\n"
     ".reg .u32 %r<4>; .reg .u64 %l<4>; .reg .pred %p;\n"
     "ld.param.u32 %r1, [n]; mov.u64 %l1, 1; setp.lt.u32 %p, %r1, 2; @%p bra done;\n"
     "sub.u32 %r2, %r1, 1;\n{\n.param .b32 a; .param .b64 b;\nst.param.b32 [a], %r2;\n"
     "call.uni (b), product, (a);\nld.param.b64 %l1, [b];\n}\n"
     "cvt.u64.u32 %l2, %r1; mul.lo.u64 %l1, %l1, %l2;\ndone:\nst.param.b64 [result], %l1;\nret;\n}"
     "\n" PTX_KERNEL("k", REGISTERS,
                     "and.b32 %r1, %t, 7;\n{\n.param .b32 a; .param .b64 b;\n"
                     "st.param.b32 [a], %r1; call (b), product, (a); ld.param.b64 %l0, [b];\n}\n"
                     "st.global.u64 [%out], %l0;\n"),
     1, 64, 0, factorial},
    {"functions are called by their addresses, each thread its own",
     ".func (.reg .u32 y) odd(.reg .u32 x)\n{\nadd.u32 y, x, 100;\nret;\n}\n"
     ".func (.reg .u32 y) even(.reg .u32 x)\n{\nadd.u32 y, x, x;\nret;\n}\n"
     ".global .u64 both[2] = {even, odd};\n" PTX_KERNEL(
         "k", REGISTERS,
         "and.b32 %r1, %t, 1; mul.wide.u32 %l1, %r1, 8; mov.u64 %l2, both; add.u64 %l1, %l1, %l2;\n"
         "ld.global.u64 %l3, [%l1];\n"
         "way: .callprototype (.reg .u32 _) _ (.reg .u32 _);\n"
         "call (%r0), %l3, (%t), way;\n" STORE),
     1, 64, 0, odd_or_even},
    {"brx.idx goes where its table says",
     PTX_KERNEL("k", REGISTERS,
                "rem.u32 %r1, %t, 5; mov.u32 %r0, 99; setp.gt.u32 %p1, %r1, 3; @%p1 bra done;\n"
                "places: .branchtargets a, b, c, d;\nbrx.idx %r1, places;\n"
                "a: mov.u32 %r0, 10; bra done;\nb: mov.u32 %r0, 20; bra done;\n"
                "c: mov.u32 %r0, 30; bra done;\nd: mov.u32 %r0, 40;\ndone:\n" STORE),
     1, 64, 0, by_switch},
    {"diverged threads meet again where their paths do",
     PTX_KERNEL(
         "k", REGISTERS,
         "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra even;\n"
         "activemask.b32 %r0; bra join;\neven: activemask.b32 %r0;\njoin:\n"
         "activemask.b32 %r2; setp.ne.u32 %p2, %r2, 0xffffffff; @%p2 mov.u32 %r0, 0;\n" STORE),
     1, 32, 0, lanes_of_parity},
    {"a loop that threads leave one after another runs on for the others",
     PTX_KERNEL("k", REGISTERS,
                "mov.u32 %r1, %laneid; mov.u32 %r0, 0;\nagain: setp.ge.u32 %p1, %r0, %r1;\n"
                "@%p1 bra done; add.u32 %r0, %r0, 1; bra again;\ndone:\n" STORE),
     1, 64, 0, steps},
    {"shuffles, votes and matches see all lanes that their masks name",
     PTX_KERNEL("k", REGISTERS,
                "shfl.sync.bfly.b32 %r0|%p1, %t, 1, 31, 0xffffffff; and.b32 %r1, %t, 1;\n"
                "setp.eq.u32 %p2, %r1, 0; vote.sync.ballot.b32 %r2, %p2, 0xffffffff;\n"
                "match.any.sync.b32 %r3, %r1, 0xffffffff; selp.u32 %r4, 0x55555555, 0xaaaaaaaa, "
                "%p2;\n"
                "setp.ne.u32 %p3, %r2, 0x55555555; setp.ne.or.u32 %p3, %r3, %r4, %p3;\n"
                "vote.sync.any.pred %p4, %p2, 0xffffffff; @!%p4 mov.u32 %r0, 1000;\n"
                "@%p3 mov.u32 %r0, 1001;\n" STORE),
     1, 64, 0, partner},
    {"a shuffle waits for lanes that come later by another path",
     PTX_KERNEL("k", REGISTERS,
                "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, %t; @%p1 bra meet;\n"
                "mov.u32 %r3, 0;\nlate: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 1000;\n"
                "@%p2 bra late;\nmeet: shfl.sync.bfly.b32 %r0, %r2, 1, 31, 0xffffffff;\n" STORE),
     1, 32, 0, partner},
    {"a shuffle from a lane that takes no part gets zero",
     PTX_KERNEL("k", REGISTERS,
                "add.u32 %r1, %t, 1; mov.u32 %r0, 10; setp.gt.u32 %p1, %t, 3; @%p1 bra done;\n"
                "shfl.sync.down.b32 %r2|%p2, %r1, 16, 31, 0xf; add.u32 %r1, %r1, %r2;\n"
                "shfl.sync.down.b32 %r2|%p3, %r1, 4, 31, 0xf; add.u32 %r1, %r1, %r2;\n"
                "shfl.sync.down.b32 %r2, %r1, 2, 31, 0xf; add.u32 %r1, %r1, %r2;\n"
                "shfl.sync.down.b32 %r2, %r1, 1, 31, 0xf; add.u32 %r1, %r1, %r2;\n"
                "shfl.sync.idx.b32 %r0, %r1, 0, 31, 0xf; @!%p2 mov.u32 %r0, 1;\n"
                "@!%p3 mov.u32 %r0, 2;\ndone:\n" STORE),
     1, 32, 0, ten},
    {"addresses of shared memory wrap at 32 bits",
     PTX_KERNEL("k", REGISTERS ".shared .align 8 .u32 own[2];\n",
                "mov.u32 %r1, own; sub.u32 %r1, %r1, 8; mov.u32 %r2, 40;\n"
                "st.shared.u32 [%r1+8], %r2; atom.shared.add.u32 %r3, [%r1+8], 2;\n"
                "ld.shared.u32 %r0, [%r1+8]; ld.shared.v2.u32 {%r4, %r5}, [%r1+8];\n"
                "setp.ne.u32 %p1, %r0, %r4; @%p1 mov.u32 %r0, 1;\n" STORE),
     1, 1, 0, forty_two},
    {"redux and bar.warp.sync work on the lanes together",
     PTX_KERNEL("k", REGISTERS,
                "mov.u32 %r1, %laneid; redux.sync.add.u32 %r0, %r1, 0xffffffff;\n"
                "bar.warp.sync 0xffffffff;\n" STORE),
     1, 64, 0, sum_of_warp},
    {"atomic operations lose nothing",
     ".global .u32 sum;\n.global .f32 floats;\n.global .u64 wide;\n" PTX_KERNEL(
         "k", REGISTERS ".shared .u32 own;\n",
         "red.global.add.u32 [sum], %t; atom.global.add.u64 %l1, [wide], 1;\n"
         "red.global.add.f32 [floats], 0f3F800000; atom.shared.max.u32 %r1, [own], %t;\n"
         "bar.sync 0; ld.global.u32 %r0, [sum]; ld.global.u64 %l2, [wide];\n"
         "ld.global.f32 %f1, [floats]; setp.ne.f32 %p1, %f1, 0f42800000;\n"
         "setp.ne.or.u64 %p1, %l2, 64, %p1; ld.shared.u32 %r2, [own];\n"
         "setp.ne.or.u32 %p1, %r2, 63, %p1; @%p1 mov.u32 %r0, 1;\n" STORE),
     1, 64, 0, sum_of_64},
    {"bar.red counts, and barriers of some warps let these alone wait",
     PTX_KERNEL("k", REGISTERS,
                "setp.ge.u32 %p1, %t, 0; bar.red.popc.u32 %r0, 0, %p1; setp.lt.u32 %p2, %t, 32;\n"
                "@%p2 bra half; bar.arrive 1, 64; bra done;\nhalf: bar.sync 1, 64;\n"
                "done: bar.red.and.pred %p3, 0, %p1; @!%p3 mov.u32 %r0, 1;\n" STORE),
     1, 64, 0, sixty_four},
    {"threads of one warp take a lock from each other",
     ".global .u32 lock;\n.global .u32 count;\n" PTX_KERNEL(
         "k", REGISTERS,
         "again: atom.global.cas.b32 %r1, [lock], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra again;\n"
         "ld.volatile.global.u32 %r2, [count]; add.u32 %r2, %r2, 1;\n"
         "st.volatile.global.u32 [count], %r2; membar.gl; atom.global.exch.b32 %r3, [lock], 0;\n"
         "bar.sync 0; ld.volatile.global.u32 %r0, [count];\n" STORE),
     1, 64, 0, sixty_four},
    {"a thread that spins does not starve the one it waits for",
     ".global .u32 flag;\n" PTX_KERNEL(
         "k", REGISTERS,
         "setp.eq.u32 %p1, %t, 31; @%p1 bra last;\nwait: ld.volatile.global.u32 %r1, [flag];\n"
         "setp.eq.u32 %p2, %r1, 0; @%p2 bra wait; bra done;\n"
         "last: mov.u32 %r1, 42; st.volatile.global.u32 [flag], 42;\ndone: mov.u32 %r0, "
         "%r1;\n" STORE),
     1, 32, 0, forty_two},
    {"a block that spins does not starve the blocks behind it",
     ".global .u32 flag;\n" PTX_KERNEL(
         "k", REGISTERS,
         "setp.eq.u32 %p1, %b, 63; @%p1 bra last;\nwait: ld.acquire.gpu.global.u32 %r1, [flag];\n"
         "setp.eq.u32 %p2, %r1, 0; @%p2 bra wait; bra done;\n"
         "last: mov.u32 %r1, 42; st.release.gpu.global.u32 [flag], 42;\ndone: mov.u32 %r0, "
         "%r1;\n" STORE),
     64, 8, 0, forty_two},
    {"labels and registers of a scope are its own",
     PTX_KERNEL("k", REGISTERS,
                "mov.u32 %r0, 40;\n"
                "{ .reg .pred %p1; setp.eq.u32 %p1, %r0, 0; @%p1 bra L; add.u32 %r0, %r0, 1; L: }\n"
                "{ .reg .pred %p1; setp.eq.u32 %p1, %r0, 0; @%p1 bra L; add.u32 %r0, %r0, 1; L: "
                "}\n" STORE),
     1, 4, 0, forty_two},
    {"parameters of kernels are read by their bytes",
     PTX_KERNEL("k", REGISTERS,
                "ld.param.u8 %r1, [to]; ld.param.v2.u32 {%r2, %r3}, [to]; and.b32 %r2, %r2, 255;\n"
                "mov.u64 %l1, to; ld.param.u32 %r4, [%l1+4]; setp.ne.u32 %p1, %r1, %r2;\n"
                "setp.ne.or.u32 %p1, %r3, %r4, %p1; selp.u32 %r0, 0, 42, %p1;\n" STORE),
     1, 4, 0, forty_two},
    {"what GCC writes: %names of parameters, ranges of them, dots that touch",
     ".visible .func (.param.u32 %value_out) f (.param.u32 %in_ar0)\n{\n"
     ".reg.u32 %ar0;\n.local .align 16 .b8 %frame_ar[16];\n.reg.u64 %frame;\n"
     "ld.param.u32 %ar0, [%in_ar0]; cvta.local.u64 %frame, %frame_ar; st.u32 [%frame], %ar0;\n"
     "ld.u32 %ar0, [%frame]; st.param.u32 [%value_out], %ar0;\nret;\n}\n" PTX_KERNEL(
         "k", REGISTERS,
         "{\n.param.u32 %P<2>;\nst.param.u32 [%P1], %t;\ncall (%P0), f, (%P1);\n"
         "ld.param.u32 %r0, [%P0];\n}\n" STORE),
     1, 40, 0, thread_number},
    {"what is declared behind a body is known in it",
     PTX_KERNEL("k", REGISTERS, "ld.global.u32 %r0, [late];\n" STORE) ".global .u32 late = 42;\n",
     1, 4, 0, forty_two},
    /* PTX ISA 5.4.2 Vectors */
    {"registers that are vectors are moved as a whole, also to their own parts in another order",
     PTX_KERNEL("k", REGISTERS ".reg .v2 .u32 %v<2>;\n",
                "mov.v2.u32 %v0, {1, %t}; mov.v2.u32 %v1, %v0;\n"
                "mov.v2.u32 {%v1.y, %v1.x}, {%v1.x, %v1.y}; shl.b32 %r1, %v1.x, 1;\n"
                "add.u32 %r0, %r1, %v1.y;\n" STORE),
     2, 40, 0, twice_and_one},
    /* PTX ISA 5.5 Parameterized variable names */
    {"arguments of a call can be declared as a range of names",
     ".func (.param .u32 sum) add(.param .u32 a, .param .u32 b)\n"
     "{ .reg .u32 %r<4>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; mad.lo.u32 %r3, %r2, 2, "
     "%r1;\n"
     "st.param.u32 [sum], %r3; ret; }\n" PTX_KERNEL(
         "k", REGISTERS,
         "{ .param .u32 %P<2>, result; st.param.u32 [%P0], 1; st.param.u32 [%P1], %t;\n"
         "call.uni (result), add, (%P0, %P1); ld.param.u32 %r0, [result]; }\n" STORE),
     2, 40, 0, twice_and_one},
    {"prmt and stores of bytes",
     PTX_KERNEL("k", REGISTERS,
                "st.global.u8 [%out+1], %t; mov.u32 %r1, 0x1fe; st.global.u8 [%out], %r1;\n"),
     1, 64, 0, bytes_swapped},
    {"a kernel that ends in the middle of a warp ends for these threads only",
     PTX_KERNEL("k", REGISTERS,
                "add.u32 %r0, %t, %t; add.u32 %r0, %r0, 1; and.b32 %r1, %t, 3;\n"
                "setp.eq.u32 %p1, %r1, 0; cvt.u64.u32 %l0, %r0; st.global.u64 [%out], %l0;\n"
                "@%p1 exit; bar.sync 0; st.global.u64 [%out], %l0;\n"),
     1, 64, 0, twice_and_one},
};

static void test_machine(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct machine_case *one = &cases[i];
        size_t room = strlen(PTX_HEAD) + strlen(one->text) + 1;
        char *text = malloc(room);
        uint64_t *results;

        snprintf(text, room, "%s%s", PTX_HEAD, one->text);
        results = results_of(text, one->blocks, one->threads, one->shared);
        for (unsigned int thread = 0; thread < one->blocks * one->threads; thread++)
            if (results[thread] != one->expected(thread))
                fail_msg("%s: thread %u has %llu, expected %llu", one->name, thread,
                         (unsigned long long)results[thread],
                         (unsigned long long)one->expected(thread));
        free(results);
        free(text);
    }
}

/* --- waiting for others than the launch's own threads --- */

static const char waits[] = PTX_HEAD PTX_KERNEL(
    "k", REGISTERS,
    "wait: ld.volatile.global.u32 %r1, [%base]; setp.eq.u32 %p1, %r1, 0; @%p1 bra wait;\n"
    "st.volatile.global.u32 [%base+4], %r1;\n")
    PTX_KERNEL("set", REGISTERS, "st.volatile.global.u32 [%base], 5;\n");

static void test_a_kernel_waits_for_the_host(void **state) {
    uint32_t *words;
    CUmodule module = load_ptx(waits);
    CUfunction function;
    CUdeviceptr to;
    void *memory;

    (void)state;
    assert_ok(cuMemHostAlloc(&memory, 8, CU_MEMHOSTALLOC_DEVICEMAP));
    words = memory;
    words[0] = words[1] = 0;
    assert_ok(cuMemHostGetDevicePointer_v2(&to, memory, 0));
    assert_ok(cuModuleGetFunction(&function, module, "k"));
    assert_ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&to}, NULL));
    assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    __atomic_store_n(&words[0], 3, __ATOMIC_RELEASE);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(words[1], 3);
    assert_ok(cuMemFreeHost(memory));
    assert_ok(cuModuleUnload(module));
}

static void test_a_kernel_waits_for_another_stream(void **state) {
    CUmodule module = load_ptx(waits);
    CUfunction wait, set;
    CUstream streams[2];
    CUdeviceptr to;
    uint32_t words[2];

    (void)state;
    assert_ok(cuMemAlloc_v2(&to, 8));
    assert_ok(cuMemsetD8_v2(to, 0, 8));
    assert_ok(cuCtxSynchronize()); /* the streams do not wait for it */
    assert_ok(cuModuleGetFunction(&wait, module, "k"));
    assert_ok(cuModuleGetFunction(&set, module, "set"));
    for (int i = 0; i < 2; i++)
        assert_ok(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    assert_ok(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, streams[0], (void *[]){&to}, NULL));
    assert_ok(cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, streams[1], (void *[]){&to}, NULL));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemcpyDtoH_v2(words, to, sizeof words));
    assert_int_equal(words[1], 5);
    assert_ok(cuMemFree_v2(to));
    assert_ok(cuModuleUnload(module));
    for (int i = 0; i < 2; i++)
        assert_ok(cuStreamDestroy_v2(streams[i]));
}

/* --- what the lanes of a warp access at once, while others write --- */

/* How many words the lanes write, as the kernel below has it. */
enum { LAST = 200 };

static void *counts_on(void *argument) {
    uint64_t *words = argument;

    while (__atomic_load_n(&words[0], __ATOMIC_RELAXED) == 0) {
        __atomic_fetch_add(&words[2], UINT64_C(0x100000001), __ATOMIC_RELAXED);
        __atomic_fetch_add((uint32_t *)&words[4], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Takes what the lanes wrote to word 2, and answers in word 4. */
static void *takes(void *argument) {
    uint64_t *words = argument;

    for (uint64_t i = 1; i <= LAST; i++) {
        while (__atomic_load_n(&words[2], __ATOMIC_ACQUIRE) != i)
            sched_yield();
        __atomic_store_n(&words[2], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&words[4], i, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Runs the kernel while the host does the other part; how often lanes saw what they may not. */
static uint64_t wrong_beside(const char *text, void *(*host)(void *)) {
    CUmodule module = load_ptx(text);
    uint64_t *words, wrong;
    CUdeviceptr to;
    pthread_t other;
    void *memory;

    assert_ok(cuMemHostAlloc(&memory, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    words = memset(memory, 0, 64);
    assert_ok(cuMemHostGetDevicePointer_v2(&to, memory, 0));
    assert_int_equal(pthread_create(&other, NULL, host, memory), 0);
    assert_ok(run_kernel(module, "k", 1, 32, 0, to));
    pthread_join(other, NULL);
    wrong = words[1];
    assert_ok(cuMemFreeHost(memory));
    assert_ok(cuModuleUnload(module));
    return wrong;
}

/* CUDA C++ Programming Guide, "Device Memory Accesses": they are one access. */
static void test_lanes_that_read_one_address_at_once_read_the_same(void **state) {
    static const char text[] = PTX_HEAD PTX_KERNEL(
        "k", REGISTERS,
        "mov.u32 %r1, 0;\nmov.u64 %l5, 0;\n"
        "again: ld.global.u64 %l1, [%base+16]; ld.volatile.u64 %l2, [%base+16];\n"
        "ld.global.v2.u32 {%r2, %r3}, [%base+16]; ld.global.u32 %r4, [%base+32];\n"
        "ld.volatile.u32 %r5, [%base+32]; mov.b64 %l3, {%r2, %r3}; mov.b64 %l4, {%r4, %r5};\n"
        "add.u64 %l1, %l1, %l2; mad.lo.u64 %l1, %l3, 3, %l1; mad.lo.u64 %l1, %l4, 7, %l1;\n"
        "mov.b64 {%r6, %r7}, %l1; shfl.sync.idx.b32 %r8, %r6, 0, 31, -1;\n"
        "shfl.sync.idx.b32 %r9, %r7, 0, 31, -1; setp.ne.u32 %p1, %r6, %r8;\n"
        "setp.ne.or.u32 %p2, %r7, %r9, %p1; @%p2 add.u64 %l5, %l5, 1;\n"
        "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 20000; @%p1 bra again;\n"
        "red.global.add.u64 [%base+8], %l5; bar.warp.sync -1; st.global.u64 [%base], 1;\n");

    (void)state;
    assert_int_equal(wrong_beside(text, counts_on), 0);
}

/* "SIMT Architecture": who of them writes last is undefined; but when one has been seen to have
 * written, all have. */
static void test_lanes_that_write_one_address_at_once_write_once(void **state) {
    static const char text[] = PTX_HEAD PTX_KERNEL(
        "k", REGISTERS,
        "mov.u64 %l1, 1;\nmov.u64 %l5, 0;\n"
        "again: st.global.u64 [%base+16], %l1;\n"
        "wait: ld.volatile.global.u64 %l2, [%base+32]; setp.ne.u64 %p1, %l2, %l1;\n"
        "@%p1 bra wait; ld.volatile.global.u64 %l3, [%base+16]; setp.ne.u64 %p1, %l3, 0;\n"
        "@%p1 add.u64 %l5, %l5, 1; add.u64 %l1, %l1, 1; setp.le.u64 %p1, %l1, 200;\n"
        "@%p1 bra again; red.global.add.u64 [%base+8], %l5;\n");

    (void)state;
    assert_int_equal(wrong_beside(text, takes), 0);
}

/* As cooperative groups have it: the grid's workspace is in two registers of its environment. */
static void test_the_blocks_of_a_cooperative_grid_wait_for_each_other(void **state) {
    enum { BLOCKS = 48 };
    static const char text[] = PTX_HEAD ".global .u32 arrived;\n" PTX_KERNEL(
        "k", REGISTERS,
        "mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; mov.b64 %l1, {%r2, %r1};\n"
        "atom.add.release.gpu.u32 %r3, [%l1+4], 1;\n"
        "wait: ld.acquire.gpu.u32 %r4, [%l1+4]; setp.ne.u32 %p1, %r4, 48; @%p1 bra wait;\n"
        "mov.u32 %r0, %r4;\n" STORE);
    uint64_t results[BLOCKS];
    CUmodule module = load_ptx(text);
    CUfunction function;
    CUdeviceptr to;

    (void)state;
    assert_ok(cuMemAlloc_v2(&to, sizeof results));
    assert_ok(cuModuleGetFunction(&function, module, "k"));
    for (int round = 0; round < 2; round++) { /* each launch has a workspace of its own */
        assert_ok(cuMemsetD8_v2(to, 0, sizeof results));
        assert_ok(
            cuLaunchCooperativeKernel(function, BLOCKS, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&to}));
        assert_ok(cuMemcpyDtoH_v2(results, to, sizeof results));
        for (int i = 0; i < BLOCKS; i++)
            assert_int_equal(results[i], BLOCKS);
    }
    assert_ok(cuMemFree_v2(to));
    assert_ok(cuModuleUnload(module));
}

/* Each block waits for the one that begins after it. That goes on without the other blocks' taking
 * their turns thousands of times, which is counted. */
static void test_blocks_wait_for_those_that_begin_later(void **state) {
    enum { BLOCKS = 500 };
    static const char text[] = PTX_HEAD PTX_KERNEL(
        "k", REGISTERS,
        "mov.u32 %r1, %nctaid.x; sub.u32 %r1, %r1, 1; setp.eq.u32 %p1, %b, %r1;\n"
        "@%p1 bra last;\n"
        "wait: ld.volatile.global.u64 %l1, [%out+8]; setp.eq.u64 %p1, %l1, 0;\n"
        "@%p1 bra wait;\n"
        "last: mov.u32 %r0, 7;\n" STORE);
    uint64_t before = simcuda_instructions(), *results;

    (void)state;
    results = results_of(text, BLOCKS, 1, 0);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(results[i], 7);
    assert_true(simcuda_instructions() - before < UINT64_C(400000) * BLOCKS);
    free(results);
}

/* "cuLaunchKernel", and "Technical Specifications per Compute Capability": each extent has a bound.
 */
static void test_a_launch_is_no_larger_than_the_device_allows(void **state) {
    static const struct {
        unsigned int grid[3], block[3];
    } too_large[] = {{{1, 1, 1}, {1, 1, 65}},      {{1, 1, 1}, {1025, 1, 1}},
                     {{1, 1, 1}, {1, 1025, 1}},    {{1, 1, 1}, {32, 33, 1}},
                     {{1, 65536, 1}, {1, 1, 1}},   {{1, 1, 65536}, {1, 1, 1}},
                     {{1u << 31, 1, 1}, {1, 1, 1}}};
    CUmodule module = load_ptx(PTX_HEAD ".visible .entry k(.param .u64 to) { ret; }\n");
    CUfunction function;
    CUdeviceptr to = 0;

    (void)state;
    assert_ok(cuModuleGetFunction(&function, module, "k"));
    for (size_t i = 0; i < sizeof too_large / sizeof *too_large; i++) {
        const unsigned int *grid = too_large[i].grid, *block = too_large[i].block;

        assert_int_equal(cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1],
                                        block[2], 0, NULL, (void *[]){&to}, NULL),
                         CUDA_ERROR_INVALID_VALUE);
    }
    assert_ok(cuLaunchKernel(function, 1, 2, 1, 1, 16, 64, 0, NULL, (void *[]){&to}, NULL));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuModuleUnload(module));
}

/* --- the device's own functions --- */

static const char allocates[] = PTX_HEAD
    ".extern .func (.param .b64 result) malloc(.param .b64 size);\n"
    ".extern .func free(.param .b64 address);\n" PTX_KERNEL(
        "k", REGISTERS ".param .b64 a; .param .b64 b;\n",
        "st.param.b64 [a], 24; call (b), malloc, (a); ld.param.b64 %l1, [b];\n"
        "st.u32 [%l1+20], %t; ld.u32 %r0, [%l1+20]; st.param.b64 [a], %l1; call free, (a);\n"
        "setp.eq.u64 %p1, %l1, 0; @%p1 mov.u32 %r0, 1000;\n" STORE);

static void test_device_code_allocates(void **state) {
    uint64_t *results = results_of(allocates, 2, 64, 0);

    (void)state;
    for (unsigned int i = 0; i < 128; i++)
        assert_int_equal(results[i], i);
    free(results);
}

/* "%d %.1f %s%% %hhx %hx\n": a char's and a short's modifier say how many of the bits are printed.
 */
static void test_device_code_prints(void **state) {
    static const char text[] = PTX_HEAD
        ".extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);\n"
        ".global .b8 format[] = {37, 100, 32, 37, 46, 49, 102, 32, 37, 115, 37, 37, 32, 37, 104,\n"
        "104, 120, 32, 37, 104, 120, 10, 0};\n"
        ".global .b8 word[] = {111, 107, 0};\n" PTX_KERNEL(
            "k", REGISTERS ".local .align 8 .b8 values[32];\n.param .b64 a, b; .param .b32 c;\n",
            "st.local.u32 [values], -5; st.local.f64 [values+8], 0d3FF8000000000000;\n"
            "mov.u64 %l1, word; st.local.u64 [values+16], %l1; mov.u64 %l2, format;\n"
            "st.local.u32 [values+24], -2; st.local.u32 [values+28], -2;\n"
            "mov.u64 %l3, values; cvta.local.u64 %l3, %l3; st.param.b64 [a], %l2;\n"
            "st.param.b64 [b], %l3; call (c), vprintf, (a, b); ld.param.b32 %r0, [c];\n" STORE);
    char printed[64] = "";
    uint64_t *results;
    FILE *kept = tmpfile();
    int standard = dup(1);

    (void)state;
    assert_non_null(kept);
    fflush(stdout);
    dup2(fileno(kept), 1);
    results = results_of(text, 1, 1, 0);
    fflush(stdout);
    dup2(standard, 1);
    close(standard);
    rewind(kept);
    assert_non_null(fgets(printed, sizeof printed, kept));
    fclose(kept);
    assert_string_equal(printed, "-5 1.5 ok% fe fffe\n");
    assert_int_equal(results[0], 5);
    free(results);
}

/* --- texts that are linked --- */

static void test_linked_texts_call_each_other_and_share_variables(void **state) {
    static const char first[] = PTX_HEAD
        ".extern .func (.param .b32 y) other(.param .b32 x);\n.extern .global .u32 shared;\n"
        ".global .u32 own = 1;\n" PTX_KERNEL(
            "k", REGISTERS ".param .b32 a, b;\n",
            "ld.global.u32 %r1, [shared]; ld.global.u32 %r2, [own]; add.u32 %r1, %r1, %r2;\n"
            "st.param.b32 [a], %r1; call (b), other, (a); ld.param.b32 %r0, [b];\n" STORE);
    static const char second[] =
        PTX_HEAD ".visible .global .u32 shared = 20;\n.global .u32 own = 21;\n"
                 ".visible .func (.param .b32 y) other(.param .b32 x)\n{\n.reg .u32 %r<4>;\n"
                 "ld.param.u32 %r1, [x]; ld.global.u32 %r2, [own]; add.u32 %r1, %r1, %r2;\n"
                 "st.param.b32 [y], %r1;\nret;\n}\n";
    CUlinkState link;
    CUmodule module;
    CUdeviceptr to;
    uint64_t result;
    void *cubin;
    size_t size;

    (void)state;
    assert_ok(cuLinkCreate_v2(0, NULL, NULL, &link));
    assert_ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)first, sizeof first, "first", 0,
                               NULL, NULL));
    assert_ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)second, sizeof second, "second", 0,
                               NULL, NULL));
    assert_ok(cuLinkComplete(link, &cubin, &size));
    assert_ok(cuModuleLoadData(&module, cubin));
    assert_ok(cuLinkDestroy(link));
    assert_ok(cuMemAlloc_v2(&to, sizeof result));
    assert_ok(run_kernel(module, "k", 1, 1, 0, to));
    assert_ok(cuMemcpyDtoH_v2(&result, to, sizeof result));
    assert_int_equal(result, 20 + 1 + 21); /* each text has its own `own` */
    assert_ok(cuMemFree_v2(to));
    assert_ok(cuModuleUnload(module));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_a_kernel_waits_for_the_host),
        cmocka_unit_test(test_a_kernel_waits_for_another_stream),
        cmocka_unit_test(test_lanes_that_read_one_address_at_once_read_the_same),
        cmocka_unit_test(test_lanes_that_write_one_address_at_once_write_once),
        cmocka_unit_test(test_the_blocks_of_a_cooperative_grid_wait_for_each_other),
        cmocka_unit_test(test_blocks_wait_for_those_that_begin_later),
        cmocka_unit_test(test_a_launch_is_no_larger_than_the_device_allows),
        cmocka_unit_test(test_device_code_allocates),
        cmocka_unit_test(test_device_code_prints),
        cmocka_unit_test(test_linked_texts_call_each_other_and_share_variables),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
