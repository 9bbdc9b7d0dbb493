"""Runs a PTX kernel as a device would, one thread after another, for as many instructions as our own kernels need.

Memory is one bytearray from address 0. What the kernel does between threads must not depend on their order:
a test runs them in several.
"""

import itertools
import re

SPECIAL = {"%ctaid.x", "%ctaid.y", "%ntid.x", "%tid.x", "%nctaid.x", "%nctaid.y"}
BINARY = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "and": lambda a, b: a & b,
          "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b,
          "shr": lambda a, b: a >> b, "min": min, "max": max, "mul": lambda a, b: a * b}
COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "ge": lambda a, b: a >= b}


class Kernel:
    """Invariant: `code` is (predicate, opcode parts, operands) of each instruction; labels are indices in it."""

    def __init__(self, text, name):
        body = re.search(rf"\.entry {name}\((.*?)\)\s*\{{(.*?)\n\}}", text, re.S)
        self.parameters = re.findall(r"\.param \.\w+ (\w+)", body.group(1))
        self.code, self.labels = [], {}
        for line in body.group(2).splitlines():
            line = line.strip()
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.code)
            elif line and not line.startswith(".reg"):
                predicate, instruction = re.fullmatch(r"(?:@(%\w+) )?(.*);", line).groups()
                opcode, _, operands = instruction.partition(" ")
                self.code.append((predicate, opcode.split("."), re.findall(r"\{.*?\}|\[.*?\]|[^\s,]+", operands)))

    def run(self, memory, arguments, grid, threads, backwards=False):
        """Every thread of a grid (x, y) of blocks of `threads`."""
        places = list(itertools.product(range(grid[0]), range(grid[1]), range(threads)))
        for x, y, thread in reversed(places) if backwards else places:
            Thread(self, memory, dict(zip(self.parameters, arguments)),
                   {"%ctaid.x": x, "%ctaid.y": y, "%ntid.x": threads, "%tid.x": thread,
                    "%nctaid.x": grid[0], "%nctaid.y": grid[1]}).run()


class Thread:
    def __init__(self, kernel, memory, parameters, special):
        self.kernel, self.memory, self.parameters = kernel, memory, parameters
        self.registers = dict(special)

    def value(self, operand):
        if operand in self.registers:
            return self.registers[operand]
        return int(operand, 0)  # a register that was never written is an error

    def address(self, operand, size):
        base, offset = re.fullmatch(r"\[(%\w+)(?:\+(\d+))?\]", operand).groups()
        at = self.value(base) + int(offset or 0)
        assert at % size == 0 and 0 <= at <= len(self.memory) - size, (operand, hex(at))
        return at

    def load(self, at, size):
        return int.from_bytes(self.memory[at:at + size], "little")

    def store(self, at, size, value):
        self.memory[at:at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def run(self):
        at = 0
        while self.kernel.code[at][1] != ["ret"]:
            predicate, opcode, operands = self.kernel.code[at]
            at += 1
            if predicate and not self.registers[predicate]:
                continue
            if opcode == ["bra"]:
                at = self.kernel.labels[operands[0]]
            else:
                self.execute(opcode, operands, int(opcode[-1][1:]))

    def execute(self, opcode, operands, bits):
        kind, size = opcode[0], bits // 8
        if kind in ("ld", "st"):
            self.move(opcode, operands, size)
        elif kind in ("atom", "red"):
            self.atomic(opcode, operands, size)
        else:
            widened = 64 if "wide" in opcode else bits
            self.registers[operands[0]] = self.computed(kind, opcode, operands, bits) & ((1 << widened) - 1)

    def computed(self, kind, opcode, operands, bits):
        mask = (1 << bits) - 1
        if kind == "selp":
            return self.value(operands[1 if self.registers[operands[3]] else 2])
        values = [self.value(operand) & mask for operand in operands[1:]]
        if kind in ("mov", "cvt", "cvta"):
            return self.value(operands[1])
        if kind == "mad":
            return values[0] * values[1] + self.value(operands[3])
        if kind == "setp":
            return int(COMPARE[opcode[1]](*values))
        if kind == "neg":
            return -values[0]
        if kind == "brev":
            return int(f"{values[0]:0{bits}b}"[::-1], 2)
        if kind == "clz":
            return bits - values[0].bit_length()
        return BINARY[kind](*values)

    def move(self, opcode, operands, size):
        if opcode[1] == "param":
            self.registers[operands[0]] = self.parameters[operands[1][1:-1]]
            return
        to, place = operands if opcode[0] == "ld" else reversed(operands)
        registers = to.strip("{} ").split(", ")
        at = self.address(place, size * len(registers))
        for i, register in enumerate(registers):
            if opcode[0] == "ld":
                self.registers[register] = self.load(at + i * size, size)
            else:
                self.store(at + i * size, size, self.value(register))

    def atomic(self, opcode, operands, size):
        place = operands[0 if opcode[0] == "red" else 1]
        at, mask = self.address(place, size), (1 << 8 * size) - 1
        old = self.load(at, size)
        if opcode[0] == "red":
            self.store(at, size, BINARY[opcode[2]](old, self.value(operands[1])))
        else:
            self.registers[operands[0]] = old
            if old == self.value(operands[2]) & mask:
                self.store(at, size, self.value(operands[3]))
