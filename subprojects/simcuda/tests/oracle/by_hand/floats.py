"""Single and double precision: roundings, .ftz, .sat, minima, comparisons."""

import numbers_of as n
from case import M32, Case


def value(bits, name):
    return n.decode(bits & ((1 << n.width(name)) - 1), name)


def finished(result, name, rounding="rn", ftz=False, sat=False):
    bits = n.encode(result[0], name, rounding, result[1])
    if ftz:
        flushed = n.flush(n.decode(bits, name), name)
        bits = bits if flushed == n.NAN else n.encode(flushed, name, "rn", n.is_negative(flushed))
    return n.saturate(bits, name) if sat else bits


def nan_of(name, *bits):
    """The NaN that a double precision instruction gives for one among its operands: the first, quiet. None: no operand is one."""
    if name == "f64":
        return next((each | 1 << 51 for each in bits if value(each, name) == n.NAN), None)
    return None


def operands(name, ftz, *bits):
    values = [value(each, name) for each in bits]
    return [n.flush(each, name) for each in values] if ftz else values


def binary(operation, name, rounding, ftz=False, sat=False):
    def expected(a, b, c):
        x, y = operands(name, ftz, a, b)
        nan = nan_of(name, a, b)
        if nan is not None:
            return nan
        return finished(operation(x, y, rounding), name, rounding, ftz, sat)
    return expected


def unary(operation, name, rounding):
    def expected(a, b, c):
        nan = nan_of(name, a)
        return nan if nan is not None else finished(operation(value(a, name)), name, rounding)
    return expected


def fused(name, rounding, ftz=False, sat=False):
    def expected(a, b, c):
        x, y, z = operands(name, ftz, a, b, c)
        nan = nan_of(name, a, b, c)
        if nan is not None:
            return nan
        product, sign = n.multiply(x, y)
        if product == 0:
            product = n.NEGATIVE_ZERO if sign else product
        return finished(n.add(product, z, rounding), name, rounding, ftz, sat)
    return expected


OPERATIONS = {"add": n.add, "sub": lambda x, y, r: n.add(x, n.negated(y), r), "mul": lambda x, y, r: n.multiply(x, y),
              "div": lambda x, y, r: n.divide(x, y)}


def extreme(name, most, ftz=False, nan=False, xorsign=False):
    def key(v):
        return (1 if v == n.INF else -1 if v == n.MINUS_INF else 0, n.number(v) if v not in (n.INF, n.MINUS_INF) else 0,
                0 if n.is_negative(v) else 1)

    def expected(a, b, c):
        x, y = operands(name, ftz, a, b)
        sign = (a ^ b) >> (n.width(name) - 1) & 1
        if x == y == n.NAN:
            return n.CANONICAL[name] if name != "f64" else nan_of(name, a, b)
        if nan and n.NAN in (x, y):
            return n.CANONICAL[name]
        if xorsign:
            x, y = (n.negated(v) if n.is_negative(v) else v for v in (x, y))
        chosen = y if x == n.NAN else x if y == n.NAN else (max if most else min)(x, y, key=key)
        if xorsign:
            chosen = n.negated(chosen) if sign else chosen
        return n.encode(chosen, name)
    return expected


