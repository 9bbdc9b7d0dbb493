"""What a file of PTX written by hand consists of: cases, each some instructions and what they are to compute."""

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


class Whole:
    """A whole kernel for one launch: `body` has in, out, own (.u64 registers) and tid, ctaid, ntid, t (of all blocks) as .u32.
    It writes a 64-bit result for each thread to the address `mine`, and may use d64. `expected(thread, block, threads)`."""

    def __init__(self, name, body, expected, blocks=1, threads=64, module="", own=None):
        self.name, self.body, self.expected = name, body, expected
        self.blocks, self.threads, self.module, self.own = blocks, threads, module, own
