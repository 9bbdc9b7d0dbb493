"""The preloaded object: what it needs, what it exports, what it costs programs without CUDA."""

import collections
import os
import platform
import re
import shutil
import subprocess

import guard
import pytest
import start_cost
from conftest import LIBRARY, PROGRAMS, ROOT
from driver_table import stubs

PUBLIC = {"dlsym", "dlopen", "dlclose", "dlerror", "prctl", "cudaMalloc", "cudaMallocPitch", "cudaMalloc3D", "poolcuda_version",
          "poolcuda_trim", "poolcuda_stats", "poolcuda_set_limit", "poolcuda_get_limit", "poolcuda_site_push",
          "poolcuda_site_pop", "poolcuda_malloc", "poolcuda_free", "poolcuda_cupy_malloc", "poolcuda_cupy_free"}


def read(*options):
    return subprocess.run(["readelf", "-W", *options, LIBRARY], capture_output=True, text=True,
                          check=True).stdout


def test_it_needs_libc_and_nothing_else():
    assert re.findall(r"NEEDED.*\[(.*)\]", read("-d")) == ["libc.so.6"]


def test_it_is_hardened():
    dynamic, segments = read("-d"), read("-l")
    assert "BIND_NOW" in dynamic
    assert "GNU_RELRO" in segments
    stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
    assert "RWE" not in stack and " RW " in stack


on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has CET")


@on_x86
def test_it_keeps_indirect_branch_tracking_and_shadow_stacks_of_its_process():
    assert re.search(r"x86 feature: (.*)", read("-n"))[1] == "IBT, SHSTK"


def functions():
    """{name: (address, bytes)} of all functions, exported or not."""
    rows = re.findall(r"^ *\d+: ([0-9a-f]+) +(\d+|0x[0-9a-f]+) FUNC +\S+ +\S+ +\d+ (\S+)$", read("-s"), re.M)
    return {name: (int(address, 16), int(size, 0)) for address, size, name in rows}


def section(name):
    """Its address, its place in the file, its size."""
    row = re.search(rf" {re.escape(name)} +PROGBITS +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", read("-S"))
    return tuple(int(number, 16) for number in row.groups())


def code():
    """The sections of code, the hooks' entries behind all others: where they begin, and their bytes."""
    (first, offset, _), (last, _, size) = section(".text"), section("hook_entries")
    with open(LIBRARY, "rb") as file:
        file.seek(offset)
        return first, file.read(last - first + size)


def exported():
    names = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in names.splitlines()}


def entries():
    """{name: address} of whatever the program may call through a pointer: what is exported, and the 1,024 stubs for
    functions that the table does not have."""
    known = functions()
    found = {name: known[name][0] for name in exported()}
    after = max(found[name] for name in stubs()) + 16
    return {**found, **{f"spare {number}": after + 16 * number for number in range(1024)}}


@on_x86
def test_every_entry_begins_as_the_target_of_an_indirect_branch():
    start, text = code()
    assert len(entries()) > 1500
    assert [name for name, at in entries().items() if text[at - start:at - start + 4] != b"\xf3\x0f\x1e\xfa"] == []


@on_x86
def test_every_function_of_which_there_is_a_pointer_begins_so_too():
    """In data, taken in code, or made from the place of the hooks' entries: most files' functions are called by name alone
    and begin otherwise."""
    hooks, _, size = section("hook_entries")
    begin = {address: name for name, (address, _) in functions().items()}
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", LIBRARY], capture_output=True, text=True, check=True).stdout
    taken = {int(address, 16) for address in re.findall(r"R_X86_64_RELATIVE\s+([0-9a-f]+)", read("-r"))}
    taken |= {int(address, 16) for address in re.findall(r"\slea .*# ([0-9a-f]+) <", listing)}
    marked = {int(address, 16) for address in re.findall(r"^ *([0-9a-f]+):\s+endbr64", listing, re.M)}
    taken |= {address for address in begin if hooks <= address < hooks + size}
    assert len(taken & set(begin)) > 100
    assert [begin[address] for address in taken & set(begin) if address not in marked] == []


