"""The table of driver functions knows every function of every CUDA version, and says what the headers say; and nothing
but the table asks what a function is called."""

import functools
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys

import pytest
from conftest import PROGRAMS, ROOT
from driver_table import TABLE, rows, split, stubs, types, unclassified

sys.path.insert(0, str(ROOT / "scripts"))
from fetch_driver_headers import PACKAGES  # pylint: disable=wrong-import-position  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("write_stack_arguments", str(ROOT / "scripts/write-stack-arguments"))
stack_arguments = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(stack_arguments)

HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
DEFAULT_STREAM_ONLY = {"_", "L", "T", "each", "context", "Lin0", "Lin2", "Tin0", "Tin2"}
# The functions that are told apart by nothing but their name are those that the table does not have.
BY_NAME = {"src/interpose/unknown.c", "src/interpose/entry_points.c"}


def system_headers():
    return subprocess.run([ROOT / "scripts/find-cuda-headers"], capture_output=True, text=True,
                          check=True).stdout.strip()


@functools.cache
def reason_for_no_headers():
    """Why pip's headers cannot be had, None if they can: asked for once, as pip may take its time."""
    done = subprocess.run(["/usr/bin/python3", ROOT / "scripts/fetch_driver_headers.py"], capture_output=True, text=True,
                          check=False)
    return done.stderr.strip() if done.returncode else None


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


@pytest.fixture(params=PACKAGES)
def headers(request):
    """The texts of the headers of one CUDA version by their names."""
    folder = ROOT / "build/driver-headers" / request.param
    if not folder.is_dir() and reason_for_no_headers():
        pytest.skip(f"{reason_for_no_headers()}; with a network python3 scripts/fetch_driver_headers.py fetches them")
    return {path.name: read(path) for path in folder.glob("*.h")}


def test_every_function_of_every_cuda_version_has_its_row(headers):
    assert {"cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"} <= set(headers)
    assert {name: missing for name, text in headers.items() if (missing := unclassified(text))} == {}


def test_the_table_has_every_type_of_the_headers_with_its_version_and_its_stream(headers):
    table = {(base, row.since, per_thread): row for row in rows() for base, per_thread in [split(row.symbol)]}
    found = {}
    for name, text in headers.items():
        if name.endswith("Typedefs.h"):
            found.update(types(text))
    assert len(found) > 400
    for form, parameters in found.items():
        assert form in table, form
        row = table[form]
        if row.ours in ("look", "peek"):  # nothing on the stack is passed on
            assert len(parameters) <= 6, row.symbol
        where = [i for i, parameter in enumerate(parameters) if re.fullmatch(r"CUstream( \w+)?", parameter)]
        default = "T" if form[2] else "L"
        if where:
            assert row.stream == f"{default}{where[0]}", row.symbol
        else:
            assert row.stream in DEFAULT_STREAM_ONLY, row.symbol


def test_the_stack_arguments_of_every_function_are_those_of_the_headers(headers, request):
    assert headers
    measured = stack_arguments.measured(ROOT / "build/driver-headers" / request.node.callspec.params["headers"])
    assert len(measured) > 400
    table = {name: (int(x86_64), int(aarch64))
             for name, x86_64, aarch64 in re.findall(r"^STACK\((\w+), (\d+), (\d+)\)$", stack_arguments.TABLE.read_text(), re.M)}
    ours = {row.symbol: row.ours for row in rows()}
    assert {name: words for name, words in measured.items() if words != table.get(name, (0, 0)) and name in ours} == {}
    assert [name for name in table if ours[name] in ("look", "peek")] == []  # nothing on the stack is passed on


@pytest.mark.parametrize("name", HEADERS)
def test_every_function_of_the_installed_headers_has_its_row(name):
    folder = system_headers()
    if not os.path.exists(f"{folder}/{name}"):
        pytest.skip(f"no CUDA headers with {name} here: package nvidia-cuda-dev, or a CUDA toolkit that has it")
    assert unclassified(read(f"{folder}/{name}")) == []


def test_a_function_without_a_row_is_named():
    invented = ("CUresult CUDAAPI cuInventedCall(int);\n#define cuFoo cuInventedCall_v9\n"
                "#define cuBar __CUDA_API_PTSZ(cuInventedStreamCall)\n")
    assert unclassified(invented) == [
        "cuInventedCall", "cuInventedCall_v9", "cuInventedStreamCall", "cuInventedStreamCall_ptsz"]


