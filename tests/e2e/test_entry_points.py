"""The table of driver functions knows every function of the installed CUDA headers."""

import os
import re
import subprocess

import pytest
from conftest import PROGRAMS, ROOT

TABLE = ROOT / "src/interpose/entry_points.def"
HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
NOT_EXPORTED = {"cuWGLGetDevice", "cuGetProcAddress_v2_ptsz"}  # Windows only; inline in the header
PER_THREAD = {"PTDS": "_ptds", "PTSZ": "_ptsz"}


def functions(header):
    """Every exported spelling that a header's text declares: plain, versioned and per-thread ones."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    text = re.sub(r"//.*", "", text)
    found = set(re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(", text))
    found |= set(re.findall(r"#\s*define\s+cu\w+\s+(cu\w+)\s*$", text, re.M))
    for form, suffix in PER_THREAD.items():
        for name in re.findall(rf"__CUDA_API_{form}\((cu\w+)\)", text):
            found |= {name, name + suffix}
    return found - NOT_EXPORTED


def rows():
    return re.findall(r"^ENTRY_POINT\((\w+), (\w+)\)$", TABLE.read_text(), re.M)


def unclassified(header):
    return sorted(functions(header) - {name for name, _ in rows()})


def folders():
    found = subprocess.run([ROOT / "scripts/find-cuda-headers"], capture_output=True, text=True,
                           check=True).stdout.strip()
    return [found, *map(str, (ROOT / "build").glob("cuda-headers-*/nvidia/*/include"))]


@pytest.mark.parametrize("name", HEADERS)
def test_every_function_of_the_headers_has_its_class(name):
    paths = [path for folder in folders() if os.path.exists(path := f"{folder}/{name}")]
    if not paths:
        pytest.skip(f"no CUDA headers with {name} here: package nvidia-cuda-dev, or a CUDA toolkit that has it")
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as header:
            text = header.read()
        assert len(functions(text)) >= 3
        assert unclassified(text) == [], path


def test_a_function_without_a_class_is_named():
    assert unclassified("CUresult CUDAAPI cuInventedCall(int);\n#define cuFoo cuInventedCall_v9\n"
                        "#define cuBar __CUDA_API_PTSZ(cuInventedStreamCall)\n") == [
        "cuInventedCall", "cuInventedCall_v9", "cuInventedStreamCall", "cuInventedStreamCall_ptsz"]


@pytest.mark.parametrize("pooled", [False, True])
def test_a_stub_passes_every_argument_on_and_jumps_where_it_can(run, pooled):
    result = run(PROGRAMS / "echoes", pooled=pooled, libraries=[PROGRAMS])
    assert result.out == "jumped to 1\njumped to 1\ncalls 6\n"


def test_no_function_stands_twice():
    names = [name for name, _ in rows()]
    assert len(names) > 600
    assert sorted(names) == sorted(set(names))


def test_hooked_is_what_the_table_of_hooks_has():
    hooks = set(re.findall(r"^HOOK\((\w+),", (ROOT / "src/interpose/hooks.def").read_text(), re.M))
    assert {name for name, kind in rows() if kind == "HOOKED"} == hooks
