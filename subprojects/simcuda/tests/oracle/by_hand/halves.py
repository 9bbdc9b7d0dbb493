"""16-bit floating point: f16, bf16, two of them in a register."""

import numbers_of as n
from case import M16, M32, Case
from floats import extreme

INPUTS = "halves"


def value(bits, name):
    return n.decode(bits & M16, name)


def finish(result, name, ftz=False, sat=False, relu=False):
    bits = n.encode(result[0], name, "rn", result[1])
    if ftz:
        flushed = n.flush(n.decode(bits, name), name)
        bits = bits if flushed == n.NAN else n.encode(flushed, name, "rn", n.is_negative(flushed))
    if relu and n.decode(bits, name) != n.NAN and bits >> 15:
        return 0
    return n.saturate(bits, name) if sat else bits


def binary(operation, name, ftz=False, sat=False):
    def expected(a, b, c):
        x, y = (n.flush(value(v, name), name) if ftz else value(v, name) for v in (a, b))
        return finish(operation(x, y), name, ftz, sat)
    return expected


def fused(name, ftz=False, sat=False, relu=False):
    def expected(a, b, c):
        x, y, z = (n.flush(value(v, name), name) if ftz else value(v, name) for v in (a, b, c))
        product, sign = n.multiply(x, y)
        if product == 0:
            product = n.NEGATIVE_ZERO if sign else product
        return finish(n.add(product, z), name, ftz, sat, relu)
    return expected


def both(function):
    return lambda a, b, c: function(a & M16, b & M16, c & M16) | function(a >> 16 & M16, b >> 16 & M16, c >> 16 & M16) << 16


OPERATIONS = {"add": n.add, "sub": lambda x, y: n.add(x, n.negated(y)), "mul": n.multiply}


def cases():
    for operation, function in OPERATIONS.items():
        for name in ("f16", "bf16"):
            plain = binary(function, name)
            yield Case(f"{operation}.rn.{name} d16, a16, b16;", 16, plain, INPUTS)
            yield Case(f"{operation}.{name}x2 d32, a32, b32;", 32, both(plain), INPUTS)
        yield Case(f"{operation}.ftz.sat.f16 d16, a16, b16;", 16, binary(function, "f16", True, True), INPUTS)
        yield Case(f"{operation}.rn.ftz.f16x2 d32, a32, b32;", 32, both(binary(function, "f16", True)), INPUTS)
        yield Case(f"{operation}.rn.sat.f16x2 d32, a32, b32;", 32, both(binary(function, "f16", False, True)), INPUTS)
    for name in ("f16", "bf16"):
        yield Case(f"fma.rn.{name} d16, a16, b16, c16;", 16, fused(name), INPUTS)
        yield Case(f"fma.rn.relu.{name} d16, a16, b16, c16;", 16, fused(name, relu=True), INPUTS)
        yield Case(f"fma.rn.{name}x2 d32, a32, b32, c32;", 32, both(fused(name)), INPUTS)
        yield Case(f"fma.rn.relu.{name}x2 d32, a32, b32, c32;", 32, both(fused(name, relu=True)), INPUTS)
        for word, most in (("min", False), ("max", True)):
            yield Case(f"{word}.{name} d16, a16, b16;", 16, half_extreme(name, most), INPUTS)
            yield Case(f"{word}.NaN.{name}x2 d32, a32, b32;", 32, both(half_extreme(name, most, nan=True)), INPUTS)
            yield Case(f"{word}.xorsign.abs.{name} d16, a16, b16;", 16, half_extreme(name, most, xorsign=True), INPUTS)
        yield Case(f"neg.{name} d16, a16;", 16, lambda a, b, c: a ^ 0x8000, INPUTS + " numbers")
        yield Case(f"abs.{name}x2 d32, a32;", 32, lambda a, b, c: a & 0x7fff7fff, INPUTS + " numbers")
        for operator in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
            holds = (lambda a, b, o=operator, f=name: n.compare(o, value(a, f), value(b, f)))
            one = n.encode(n.Fraction(1), name)
            yield Case(f"setp.{operator}.{name} p, a16, b16;", 1, lambda a, b, c, h=holds: int(h(a, b)), INPUTS)
            yield Case(f"set.{operator}.{name}.{name} d16, a16, b16;", 16, lambda a, b, c, h=holds, o=one: o * h(a, b), INPUTS)
            yield Case(f"set.{operator}.u32.{name} d32, a16, b16;", 32, lambda a, b, c, h=holds: M32 * h(a, b), INPUTS)
            yield Case(f"set.{operator}.{name}x2.{name}x2 d32, a32, b32;", 32, both(lambda a, b, c, h=holds, o=one: o * h(a, b)), INPUTS)
            yield Case(f"set.{operator}.u32.{name}x2 d32, a32, b32;", 32, both(lambda a, b, c, h=holds: M16 * h(a, b)), INPUTS)
            yield Case(f"setp.{operator}.{name}x2 p|q, a32, b32; selp.u64 d64, 1, 0, p; selp.u64 a64, 2, 0, q; or.b64 d64, d64, a64;", 64,
                       lambda a, b, c, h=holds: h(a, b) + 2 * h(a >> 16, b >> 16), INPUTS)
    yield Case("fma.rn.ftz.sat.f16 d16, a16, b16, c16;", 16, fused("f16", True, True), INPUTS)


def half_extreme(name, most, nan=False, xorsign=False):
    function = extreme(name, most, nan=nan, xorsign=xorsign)
    return lambda a, b, c: function(a & M16, b & M16, c)
