"""Runs a benchmark program under callgrind and says how many instructions each of its operations takes, where.

A program collects in its measured loop alone. Callgrind names each function with all of its callers, so that what libc
does for the pool is told from what it does for others, and what a malloc takes from what a free takes.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile

# Where the work of the allocator begins: what a program calls.
SUBMISSIONS = ("cuLaunchKernel", "cuLaunchKernelEx", "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async", "cuMemsetD2D8Async",
               "cuMemsetD8_v2", "cuStreamWaitEvent", "cuEventRecord", "cuLaunchKernel_ptsz", "cuMemsetD8Async_ptsz")
ENTRIES = {**dict.fromkeys(SUBMISSIONS, "submission"), "cuMemAlloc_v2": "malloc", "reference_malloc": "malloc", "cuMemFree_v2": "free", "reference_free": "free"}
# Whose instructions never count, nor those of what they call: the driver, and a CUDA runtime below an allocator.
EXCLUDED = re.compile(r"/(libcuda\.so|libcudart\.so)")
# Called by the clock and not by the operation: under callgrind, some fifty times slower, many times as often.
PACED = "write_buffer"
CUDA_FUNCTION = re.compile(r"cu(da)?[A-Z]")


class Count:
    """What a run took. by_function: {("malloc" | "free" | "paced", object's file name, function): instructions} of all operations;
    operations: how many there were; mallocs, frees: of these, how many of each; printed: {word: value} of the program."""

    def __init__(self, by_function, printed):
        self.by_function = by_function
        self.printed = printed
        self.operations = int(printed["operations"])
        self.mallocs = int(printed.get("mallocs", self.operations // 2))
        self.frees = self.operations - self.mallocs

    def total(self, kind):
        return sum(cost for (of, _, _), cost in self.by_function.items() if of == kind)

    def malloc(self):
        """Instructions per malloc, the driver's own left out."""
        return self.total("malloc") / self.mallocs

    def free(self):
        return self.total("free") / self.frees if self.frees else 0.0

    def operation(self):
        """Instructions per operation, malloc or free."""
        return (self.total("malloc") + self.total("free")) / self.operations


def read(lines):
    """{(kind, object, function): instructions}, without those of the driver, of runtimes and of the program itself."""
    names = {"ob": {}, "fn": {}}
    found = collections.Counter()
    place, skip = None, False
    current = {"ob": "", "fn": ""}
    for line in lines:
        named = re.match(r"c?(ob|fn)=\((\d+)\)(?: (.*))?$", line)
        if named:
            what, number, name = named.groups()
            if name:
                names[what][number] = name
            if not line.startswith("c"):
                current[what] = names[what][number]
                place = where(current["ob"], current["fn"])
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee cost
        elif line[:1] in "+-*0123456789" and line:
            if not skip and place:
                found[place] += int(line.rsplit(" ", 1)[1])
            skip = False
    return found


def where(object_path, function):
    """Whose the instructions of a function are, which is named with its callers behind it; None if they do not count."""
    chain = [name.split("@")[0] for name in function.split("'")]
    if EXCLUDED.search(object_path):
        return None
    if PACED in chain:
        return "paced", os.path.basename(object_path), chain[0]
    for depth, name in enumerate(chain):
        if name in ENTRIES:
            return ENTRIES[name], os.path.basename(object_path), chain[0]
        if depth and CUDA_FUNCTION.match(name):
            return None
    return None


def clean_environment(build, preload=None, **settings):
    """The environment of a benchmark program: on the null driver, without settings of this shell."""
    others = ("POOLCUDA_", "SIMCUDA_", "LD_", "MALLOC_", "GLIBC_")  # meson sets MALLOC_PERTURB_
    environment = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    environment["LD_LIBRARY_PATH"] = f"{build}/tests/bench:{build}/subprojects/simcuda/runtime"
    if preload:
        environment["LD_PRELOAD"] = str(preload)
    return dict(environment, **{name: str(value) for name, value in settings.items()})


def pool_library(build):
    return pathlib.Path(build) / "src/interpose/libpoolcuda.so"


def program(build, name):
    return pathlib.Path(build) / "tests/bench" / name


def words(text):
    """{word: value} of the lines "word value" that a program prints."""
    return dict(line.split(None, 1) for line in text.splitlines() if " " in line)


def run(build, name, *arguments, pooled=False, **settings):
    """Runs it as it is; what it printed."""
    environment = clean_environment(build, pool_library(build) if pooled else None, **settings)
    done = subprocess.run([program(build, name), *map(str, arguments)], env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"{name} {arguments}: ended with {done.returncode}: {done.stderr.strip()}")
    return words(done.stdout)


def count(build, name, *arguments, pooled=False, **settings):
    """Runs it under callgrind; a Count. The pool is at work if `pooled`, with these settings (POOLCUDA_...)."""
    environment = clean_environment(build, pool_library(build) if pooled else None, **settings)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        done = subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-callers=50",
                               f"--callgrind-out-file={out}", program(build, name), *map(str, arguments)],
                              env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} {arguments}: ended with {done.returncode} under callgrind: {done.stderr.strip()}")
        counted = Count(read(out.read_text().splitlines()), words(done.stdout))
    if not counted.total("malloc"):
        raise RuntimeError(f"{name} {arguments}: callgrind saw no call of an allocator")
    return counted


class Counts:
    """Counts of one build, each made once, several at a time."""

    def __init__(self, build):
        self.build = build
        self.workers = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        self.running = {}

    def start(self, allocator, kind, operations, *arguments, **settings):
        """Begins to count `operations` of a kind of workload with that allocator ("driver", "bfc", ...)."""
        key = (allocator, kind, operations, arguments, tuple(settings.items()))
        if key not in self.running:
            self.running[key] = self.workers.submit(count, self.build, f"workload-{allocator}", kind, operations, *arguments,
                                                    pooled=allocator in POOLED, **settings)
        return self.running[key]

    def get(self, *arguments, **settings):
        return self.start(*arguments, **settings).result()


# The programs that the pool is preloaded into; the others have an allocator of their own.
POOLED = ("driver", "static")


def allocators(build):
    """Those that the pool is compared with, as far as they could be built."""
    return [name for name in ("cub", "bfc", "best_fit") if program(build, f"workload-{name}").exists()]
