"""cvt of every pair of types, and what is near it: cvt.pack, tf32, 8-bit formats."""

import numbers_of as n
from case import M32, MASK, Case, signed

INTEGERS = [("u8", 8, False), ("s8", 8, True), ("u16", 16, False), ("s16", 16, True), ("u32", 32, False), ("s32", 32, True),
            ("u64", 64, False), ("s64", 64, True)]
FLOATS = [("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64)]
INPUTS = {"f16": "halves", "bf16": "halves", "f32": "f32", "f64": "f64"}


def register(name, width):
    return f"{name}{max(width, 16)}"


def read(bits, width, is_signed):
    return signed(bits, width) if is_signed else bits & MASK[width]


def clamped(value, width, is_signed):
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, MASK[width])
    return max(low, min(high, value))


def to_integer(bits, source, rounding, width, is_signed, ftz=False):
    value = n.decode(bits & ((1 << n.width(source)) - 1), source)
    value = n.flush(value) if ftz else value
    if value == n.NAN:
        return 0 if source != "f64" and width != 64 else signed(1 << (width - 1), width) if is_signed else 1 << (width - 1)
    if value in (n.INF, n.MINUS_INF):
        value = n.Fraction(2) ** 80 * (1 if value == n.INF else -1)
    return clamped(n.integral(n.number(value), rounding), width, is_signed)


def narrowed(bits, source, target, rounding, sat=False, relu=False, finite=False, ftz=False):
    value = n.decode(bits & ((1 << n.width(source)) - 1), source)
    value = n.flush(value) if ftz else value
    if value == n.NAN and target == "f64" and not sat:
        return (bits >> 31 & 1) << 63 | 0x7ff8 << 48 | (bits & 0x7fffff) << 29
    result = n.encode(value, target, rounding, n.is_negative(value))
    if ftz and target == "f32":
        flushed = n.flush(n.decode(result, target))
        result = result if flushed == n.NAN else n.encode(flushed, target, "rn", n.is_negative(flushed))
    if finite and n.decode(result, target) in (n.INF, n.MINUS_INF):
        result -= 1
    if relu and n.decode(result, target) != n.NAN and result >> (n.width(target) - 1):
        return 0
    return n.saturate(result, target) if sat else result


def byte_of(value, name, relu=False):
    """cvt.rn.satfinite of a value to e4m3 or e5m2: the nearest of all that there are."""
    if value == n.NAN:
        return 0x7f
    top = 0x7e if name == "e4m3" else 0x7b
    negative = n.is_negative(value)
    if value in (n.INF, n.MINUS_INF):
        best = top
    else:
        magnitude = abs(n.number(value))
        best = min(range(top + 1), key=lambda byte: (abs(byte_value(byte, name) - magnitude), byte & 1))
    return 0 if relu and negative else best | negative << 7


def byte_value(byte, name):
    """e4m3 has numbers where others have infinities."""
    fraction_bits, exponent_bits = n.FORMATS[name]
    exponent, fraction = byte >> fraction_bits & ((1 << exponent_bits) - 1), byte & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    return (fraction + (1 << fraction_bits if exponent else 0)) * n.Fraction(2) ** (max(exponent, 1) - bias - fraction_bits)


def tf32(bits, rounding):
    value = n.decode(bits & M32, "f32")
    if value in (n.NAN, n.INF, n.MINUS_INF):
        return 0x7fffffff if value == n.NAN else bits & M32
    magnitude = bits & 0x7fffffff
    rest, kept = magnitude & 0x1fff, magnitude >> 13
    kept += rest >= 0x1000 if rounding == "rna" else rest > 0x1000 or (rest == 0x1000 and kept & 1) if rounding == "rn" else 0
    return bits & 1 << 31 | kept << 13


def integer_cases():
    for source, from_width, from_signed in INTEGERS:
        for target, width, is_signed in INTEGERS:
            d, a = register("d", width), register("a", from_width)
            store = width if width >= 16 else 16
            yield Case(f"cvt.{target}.{source} {d}, {a};", store, lambda x, y, z, f=from_width, s=from_signed, w=width, t=is_signed: (
                read(read(x, f, s), w, t)))
            if width < from_width or (width == from_width and is_signed != from_signed) or (from_signed and not is_signed):
                yield Case(f"cvt.sat.{target}.{source} {d}, {a};", store, lambda x, y, z, f=from_width, s=from_signed, w=width, t=is_signed: (
                    clamped(read(x, f, s), w, t)))


def cases():
    yield from integer_cases()
    for source, from_width in FLOATS:
        for target, width, is_signed in INTEGERS:
            for rounding in ("rn", "rz", "rm", "rp"):
                yield Case(f"cvt.{rounding}i.{target}.{source} {register('d', width)}, a{from_width};", max(width, 16),
                           lambda x, y, z, f=source, r=rounding, w=width, s=is_signed: to_integer(x, f, r, w, s), INPUTS[source] + " or integral")
    yield Case("cvt.rpi.ftz.s32.f32 d32, a32;", 32, lambda x, y, z: to_integer(x, "f32", "rp", 32, True, True), "f32")
    for target, width in FLOATS:
        for source, from_width, from_signed in INTEGERS:
            for rounding in ("rn", "rz", "rm", "rp"):
                yield Case(f"cvt.{rounding}.{target}.{source} d{width}, {register('a', from_width)};", width,
                           lambda x, y, z, f=from_width, s=from_signed, t=target, r=rounding: n.encode(n.Fraction(read(x, f, s)), t, r))
    for source, from_width in FLOATS:
        for target, width in FLOATS:
            rounded = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}
            if source == target:
                continue
            if rounded[target] > rounded[source]:  # exact
                yield Case(f"cvt.{target}.{source} d{width}, a{from_width};", width,
                           lambda x, y, z, f=source, t=target: narrowed(x, f, t, "rn"), INPUTS[source] + " numbers")
                continue
            for rounding in ("rn", "rz", "rm", "rp"):
                yield Case(f"cvt.{rounding}.{target}.{source} d{width}, a{from_width};", width,
                           lambda x, y, z, f=source, t=target, r=rounding: narrowed(x, f, t, r), INPUTS[source])
    yield Case("cvt.rn.sat.f32.f64 d32, a64;", 32, lambda x, y, z: narrowed(x, "f64", "f32", "rn", sat=True), "f64")
    yield Case("cvt.rn.ftz.f32.f64 d32, a64;", 32, lambda x, y, z: narrowed(x, "f64", "f32", "rn", ftz=True), "f64")
    yield Case("cvt.rz.sat.f16.f32 d16, a32;", 16, lambda x, y, z: narrowed(x, "f32", "f16", "rz", sat=True), "f32")
    yield Case("cvt.sat.f32.f32 d32, a32;", 32, lambda x, y, z: n.saturate(x & M32, "f32"), "f32")
    for target in ("f16", "bf16"):
        for rounding in ("rn", "rz"):
            yield Case(f"cvt.{rounding}.relu.{target}.f32 d16, a32;", 16, lambda x, y, z, t=target, r=rounding: narrowed(x, "f32", t, r, relu=True), "f32")
            yield Case(f"cvt.{rounding}.satfinite.{target}.f32 d16, a32;", 16, lambda x, y, z, t=target, r=rounding: narrowed(x, "f32", t, r, finite=True), "f32")
            yield Case(f"cvt.{rounding}.{target}x2.f32 d32, a32, b32;", 32, lambda x, y, z, t=target, r=rounding: (
                narrowed(x, "f32", t, r) << 16 | narrowed(y, "f32", t, r)), "f32")
            yield Case(f"cvt.{rounding}.relu.{target}x2.f32 d32, a32, b32;", 32, lambda x, y, z, t=target, r=rounding: (
                narrowed(x, "f32", t, r, relu=True) << 16 | narrowed(y, "f32", t, r, relu=True)), "f32")
    for rounding in ("rna", "rn", "rz"):
        yield Case(f"cvt.{rounding}.tf32.f32 d32, a32;", 32, lambda x, y, z, r=rounding: tf32(x, r), "f32")
    for name in ("e4m3", "e5m2"):
        for relu in (False, True):
            yield Case(f"cvt.rn.satfinite{'.relu' if relu else ''}.{name}x2.f32 d16, a32, b32;", 16, lambda x, y, z, f=name, r=relu: (
                byte_of(n.decode(x & M32, "f32"), f, r) << 8 | byte_of(n.decode(y & M32, "f32"), f, r)), "f32 near 1")
        yield Case(f"cvt.rn.satfinite.{name}x2.f16x2 d16, a32;", 16, lambda x, y, z, f=name: (
            byte_of(n.decode(x >> 16 & 0xffff, "f16"), f) << 8 | byte_of(n.decode(x & 0xffff, "f16"), f)), "halves")
        yield Case(f"cvt.rn.f16x2.{name}x2 d32, a16;", 32, lambda x, y, z, f=name: from_byte(x >> 8 & 0xff, f) << 16 | from_byte(x & 0xff, f))
    for rounding in ("rn", "rz", "rm", "rp"):
        for name, width in (("f32", 32), ("f64", 64), ("f16", 16)):
            yield Case(f"cvt.{rounding}i.{name}.{name} d{width}, a{width};", width, lambda x, y, z, f=name, r=rounding: whole(x, f, r), INPUTS[name] + " or integral")
    yield Case("cvt.pack.sat.u8.s32.b32 d32, a32, b32, c32;", 32, lambda x, y, z: (
        clamped(signed(y, 32), 8, False) | clamped(signed(x, 32), 8, False) << 8 | z << 16))
    yield Case("cvt.pack.sat.s16.s32 d32, a32, b32;", 32, lambda x, y, z: (
        clamped(signed(y, 32), 16, True) & 0xffff | clamped(signed(x, 32), 16, True) << 16))


def from_byte(byte, name):
    magnitude = byte & 0x7f
    sign = (byte >> 7) << 15
    if name == "e4m3":
        return 0x7fff if magnitude == 0x7f else sign | n.encode(byte_value(magnitude, name), "f16")
    return 0x7fff if magnitude > 0x7c else sign | (0x7c00 if magnitude == 0x7c else n.encode(byte_value(magnitude, name), "f16"))


def whole(bits, name, rounding):
    value = n.decode(bits & ((1 << n.width(name)) - 1), name)
    if value == n.NAN and name == "f64":
        return bits | 1 << 51
    if value in (n.NAN, n.INF, n.MINUS_INF):
        return n.encode(value, name)
    negative = n.is_negative(value)
    return n.encode(n.Fraction(n.integral(n.number(value), rounding)), name, "rn", negative)