def test_a_row_that_is_taken_out_is_missed(headers):
    text = headers["cuda.h"]
    less = re.sub(r"^ENTRY\(cuMemcpyDtoHAsync_v2_ptsz,.*\n", "", TABLE.read_text(), flags=re.M)
    assert unclassified(text, less) == ["cuMemcpyDtoHAsync_v2_ptsz"]


@pytest.mark.parametrize("pooled", [False, True])
def test_a_stub_passes_every_argument_on_and_jumps_where_it_can(run, pooled):
    result = run(PROGRAMS / "echoes", pooled=pooled, libraries=[PROGRAMS])
    assert result.out == "jumped to 1\njumped to 1\ncalls 10\n"


def test_no_function_stands_twice():
    names = [row.symbol for row in rows()]
    assert len(names) > 700
    assert sorted(names) == sorted(set(names))


def test_a_hook_is_what_the_table_of_hooks_has():
    hooks = set(re.findall(r"^HOOK\((\w+),", (ROOT / "src/interpose/hooks.def").read_text(), re.M))
    assert {row.symbol for row in rows() if row.ours == "hook"} == hooks


def test_the_columns_of_a_row_agree_with_each_other():
    assert len(stubs()) > 400
    for row in rows():
        per_thread = split(row.symbol)[1]
        assert bool(per_thread) == row.stream.startswith("T"), row
        if row.ours in ("_", "peek"):  # it may be called while a wait is owed
            assert (row.work, row.shows, row.sync, row.capture, row.memory, row.host, row.code) == ("_",) * 7, row
            assert row.effect in ("_", "export_table"), row
        if row.ours != "hook" and (row.memory != "_" or row.effect not in ("_", "frees", "export_table", "context_ends")):
            assert row.ours == "call" or row.work in ("device", "set"), row  # its result is looked at
        if row.capture in ("begins", "ends"):
            assert row.ours == "call", row
        if row.shows == "legacy":
            assert row.work in ("kernel", "device", "set"), row
        if row.sync in ("asks", "event", "stream", "context", "copy"):
            assert row.shows in ("yes", "legacy"), row


ASKS = (re.compile(r'\b(str\w*cmp|strstr|memcmp|fnmatch|\w*begins|\w*starts|ends_with|contains)\s*\([^;"]*'
                   r'"_?(cu[A-Z]\w*|Kernel\w*|Async|Batch|Green|Synchronize|Mem(set|cpy)\w*|Capture|_pt[sd][sz])"'),
        re.compile(r'\b\w+\((name|call|symbol|function|base|name_of\([^)]*\)),\s*"_?(cu[A-Z]|[A-Z]\w*"|_pt)'),
        re.compile(r'\{\s*"cu[A-Z]\w*"\s*,\s*"cu[A-Z]\w*"'))


def asked_name(text):
    return next((hit[0] for pattern in ASKS if (hit := pattern.search(text))), None)


def test_no_code_asks_for_a_functions_name():
    """A call's name is for messages; what the function does is in the columns. Of a function that the table does not have
    only its name is known: unknown.c."""
    found = {}
    for folder in ("src/interpose", "src/pool", "src/blocks", "src/keep", "src/sources", "src/check", "src/counters", "src/peers", "src/report", "src/trace"):
        for path in sorted((ROOT / folder).glob("*.[ch]")):
            if str(path.relative_to(ROOT)) not in BY_NAME and (hit := asked_name(read(path))):
                found[path.name] = hit
    assert found == {}


@pytest.mark.parametrize("text", [
    'if (strstr(name, "Kernel"))', 'return strncmp(name, "cuMem", 5) == 0', 'return begins(name, "cuMemset");',
    'if (is(name, "cuMemAdvise"))', 'strstr(name_of(frame->number), "Green")', 'strcmp(symbol + 3, "_ptsz")',
    'static const char *const others[] = {"cuMemHost", "cuMemAllocHost"};', 'strstr(name, "Synchronize")'])
def test_a_name_that_is_asked_for_is_found(text):
    assert asked_name(text)
