"""Comparisons of integers, predicates, selections, moves that pack."""

from case import M32, M64, MASK, Case, signed

OPERATORS = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
             "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
INPUTS = "close"


def cases():
    for width in (16, 32, 64):
        for kind in "us":
            def read(v, w=width, k=kind):
                return signed(v, w) if k == "s" else v & MASK[w]
            words = dict(OPERATORS, **({word: OPERATORS[same] for word, same in UNSIGNED.items()} if kind == "u" else {}))
            for word, holds in words.items():
                yield Case(f"setp.{word}.{kind}{width} p, a{width}, b{width};", 1, lambda a, b, c, r=read, h=holds: int(h(r(a), r(b))), INPUTS)
                yield Case(f"set.{word}.u32.{kind}{width} d32, a{width}, b{width};", 32, lambda a, b, c, r=read, h=holds: M32 * h(r(a), r(b)), INPUTS)
        yield Case(f"setp.eq.b{width} p, a{width}, b{width};", 1, lambda a, b, c, m=MASK[width]: int(a & m == b & m), INPUTS)
        yield Case(f"setp.lt.s{width} p, a{width}, 0; selp.b{width} d{width}, b{width}, c{width}, p;", width,
                   lambda a, b, c, w=width: b if signed(a, w) < 0 else c)
    for operation, combine in (("and", lambda x, y: x and y), ("or", lambda x, y: x or y), ("xor", lambda x, y: x != y)):
        for inverted in ("", "!"):
            yield Case(f"setp.gt.u32 q, c32, b32; setp.lt.{operation}.u32 p|r, a32, b32, {inverted}q; "
                       "selp.u64 d64, 1, 0, p; selp.u64 a64, 2, 0, r; or.b64 d64, d64, a64;", 64,
                       lambda a, b, c, f=combine, i=inverted: (
                           f(a & M32 < b & M32, (c & M32 > b & M32) != bool(i)) + 2 * f(a & M32 >= b & M32, (c & M32 > b & M32) != bool(i))), INPUTS)
    yield Case("setp.lt.u32 p, a32, b32; setp.lt.u32 q, b32, c32; and.pred r, p, q; or.pred p, p, q; xor.pred p, p, r; not.pred p, p;", 1,
               lambda a, b, c: int(not (((a & M32 < b & M32) or (b & M32 < c & M32)) != ((a & M32 < b & M32) and (b & M32 < c & M32)))), INPUTS)
    yield Case("setp.ne.u32 p, a32, b32; mov.u32 d32, 1; @p mov.u32 d32, 2; @!p add.u32 d32, d32, 4;", 32,
               lambda a, b, c: 2 if a & M32 != b & M32 else 5, INPUTS)
    yield Case("slct.s32.s32 d32, a32, b32, c32;", 32, lambda a, b, c: a if signed(c, 32) >= 0 else b)
    yield Case("mov.b64 {r0, r1}, a64; mov.b64 d64, {r1, r0};", 64, lambda a, b, c: a >> 32 | (a & M32) << 32)
    yield Case("mov.b32 {h0, h1}, a32; mov.b32 d32, {h1, h0};", 32, lambda a, b, c: a >> 16 & 0xffff | (a & 0xffff) << 16)
    yield Case("mov.b64 {h0, h1, h2, h3}, a64; mov.b64 d64, {h3, h0, h1, h2};", 64, lambda a, b, c: (a << 16 | a >> 48) & M64)
    yield Case("mov.b64 {_, r1}, a64; mov.u32 d32, r1;", 32, lambda a, b, c: a >> 32)
    yield Case("mov.u32 d32, 0x12345678; add.u32 d32, d32, -1;", 32, lambda a, b, c: 0x12345677)
    yield Case("mov.f64 d64, 0d3FF8000000000000; add.f64 d64, d64, 2.5;", 64, lambda a, b, c: 0x4010000000000000)
    yield Case("mov.f32 d32, 0f3F800000; add.f32 d32, d32, 0f40000000;", 32, lambda a, b, c: 0x40400000)
    yield Case("mov.u64 d64, 0xFFFFFFFFFFFFFFFFU; and.b64 d64, d64, 017;", 64, lambda a, b, c: 15)
    yield Case("mov.u32 d32, (3 + 4) * 5 - (16 >> 2);", 32, lambda a, b, c: 31)
    yield Case("mov.b32 d32, 0b1011; xor.b32 d32, d32, ~0;", 32, lambda a, b, c: ~11)
