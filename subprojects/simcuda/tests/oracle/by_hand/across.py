"""Between the threads of a warp, and atomics."""

from case import M32, Whole


def lane(thread):
    return thread & 31


def kernels():
    yield Whole("shuffles", """
        .reg .u32 x, y, z; .reg .pred p;
        mul.lo.u32 x, tid, 3;
        shfl.sync.up.b32 y|p, x, 5, 0, 0xffffffff; selp.u32 z, 1, 0, p; mad.lo.u32 y, z, 10000, y;
        shfl.sync.down.b32 z|p, x, 3, 0x181f, 0xffffffff; mad.lo.u32 y, z, 100000, y; selp.u32 z, 1, 0, p; mad.lo.u32 y, z, 50000, y;
        shfl.sync.idx.b32 z|p, x, 40, 31, 0xffffffff; cvt.u64.u32 d64, y; mad.wide.u32 d64, z, 100000000, d64;
        shfl.sync.bfly.b32 z, x, 9, 31, 0xffffffff; mad.wide.u32 d64, z, 3, d64;
        st.global.u64 [mine], d64;""", shuffles)
    yield Whole("votes", """
        .reg .u32 x, y; .reg .pred p, q;
        and.b32 x, tid, 3; setp.eq.u32 p, x, 2;
        vote.sync.ballot.b32 y, p, 0xffffffff; cvt.u64.u32 d64, y;
        vote.sync.any.pred q, p, 0xffffffff; selp.u32 y, 1, 0, q; shl.b32 y, y, 0; mad.wide.u32 d64, y, 0x40000000, d64;
        vote.sync.all.pred q, !p, 0xffffffff; selp.u32 y, 1, 0, q; mad.wide.u32 d64, y, 0x60000000, d64;
        setp.ge.u32 p, tid, 0; vote.sync.uni.pred q, p, 0xffffffff; selp.u32 y, 1, 0, q; mad.wide.u32 d64, y, 0x70000000, d64;
        match.any.sync.b32 y, x, 0xffffffff; mad.wide.u32 d64, y, 5, d64;
        match.all.sync.b32 y|q, x, 0xffffffff; add.u32 y, y, 1; mad.wide.u32 d64, y, 7, d64;
        and.b32 y, tid, 32; match.all.sync.b32 y|q, y, 0xffffffff; mad.wide.u32 d64, y, 11, d64;
        activemask.b32 y; mad.wide.u32 d64, y, 13, d64;
        st.global.u64 [mine], d64;""",
                lambda thread, block, threads: (0x44444444 + 0x40000000 + 0x70000000 + 5 * (0x11111111 << (thread & 3)) + 7 + 11 * M32 + 13 * M32))
    yield Whole("reductions_of_a_warp", """
        .reg .u32 x, y; .reg .pred p;
        redux.sync.add.u32 y, tid, 0xffffffff; cvt.u64.u32 d64, y;
        sub.u32 x, tid, 40; redux.sync.min.s32 y, x, 0xffffffff; mad.wide.u32 d64, y, 3, d64;
        redux.sync.max.u32 y, x, 0xffffffff; mad.wide.u32 d64, y, 5, d64;
        redux.sync.xor.b32 y, tid, 0xffffffff; mad.wide.u32 d64, y, 7, d64;
        setp.lt.u32 p, tid, 13; @!p bra over; redux.sync.or.b32 y, tid, 0x1fff; mad.wide.u32 d64, y, 11, d64;
    over: st.global.u64 [mine], d64;""", reductions)
    yield Whole("atomics_of_one_word_each", """
        .reg .u32 x, y; .reg .u64 at, z; .reg .f32 f; .reg .f64 g; .reg .b16 h;
        mov.u64 at, mine; st.global.u64 [at], 10;
        atom.global.add.u32 x, [at], 5; cvt.u64.u32 d64, x;
        atom.global.inc.u32 x, [at], 15; mad.wide.u32 d64, x, 100, d64;
        atom.global.dec.u32 x, [at], 8; mad.wide.u32 d64, x, 10000, d64;
        atom.global.exch.b32 x, [at], 0x80000000; mad.wide.u32 d64, x, 1000000, d64;
        atom.global.min.s32 x, [at], 3; atom.global.max.u32 x, [at], 0x80000001; atom.global.cas.b32 x, [at], 0x80000001, 6;
        mad.wide.u32 d64, x, 3, d64; atom.global.cas.b32 x, [at], 5, 9; mad.wide.u32 d64, x, 100000000, d64;
        atom.global.and.b32 x, [at], 12; red.global.or.b32 [at], 3; red.global.xor.b32 [at], 1; ld.global.u32 x, [at]; mad.wide.u32 d64, x, 7, d64;
        st.global.u64 [at], 0; atom.global.add.f32 f, [at], 0f3FC00000; atom.global.add.f32 f, [at], 0f3FC00000; cvt.rni.u32.f32 x, f; mad.wide.u32 d64, x, 11, d64;
        st.global.u64 [at], 0; red.global.add.f64 [at], 0d4008000000000000; atom.global.add.f64 g, [at], 0d3FF0000000000000; cvt.rni.u32.f64 x, g; mad.wide.u32 d64, x, 13, d64;
        st.global.u64 [at], 77; atom.global.add.u64 z, [at], 3; atom.global.exch.b64 z, [at], z; mad.lo.u64 d64, z, 17, d64;
        atom.global.cas.b64 z, [at], 77, 1000; ld.global.u64 z, [at]; mad.lo.u64 d64, z, 19, d64;
        atom.global.max.s64 z, [at], -5; atom.global.min.u64 z, [at], 500; mad.lo.u64 d64, z, 23, d64;
        st.global.u64 [at], 0x3c00; mov.b16 h, 0x4000; atom.global.add.noftz.f16 h, [at], h; ld.global.u16 x, [at]; mad.wide.u32 d64, x, 29, d64;
        st.global.u64 [at], 0x1234; mov.b16 h, 0x5678; atom.global.cas.b16 h, [at], 0x1234, h; ld.global.u32 x, [at]; mad.wide.u32 d64, x, 31, d64;
        atom.acquire.gpu.global.add.u32 x, [at], -1; mad.wide.u32 d64, x, 37, d64;
        st.global.u64 [mine], d64;""", atomics)
    yield Whole("atomics_of_one_word_for_all", """
        .shared .u32 word; .shared .u64 wide; .reg .u32 x; .reg .u64 z; .reg .pred p;
        setp.eq.u32 p, tid, 0; @p st.shared.u32 [word], 0; @p st.shared.u64 [wide], 0; bar.sync 0;
        atom.shared.add.u32 x, [word], tid; red.shared.max.u64 [wide], 12; bar.sync 0;
        atom.add.u32 x, [own], 1; red.global.add.u32 [own+4], tid; atom.global.or.b32 x, [own+8], t; red.global.max.u32 [own+12], t;
        ld.shared.u32 x, [word]; ld.shared.u64 z, [wide]; mad.wide.u32 d64, x, 100, z;
        st.global.u64 [mine], d64;""",
                lambda thread, block, threads: sum(range(threads)) * 100 + 12, blocks=3, own=[192, 3 * sum(range(64)), 255, 191])
    yield Whole("divergent_threads_meet", """
        .shared .u32 flag; .reg .u32 x; .reg .pred p;
        setp.eq.u32 p, tid, 0; @p st.volatile.shared.u32 [flag], 0; bar.sync 0;
        setp.eq.u32 p, tid, 17; @p bra setter;
    wait: ld.volatile.shared.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra wait; bra done;
    setter: st.volatile.shared.u32 [flag], 5; mov.u32 x, 6;
    done: cvt.u64.u32 d64, x; st.global.u64 [mine], d64;""", lambda thread, block, threads: 6 if thread == 17 else 5)


