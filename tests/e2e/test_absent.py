"""Names of CUDA's that nobody but the pool's library has are to look-ups what they are natively: not there. absent.c."""

import pytest
from conftest import DRIVER, PROGRAMS, RUNTIME
from steered import FOLDER

NAMES = ("cudaMalloc", "cuMemAlloc_v2", "cuInit", "cuNothing")
OPENED = {"nothing": [], "runtime": [RUNTIME / "libcudart.so.13"], "runtime for all": [f"g:{RUNTIME}/libcudart.so.13"],
          "driver": [DRIVER / "libcuda.so.1"], "driver for all": [f"g:{DRIVER}/libcuda.so.1"]}
ENABLED = pytest.mark.parametrize("disabled", [{}, {"POOLCUDA_DISABLE": "1"}], ids=["enabled", "disabled"])


@ENABLED
@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED.keys())
def test_what_is_not_there_is_not_found_and_the_error_is_the_loaders_own(both, opened, disabled):
    native, _ = both([PROGRAMS / "looks_up", *opened], env=disabled, stats=False)
    assert native.code == 0
    if not opened:
        assert f"handle cudaMalloc: NULL, {PROGRAMS}/looks_up: undefined symbol: cudaMalloc, none" in native.out


ASKS = f"""
import ctypes
everything = ctypes.CDLL(None)
for name in {NAMES}:
    try:
        print(name, bool(ctypes.cast(getattr(everything, name), ctypes.c_void_p).value), hasattr(everything, name))
    except AttributeError as error:
        print(error)
look_up, error = everything.dlsym, everything.dlerror
look_up.restype = ctypes.c_void_p
look_up.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
error.restype = ctypes.c_char_p
for handle in 0, -1:
    for name in {NAMES}:
        print(look_up(handle, name.encode()), error(), error())
"""


@ENABLED
def test_python_finds_no_more_than_without_the_pool(both, disabled):
    """By way of libffi, a library that is opened later."""
    seen = sorted(FOLDER.iterdir()) if FOLDER.exists() else []
    native, pooled = both(["/usr/bin/python3", "-c", ASKS + "import os; print(os.listdir('/dev/shm'))"], env=disabled, stats=False)
    assert native.code == 0 and native.out.count("undefined symbol: cudaMalloc") == 3
    assert pooled.err == ""
    assert (sorted(FOLDER.iterdir()) if FOLDER.exists() else []) == seen