def test_every_entry_has_a_row_in_the_unwind_table():
    rows = [(int(low, 16), int(high, 16)) for low, high in re.findall(r"FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)", read("--debug-dump=frames"))]
    assert rows
    assert [name for name, at in entries().items() if not any(low <= at < high for low, high in rows)] == []


def test_it_asks_for_no_symbol_newer_than_glibc_2_17():
    imports = [line.split() for line in subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], capture_output=True,
                                                       text=True, check=True).stdout.splitlines()]
    assert imports
    for kind, name in imports:
        symbol, _, version = name.partition("@GLIBC_")
        assert re.fullmatch(r"\d+\.\d+(\.\d+)?", version), f"{symbol}: its version is not glibc's"
        assert tuple(map(int, version.split(".")[:2])) <= (2, 17), name
        # What an older glibc has in another library than libc would be missing in processes without that library.
        assert kind == "U" or symbol == "dlvsym", f"{symbol}: weak, and so it may be missing for good"
    # All that is asked for besides is in that list: no feature of a newer loader, which -V or -d would name.
    wanted = re.findall(r"Name: (\S+)", read("-V"))
    assert set(wanted) == {f"GLIBC_{name.partition('@GLIBC_')[2]}" for _, name in imports}
    assert "RELR" not in read("-d")


def test_it_exports_its_hooks_its_stubs_and_its_own_names_only():
    table = (ROOT / "src/interpose/hooks.def").read_text()
    hooked = set(re.findall(r"^HOOK\((\w+),", table, re.M))
    assert len(stubs()) > 300
    assert exported() == hooked | stubs() | PUBLIC


def test_the_versions_in_the_table_of_hooks_are_cudas():
    include = subprocess.run([ROOT / "scripts/find-cuda-headers"], capture_output=True, text=True,
                             check=True).stdout.strip()
    header = f"{include}/cudaTypedefs.h"
    if not os.path.exists(header):
        pytest.skip("no cudaTypedefs.h beside the CUDA headers: package nvidia-cuda-dev, or CUDA's cuda-cudart-dev")
    with open(header, encoding="utf-8", errors="replace") as file:
        known = set(re.findall(r"PFN_(\w+)\)", file.read()))
    table = (ROOT / "src/interpose/hooks.def").read_text()
    rows = re.findall(r'^HOOK\((\w+), "(\w+)", (\d+), (\d),', table, re.M)
    assert rows
    for symbol, base, since, per_thread in rows:
        assert f"{base}_v{since}{'_ptsz' if per_thread == '1' else ''}" in known, symbol


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return start_cost.empty_library(tmp_path_factory.mktemp("empty"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return start_cost.with_as_long_a_path(LIBRARY, tmp_path_factory.mktemp("owned"))


INNOCENT = [["/bin/true"], ["bash", "-c", ":"], ["/usr/bin/python3", "-c", "pass"],
            ["gcc", "--version"]]
ORDINARY = [*INNOCENT, ["ls", "/"], ["sh", "-c", ":"], ["date"], ["perl", "-e", "1"], ["awk", "BEGIN {}"], ["sed", "", "/dev/null"],
            ["tar", "-cf", "/dev/null", "/dev/null"], ["grep", "-c", "", "/etc/passwd"], ["git", "--version"], ["make", "--version"]]


def environment(preload):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "LD_"))}
    return dict(clean, LD_PRELOAD=str(preload), PYTHONHASHSEED="0")


def instructions(command, preload, folder):
    return start_cost.instructions(command, preload, folder, env=environment(preload))


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed: package valgrind")
@pytest.mark.parametrize("command", ORDINARY, ids=lambda c: os.path.basename(c[0]))
def test_a_program_without_cuda_pays_less_than_20000_instructions(command, ours, empty, tmp_path):
    """They grow with the libraries of the program: each of our few imports is looked for in all of them before libc."""
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    assert instructions(command, ours, tmp_path) - instructions(command, empty, tmp_path) < 20000