def shuffles(thread, block, threads):
    warp, at = thread & ~31, lane(thread)

    def x(other):
        return (warp + other) * 3
    up = x(at - 5 if at >= 5 else at) + 10000 * (at >= 5)
    group = at & 24  # the segment of 8: clamped at its last lane
    inside = at + 3 <= (group | 7)
    down = x(at + 3 if inside else at)
    low = up + down * 100000 + 50000 * inside
    return (low & M32) + x(40 & 31) * 100000000 + x(at ^ 9) * 3


def reductions(thread, block, threads):
    warp = range(thread & ~31, (thread & ~31) + 32)
    total = sum(warp)
    least = min(t - 40 for t in warp) & M32
    most = max((t - 40) & M32 for t in warp)
    both = 0
    for t in warp:
        both ^= t
    result = total + least * 3 + most * 5 + both * 7
    return result + 11 * 15 if thread < 13 else result


def atomics(thread, block, threads):
    result = 10 + 15 * 100  # then inc: 15 is not below 15, so 0
    result += 0 * 10000  # dec of 0: 8
    result += 8 * 1000000
    # min with 3: 0x80000000 stays; max: 0x80000001; cas: 6
    result += 0x80000001 * 3 + 6 * 100000000
    result += ((6 & 12 | 3) ^ 1) * 7
    result += 2 * 11  # 1.5, halfway between 1 and 2
    result += 3 * 13
    result += 80 * 17  # add leaves 80; exch puts 77 back and gives 80
    result += 1000 * 19 + 1000 * 23
    result += 0x4200 * 29 + 0x5678 * 31 + 0x5678 * 37
    return result
