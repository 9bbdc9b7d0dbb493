"""Integer arithmetic, bits, shifts, packed numbers."""

from case import M32, M64, MASK, Case, signed


def clamp(value, low, high):
    return max(low, min(high, value))


def bfe(a, b, c, width, is_signed):
    start, count = b & 0xff, c & 0xff
    sign = a >> min(start + count - 1, width - 1) & 1 if is_signed and count else 0
    return sum((a >> (start + i) & 1 if i < count and start + i < width else sign) << i for i in range(width))


def bfi(a, b, start, count, width):
    for i in range(count & 0xff):
        if (start & 0xff) + i < width:
            at = (start & 0xff) + i
            b = b & ~(1 << at) | (a >> i & 1) << at
    return b


def bfind(a, width, is_signed, shift=False):
    a &= MASK[width]
    if is_signed and a >> (width - 1):
        a ^= MASK[width]
    if not a:
        return M32
    return width - a.bit_length() if shift else a.bit_length() - 1


def fns(mask, base, offset):
    offset = signed(offset, 32)
    if not offset:
        return base if mask >> base & 1 else M32
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else M32


def szext(a, b, clamped, is_signed):
    if clamped and b >= 32:
        return a & M32
    bits = b % 32
    if not bits:
        return 0
    part = a & ((1 << bits) - 1)
    return signed(part, bits) & M32 if is_signed else part


def prmt(a, b, c, table):
    data = (a & M32 | (b & M32) << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(data[i] for i in reversed(table[c & 3])), "little")


def prmt_plain(a, b, c):
    data = (a & M32 | (b & M32) << 32).to_bytes(8, "little")
    out = []
    for i in range(4):
        selector = c >> (4 * i) & 15
        byte = data[selector & 7]
        out.append((0xff if byte & 0x80 else 0) if selector & 8 else byte)
    return int.from_bytes(bytes(out), "little")


PRMT = {"f4e": ["3210", "4321", "5432", "6543"], "b4e": ["5670", "6701", "7012", "0123"], "rc8": ["0000", "1111", "2222", "3333"],
        "ecl": ["3210", "3211", "3222", "3333"], "ecr": ["0000", "1110", "2210", "3210"], "rc16": ["1010", "3232", "1010", "3232"]}