@pytest.mark.skipif(not shutil.which("valgrind") or not shutil.which("openssl"), reason="packages valgrind, openssl")
def test_each_symbol_that_a_program_looks_up_itself_costs_at_most_2_instructions_more(ours, empty, tmp_path):
    """Our table of exported names is asked first: that is all there is to be seen of us in a large program."""
    command = ["openssl", "version"]
    said = subprocess.run(command, env=dict(environment(empty), LD_DEBUG="statistics"), capture_output=True, text=True, check=True).stderr
    lookups = int(re.search(r"number of relocations: (\d+)", said)[1])
    assert lookups > 500
    assert instructions(command, ours, tmp_path) - instructions(command, empty, tmp_path) < 20000 + 2 * lookups


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: package strace")
@pytest.mark.parametrize("command", INNOCENT, ids=lambda c: os.path.basename(c[0]))
def test_a_program_without_cuda_sees_no_output_file_or_thread_of_ours(command, empty, tmp_path):
    def traced(preload):
        log = tmp_path / "trace"
        done = subprocess.run(["strace", "-f", "-qq", "-o", log, "-e",
                               "trace=openat,open,clone,clone3,write,connect,socket",
                               "-E", f"LD_PRELOAD={preload}", *command],
                              env=dict(os.environ, PYTHONHASHSEED="0"), capture_output=True,
                              text=True, check=True)
        calls = [re.sub(r"^\d+ +|0x[0-9a-f]+", "", line) for line in log.read_text().splitlines()]
        return done.stdout, done.stderr, [c.replace(str(preload), "PRELOAD") for c in calls]

    assert traced(LIBRARY) == traced(empty)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: package strace")
@pytest.mark.parametrize("disabled", ["0", "1"])
def test_a_program_without_cuda_makes_two_system_calls_more(disabled, ours, empty, tmp_path):
    """A filter may be there before the program. What the loader does for a larger object is more of what it does for each."""

    def made(preload):
        subprocess.run(["strace", "-qq", "-o", tmp_path / "log", "-E", f"LD_PRELOAD={preload}", "-E", f"POOLCUDA_DISABLE={disabled}", "/bin/true"],
                       check=True)
        return collections.Counter(line.split("(")[0] for line in (tmp_path / "log").read_text().splitlines())

    more = made(ours) - made(empty)
    assert set(more) <= {"fstat", "getcwd", "mmap", "mprotect"}
    assert more["fstat"] == more["getcwd"] == 1


def test_it_says_nothing_of_bad_options_to_a_program_without_cuda():
    done = subprocess.run(["/bin/true"], capture_output=True, text=True, check=True,
                          env=dict(environment(LIBRARY), POOLCUDA_REUSE_RATIO="nonsense",
                                   POOLCUDA_STATS="1"))
    assert done.stdout == done.stderr == ""


def test_a_compiler_under_it_still_compiles(tmp_path):
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); }\n')
    subprocess.run(["gcc", source, "-o", tmp_path / "hello"], env=environment(LIBRARY), check=True)
    done = subprocess.run([tmp_path / "hello"], env=environment(LIBRARY), capture_output=True,
                          text=True, check=True)
    assert done.stdout == "hello\n" and done.stderr == ""


def test_it_makes_no_cuda_call_at_exit(run):
    native, pooled = (run(PROGRAMS / "driver_linked", pooled=p) for p in (False, True))
    assert native.code == pooled.code == 0
    frees = pooled.figures.get("calls.cuMemFree_v2", 0)
    assert frees == 0, "idle blocks are left to the end of the process"


def test_errno_is_zero_when_main_begins_also_where_there_is_no_folder(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = guard.run(["sh", "-c", 'rmdir ../gone; LD_PRELOAD="$0" exec "$1"', LIBRARY, PROGRAMS / "at_start"], cwd=gone,
                     capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "errno 0\n", "")
