"""However a program reaches the driver, its allocations are pooled."""

import pytest
from conftest import LIBRARY, PROGRAMS, RUNTIME

CTYPES = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for _ in range(300):
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(5000)) == 0
    assert cuda.cuMemFree_v2(pointer) == 0
print("done")
"""

CTYPES_RUNTIME = """
import ctypes, glob, sys
runtime = ctypes.CDLL(sys.argv[1])
pointer = ctypes.c_void_p()
for _ in range(300):
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(5000)) == 0
    assert runtime.cudaFree(pointer) == 0
print("done")
"""


def is_pooled(native, pooled, allocations=300):
    assert native.code == 0, native.out + native.err
    assert native.driver_allocations == allocations
    assert pooled.driver_allocations <= 12


def test_a_program_linked_with_the_driver_is_pooled(both):
    native, pooled = both(PROGRAMS / "driver_linked")
    is_pooled(native, pooled)
    assert "interception: 3 driver-linked sites; bypassed: none" in pooled.stats


def test_a_program_that_opens_the_driver_is_pooled(both):
    native, pooled = both(PROGRAMS / "driver_opened")
    is_pooled(native, pooled)
    assert "dlsym lookups" in pooled.stats


def test_a_program_that_opens_the_driver_with_deepbind_is_pooled(both):
    is_pooled(*both([PROGRAMS / "driver_opened", "deepbind"]))


def test_python_ctypes_is_pooled(both):
    is_pooled(*both(["/usr/bin/python3", "-c", CTYPES]))


def test_python_ctypes_on_a_runtime_is_pooled(both):
    library = next(RUNTIME.glob("libcudart.so.1[0-9]"))
    is_pooled(*both(["/usr/bin/python3", "-c", CTYPES_RUNTIME, library]))


@pytest.mark.parametrize("arguments", [["5"], ["4"], ["5", "per-thread"], ["4", "per-thread"]],
                         ids=" ".join)
def test_a_program_that_asks_cuGetProcAddress_is_pooled(both, arguments):
    native, pooled = both([PROGRAMS / "driver_asked", *arguments])
    is_pooled(native, pooled)
    lines = pooled.err.splitlines()
    assert f"lookup {LIBRARY.name}" in lines
    assert f"alloc 3020 {LIBRARY.name}" in lines
    assert f"async {LIBRARY.name} {LIBRARY.name}" in lines, "both stream forms are ours"
    for line in ("alloc 2000", "missing"):  # the driver's own answers
        assert ([text for text in lines if text.startswith(line)]
                == [text for text in native.err.splitlines() if text.startswith(line)])


@pytest.mark.parametrize("form, variable", [
    ("", None), ("-static", None), ("-dlsym", "by_dlsym"), ("-four", "four_arguments")])
def test_every_generation_of_runtime_is_pooled(both, form, variable):
    libraries = [RUNTIME.parent / "driver", RUNTIME / variable if variable else RUNTIME]
    is_pooled(*both(PROGRAMS / f"named_sites{form}", libraries=libraries), allocations=400)


def test_a_deep_bound_plugin_works_untouched_and_is_reported_as_bypassing(both):
    native, pooled = both([PROGRAMS / "deep_host", PROGRAMS / "libdeep_plugin.so"])
    assert native.code == 0
    assert pooled.driver_allocations == native.driver_allocations
    # Nothing of CUDA came past us, so there is nothing to report, and nothing is said.
    assert pooled.err == native.err


def test_a_deep_bound_plugin_is_named_in_the_report_of_a_program_that_is_pooled(run):
    script = CTYPES + f"""
plugin = ctypes.CDLL("{PROGRAMS}/libdeep_plugin.so", mode=ctypes.RTLD_GLOBAL | 8)
plugin.run_plugin()
"""
    pooled = run(["/usr/bin/python3", "-c", script])
    assert pooled.code == 0, pooled.err
    assert "libdeep_plugin.so (bound to the original dlsym)" in pooled.stats


def test_the_report_says_that_nothing_bypassed_the_pool(run):
    assert "bypassed: none" in run(PROGRAMS / "driver_linked").stats


@pytest.mark.parametrize("what", ["dlsym", "driver", "runtime"])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("program", ["driver_linked", "driver_opened", "named_sites"])
def test_other_interposers_coexist(run, what, place, program):
    other = PROGRAMS / f"libinterposer_{what}.so"
    alone = run(PROGRAMS / program, pooled=False, after=[other])
    result = run(PROGRAMS / program, **{place: [other]})
    assert result.code == alone.code == 0, result.err
    assert result.out == alone.out
    # A dlsym before ours that asks dlvsym for libc's own hides ours from lookups, as from anybody's.
    if (what, place) != ("dlsym", "before") or program == "driver_linked":
        assert result.driver_allocations <= 12


def test_disabled_it_is_inert(run):
    native = run(PROGRAMS / "named_sites", pooled=False)
    disabled = run(PROGRAMS / "named_sites", env={"POOLCUDA_DISABLE": "1"})
    assert disabled.out == native.out and disabled.err == native.err
    calls = {k: v for k, v in native.figures.items() if k.startswith("calls.")}
    assert {k: v for k, v in disabled.figures.items() if k.startswith("calls.")} == calls
    assert disabled.stats == ""
