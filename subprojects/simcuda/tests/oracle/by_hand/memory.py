"""State spaces, widths, vectors, addresses; calls; special registers; control flow: whole kernels."""

from case import M32, M64, Whole, signed


def kernels():
    yield Whole("widths_extend", """
        .local .align 8 .b8 room[64];
        .reg .u64 at; .reg .b32 x, y; .reg .b16 z;
        mov.u64 at, room;
        mov.u32 x, 0x8091a2b3; add.u32 x, x, t;
        st.local.u32 [at], x; st.local.u32 [at+4], 0xfedcba98;
        ld.local.s8 y, [at+1]; cvt.s64.s32 d64, y;
        ld.local.u8 y, [at+3]; mad.wide.u32 d64, y, 1000, d64;
        ld.local.s16 z, [at+2]; cvt.s64.s16 at64, z; add.s64 d64, d64, at64;
        ld.local.s8 at64, [at+4]; add.s64 d64, d64, at64;
        ld.local.u16 at64, [at+6]; add.s64 d64, d64, at64;
        ld.local.u64 at64, [at]; xor.b64 d64, d64, at64;
        st.global.u64 [mine], d64;""", widths, module="")
    yield Whole("vectors", """
        .shared .align 16 .b8 room[2048];
        .reg .u32 at, p0, p1, p2, p3; .reg .f64 x, y; .reg .b16 h0, h1, h2, h3;
        mov.u32 at, room; mad.lo.u32 at, tid, 16, at;
        add.u32 p0, t, 1; shl.b32 p1, p0, 9; not.b32 p2, p0; mul.lo.u32 p3, p0, p0;
        st.shared.v4.u32 [at], {p0, p1, p2, p3};
        ld.shared.v2.f64 {x, y}, [at]; st.shared.v2.f64 [at], {y, x};
        ld.shared.v4.u16 {h0, h1, h2, h3}, [at]; st.shared.v4.u16 [at], {h3, h2, h1, h0};
        ld.shared.v2.u32 {p0, p1}, [at]; mov.b64 d64, {p0, p1};
        st.global.u64 [mine], d64;""", vectors)
    yield Whole("constants", """
        .reg .u64 at; .reg .u32 x, y; .reg .f64 f;
        cvt.u64.u32 at, tid; and.b64 at, at, 3; shl.b64 at, at, 2;
        mov.u64 at64, table; add.u64 at64, at64, at; ld.const.u32 x, [at64];
        ld.const.f64 f, [real]; cvt.rni.u32.f64 y, f; add.u32 x, x, y;
        ld.const.u8 y, [letters+2]; add.u32 x, x, y;
        ld.global.u64 at64, [pointer]; ld.global.u32 y, [at64]; add.u32 x, x, y;
        ld.global.v2.u32 {y, x1}, [pair]; add.u32 x, x, y; add.u32 x, x, x1;
        cvt.u64.u32 d64, x; st.global.u64 [mine], d64;""",
                lambda thread, block, threads: [10, 20, 30, 40][thread & 3] + 1000 + ord("c") + 77 + 5 + 6,
                module=""".const .align 4 .u32 table[4] = {10, 20, 30, 40};
.const .f64 real = 0d408F400000000000;
.const .align 1 .b8 letters[4] = {97, 98, 99, 0};
.global .align 4 .u32 target = 77;
.global .align 8 .u64 pointer = target;
.global .align 8 .u32 pair[2] = {5, 6};
""")
    yield Whole("generic_addresses", """
        .shared .align 8 .u64 words[64]; .local .align 8 .u64 own_word;
        .reg .u64 a, b, g; .reg .pred p; .reg .u32 x;
        mov.u64 a, words; cvt.u64.u32 b, tid; shl.b64 b, b, 3; add.u64 a, a, b;
        cvta.shared.u64 g, a; cvt.u64.u32 b, t; st.u64 [g], b; ld.shared.u64 d64, [a];
        isspacep.shared p, g; selp.u64 b, 1000, 0, p; add.u64 d64, d64, b;
        isspacep.global p, g; selp.u64 b, 1, 0, p; add.u64 d64, d64, b;
        mov.u64 a, own_word; cvta.local.u64 g, a; st.u64 [g], 20000; ld.local.u64 b, [own_word]; add.u64 d64, d64, b;
        isspacep.local p, g; selp.u64 b, 300000, 0, p; add.u64 d64, d64, b;
        isspacep.global p, mine; selp.u64 b, 4000000, 0, p; add.u64 d64, d64, b;
        cvta.global.u64 g, mine; st.volatile.u64 [g], d64; cvta.to.global.u64 a, g; ld.relaxed.gpu.global.u64 b, [a]; st.global.u64 [a], b;""",
                lambda thread, block, threads: thread + block * threads + 1000 + 20000 + 300000 + 4000000, blocks=2)
    yield Whole("special_registers", """
        .reg .u32 x, y; .reg .u64 z, c0, c1; .reg .pred p;
        mov.u32 x, %laneid; mov.u32 y, %warpid; mad.lo.u32 x, y, 32, x;
        mov.u32 y, %lanemask_lt; popc.b32 y, y; mad.lo.u32 x, y, 100, x;
        mov.u32 y, %lanemask_ge; popc.b32 y, y; mad.lo.u32 x, y, 10000, x;
        mov.u32 y, %nctaid.x; mad.lo.u32 x, y, 1000000, x;
        mov.u32 y, %ntid.y; mad.lo.u32 x, y, 10000000, x;
        mov.u32 y, WARP_SZ; add.u32 x, x, y;
        mov.u64 c0, %clock64; mov.u64 c1, %clock64; setp.ge.u64 p, c1, c0; selp.u32 y, 1, 0, p; add.u32 x, x, y;
        cvt.u64.u32 d64, x; st.global.u64 [mine], d64;""",
                lambda thread, block, threads: thread + thread % 32 * 100 + (32 - thread % 32) * 10000 + 2 * 1000000 + 10000000 + 32 + 1, blocks=2)
    yield Whole("calls", """
        .reg .u32 x, y; .reg .b64 f; .reg .pred p;
        add.u32 x, tid, 3;
        { .param .b32 n; .param .b32 r; st.param.b32 [n], x; call.uni (r), factorial, (n); ld.param.b32 y, [r]; }
        { .param .align 8 .b8 s[16]; .param .align 8 .b8 r[16]; st.param.b32 [s], y; st.param.b64 [s+8], 5;
          call (r), swap, (s); ld.param.b64 d64, [r]; ld.param.b32 x, [r+8]; }
        cvt.u64.u32 at64, x; mad.lo.u64 d64, d64, 1000000, at64;
        setp.gt.u32 p, tid, 20; mov.u64 f, add_one; @p mov.u64 f, add_two;
        { .param .b32 n; .param .b32 r; st.param.b32 [n], tid; prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
          call (r), f, (n), prototype; ld.param.b32 y, [r]; }
        cvt.u64.u32 at64, y; add.u64 d64, d64, at64;
        st.global.u64 [mine], d64;""", calls, module="""
.func (.param .b32 r) factorial(.param .b32 n) {
    .reg .u32 x, y, z; .reg .pred p;
    ld.param.b32 x, [n]; setp.gt.u32 p, x, 1; @p bra more; st.param.b32 [r], 1; ret;
more: sub.u32 y, x, 1;
    { .param .b32 m; .param .b32 q; st.param.b32 [m], y; call (q), factorial, (m); ld.param.b32 z, [q]; }
    mul.lo.u32 x, x, z; st.param.b32 [r], x; ret; }
.func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 s[16]) {
    .reg .b32 x; .reg .b64 y; ld.param.b32 x, [s]; ld.param.b64 y, [s+8]; st.param.b64 [r], y; st.param.b32 [r+8], x; ret; }
.func (.param .b32 r) add_one(.param .b32 n) { .reg .u32 x; ld.param.b32 x, [n]; add.u32 x, x, 1; st.param.b32 [r], x; ret; }
.func (.param .b32 r) add_two(.param .b32 n) { .reg .u32 x; ld.param.b32 x, [n]; add.u32 x, x, 2; st.param.b32 [r], x; ret; }
""")
    yield Whole("branches", """
        .reg .u32 x, k; .reg .pred p, q;
        mov.u32 x, 0; and.b32 k, tid, 7;
    again: setp.eq.u32 p, k, 0; @p bra leave; add.u32 x, x, k; sub.u32 k, k, 1;
        and.b32 at32, x, 1; setp.eq.u32 q, at32, 1; @!q bra again; add.u32 x, x, 100; bra.uni again;
    leave: and.b32 k, tid, 3; targets: .branchtargets one, two, three, one;
        brx.idx k, targets;
    one: add.u32 x, x, 1000; bra join;
    two: add.u32 x, x, 2000; setp.gt.u32 p, tid, 40; @p bra early; bra join;
    three: add.u32 x, x, 3000;
    join: cvt.u64.u32 d64, x; st.global.u64 [mine], d64; bra end;
    early: st.global.u64 [mine], 7; exit;
    end:""", branches)
    yield Whole("barriers", """
        .shared .u32 words[64]; .reg .u32 at, x, y, n; .reg .pred p, q;
        mov.u32 at, words; mad.lo.u32 at, tid, 4, at; st.shared.u32 [at], t; bar.sync 0;
        mov.u32 at, words; sub.u32 x, 63, tid; mad.lo.u32 at, x, 4, at; ld.shared.u32 y, [at];
        setp.lt.u32 p, tid, 10; barrier.sync.aligned 1, 64; bar.red.popc.u32 n, 0, p; mad.lo.u32 y, n, 1000, y;
        setp.ge.u32 p, tid, 0; bar.red.and.pred q, 0, p; selp.u32 n, 100000, 0, q; add.u32 y, y, n;
        setp.eq.u32 p, tid, 5; bar.red.or.pred q, 0, !p; selp.u32 n, 1000000, 0, q; add.u32 y, y, n;
        setp.lt.u32 p, tid, 32; @p bar.arrive 2, 64; @!p bar.sync 2, 64;
        bar.warp.sync 0xffffffff; membar.gl; fence.acq_rel.cta;
        cvt.u64.u32 d64, y; st.global.u64 [mine], d64;""",
                lambda thread, block, threads: block * threads + 63 - thread + 10 * 1000 + 100000 + 1000000, blocks=2)
    yield Whole("exits", """
        .reg .pred p; .reg .u32 x;
        st.global.u64 [mine], 1; setp.lt.u32 p, tid, 7; @p ret; st.global.u64 [mine], 2; and.b32 x, tid, 1;
        setp.eq.u32 p, x, 1; @p exit; bar.sync 0; st.global.u64 [mine], 3;""",
                lambda thread, block, threads: 1 if thread < 7 else 2 if thread & 1 else 3)