def lop3(a, b, c, table):
    return sum((table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(32))


def halves(function, a, b, is_signed=False):
    def part(value, i):
        return signed(value >> 16 * i, 16) if is_signed else value >> 16 * i & 0xffff
    return sum((function(part(a, i), part(b, i)) & 0xffff) << 16 * i for i in range(2))


def cases():
    for width in (16, 32, 64):
        s, top = (lambda v, w=width: signed(v, w)), width - 1
        mask = MASK[width]
        for kind in "us":
            value = s if kind == "s" else (lambda v, m=mask: v & m)
            t = f"{kind}{width}"
            d, a, b, c = (f"{name}{width}" for name in "dabc")
            yield Case(f"add.{t} {d}, {a}, {b};", width, lambda x, y, z: x + y)
            yield Case(f"sub.{t} {d}, {a}, {b};", width, lambda x, y, z: x - y)
            yield Case(f"mul.lo.{t} {d}, {a}, {b};", width, lambda x, y, z: x * y)
            yield Case(f"mul.hi.{t} {d}, {a}, {b};", width, lambda x, y, z, v=value, w=width: v(x) * v(y) >> w)
            yield Case(f"mad.lo.{t} {d}, {a}, {b}, {c};", width, lambda x, y, z: x * y + z)
            yield Case(f"mad.hi.{t} {d}, {a}, {b}, {c};", width, lambda x, y, z, v=value, w=width: (v(x) * v(y) >> w) + z)
            yield Case(f"sad.{t} {d}, {a}, {b}, {c};", width, lambda x, y, z, v=value: abs(v(x) - v(y)) + z)
            yield Case(f"min.{t} {d}, {a}, {b};", width, lambda x, y, z, v=value: min(v(x), v(y)))
            yield Case(f"max.{t} {d}, {a}, {b};", width, lambda x, y, z, v=value: max(v(x), v(y)))
            yield Case(f"or.b{width} {b}, {b}, 3; div.{t} {d}, {a}, {b};", width, lambda x, y, z, v=value: (
                abs(v(x)) // abs(v(y | 3)) * (1 if (v(x) < 0) == (v(y | 3) < 0) else -1)))
            yield Case(f"or.b{width} {b}, {b}, 3; rem.{t} {d}, {a}, {b};", width, lambda x, y, z, v=value: (
                abs(v(x)) % abs(v(y | 3)) * (-1 if v(x) < 0 else 1)))
            yield Case(f"shr.{t} {d}, {a}, c32;", width, lambda x, y, z, v=value, w=width: v(x) >> min(z & M32, w), "shifts")
        yield Case(f"shl.b{width} d{width}, a{width}, c32;", width, lambda x, y, z, w=width: x << (z & M32) if z & M32 < w else 0, "shifts")
        yield Case(f"shr.b{width} d{width}, a{width}, c32;", width, lambda x, y, z, m=mask: (x & m) >> min(z & M32, 64), "shifts")
        yield Case(f"neg.s{width} d{width}, a{width};", width, lambda x, y, z: -x)
        yield Case(f"abs.s{width} d{width}, a{width};", width, lambda x, y, z, v=s: abs(v(x)))
        yield Case(f"not.b{width} d{width}, a{width};", width, lambda x, y, z: ~x)
        yield Case(f"cnot.b{width} d{width}, c{width};", width, lambda x, y, z, m=mask: int(z & m == 0), "shifts")
        yield Case(f"and.b{width} d{width}, a{width}, b{width};", width, lambda x, y, z: x & y)
        yield Case(f"xor.b{width} d{width}, a{width}, -2;", width, lambda x, y, z: x ^ -2)
        del top
    yield Case("add.sat.s32 d32, a32, b32;", 32, lambda x, y, z: clamp(signed(x, 32) + signed(y, 32), -2**31, 2**31 - 1))
    yield Case("sub.sat.s32 d32, a32, b32;", 32, lambda x, y, z: clamp(signed(x, 32) - signed(y, 32), -2**31, 2**31 - 1))
    yield Case("mad.hi.sat.s32 d32, a32, b32, c32;", 32,
               lambda x, y, z: clamp((signed(x, 32) * signed(y, 32) >> 32) + signed(z, 32), -2**31, 2**31 - 1))
    for kind in "us":
        value = signed if kind == "s" else (lambda v, w: v & ((1 << w) - 1))
        yield Case(f"mul.wide.{kind}16 d32, a16, b16;", 32, lambda x, y, z, v=value: v(x, 16) * v(y, 16))
        yield Case(f"mul.wide.{kind}32 d64, a32, b32;", 64, lambda x, y, z, v=value: v(x, 32) * v(y, 32))
        yield Case(f"mad.wide.{kind}16 d32, a16, b16, c32;", 32, lambda x, y, z, v=value: v(x, 16) * v(y, 16) + z)
        yield Case(f"mad.wide.{kind}32 d64, a32, b32, c64;", 64, lambda x, y, z, v=value: v(x, 32) * v(y, 32) + z)
        yield Case(f"mul24.lo.{kind}32 d32, a32, b32;", 32, lambda x, y, z, v=value: v(x, 24) * v(y, 24))
        yield Case(f"mul24.hi.{kind}32 d32, a32, b32;", 32, lambda x, y, z, v=value: v(x, 24) * v(y, 24) >> 16)
        yield Case(f"mad24.hi.{kind}32 d32, a32, b32, c32;", 32, lambda x, y, z, v=value: (v(x, 24) * v(y, 24) >> 16) + z)
        for width in (32, 64):
            yield Case(f"bfind.{kind}{width} d32, a{width};", 32, lambda x, y, z, w=width, k=kind: bfind(x, w, k == "s"))
            yield Case(f"bfind.shiftamt.{kind}{width} d32, a{width};", 32, lambda x, y, z, w=width, k=kind: bfind(x, w, k == "s", True))
            yield Case(f"bfe.{kind}{width} d{width}, a{width}, b32, c32;", width,
                       lambda x, y, z, w=width, k=kind: bfe(x & MASK[w], y, z, w, k == "s"), "shifts")
        for mode in ("clamp", "wrap"):
            yield Case(f"szext.{mode}.{kind}32 d32, a32, c32;", 32, lambda x, y, z, m=mode, k=kind: szext(x, z & M32, m == "clamp", k == "s"), "shifts")
        for other in "us":
            second = signed if other == "s" else (lambda v, w: v & ((1 << w) - 1))
            yield Case(f"dp4a.{kind}32.{other}32 d32, a32, b32, c32;", 32,
                       lambda x, y, z, v=value, w=second: z + sum(v(x >> 8 * i, 8) * w(y >> 8 * i, 8) for i in range(4)))
            yield Case(f"dp2a.lo.{kind}32.{other}32 d32, a32, b32, c32;", 32,
                       lambda x, y, z, v=value, w=second: z + sum(v(x >> 16 * i, 16) * w(y >> 8 * i, 8) for i in range(2)))
            yield Case(f"dp2a.hi.{kind}32.{other}32 d32, a32, b32, c32;", 32,
                       lambda x, y, z, v=value, w=second: z + sum(v(x >> 16 * i, 16) * w(y >> 8 * i + 16, 8) for i in range(2)))
        yield Case(f"add.{kind}16x2 d32, a32, b32;", 32, lambda x, y, z: halves(lambda p, q: p + q, x, y))
        yield Case(f"min.{kind}16x2 d32, a32, b32;", 32, lambda x, y, z, k=kind: halves(min, x, y, k == "s"))
        yield Case(f"max.{kind}16x2 d32, a32, b32;", 32, lambda x, y, z, k=kind: halves(max, x, y, k == "s"))
    yield Case("min.relu.s32 d32, a32, b32;", 32, lambda x, y, z: max(0, min(signed(x, 32), signed(y, 32))))
    yield Case("max.relu.s16x2 d32, a32, b32;", 32, lambda x, y, z: halves(lambda p, q: max(0, p, q), x, y, True))
    for width in (32, 64):
        m = MASK[width]
        yield Case(f"popc.b{width} d32, a{width};", 32, lambda x, y, z, m=m: bin(x & m).count("1"))
        yield Case(f"clz.b{width} d32, a{width};", 32, lambda x, y, z, m=m, w=width: w - (x & m).bit_length())
        yield Case(f"brev.b{width} d{width}, a{width};", width, lambda x, y, z, m=m, w=width: int(f"{x & m:0{w}b}"[::-1], 2))
        yield Case(f"bfi.b{width} d{width}, a{width}, b{width}, c32, 7;", width, lambda x, y, z, m=m, w=width: bfi(x, y & m, z, 7, w), "shifts")
        yield Case(f"bfi.b{width} d{width}, a{width}, b{width}, 5, c32;", width, lambda x, y, z, m=m, w=width: bfi(x, y & m, 5, z, w), "shifts")
    yield Case("fns.b32 d32, a32, 9, b32;", 32, lambda x, y, z: fns(x & M32, 9, y), "shifts")
    yield Case("fns.b32 d32, a32, 20, -3;", 32, lambda x, y, z: fns(x & M32, 20, -3))
    yield Case("bmsk.clamp.b32 d32, b32, c32;", 32, lambda x, y, z: ((1 << min(z & M32, 64)) - 1) << (y & M32) if y & M32 < 32 else 0, "shifts")
    yield Case("bmsk.wrap.b32 d32, b32, c32;", 32, lambda x, y, z: ((1 << z % 32) - 1) << y % 32, "shifts")
    for mode, rows in PRMT.items():
        table = [[int(digit) for digit in row] for row in rows]
        yield Case(f"prmt.b32.{mode} d32, a32, b32, c32;", 32, lambda x, y, z, t=table: prmt(x, y, z, t))
    yield Case("prmt.b32 d32, a32, b32, c32;", 32, prmt_plain)
    for table in (0x80, 0xfe, 0x96, 0xe8, 0xca, 0x1a, 0x00, 0xff, 0x3c):
        yield Case(f"lop3.b32 d32, a32, b32, c32, {table:#x};", 32, lambda x, y, z, t=table: lop3(x, y, z, t))
    for mode in ("clamp", "wrap"):
        n = (lambda z: min(z & M32, 32)) if mode == "clamp" else (lambda z: z % 32)
        yield Case(f"shf.l.{mode}.b32 d32, a32, b32, c32;", 32, lambda x, y, z, n=n: ((x & M32 | (y & M32) << 32) << n(z)) >> 32, "shifts")
        yield Case(f"shf.r.{mode}.b32 d32, a32, b32, c32;", 32, lambda x, y, z, n=n: (x & M32 | (y & M32) << 32) >> n(z), "shifts")
    # Chains of the carry flag, 64 bits in halves; and 128 bits.
    chain = "mov.b64 {r0, r1}, a64; mov.b64 {r2, r3}, b64; mov.b64 {r4, r5}, c64; %s mov.b64 d64, {r6, r7};"
    yield Case(chain % "add.cc.u32 r6, r0, r2; addc.u32 r7, r1, r3;", 64, lambda x, y, z: x + y)
    yield Case(chain % "sub.cc.u32 r6, r0, r2; subc.u32 r7, r1, r3;", 64, lambda x, y, z: x - y)
    yield Case(chain % "mad.lo.cc.u32 r6, r0, r2, r4; madc.hi.u32 r7, r0, r2, r5;", 64, lambda x, y, z: (x & M32) * (y & M32) + z)
    yield Case(chain % "add.cc.s32 r6, r0, r2; addc.cc.u32 r6, r1, r3; addc.u32 r7, 0, 0; mov.u32 r6, r7;", 64,
               lambda x, y, z: (x + y >> 64) * 0x100000001)
    yield Case(chain % "sub.cc.u32 r6, r0, r2; subc.cc.u32 r6, r1, r3; subc.u32 r7, 0, 0;", 64,
               lambda x, y, z: (((x >> 32) - (y >> 32) - ((x & M32) < (y & M32))) & M32) | (M32 << 32 if x < y else 0))
    yield Case("add.cc.u64 d64, a64, b64; addc.u64 d64, 0, c64;", 64, lambda x, y, z: (x + y >> 64) + z)
    yield Case("mad.lo.cc.u64 d64, a64, b64, c64; madc.hi.u64 d64, a64, b64, 0;", 64, lambda x, y, z: x * y + z >> 64 & M64)
