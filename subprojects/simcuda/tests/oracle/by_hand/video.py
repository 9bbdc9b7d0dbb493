"""Video instructions, of parts of registers and of vectors in them."""

from case import MASK, Case, signed

PARTS = {"": (0, 32), ".b0": (0, 8), ".b3": (24, 8), ".h0": (0, 16), ".h1": (16, 16)}


def part(bits, name, is_signed):
    shift, width = PARTS[name]
    bits = bits >> shift & MASK[width]
    return signed(bits, width) if is_signed else bits


def clamped(value, width, is_signed):
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, MASK[width])
    return max(low, min(high, value))


FIRST = {"vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vabsdiff": lambda x, y: abs(x - y), "vmin": min, "vmax": max}
SECOND = {"": lambda r, c: r, ".add": lambda r, c: r + c, ".min": min, ".max": max}


def scalar(operation, kinds, parts, sat, second="", to=""):
    def expected(a, b, c):
        result = FIRST[operation](part(a, parts[0], kinds[1] == "s"), part(b, parts[1], kinds[2] == "s"))
        shift, width = PARTS[to]
        if sat:
            result = clamped(result, width, kinds[0] == "s")
        result = SECOND[second](result, signed(c, 32) if kinds[0] == "s" else c & MASK[32])
        if not to:
            return result
        return (result & MASK[width]) << shift | c & ~(MASK[width] << shift)
    return expected


def average(x, y):
    return x + y + 1 >> 1 if x + y >= 0 else x + y >> 1


def vector(function, width, kinds, sat=False, add=False, mask=15, selectors=(0x3210, 0x7654)):
    def expected(a, b, c):
        both, result = a & MASK[32] | (b & MASK[32]) << 32, c & MASK[32]
        for i in range(32 // width):
            operands = []
            for selector, kind in zip(selectors, kinds[1:], strict=True):
                bits = both >> (selector >> 4 * i & 7) * width & MASK[width]
                operands.append(signed(bits, width) if kind == "s" else bits)
            value = function(*operands)
            if sat:
                value = clamped(value, width, kinds[0] == "s")
            if mask >> i & 1:
                field = MASK[width] << i * width
                result = result + value if add else result & ~field | value << i * width & field
        return result
    return expected


def cases():
    for operation in FIRST:
        for kinds in ("uuu", "sss", "suu", "usu"):
            types = ".".join(f"{kind}32" for kind in kinds)
            for sat in (".sat", ""):
                yield Case(f"{operation}.{types}{sat} d32, a32, b32;", 32, scalar(operation, kinds, ("", ""), sat))
                yield Case(f"{operation}.{types}{sat} d32, a32.b3, b32.h1;", 32, scalar(operation, kinds, (".b3", ".h1"), sat))
                yield Case(f"{operation}.{types}{sat} d32.h1, a32.h0, b32.b0, c32;", 32, scalar(operation, kinds, (".h0", ".b0"), sat, to=".h1"))
                yield Case(f"{operation}.{types}{sat} d32.b0, a32, b32, c32;", 32, scalar(operation, kinds, ("", ""), sat, to=".b0"))
            for second in (".add", ".min", ".max"):
                yield Case(f"{operation}.{types}{second} d32, a32.h1, b32.b3, c32;", 32, scalar(operation, kinds, (".h1", ".b3"), False, second))
    for mode in ("clamp", "wrap"):
        count = (lambda b: min(b & MASK[32], 32)) if mode == "clamp" else (lambda b: b & 31)
        yield Case(f"vshl.u32.u32.u32.{mode} d32, a32, c32;", 32, lambda a, b, c, n=count: (a & MASK[32]) << n(c), "shifts")
        yield Case(f"vshr.s32.s32.u32.{mode} d32, a32, c32;", 32, lambda a, b, c, n=count: signed(a, 32) >> n(c), "shifts")
        yield Case(f"vshl.u32.u32.u32.sat.{mode}.add d32, a32.h0, c32, b32;", 32,
                   lambda a, b, c, n=count: min((a & MASK[16]) << n(c), MASK[32]) + b, "shifts")
    yield Case("vset.s32.u32.lt d32, a32, b32;", 32, lambda a, b, c: int(signed(a, 32) < b & MASK[32]))
    yield Case("vset.u32.u32.ge.add d32, a32.b0, b32.b3, c32;", 32, lambda a, b, c: int(a & 255 >= b >> 24 & 255) + c)
    yield Case("vmad.u32.u32.u32 d32, a32, b32, c32;", 32, lambda a, b, c: a * b + c)
    yield Case("vmad.s32.s32.s32.sat d32, a32.h0, b32.h1, c32;", 32, lambda a, b, c: clamped(
        signed(a, 16) * signed(b >> 16, 16) + signed(c, 32), 32, True))
    yield Case("vmad.u32.u32.u32.sat.shr7 d32, a32, b32, c32;", 32, lambda a, b, c: clamped(
        (a & MASK[32]) * (b & MASK[32]) + (c & MASK[32]) >> 7, 32, False))
    yield Case("vmad.s32.s32.u32.shr15 d32, -a32.h1, b32.h0, c32;", 32, lambda a, b, c: (
        signed(c, 32) - signed(a >> 16, 16) * (b & MASK[16]) >> 15))
    yield Case("vmad.s32.u32.s32 d32, a32.b0, b32.b0, -c32;", 32, lambda a, b, c: (a & 255) * signed(b, 8) - signed(c, 32))
    yield Case("vmad.u32.u32.u32.po.shr7 d32, a32.h0, b32.h0, c32;", 32, lambda a, b, c: (a & MASK[16]) * (b & MASK[16]) + (c & MASK[32]) + 1 >> 7)
    functions = dict(FIRST, vavrg=average)
    for operation, function in functions.items():
        for kinds in ("uuu", "sss"):
            types = ".".join(f"{kind}32" for kind in kinds)
            for lanes, width in ((4, 8), (2, 16)):
                plain = (0x3210, 0x7654) if lanes == 4 else (0x10, 0x32)
                yield Case(f"{operation}{lanes}.{types} d32, a32, b32, c32;", 32, vector(function, width, kinds, selectors=plain))
                yield Case(f"{operation}{lanes}.{types}.sat d32, a32, b32, c32;", 32, vector(function, width, kinds, True, selectors=plain))
                yield Case(f"{operation}{lanes}.{types}.add d32, a32, b32, c32;", 32, vector(function, width, kinds, add=True, selectors=plain))
            yield Case(f"{operation}4.{types} d32.b20, a32.b0716, b32.b1234, c32;", 32, vector(function, 8, kinds, mask=5, selectors=(0x0716, 0x1234)))
            yield Case(f"{operation}2.{types}.sat d32.h1, a32.h03, b32.h21, c32;", 32, vector(function, 16, kinds, True, mask=2, selectors=(0x03, 0x21)))
    yield Case("vset4.u32.u32.gt d32, a32, b32, c32;", 32, vector(lambda x, y: int(x > y), 8, "uuu"))
    yield Case("vset2.s32.s32.le.add d32, a32, b32, c32;", 32, vector(lambda x, y: int(x <= y), 16, "uss", add=True, selectors=(0x10, 0x32)))
