"""The figures that documents state: read out of a document, and measured again.

Counts are the same on an idle and on a busy machine, but for what another compiler makes of the code: hence a tolerance, wide
enough for that and too narrow for a figure of other code.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import bench
import counting
import instructions
import pytest
from blocks import ROOT

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
BENCHMARKS = "docs/benchmarks.md"
TOLERANCE = 0.05


def text_of(document):
    return (ROOT / document).read_text()


def number(text):
    """The number that a cell or a word begins with: 1,816, 94.02%, 1.45x, <= 120."""
    found = re.match(r"-?\d[\d,]*(\.\d+)?", text)
    if not found:
        raise ValueError(f"{text!r}: expected a number")
    return float(found.group(0).replace(",", ""))


def rows(text):
    """The rows of all tables in a text, each a list of cells, without heads and rules."""
    lines = text.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for place, line in enumerate(lines)
            if line.startswith("| ") and not (place + 1 < len(lines) and lines[place + 1].startswith("|--"))]


def part(name):
    """What a run of the benchmarks has written between its marks; "" if the run did not measure it."""
    found = re.search(bench.MARKED.format(re.escape(name)), text_of(BENCHMARKS), re.S)
    return found.group(0)


def near(stated, measured, tolerance=TOLERANCE, least=1.0):
    """Whether a figure is what was measured; `least`: a difference that rounding makes."""
    return abs(stated - measured) <= max(least, tolerance * abs(measured))


@functools.cache
def counts():
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed: apt-get install valgrind counts instructions")
    options = json.loads((BUILD / "meson-info/intro-buildoptions.json").read_text())
    if next(option["value"] for option in options if option["name"] == "optimization") not in ("2", "3"):
        pytest.skip("the build is not optimised, and the documents' figures are of one that is: meson setup -Doptimization=2")
    return counting.Counts(BUILD)


@functools.cache
def counted():
    """What the bars on instructions and bytes are compared with."""
    return instructions.values(counts())


def hit(allocator="driver", kind="pair", **settings):
    """(malloc, free) in instructions."""
    found = counts().get(allocator, kind, instructions.OPERATIONS, **settings)
    return found.malloc(), found.free()


def command(*arguments, **environment):
    """What poolcuda prints as JSON."""
    done = subprocess.run([BUILD / "src/cli/poolcuda", *map(str, arguments)], capture_output=True, text=True, check=True,
                          env={**clean_environment(), **environment})
    return json.loads(done.stdout)


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}


def counters(sample, **settings):
    """The pool's counters of a sample program, on a simulated GPU that takes no time."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "stats")
        libraries = ":".join(str(BUILD / place) for place in ("subprojects/simcuda/driver", "subprojects/simcuda/runtime"))
        subprocess.run([BUILD / "samples" / sample], check=True, capture_output=True, env={
            **clean_environment(), "SIMCUDA_COST": "0", "LD_LIBRARY_PATH": libraries, "POOLCUDA_STATS_FILE": str(file),
            "LD_PRELOAD": str(BUILD / "src/interpose/libpoolcuda.so"), **settings})
        return json.loads(file.read_text())["counters"]
