#!/usr/bin/env python3
"""Kernels drawn at random, compiled by nvcc to PTX and run by the simulated driver, against the same source compiled for
the host: every byte of their results. oracle.py RUNNER LIBCUDA_FOLDER; skipped (77) where there is no nvcc.

--seed and --count draw others; --keep FOLDER leaves sources, PTX and results there; --only N runs one of them.
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
NVCC = ["-ptx", "-arch=sm_90", "-fmad=false", "-std=c++17", "-w"]
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


class Batch:
    """Some programs in a folder of their own."""

    def __init__(self, folder, drawn, options):
        self.folder, self.programs, self.options = folder, drawn, options
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "programs.cu").write_text(programs.source(drawn), encoding="utf-8")
        (folder / "input").write_bytes(programs.inputs(options.seed))

    def compile(self, nvcc):
        """None, or what a compiler objected to."""
        for command in ([nvcc, *NVCC, f"-I{HERE}", "-o", "programs.ptx", "programs.cu"],
                        ["g++", *HOST, f"-I{HERE}", "-x", "c++", "programs.cu", "-o", "host"]):
            done = run(command, cwd=self.folder, text=True)
            if done.returncode:
                return f"{command[0]} fails on {self.folder}/programs.cu:\n{done.stderr[-2000:]}"
        return None

    def on_device(self, drawn):
        """The results of each, or what the runner said."""
        launches = "".join(f"k_{program.name} {program.blocks} {program.threads}\n" for program in drawn)
        (self.folder / "launches").write_text(launches, encoding="utf-8")
        environment = {**os.environ, "LD_LIBRARY_PATH": self.options.driver, "SIMCUDA_COST": "0"}
        try:
            done = run([self.options.runner, "programs.ptx", "input", "output", str(programs.THREADS), str(programs.WORDS_OUT)],
                       cwd=self.folder, input=launches.encode(), env=environment, timeout=self.options.timeout)
        except subprocess.TimeoutExpired:
            return None, f"does not end in {self.options.timeout:.0f} s"
        if done.returncode == NOT_LOADED:
            raise SystemExit(f"{self.folder}/programs.ptx: {done.stderr.decode(errors='replace').strip()}")
        if done.returncode:
            return None, done.stderr.decode(errors="replace").strip() or f"the runner ended with {done.returncode}"
        return (self.folder / "output").read_bytes(), None

    def check(self):
        """[(program, fault)]: a batch that fails as a whole is tried again, one program at a time."""
        host = run([str(self.folder / "host"), "input"], cwd=self.folder)
        if host.returncode:
            return [(program, "the host's program fails") for program in self.programs]
        device, problem = self.on_device(self.programs)
        faults = []
        for index, program in enumerate(self.programs):
            expected = host.stdout[index * ROOM:(index + 1) * ROOM]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("driver", help="folder of the simulated libcuda.so.1")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", type=int, help="the number of one program")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--timeout", type=float, default=200)
    parser.add_argument("--host-only", action="store_true", help="compile and run for the host, compile for the device")
    options = parser.parse_args()
    options.runner, options.driver = os.path.abspath(options.runner), os.path.abspath(options.driver)
    nvcc = run([ROOT / "scripts/find-nvcc"], text=True).stdout.strip()
    if not nvcc:
        print("skipped: no nvcc on this machine (scripts/find-nvcc says where it is looked for)")
        return SKIPPED
    if not shutil.which("g++"):
        print("skipped: no g++ on this machine, which compiles the programs for the host")
        return SKIPPED
    numbers = [options.only] if options.only is not None else range(options.count)
    drawn = [programs.Program(options.seed, number) for number in numbers]
    faults = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        for start in range(0, len(drawn), BATCH):
            batch = Batch(folder.resolve() / str(start), drawn[start:start + BATCH], options)
            problem = batch.compile(nvcc)
            if problem:
                print(problem)
                return 1
            if not options.host_only:
                faults += batch.check()
    for program, fault in faults:
        print(f"program {program.name[1:]} of seed {options.seed} ({program.blocks} blocks of {program.threads}): {fault}")
    kinds = collections.Counter("block" if program.by_block else "thread" for program in drawn)
    print(f"{len(drawn)} programs ({kinds['thread']} of a thread, {kinds['block']} of a block), seed {options.seed}: {len(faults)} differ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
