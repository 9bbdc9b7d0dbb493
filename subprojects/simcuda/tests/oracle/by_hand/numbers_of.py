"""Numbers of binary formats as exact fractions, for the expected results of PTX written by hand.

A value is a Fraction, or one of the words NAN, INF, MINUS_INF; NEGATIVE_ZERO is the zero with a sign.
"""

import math
from fractions import Fraction

NAN, INF, MINUS_INF, NEGATIVE_ZERO = "nan", "inf", "-inf", "-0"
FORMATS = {  # bits of the fraction, of the exponent
    "f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11), "e4m3": (3, 4), "e5m2": (2, 5)}
CANONICAL = {"f16": 0x7fff, "bf16": 0x7fff, "f32": 0x7fffffff, "f64": 0xfff8000000000000}


def width(name):
    return sum(FORMATS[name]) + 1


def least_normal(name):
    """The smallest number with a whole fraction."""
    return Fraction(2) ** (2 - (1 << (FORMATS[name][1] - 1)))


def greatest(name):
    return (2 - Fraction(1, 1 << FORMATS[name][0])) * Fraction(2) ** ((1 << (FORMATS[name][1] - 1)) - 1)


def decode(bits, name):
    fraction_bits, exponent_bits = FORMATS[name]
    fraction = bits & ((1 << fraction_bits) - 1)
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    negative = bits >> (fraction_bits + exponent_bits) & 1
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        return NAN if fraction else MINUS_INF if negative else INF
    if exponent:
        fraction |= 1 << fraction_bits
    value = fraction * Fraction(2) ** (max(exponent, 1) - bias - fraction_bits)
    return -value if negative and value else NEGATIVE_ZERO if negative else value


def integral(value, rounding):
    """The integer next to a Fraction."""
    if rounding == "rn":
        return round(value)  # halves to even
    if rounding == "rna":
        return int(math.floor(abs(value) + Fraction(1, 2))) * (1 if value >= 0 else -1)
    return {"rz": math.trunc, "rm": math.floor, "rp": math.ceil}[rounding](value)


def encode(value, name, rounding="rn", negative=False):
    """The bits of a value; `negative` is the sign of a zero."""
    fraction_bits, exponent_bits = FORMATS[name]
    bias, top = (1 << (exponent_bits - 1)) - 1, fraction_bits + exponent_bits
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if value == NAN:
        return CANONICAL[name]
    if value in (INF, MINUS_INF):
        return infinity | (value == MINUS_INF) << top
    if value == NEGATIVE_ZERO:
        return 1 << top
    if value == 0:
        return negative << top
    sign, magnitude = value < 0, abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    mirrored = {"rm": "rp", "rp": "rm"}.get(rounding, rounding) if sign else rounding
    units = integral(magnitude / Fraction(2) ** (exponent - fraction_bits), mirrored)
    bits = units + ((exponent - 1 + bias) << fraction_bits)
    if bits >= infinity:
        bits = infinity if mirrored in ("rn", "rna", "rp") else infinity - 1
    return bits | sign << top


def is_negative(value):
    return value in (NEGATIVE_ZERO, MINUS_INF) or (isinstance(value, Fraction) and value < 0)


def number(value):
    """As something to compute with: zeros are 0."""
    return Fraction(0) if value == NEGATIVE_ZERO else value


def negated(value):
    if value == NAN:
        return NAN
    if value in (INF, MINUS_INF):
        return MINUS_INF if value == INF else INF
    if value == NEGATIVE_ZERO:
        return Fraction(0)
    return NEGATIVE_ZERO if value == 0 else -value


def add(a, b, rounding="rn"):
    """(value, sign of a zero)"""
    if NAN in (a, b) or {a, b} == {INF, MINUS_INF}:
        return NAN, False
    for value in (a, b):
        if value in (INF, MINUS_INF):
            return value, False
    total = number(a) + number(b)
    both_zero = number(a) == 0 and number(b) == 0
    if both_zero and is_negative(a) == is_negative(b):
        return total, is_negative(a)
    return total, rounding == "rm"


def multiply(a, b):
    sign = is_negative(a) != is_negative(b)
    if NAN in (a, b):
        return NAN, False
    if a in (INF, MINUS_INF) or b in (INF, MINUS_INF):
        if number(a) == 0 or number(b) == 0:
            return NAN, False
        return MINUS_INF if sign else INF, False
    return number(a) * number(b), sign


def divide(a, b):
    sign = is_negative(a) != is_negative(b)
    infinite = MINUS_INF if sign else INF
    if NAN in (a, b) or (number(a) == 0 and number(b) == 0) or (a in (INF, MINUS_INF) and b in (INF, MINUS_INF)):
        return NAN, False
    if a in (INF, MINUS_INF) or number(b) == 0:
        return infinite, False
    if b in (INF, MINUS_INF):
        return Fraction(0), sign
    return number(a) / number(b), sign


def reciprocal(a):
    return divide(Fraction(1), a)


def root(a):
    """The square root, so exact that each rounding to at most 53 bits is right."""
    if a == NAN or (is_negative(a) and a != NEGATIVE_ZERO):
        return NAN, False
    if a in (INF, NEGATIVE_ZERO) or a == 0:
        return a, False
    scale = 2 ** (2 * 1400)
    scaled = a * scale
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(whole * whole) == scaled
    return Fraction(whole * 2 + (0 if exact else 1), 2) / 2 ** 1400, False


def flush(value, name="f32"):
    """.ftz of a value that the format has."""
    if isinstance(value, Fraction) and 0 < abs(value) < least_normal(name):
        return NEGATIVE_ZERO if value < 0 else Fraction(0)
    return value


def saturate(bits, name):
    value = decode(bits, name)
    if value == NAN or is_negative(value):
        return 0
    return encode(Fraction(1), name) if value == INF or value > 1 else bits


def compare(operator, a, b):
    """set's and setp's, of values."""
    if operator in ("num", "nan"):
        return (NAN in (a, b)) == (operator == "nan")
    unordered = len(operator) == 3
    if NAN in (a, b):
        return unordered

    def key(value):
        return {INF: Fraction(2) ** 2000, MINUS_INF: -Fraction(2) ** 2000}.get(value, number(value))
    x, y = key(a), key(b)
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[operator[:2]]
