"""Approximate instructions, within the errors that the PTX ISA states at each of them (Floating Point Instructions: div, rcp,
sqrt, rsqrt, sin, cos, lg2, ex2, tanh; Half Precision Floating Point Instructions: tanh, ex2). Of rcp and rsqrt in double
precision it states none."""

import math

import numbers_of as n
from case import Near

NAN = (n.NAN, 0)


def value(bits, name, ftz):
    found = n.decode(bits & ((1 << n.width(name)) - 1), name)
    return n.flush(found, name) if ftz else found


def ulps(exact, count):
    """So many units of single precision's last place."""
    exact = n.Fraction(exact)
    exponent = math.frexp(abs(float(exact)))[1] - 1 if exact else -126
    return exact, count * n.Fraction(2) ** (max(exponent, -126) - 23)


def relative(exact, exponent, name="f32"):
    """An error of 2^exponent of the result, but no less than the format's smallest number."""
    exact = n.Fraction(exact)
    return exact, max(abs(exact) * n.Fraction(2.0 ** exponent), n.least_normal(name) / 2 ** n.FORMATS[name][0])


def absolute(exact, exponent):
    return n.Fraction(exact), n.Fraction(2.0 ** exponent)


def of_one(name, ftz, function, special):
    """`function` of a finite number; `special` has what comes of other values: the zeros, infinities, and "negative"."""
    def expected(a, b, c):
        x = value(a, name, ftz)
        key = n.NEGATIVE_ZERO if x == n.NEGATIVE_ZERO else "0" if x == 0 else x if isinstance(x, str) else "negative" if x < 0 else None
        if x == n.NAN:
            return NAN
        return (special[key], 0) if key in special else function(n.number(x))
    return expected


def divided(count, ftz, limited):
    def expected(a, b, c):
        x, y = value(a, "f32", ftz), value(b, "f32", ftz)
        if n.NAN in (x, y):
            return NAN
        if isinstance(x, str) or isinstance(y, str) or y == 0 or x == 0:
            return None
        if limited and not n.Fraction(2) ** -126 <= abs(y) <= n.Fraction(2) ** 126:
            return None
        return ulps(x / y, count)
    return expected


def power(x, name, exponent):
    """2^x: what is far below or above the format counts as what ends it."""
    x = max(n.Fraction(-400), min(n.Fraction(400), x))
    whole = math.floor(x)
    return relative(n.Fraction(2) ** whole * n.Fraction(2.0 ** float(x - whole)), exponent, name)


def logarithm(x):
    exact = math.log2(x)
    return absolute(exact, -22) if 0.5 < x < 2 else relative(exact, -22)


def wave(function):
    def of(x):
        if abs(x) > 100 * math.pi:
            return None
        return absolute(function(float(x)), -20.5 if abs(x) <= 2 * math.pi else -14.7)
    return of


SINGLE = {  # name: the finite numbers, all others, the kinds of operands
    "rcp": (lambda x: ulps(1 / x, 1), {"0": n.INF, n.NEGATIVE_ZERO: n.MINUS_INF, n.INF: n.Fraction(0), n.MINUS_INF: n.NEGATIVE_ZERO}),
    "sqrt": (lambda x: relative(math.sqrt(x), -23),
             {"0": n.Fraction(0), n.NEGATIVE_ZERO: n.NEGATIVE_ZERO, n.INF: n.INF, n.MINUS_INF: n.NAN, "negative": n.NAN}),
    "rsqrt": (lambda x: relative(1 / math.sqrt(x), -22.9),
              {"0": n.INF, n.NEGATIVE_ZERO: n.MINUS_INF, n.INF: n.Fraction(0), n.MINUS_INF: n.NAN, "negative": n.NAN}),
    "sin": (wave(math.sin), {n.INF: n.NAN, n.MINUS_INF: n.NAN}),
    "cos": (wave(math.cos), {n.INF: n.NAN, n.MINUS_INF: n.NAN}),
    "lg2": (logarithm, {"0": n.MINUS_INF, n.NEGATIVE_ZERO: n.MINUS_INF, n.INF: n.INF, n.MINUS_INF: n.NAN, "negative": n.NAN}),
    "ex2": (lambda x: power(x, "f32", -22), {n.INF: n.INF, n.MINUS_INF: n.Fraction(0)}),
}


def cases():
    for inputs in ("f32", "f32 near 1"):
        for name, (function, special) in SINGLE.items():
            for ftz in ("", ".ftz"):
                yield Near(f"{name}.approx{ftz}.f32 d32, a32;", "f32", of_one("f32", bool(ftz), function, special), inputs, bool(ftz))
        yield Near("tanh.approx.f32 d32, a32;", "f32",
                   of_one("f32", False, lambda x: relative(math.tanh(x), -11), {n.INF: n.Fraction(1), n.MINUS_INF: n.Fraction(-1)}), inputs)
        for ftz in ("", ".ftz"):
            yield Near(f"div.approx{ftz}.f32 d32, a32, b32;", "f32", divided(2, bool(ftz), True), inputs, bool(ftz))
            yield Near(f"div.full{ftz}.f32 d32, a32, b32;", "f32", divided(2, bool(ftz), False), inputs, bool(ftz))
    powers, ones = {n.INF: n.INF, n.MINUS_INF: n.Fraction(0)}, {n.INF: n.Fraction(1), n.MINUS_INF: n.Fraction(-1)}
    yield Near("ex2.approx.f16 d16, a16;", "f16", of_one("f16", False, lambda x: power(x, "f16", -9.9), powers), "halves")
    yield Near("ex2.approx.ftz.bf16 d16, a16;", "bf16", of_one("bf16", True, lambda x: power(x, "bf16", -7), powers), "halves", True)
    for name, exponent in (("f16", -10.987), ("bf16", -8)):
        yield Near(f"tanh.approx.{name} d16, a16;", name, of_one(name, False, lambda x, e=exponent: absolute(math.tanh(x), e), ones), "halves")
