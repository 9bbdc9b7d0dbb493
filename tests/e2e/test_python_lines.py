"""Where CPython calls CUDA through a go-between, the line of Python is the site: in the versions that Debian's releases
have, which is 3.11 outside of the roots."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import types

import pytest
from conftest import DRIVER, LIBRARY, PROGRAMS, ROOT, SANITIZER
from roots import folder_in, put_driver, root_of, run_in

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64" or bool(SANITIZER),
                                reason="the layouts of CPython on x86-64 are what is known")
PROGRAM = ROOT / "tests/programs/python_lines.py"
PYTHON = "/usr/bin/python3"
NEWEST = 15  # of the versions 3.x that src/interpose/python_layout.c knows
HERE = "here"
ROOTS = [pytest.param(suite, marks=pytest.mark.xdist_group(f"root of {suite}"), id=suite)
         for suite in ("bullseye", "trixie", "sid")]


def run_here(run):
    def runner(*arguments, command=(PYTHON,), **environment):
        done = run([*command, PROGRAM, *arguments], env=environment)
        return types.SimpleNamespace(code=done.code, out=done.out, err=done.err, stats=done.stats,
                                     driver_allocations=done.driver_allocations)
    return runner


def run_there(root, folder):
    inside = "/" + str(folder.relative_to(root))

    def runner(*arguments, command=(PYTHON,), **environment):
        for name in ("stats", "report"):
            (folder / name).unlink(missing_ok=True)
        done = run_in(root, [*[word.format(folder=inside) for word in command], f"{inside}/{PROGRAM.name}", *arguments], LD_LIBRARY_PATH=inside,
                      LD_PRELOAD=f"{inside}/{LIBRARY.name}", SIMCUDA_COST="0", SIMCUDA_REPORT=f"{inside}/report",
                      POOLCUDA_STATS="1", POOLCUDA_STATS_FILE=f"{inside}/stats", **environment)
        read = {name: (folder / name).read_text() if (folder / name).exists() else "" for name in ("stats", "report")}
        made = re.search(r"^calls\.cuMemAlloc_v2 (\d+)$", read["report"], re.M)
        return types.SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr, stats=read["stats"],
                                     driver_allocations=int(made.group(1)) if made else 0)
    return runner


@pytest.fixture(name="python", params=[HERE, *ROOTS])
def python_of_release(request, run, tmp_path):
    """Runs the program with a release's Python: python("100", "thread")."""
    if request.param == HERE:
        yield run_here(run)
        return
    root = root_of(request.param)
    minor = int(os.readlink(root / "usr/bin/python3").rpartition(".")[2])
    if minor > NEWEST:
        pytest.skip(f"{request.param} has Python 3.{minor}, whose structures are not known")
    with folder_in(root, f"{os.getpid()}-{tmp_path.name}") as folder:
        for file in (LIBRARY, PROGRAM, PROGRAMS / "embedding"):
            shutil.copy(file, folder)
        put_driver(root, folder)
        yield run_there(root, folder)


def lines_of(result):
    """(allocations, function, line) of each site that is a line of Python."""
    assert result.code == 0, result.out + result.err
    assert result.out == "done\n"
    found = re.findall(r"^\s+(\d+)\s+[\d.]+%.*\[(\S+) \((\S+):(\d+)\)\]$", result.stats, re.M)
    assert all(file.endswith("python_lines.py") for _, _, file, _ in found)
    return sorted((function, int(line), int(allocations)) for allocations, function, _, line in found)


EXPECTED = sorted([(line.split("# here: ")[1], number) for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
                   if "# here: " in line] + [("gr??er", 1103)])


@pytest.mark.parametrize("how", ["", "thread"])
def test_each_line_of_python_is_a_site(python, how):
    result = python("100", *how.split())
    assert lines_of(result) == [(*line, 100) for line in EXPECTED] and len(EXPECTED) == 4
    assert result.driver_allocations == 4


@pytest.mark.parametrize("python", ROOTS[1:2], indirect=True)
def test_an_interpreter_in_a_shared_library_has_lines_too(python):
    result = python("100", command=["{folder}/embedding", "libpython3.13.so.1.0"], PYTHONHOME="/usr")
    assert lines_of(result) == [(*line, 100) for line in EXPECTED]


# What programs that are handed out for any system have: CPython and libffi in one file without symbols.
PARTS = [pathlib.Path(path) for path in ("/usr/include/python3.11/Python.h", "/usr/lib/x86_64-linux-gnu/libffi.a",
                                         "/usr/lib/python3.11/config-3.11-x86_64-linux-gnu/libpython3.11.a")]
