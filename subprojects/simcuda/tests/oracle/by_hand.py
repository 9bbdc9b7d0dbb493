#!/usr/bin/env python3
"""PTX written by hand, each class of instructions in a file of by_hand/, against what Python computes without rounding
errors. by_hand.py RUNNER [FILE...]: on the libcuda.so.1 that the loader finds, the simulated one or a GPU's.

A case is some instructions between a load of operands and a store of the result, for each of 256 triples of operands. A
difference is told with the line of the case's kernel in FILE.ptx, which --keep FOLDER leaves there. --target 80 has PTX for
a GPU of compute capability 8.0; cases that do not load there are left out, and named.
"""

import argparse
import importlib
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "by_hand"))
import numbers_of  # noqa: E402
from case import MASK, Case  # noqa: E402

FILES = ["integers", "comparisons", "floats", "halves", "conversions", "video", "memory", "across", "approximate"]
THREADS = 256
NOT_LOADED = 2  # as the runner says it
HEADER = ".version 8.6\n.target sm_{target}\n.address_size 64\n"
TARGET = 90  # for which the cases are
REGISTERS = """.reg .b16 a16, b16, c16, d16, h0, h1, h2, h3; .reg .b32 a32, b32, c32, d32, r0, r1, r2, r3, r4, r5, r6, r7;
    .reg .b64 a64, b64, c64, d64, in, out, own, mine; .reg .pred p, q, r; .reg .b32 tid, t, ctaid, ntid, at32, x1; .reg .b64 at64;
    ld.param.u64 in, [in_at]; ld.param.u64 out, [out_at]; ld.param.u64 own, [own_at];
    mov.u32 tid, %tid.x; mov.u32 ctaid, %ctaid.x; mov.u32 ntid, %ntid.x; mad.lo.u32 t, ctaid, ntid, tid;
    mad.wide.u32 mine, t, 8, out;"""
KINDS = ["integers", "shifts", "close", "f32", "f64", "halves", "f32 numbers", "f64 numbers", "halves numbers", "f32 or integral",
         "f64 or integral", "halves or integral", "f32 near 1"]


def run_kernels(ptx, launches, folder, options):
    return subprocess.run([options.runner, ptx, "input", "output", str(THREADS), "2"], input=launches.encode(),
                          capture_output=True, cwd=folder, env={**os.environ, "SIMCUDA_COST": "0"}, check=False, timeout=600)


def float_bits(draw, name, plain=False):
    """Mostly of a common size; else any, extreme, or special."""
    fraction, exponents = numbers_of.FORMATS[name]
    top, bias = (1 << exponents) - 1, (1 << (exponents - 1)) - 1
    exponent = draw.choice([draw.randint(bias - 3, bias + 3), draw.randint(0, top), draw.randint(0, 2), draw.randint(top - 2, top)])
    places = draw.choice([0, 1, (1 << fraction) - 1, draw.getrandbits(fraction), draw.getrandbits(fraction), 1 << (fraction - 1)])
    if plain and exponent == top:
        places = 0
    return draw.getrandbits(1) << (fraction + exponents) | exponent << fraction | places


def operand(draw, kind, position):
    """64 bits of one operand."""
    name = kind.split()[0]
    if name in ("f32", "f64") or name == "halves":
        plain = kind.endswith("numbers")
        if kind.endswith("near 1"):
            return draw.getrandbits(1) << 31 | draw.randint(110, 140) << 23 | draw.choice([0, 1 << 19, 1 << 20, draw.getrandbits(23)])
        if kind.endswith("integral") and draw.random() < 0.5:
            value = numbers_of.Fraction(draw.getrandbits(draw.randint(1, 66)) * draw.choice([1, -1]), draw.choice([1, 2, 4]))
            if name != "halves":
                return numbers_of.encode(value, name)
            value = value % 3000
            return numbers_of.encode(value, draw.choice(["f16", "bf16"]))
        if name == "halves":
            both = draw.choice(["f16", "bf16"])
            bits = [float_bits(draw, both) for _ in range(2)]
            while plain and any(each & 0x7fff > 0x7c00 for each in bits):
                bits = [float_bits(draw, both, True) for _ in range(2)]
            return bits[0] | bits[1] << 16
        return float_bits(draw, name, plain)
    if kind == "shifts" and position > 0:
        return draw.choice([draw.randrange(40), draw.randrange(70), draw.randrange(256), draw.getrandbits(32)])
    if kind == "close":
        return draw.choice([0, 1, 2, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 63, MASK[64]])
    bits = draw.getrandbits(64) >> draw.randrange(64)
    return draw.choice([bits, bits, bits ^ MASK[64], 1 << draw.randrange(64), (1 << draw.randrange(65)) - 1, draw.getrandbits(64)])


def all_inputs(seed):
    """{kind: [(a, b, c)]}"""
    draw = random.Random(seed)
    return {kind: [tuple(operand(draw, kind, position) for position in range(3)) for _ in range(THREADS)] for kind in KINDS}


def entry(name, body):
    return f".visible .entry {name}(.param .u64 in_at, .param .u64 out_at, .param .u64 own_at) {{\n    {REGISTERS}\n    {body}\n    ret;\n}}\n"