def cases():
    for rounding in ("rn", "rz", "rm", "rp"):
        for operation, function in OPERATIONS.items():
            yield Case(f"{operation}.{rounding}.f32 d32, a32, b32;", 32, binary(function, "f32", rounding), "f32")
            yield Case(f"{operation}.{rounding}.ftz.f32 d32, a32, b32;", 32, binary(function, "f32", rounding, True), "f32")
            yield Case(f"{operation}.{rounding}.f64 d64, a64, b64;", 64, binary(function, "f64", rounding), "f64")
        for operation in ("add", "sub", "mul"):
            yield Case(f"{operation}.{rounding}.sat.f32 d32, a32, b32;", 32, binary(OPERATIONS[operation], "f32", rounding, False, True), "f32")
        yield Case(f"fma.{rounding}.f32 d32, a32, b32, c32;", 32, fused("f32", rounding), "f32")
        yield Case(f"fma.{rounding}.ftz.sat.f32 d32, a32, b32, c32;", 32, fused("f32", rounding, True, True), "f32")
        yield Case(f"mad.{rounding}.f32 d32, a32, b32, c32;", 32, fused("f32", rounding), "f32")
        yield Case(f"fma.{rounding}.f64 d64, a64, b64, c64;", 64, fused("f64", rounding), "f64")
        yield Case(f"rcp.{rounding}.f32 d32, a32;", 32, unary(n.reciprocal, "f32", rounding), "f32")
        yield Case(f"rcp.{rounding}.f64 d64, a64;", 64, unary(n.reciprocal, "f64", rounding), "f64")
        yield Case(f"sqrt.{rounding}.f32 d32, a32;", 32, unary(n.root, "f32", rounding), "f32")
        yield Case(f"sqrt.{rounding}.f64 d64, a64;", 64, unary(n.root, "f64", rounding), "f64")
    yield Case("add.f32 d32, a32, b32;", 32, binary(n.add, "f32", "rn"), "f32")
    yield Case("mul.f64 d64, a64, b64;", 64, binary(OPERATIONS["mul"], "f64", "rn"), "f64")
    for word, most in (("min", False), ("max", True)):
        yield Case(f"{word}.f32 d32, a32, b32;", 32, extreme("f32", most), "f32")
        yield Case(f"{word}.ftz.f32 d32, a32, b32;", 32, extreme("f32", most, True), "f32")
        yield Case(f"{word}.NaN.f32 d32, a32, b32;", 32, extreme("f32", most, nan=True), "f32")
        yield Case(f"{word}.xorsign.abs.f32 d32, a32, b32;", 32, extreme("f32", most, xorsign=True), "f32")
        yield Case(f"{word}.f64 d64, a64, b64;", 64, extreme("f64", most), "f64")
    for name, width in (("f32", 32), ("f64", 64)):
        top = 1 << (width - 1)
        yield Case(f"copysign.{name} d{width}, a{width}, b{width};", width, lambda a, b, c, t=top: a & t | b & (t - 1), name)
        tests = {"finite": lambda v: v not in (n.NAN, n.INF, n.MINUS_INF), "infinite": lambda v: v in (n.INF, n.MINUS_INF),
                 "number": lambda v: v != n.NAN, "notanumber": lambda v: v == n.NAN,
                 "normal": lambda v, f=name: v not in (n.NAN, n.INF, n.MINUS_INF) and n.flush(v, f) == v,
                 "subnormal": lambda v, f=name: n.flush(v, f) != v}
        for test, holds in tests.items():
            yield Case(f"testp.{test}.{name} p, a{width};", 1, lambda a, b, c, h=holds, f=name: int(h(value(a, f))), name)
        for operator in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
            holds = (lambda a, b, o=operator, f=name: n.compare(o, value(a, f), value(b, f)))
            yield Case(f"setp.{operator}.{name} p, a{width}, b{width};", 1, lambda a, b, c, h=holds: int(h(a, b)), name)
            yield Case(f"set.{operator}.u32.{name} d32, a{width}, b{width};", 32, lambda a, b, c, h=holds: M32 * h(a, b), name)
            yield Case(f"set.{operator}.f32.{name} d32, a{width}, b{width};", 32, lambda a, b, c, h=holds: 0x3f800000 * h(a, b), name)
    yield Case("setp.eq.ftz.f32 p, a32, 0f00000000;", 1, lambda a, b, c: int(n.number(n.flush(value(a, "f32"))) == 0), "f32")
    yield Case("slct.u32.f32 d32, a32, b32, c32;", 32,
               lambda a, b, c: a if n.compare("ge", value(c, "f32"), n.Fraction(0)) else b, "f32")
    yield Case("slct.f64.s32 d64, a64, b64, c32;", 64, lambda a, b, c: a if c & M32 < 1 << 31 else b, "f64")
    yield Case("neg.ftz.f32 d32, a32;", 32, lambda a, b, c: (a if n.flush(value(a, "f32")) == value(a, "f32") else a & 1 << 31) ^ 1 << 31, "f32 numbers")
    yield Case("abs.f32 d32, a32;", 32, lambda a, b, c: a & 0x7fffffff, "f32 numbers")
    yield Case("neg.f64 d64, a64;", 64, lambda a, b, c: a ^ 1 << 63, "f64")