def widths(thread, block, threads):
    x = 0x8091a2b3 + thread + block * threads
    data = x.to_bytes(4, "little") + (0xfedcba98).to_bytes(4, "little")
    total = signed(data[1], 8) + data[3] * 1000 + signed(int.from_bytes(data[2:4], "little"), 16) + signed(data[4], 8)
    total += int.from_bytes(data[6:8], "little")
    return (total ^ int.from_bytes(data, "little")) & M64


def vectors(thread, block, threads):
    first = thread + block * threads + 1
    words = [first, first << 9 & M32, first ^ M32, first * first & M32]
    data = b"".join(word.to_bytes(4, "little") for word in words[2:] + words[:2])[:8]
    return int.from_bytes(b"".join(data[i:i + 2] for i in (6, 4, 2, 0)), "little")


def calls(thread, block, threads):
    product = 1
    for i in range(2, thread + 4):
        product = product * i & M32
    return (5 * 1000000 + product + thread + (2 if thread > 20 else 1)) & M64


def branches(thread, block, threads):
    x, k = 0, thread & 7
    while k:
        x += k
        k -= 1
        if x & 1:
            x += 100
    if thread & 3 == 1:
        return 7 if thread > 40 else x + 2000
    return x + (3000 if thread & 3 == 2 else 1000)