WITH_CTYPES_INSIDE = """
import inside
assert inside.call("cuInit", 0, 0) == 0
assert inside.call("cuDevicePrimaryCtxRetain", inside.address(), 0) == 0
assert inside.call("cuCtxSetCurrent", inside.value(), 0) == 0
for _ in range(100):
    assert inside.call("cuMemAlloc_v2", inside.address(), 20000) == 0
    assert inside.call("cuMemFree_v2", inside.value(), 0) == 0
    assert inside.call("cuMemAlloc_v2", inside.address(), 20000) == 0
    assert inside.call("cuMemFree_v2", inside.value(), 0) == 0
print("done")
"""


@pytest.mark.skipif(not all(part.exists() for part in PARTS), reason="no headers and static libraries: packages python3-dev, libffi-dev")
def test_an_interpreter_that_has_libffi_inside_has_lines_too(run, tmp_path):
    program = tmp_path / "python3"
    subprocess.run(["cc", "-O2", "-s", "-no-pie", "-rdynamic", f"-I{PARTS[0].parent}", "-o", program, ROOT / "tests/programs/built_in.c",
                    PARTS[2], PARTS[1], "-lexpat", "-lz", "-lm"], check=True)
    (tmp_path / "python_lines.py").write_text(WITH_CTYPES_INSIDE)
    result = run([program, tmp_path / "python_lines.py"], env={"PYTHONHOME": "/usr"})
    assert lines_of(result) == [("<module>", 7, 100), ("<module>", 9, 100)]


# Functions with the names of `calls`, which are called in this order, so often. The one named "long" has too many lines
# for a table of them to be read.
MADE = """
import ctypes
CUDA = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert CUDA.cuInit(0) == 0
assert CUDA.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert CUDA.cuCtxSetCurrent(context) == 0
for name, count in {calls}:
    if name not in globals():
        exec(compile("def " + name + "(pointer):\\n" + "    pointer\\n" * 20000 * (name == "long") +
                     "    assert CUDA.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(20000)) == 0\\n"
                     "    assert CUDA.cuMemFree_v2(pointer) == 0", "/python_lines.py", "exec"))
    for _ in range(count):
        globals()[name](ctypes.c_uint64())
print("done")
"""


def run_made(run, tmp_path, calls):
    (tmp_path / "made.py").write_text(MADE.format(calls=calls))
    return {function: count for function, _, count in lines_of(run([PYTHON, tmp_path / "made.py"]))}


def test_a_line_that_cannot_be_read_keeps_no_other_from_being_a_site(run, tmp_path):
    counts = run_made(run, tmp_path, [("long", 10), ("one", 100), ("long", 10), ("two", 100)])
    assert counts == {"one": 100, "two": 100}


def test_lines_that_are_known_stay_sites_when_there_are_too_many(run, tmp_path):
    few = [f"few{number}" for number in range(5)]
    counts = run_made(run, tmp_path, [*[(name, 10) for name in few], *[(f"many{number}", 1) for number in range(1000)],
                                      *[(name, 500) for name in few]])
    assert {name: counts[name] for name in few} == dict.fromkeys(few, 510)
    assert len(counts) < 1000


@pytest.mark.parametrize("when", ["kill", "late"])
def test_a_filter_that_ends_programs_for_reading_memory_does_not_end_this_one(run, when):
    result = run_here(run)("100", when)
    assert lines_of(result) == [(*line, 100) for line in EXPECTED]


def test_a_program_that_shuts_itself_in_keeps_the_lines_that_were_known_and_gets_no_more(run):
    result = run([PYTHON, PROGRAM, "100", "shut"], env={"POOLCUDA_STATS": "1"}, stats=False)
    result.stats = result.err
    assert lines_of(result) == [("allocate_alpha", dict(EXPECTED)["allocate_alpha"], 100)]
    assert result.driver_allocations == 4


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_nothing_is_asked_of_the_kernel_on_a_hit(tmp_path):
    def questions(rounds):
        out = tmp_path / f"strace.{rounds}"
        subprocess.run(["strace", "-f", "-e", "trace=rt_sigprocmask", "-E", f"LD_PRELOAD={LIBRARY}", "-E", f"LD_LIBRARY_PATH={DRIVER}",
                        "-E", "SIMCUDA_COST=0", "-o", out, PYTHON, PROGRAM, str(rounds)], check=True, capture_output=True)
        return out.read_text().count("EINVAL")

    assert questions(5) == questions(200) > 50