def kernel_of(case, index):
    """(name, blocks, threads, text, expected 64-bit results, expected words of all)"""
    if not isinstance(case, Case):
        results = [case.expected(t % case.threads, t // case.threads, case.threads) & MASK[64] for t in range(case.blocks * case.threads)]
        return case.name, case.blocks, case.threads, case.module + entry(case.name, case.body), results, case.own or []
    at = KINDS.index(case.inputs) * THREADS * 24
    load = f"mad.wide.u32 in, t, 24, in; ld.global.u64 a64, [in+{at}]; ld.global.u64 b64, [in+{at + 8}]; ld.global.u64 c64, [in+{at + 16}];"
    narrow = "".join(f" cvt.u32.u64 {x}32, {x}64; cvt.u16.u64 {x}16, {x}64;" for x in "abc")
    widen = {1: "selp.u64 d64, 1, 0, p;", 16: "cvt.u64.u16 d64, d16;", 32: "cvt.u64.u32 d64, d32;", 64: ""}[case.width]
    name = f"case_{index}"
    return name, 1, THREADS, case.module + entry(name, f"{load}{narrow}\n    {case.text}\n    {widen} st.global.u64 [mine], d64;"), None, []


class File:
    """All kernels of one file of by_hand/."""

    def __init__(self, name, inputs):
        module = importlib.import_module(name)
        self.name, self.inputs = name, inputs
        self.cases = list(module.cases() if hasattr(module, "cases") else module.kernels())
        self.kernels = [kernel_of(case, index) for index, case in enumerate(self.cases)]

    def text(self, chosen, target):
        """PTX, and which kernel each line is of."""
        text = HEADER.format(target=target)
        owners = [None] * text.count("\n")
        for index in chosen:
            text += self.kernels[index][3]
            owners += [index] * self.kernels[index][3].count("\n")
        return text, owners

    def run(self, chosen, folder, options):
        text, owners = self.text(chosen, options.target)
        (folder / f"{self.name}.ptx").write_text(text, encoding="utf-8")
        launches = "".join(f"{self.kernels[i][0]} {self.kernels[i][1]} {self.kernels[i][2]}\n" for i in chosen)
        return run_kernels(f"{self.name}.ptx", launches, folder, options), owners

    def what(self, index, owners):
        case = self.cases[index]
        named = case.text if isinstance(case, Case) else f"the kernel {case.name}"
        return f"{self.name}.ptx line {owners.index(index) + 1}: {named}"

    def blamed(self, said, owners):
        """The kernels that the runner's line is about: a driver names lines, or the runner a kernel."""
        lines = [int(line) for line in re.findall(r"line (\d+)", said)]
        found = {owners[min(line, len(owners)) - 1] for line in lines} - {None}
        named = re.search(r"of (\w+): ", said)
        if not found and named:
            found = {index for index in owners if index is not None and self.kernels[index][0] == named.group(1)}
        return found

    def check(self, folder, options):
        """[fault]. Cases that do not load or end are left out, and the rest tried again."""
        chosen, faults = list(range(len(self.kernels))), []
        while chosen:
            done, owners = self.run(chosen, folder, options)
            said = done.stderr.decode(errors="replace").strip()
            if done.returncode == 0:
                break
            blamed = self.blamed(said, owners)
            if not blamed:
                return faults + [f"differs {self.name}: the runner ended with {done.returncode}: {said}"]
            kind = "left out" if done.returncode == NOT_LOADED and options.target < TARGET else "differs"
            faults += [f"{kind} {self.what(index, owners)}: {' '.join(said.split())}" for index in sorted(blamed)]
            chosen = [index for index in chosen if index not in blamed]
        data = (folder / "output").read_bytes() if chosen else b""
        room = THREADS * 8 + 64
        for place, index in enumerate(chosen):
            fault = self.fault(index, data[place * room:(place + 1) * room])
            if fault:
                faults.append(f"differs {self.what(index, owners)}: {fault}")
        return faults

    def fault(self, index, data):
        _, _, _, _, results, own = self.kernels[index]
        case = self.cases[index]
        got = [int.from_bytes(data[i:i + 8], "little") for i in range(0, THREADS * 8, 8)]
        if isinstance(case, Case):
            for t, operands in enumerate(self.inputs[case.inputs]):
                wanted = case.wrong(got[t], operands)
                if wanted:
                    return f"thread {t}: {got[t]:#x} of {', '.join(f'{each:#x}' for each in operands)}, expected {wanted}"
            return None
        for t, right in enumerate(results):
            if right != got[t]:
                return f"thread {t}: {got[t]:#x}, expected {right:#x}"
        words = [int.from_bytes(data[THREADS * 8 + i:THREADS * 8 + i + 4], "little") for i in range(0, len(own) * 4, 4)]
        return f"the words of all are {words}, expected {own}" if words != own else None


def check_refused(folder, options):
    """[fault] of the texts that are not to load."""
    faults, texts = [], list(importlib.import_module("refused").texts())
    for text, words in texts:
        (folder / "refused.ptx").write_text(HEADER.format(target=options.target) + entry("refused", text), encoding="utf-8")
        done = run_kernels("refused.ptx", "refused 1 1\n", folder, options)
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode != NOT_LOADED or words not in said:
            faults.append(f"differs {text}: the runner ended with {done.returncode}: {said}, expected {words!r}")
    print(*faults, f"refused: {len(texts)} texts, {len(faults)} fail", sep="\n", flush=True)
    return len(faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("files", nargs="*", help="of by_hand/, all of them if none is named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--target", type=int, default=TARGET, metavar="SM")
    options = parser.parse_intermixed_args()
    options.runner = os.path.abspath(options.runner)
    inputs = all_inputs(options.seed)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep.resolve() if options.keep else pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "input").write_bytes(b"".join(word.to_bytes(8, "little") for kind in KINDS for triple in inputs[kind] for word in triple))
        for name in options.files or FILES:
            file = File(name, inputs)
            faults = file.check(folder, options)
            wrong = sum(fault.startswith("differs ") for fault in faults)
            print(*faults, f"{name}: {len(file.kernels) - len(faults) + wrong} cases, {wrong} fail", sep="\n", flush=True)
            failed += wrong
        if not options.files:
            failed += check_refused(folder, options)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
