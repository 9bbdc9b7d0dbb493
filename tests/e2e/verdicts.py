"""What the tests of the doctor's verdicts share: they hold each against a run of the program."""

import glob
import json
import os
import shutil
import subprocess
import sys

import guard
import pytest
from conftest import LIBRARY
from diagnoses import environment

# Asks the driver for memory a hundred times, as PyCUDA, numba and tinygrad do: through ctypes.
ALLOCATES = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0 and driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
for _ in range(100):
    assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4096)) == 0
    assert driver.cuMemFree_v2(pointer) == 0
"""
HARMLESS = "import json, os.path\nprint(json.dumps([os.path.sep]))\n"
ALLOCATING_LIBRARY = """
    int cudaMalloc(void **, unsigned long), cudaFree(void *);
    int FUNCTION(void) { void *p; for (int i = 0; i < 100; i++) { cudaMalloc(&p, 4096); cudaFree(p); } return 0; }
"""


@pytest.fixture
def truth(tmp_path):
    """truth(argument..., env={}): (allocations, of which from idle memory) of the program and all that it starts."""
    def run(*arguments, env=None):
        folder = tmp_path / "truth"
        folder.mkdir(exist_ok=True)
        done = guard.run(list(map(str, arguments)), cwd=tmp_path, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                         env=environment(**{"LD_PRELOAD": str(LIBRARY), "POOLCUDA_STATS": "json", **(env or {}),
                                            "POOLCUDA_STATS_FILE": f"{folder}/%p.json", "SIMCUDA_COST": "0"}))
        counters = [json.loads(file.read_text())["counters"] for file in folder.iterdir()]
        shutil.rmtree(folder)
        run.done = done
        return (sum(each["malloc_calls"] for each in counters), sum(each["malloc_hits"] for each in counters))
    return run


@pytest.fixture
def right(doctor, truth):
    """right(works, argument..., env={}): the doctor's verdict, which is what then happens."""
    def check(works, *arguments, env=None):
        said = doctor(*arguments, env=env)
        calls, hits = truth(*arguments, env=env)
        assert truth.done.returncode == 0, truth.done.stderr
        if works:
            assert said.code == 0, said.findings
            assert calls >= 10 and hits > 0.8 * calls
        else:
            assert said.problems == {"no-cuda"}, said.findings
            assert calls == 0
        return said
    return check


def needs_libpython(python):
    return "libpython" in subprocess.run(["ldd", os.path.realpath(python)], capture_output=True, text=True,
                                         check=False).stdout


def shared_python():
    """A Python whose interpreter is in a shared library."""
    found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.1*/bin/python3")))
    return next((path for path in [*found[::-1], sys.executable, "/usr/bin/python3"] if needs_libpython(path)), None)


def static_python():
    return next((path for path in ["/usr/bin/python3", sys.executable]
                 if os.path.exists(path) and not needs_libpython(path)), None)


def pythons():
    for name, path in {"static": static_python(), "shared": shared_python()}.items():
        missing = f"no Python here whose libpython is {name}: install one, with pyenv or from python.org"
        yield pytest.param(path, id=name, marks=pytest.mark.skipif(not path, reason=missing))
