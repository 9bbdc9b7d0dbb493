"""What a file of PTX written by hand consists of: cases, each some instructions and what they are to compute."""

import numbers_of as n

M16, M32, M64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
MASK = {1: 1, 8: 0xff, 16: M16, 32: M32, 64: M64}


def signed(value, width):
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


class Case:
    """`text` has the registers a, b, c with a width (a32, b64, c16), which hold the same input, and leaves its result in d16,
    d32, d64 or the predicate p. `expected(a, b, c)` is of the 64-bit inputs. `inputs` names the kind of these."""

    def __init__(self, text, width, expected, inputs="integers", declare="", module=""):
        self.text, self.width, self.expected = text, width, expected
        self.inputs, self.declare, self.module = inputs, declare, module

    def wrong(self, got, operands):
        """None, or what was to be there instead."""
        right = self.expected(*operands) & MASK[self.width]
        return None if got == right else f"{right:#x}"


class Near(Case):
    """An approximate instruction, whose result is of the format `name`. `expected(a, b, c)` is the exact value, as a Fraction or
    a word of numbers_of, and how far from it the instruction set's description lets the result be; None for operands of which
    it says nothing. With `ftz`, results that are too small for a full fraction are zero."""

    def __init__(self, text, name, expected, inputs, ftz=False):
        super().__init__(text, n.width(name), expected, inputs)
        self.name, self.ftz = name, ftz

    def wrong(self, got, operands):
        stated = self.expected(*operands)
        if stated is None:
            return None
        exact, error = stated
        value = n.decode(got, self.name)
        if isinstance(exact, str):
            return None if value == exact else exact
        said = f"{float(exact)!r} with an error of at most {float(error):.3g}"
        magnitude, least, most = abs(exact), n.least_normal(self.name), n.greatest(self.name)
        if value == n.NAN or magnitude > error and n.is_negative(value) != n.is_negative(exact):
            return said
        if value in (n.INF, n.MINUS_INF):
            return None if magnitude + error > most else said
        reached = abs(n.number(value))
        if self.ftz and (reached == 0 and magnitude - error < least or 0 < reached < least):
            return said if reached else None
        return None if abs(n.number(value) - exact) <= error else said


class Whole:
    """A whole kernel for one launch: `body` has in, out, own (.u64 registers) and tid, ctaid, ntid, t (of all blocks) as .u32.
    It writes a 64-bit result for each thread to the address `mine`, and may use d64. `expected(thread, block, threads)`."""

    def __init__(self, name, body, expected, blocks=1, threads=64, module="", own=None):
        self.name, self.body, self.expected = name, body, expected
        self.blocks, self.threads, self.module, self.own = blocks, threads, module, own
