#!/usr/bin/env python3
"""Kernels drawn at random, compiled by nvcc to PTX and run by the libcuda.so.1 that the loader finds, the simulated one or a
GPU's, against the same source compiled for the host: every byte of their results. oracle.py RUNNER

--seed and --count draw others; --only N runs one of them. --keep FOLDER leaves sources, PTX and results there: what they
were made of is not compiled again, so that a machine without nvcc can run them. Others are left out where there is no nvcc;
if no program is left, the status is 77.
"""

import argparse
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import programs  # noqa: E402

SKIPPED = 77
NOT_LOADED = 2  # as the runner says it
BATCH = 25  # programs in a file: so many that nvcc's start counts little, and few beside one that fails
TARGET = 90
NVCC = ["-ptx", "-fmad=false", "-std=c++17", "-w"]
HOST = ["-O1", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-frounding-math", "-std=c++17", "-w"]
ROOM = (programs.THREADS * programs.WORDS_OUT + programs.OWN_WORDS) * 4


def run(command, **keywords):
    return subprocess.run(command, capture_output=True, check=False, **keywords)


def words(data):
    return [int.from_bytes(data[i:i + 4], "little") for i in range(0, len(data), 4)]


def first_difference(device, host):
    for index, (left, right) in enumerate(zip(words(device), words(host), strict=True)):
        if left != right:
            thread, word = divmod(index, programs.WORDS_OUT)
            where = f"thread {thread}, word {word}" if thread < programs.THREADS else f"word {index - programs.THREADS * programs.WORDS_OUT} of all"
            return f"{where}: {left:#x}, on the host {right:#x}"
    return None


class NotLoaded(Exception):
    """What the driver says of a batch's PTX."""


class Batch:
    """Some programs in a folder of their own. `made_of` there has all that its other files were made of."""

    def __init__(self, folder, drawn, options):
        self.folder, self.programs, self.options = folder, drawn, options
        self.source, self.input = programs.source(drawn), programs.inputs(options.seed)
        self.made_of = "\n".join([f"{options.compiler or 'any nvcc'}", f"sm_{options.target}", self.input.hex(),
                                  (HERE / "prelude.cuh").read_text(encoding="utf-8"), self.source])

    def is_ready(self):
        """Whether the folder has it all, of the same compiler if there is one."""
        made_of = self.folder / "made_of"
        if not made_of.exists():
            return False
        compiler, _, rest = made_of.read_text(encoding="utf-8").partition("\n")
        wanted, _, others = self.made_of.partition("\n")
        return rest == others and (not self.options.nvcc or compiler == wanted)

    def compile(self):
        """None, or what a compiler or the host's program objected to."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "made_of").unlink(missing_ok=True)
        (self.folder / "programs.cu").write_text(self.source, encoding="utf-8")
        (self.folder / "input").write_bytes(self.input)
        for command in ([self.options.nvcc, *NVCC, f"-arch=sm_{self.options.target}", f"-I{HERE}", "-o", "programs.ptx", "programs.cu"],
                        ["g++", *HOST, f"-I{HERE}", "-x", "c++", "programs.cu", "-o", "host"]):
            done = run(command, cwd=self.folder, text=True)
            if done.returncode:
                return f"{command[0]} fails on {self.folder}/programs.cu:\n{done.stderr[-2000:]}"
        host = run([str(self.folder / "host"), "input"], cwd=self.folder)
        if host.returncode:
            return f"{self.folder}/host ends with {host.returncode}: {host.stderr.decode(errors='replace')[-2000:]}"
        (self.folder / "expected").write_bytes(host.stdout)
        (self.folder / "made_of").write_text(self.made_of, encoding="utf-8")
        return None

    def on_device(self, drawn):
        """The results of each, or what the runner said."""
        launches = "".join(f"k_{program.name} {program.blocks} {program.threads}\n" for program in drawn)
        with tempfile.NamedTemporaryFile() as output:
            try:
                done = run([self.options.runner, "programs.ptx", "input", output.name, str(programs.THREADS), str(programs.WORDS_OUT)],
                           cwd=self.folder, input=launches.encode(), env={**os.environ, "SIMCUDA_COST": "0"}, timeout=self.options.timeout)
            except subprocess.TimeoutExpired:
                return None, f"does not end in {self.options.timeout:.0f} s"
            said = " ".join(done.stderr.decode(errors="replace").split())
            if done.returncode == NOT_LOADED:
                raise NotLoaded(said)
            if done.returncode:
                return None, said or f"the runner ended with {done.returncode}"
            return output.read(), None

    def check(self):
        """[(program, fault)]: a batch that fails as a whole is tried again, one program at a time."""
        host = (self.folder / "expected").read_bytes()
        try:
            device, problem = self.on_device(self.programs)
        except NotLoaded as said:
            return [(program, str(said)) for program in self.programs]
        faults = []
        for index, program in enumerate(self.programs):
            expected = host[index * ROOM:(index + 1) * ROOM]
            got, fault = device and device[index * ROOM:(index + 1) * ROOM], problem
            if not device:
                got, fault = self.on_device([program])
            if got:
                fault = first_difference(got, expected)
            if fault:
                faults.append((program, fault))
            elif not any(expected):
                faults.append((program, "has no result at all"))
        return faults

    def told(self, program, fault):
        """A fault, with the place of its kernel in the folder's PTX."""
        lines = (self.folder / "programs.ptx").read_text(encoding="utf-8").splitlines()
        line = next((number for number, text in enumerate(lines, 1) if f".entry k_{program.name}(" in text), 0)
        return (f"differs program {program.name[1:]} of seed {self.options.seed} ({program.blocks} blocks of {program.threads}), "
                f"{self.folder.name}/programs.ptx line {line}: {fault}")


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", type=int, help="the number of one program")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--target", type=int, default=TARGET, metavar="SM", help="the GPU's compute capability, as in 90")
    parser.add_argument("--timeout", type=float, default=200)
    parser.add_argument("--host-only", action="store_true", help="compile and run for the host, compile for the device")
    options = parser.parse_args()
    options.runner = os.path.abspath(options.runner)
    options.nvcc = run([ROOT / "scripts/find-nvcc"], text=True).stdout.strip() if shutil.which("g++") else ""
    # It tells its version.
    options.compiler = " ".join(run([options.nvcc, "--version"], text=True).stdout.split()) if options.nvcc else ""
    return options


def main():
    options = options_of()
    numbers = [options.only] if options.only is not None else range(options.count)
    drawn = [programs.Program(options.seed, number) for number in numbers]
    ran, faults = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or pathlib.Path(temporary)).resolve()
        for start in range(0, len(drawn), BATCH):
            chosen = drawn[start:start + BATCH]
            batch = Batch(folder / f"{options.seed}-{chosen[0].name}-{chosen[-1].name}", chosen, options)
            if not batch.is_ready():
                if not options.nvcc:
                    continue
                problem = batch.compile()
                if problem:
                    print(problem)
                    return 1
            ran += batch.programs
            if not options.host_only:
                for program, fault in batch.check():
                    faults.append(program)
                    print(batch.told(program, fault), flush=True)
    if len(ran) < len(drawn):
        print(f"skipped: {len(drawn) - len(ran)} programs, to compile which there is no nvcc (scripts/find-nvcc says where it is looked for) or no g++")
    if not ran:
        return SKIPPED
    kinds = collections.Counter("block" if program.by_block else "thread" for program in ran)
    print(f"{len(ran)} programs ({kinds['thread']} of a thread, {kinds['block']} of a block), seed {options.seed}: {len(faults)} differ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
