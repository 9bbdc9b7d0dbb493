"""The public API: linked or found by name, by C, C++ and Python, with a pool and without."""

import csv
import os
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, COMMAND, LIBRARY, PROGRAMS, ROOT

HEADER = ROOT / "include/poolcuda.h"
LINKED = ["api", "api-behind-runtime"]
FORMS = [*LINKED, "api-by-name"]
DEVICES = {"SIMCUDA_DEVICES": "2"}
OK, DISABLED, NO_CUDA, LATE = 0, -2, -3, -4


def talk(run, form, test, env=None, **arguments):
    """Linked programs bring the library themselves."""
    return run([PROGRAMS / form, test], pooled=form not in LINKED + ["api-behind-driver"],
               env={**DEVICES, **(env or {})}, **arguments)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("test", ["stats", "limits", "threads", "forked"])
def test_figures_and_limits(run, form, test):
    result = talk(run, form, test)
    assert (result.out, result.err, result.code, result.hazards) == ("done\n", "", 0, 0)


def test_every_limit_of_the_header_is_an_option():
    named = re.findall(r"^ +POOLCUDA_LIMIT_(\w+) = \d+", HEADER.read_text(), re.M)
    assert sorted(named) == sorted(re.findall(r"^OPTION\(.* API\((\w+), ", (ROOT / "src/options/options.def").read_text(), re.M))


@pytest.mark.parametrize("policy", ["tag", "bins", "bfc", "segments", "async", "vmm", "expandable"])
def test_limits_change_under_every_policy_while_threads_allocate(run, policy):
    result = talk(run, "api", "threads", env={"POOLCUDA_POLICY": policy})
    assert (result.out, result.code, result.hazards) == ("done\n", 0, 0), result.err


def share(percent):
    return f"{(1 << 63) + round(percent * 1000):x}"


@pytest.mark.parametrize("env, told", [
    ({}, ["f" * 16, "f" * 16, "ea60", share(95)]),
    ({"MAX_IDLE": "64M", "MAX_WASTE": "2.5%", "IDLE_DECAY": "0.25", "THROTTLE_RATIO": "0.5"},
     [f"{64 << 20:x}", share(2.5), "fa", share(50)])], ids=["defaults", "options"])
def test_a_limit_tells_what_the_options_say(run, env, told):
    result = talk(run, "api", "told", env={f"POOLCUDA_{name}": value for name, value in env.items()})
    assert result.out.split() == [*told, "done"]


def check_pooled(result):
    """Of 80 blocks and a few more, the same few are handed on, in order."""
    assert (result.out, result.code) == ("other device\ndone\n", 0), result.err
    assert result.hazards == 0, result.figures
    assert result.driver_allocations <= 12


def check_native(result):
    assert (result.out, result.code, result.hazards) == ("no other device\ndone\n", 0, 0)
    assert result.driver_allocations > 80


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("form", FORMS)
def test_memory_for_frameworks_is_pooled_and_handed_on_in_order(run, form, mode):
    """Also the first call of a program, without a context, and on another device."""
    check_pooled(talk(run, form, "memory", env={"POOLCUDA_FREE": mode}))


@pytest.mark.parametrize("policy", ["tag", "bins", "bfc", "segments", "async", "vmm", "expandable"])
def test_memory_for_frameworks_is_in_order_under_every_policy(run, policy):
    check_pooled(talk(run, "api", "memory", env={"POOLCUDA_POLICY": policy}))


def test_a_library_linked_behind_the_driver_pools_none_of_it_and_says_so(run):
    check_native(talk(run, "api-behind-driver", "memory"))
    result = talk(run, "api-behind-driver", "nothing")
    assert result.out == f"nothing: {LATE} {OK}\ndone\n"


@pytest.mark.parametrize("mode", ["sync", "auto"])
def test_the_detector_would_see_memory_that_is_handed_on_without_a_wait(run, mode):
    """A planted fault: so the tests above can fail."""
    result = run([PROGRAMS / "api-by-name", "memory"], library=BUILD / "tests/planted/libpoolcuda.so",
                 env={**DEVICES, "POOLCUDA_FREE": mode, "POOLCUDA_PLANT": "no_wait"})
    assert result.code == 0 and result.hazards > 0


def test_preloading_makes_up_for_the_order_of_linking(run):
    check_pooled(run([PROGRAMS / "api-behind-driver", "memory"], env=DEVICES))


@pytest.mark.parametrize("what", ["dlsym", "driver", "runtime"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_beside_other_interposers_memory_is_handed_on_in_order(run, what, place):
    """A dlsym before ours may pass by us: then launches and streams are not seen, and nothing is pooled."""
    result = run([PROGRAMS / "api-by-name", "memory"], env=DEVICES,
                 **{place: [PROGRAMS / f"libinterposer_{what}.so"]})
    hidden = (what, place) == ("dlsym", "before")
    (check_native if hidden else check_pooled)(result)


def test_a_program_that_looks_the_functions_up_runs_without_the_library(run):
    result = run([PROGRAMS / "api-by-name", "stats"], pooled=False)
    assert (result.out, result.code) == ("no poolcuda\n", 0)


def test_without_a_pool_figures_are_zero_and_memory_is_the_drivers(run):
    off = {"POOLCUDA_DISABLE": "1"}
    result = talk(run, "api", "nothing", env=off)
    assert result.out == f"nothing: {DISABLED} {DISABLED}\ndone\n"
    check_native(talk(run, "api", "memory", env=off))


# --- tags ---

@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_a_tag_is_the_site_of_all_that_is_allocated_under_it(run, tmp_path, form, depth):
    trace = tmp_path / "trace"
    result = talk(run, form, "tags", env={"POOLCUDA_TRACE": str(trace), "POOLCUDA_SITE_DEPTH": str(depth)})
    assert (result.out, result.err, result.code) == ("done\n", "", 0)
    table = tmp_path / "trace.csv"
    subprocess.run([COMMAND, "convert", trace, table], check=True)
    with table.open(newline="") as lines:
        rows = [(int(row["size"]), row["site"]) for row in csv.DictReader(lines) if row["op"] == "A"]
    inner = 'layer, "2"?'
    assert rows[:3] == [(1000, "weights"), (2000, inner), (3000, inner)]
    assert [site for _, site in rows[3:5]] == ["weights", "weights"]
    assert [size for size, _ in rows[5:]] == [6000, 7000]
    place = rf"{form}\+0x[0-9a-f]+"
    for _, site in rows[5:]:
        assert re.fullmatch(" < ".join([place] * depth), site), site


def test_a_report_of_missing_memory_names_the_tags_that_hold_it(run):
    result = talk(run, "api", "short", env={"POOLCUDA_LOG": "stderr"})
    assert (result.out, result.code) == ("done\n", 0)
    assert "  40.0 MiB live in 1 block: holder\n" in result.err


# --- C++, pkg-config ---

USES_ALL = """
#include <poolcuda.h>
#include <poolcuda.h>

int main() {
    struct poolcuda_stats stats = {};
    uint64_t value = 0;
    stats.size = sizeof stats;
    int status = poolcuda_stats(POOLCUDA_ALL_DEVICES, &stats);
    poolcuda_site_push("scope");
    void *pointer = poolcuda_malloc(ssize_t(1) << 20, 0, nullptr);
    poolcuda_free(pointer, ssize_t(1) << 20, 0, nullptr);
    poolcuda_cupy_free(nullptr, poolcuda_cupy_malloc(nullptr, 1, 0), 0);
    poolcuda_site_pop();
    poolcuda_set_limit(POOLCUDA_LIMIT_MAX_IDLE, POOLCUDA_PERCENT(5));
    poolcuda_get_limit(POOLCUDA_LIMIT_MAX_IDLE, &value);
    return status == POOLCUDA_NO_CUDA && value == POOLCUDA_PERCENT(5) && pointer == nullptr &&
                   poolcuda_trim(0, 1) == 0 && poolcuda_version() != nullptr
               ? 0
               : 1;
}
"""


@pytest.mark.parametrize("language, standard", [("c", "c99"), ("c", "c11"), ("c++", "c++11"), ("c++", "c++20")])
def test_the_header_stands_by_itself(tmp_path, language, standard):
    if language == "c++" and not shutil.which("g++"):
        pytest.skip("g++ is not installed: package g++")
    source = tmp_path / "header"
    source.write_text('#include "poolcuda.h"\n#include "poolcuda.h"\nint one;\n')
    done = subprocess.run(["gcc", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic",
                           "-Wconversion", "-Werror", "-fsyntax-only", f"-I{HEADER.parent}", source],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def examples(language):
    text = (ROOT / "docs/api.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def test_the_examples_of_the_page_compile(tmp_path):
    commands = (BUILD / "compile_commands.json").read_text()
    include = re.search(r"-isystem ?(\S+)", commands).group(1)  # the CUDA headers that the build has found
    found = examples("c")
    assert len(found) >= 4
    for number, text in enumerate(found):
        source = tmp_path / f"example{number}.c"
        source.write_text(text)
        done = subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                               f"-I{HEADER.parent}", "-isystem", include, source],
                              capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    for text in examples("python"):
        compile(text, "docs/api.md", "exec")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The library, its header and its .pc file, in another place than they were configured for."""
    if "SANITIZER_RUNTIME" in os.environ:
        pytest.skip("an instrumented library does not link by itself: run it in a build without a sanitizer")
    prefix = tmp_path_factory.mktemp("prefix")
    meta = (BUILD / "meson-private/poolcuda.pc").read_text()
    library = prefix / re.search(r"^libdir=\$\{prefix\}/(.*)$", meta, re.M).group(1)
    (library / "pkgconfig").mkdir(parents=True)
    (prefix / "include").mkdir()
    shutil.copy(LIBRARY, library)
    shutil.copy(HEADER, prefix / "include")
    (library / "pkgconfig/poolcuda.pc").write_text(meta)
    return prefix, library


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="pkg-config is not installed: package pkg-config")
@pytest.mark.skipif(not shutil.which("g++"), reason="g++ is not installed: package g++")
def test_a_program_is_linked_by_pkg_config_and_runs_without_cuda(installed, tmp_path):
    prefix, library = installed

    def ask(*what):
        return subprocess.run(["pkg-config", f"--define-variable=prefix={prefix}", *what, "poolcuda"],
                              env=dict(os.environ, PKG_CONFIG_PATH=str(library / "pkgconfig")),
                              capture_output=True, text=True, check=True).stdout.split()

    assert ask("--modversion") == re.findall(r"version: '(.*?)'", (ROOT / "meson.build").read_text())[:1]
    assert ask("--variable=preload") == [str(library / "libpoolcuda.so")]
    source, program = tmp_path / "uses_all.cc", tmp_path / "uses_all"
    source.write_text(USES_ALL)
    subprocess.run(["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", source, "-o", program,
                    *ask("--cflags", "--libs")], check=True)
    done = subprocess.run([program], env={"LD_LIBRARY_PATH": str(library)}, capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- Python, as a framework would load it ---

PYTHON = f"""
import ctypes, sys
runtime = ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
pool = ctypes.CDLL({str(LIBRARY)!r})
pool.poolcuda_malloc.restype = ctypes.c_void_p
pool.poolcuda_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
pool.poolcuda_free.restype = None
pool.poolcuda_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
pool.poolcuda_cupy_malloc.restype = ctypes.c_void_p
pool.poolcuda_cupy_malloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
pool.poolcuda_cupy_free.restype = None
pool.poolcuda_cupy_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
"""

# torch.cuda.memory.CUDAPluggableAllocator reads the functions' addresses and calls them by them.
PYTORCH = PYTHON + """
Alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
alloc = Alloc(ctypes.cast(pool.poolcuda_malloc, ctypes.c_void_p).value)
free = Free(ctypes.cast(pool.poolcuda_free, ctypes.c_void_p).value)
stream = ctypes.c_void_p()
addresses = set()
for size in [5 << 20] * 20:
    pointer = alloc(size, 0, stream)
    addresses.add(pointer)
    assert runtime.cudaMemset(ctypes.c_void_p(pointer), 1, ctypes.c_size_t(size)) == 0
    free(pointer, size, 0, stream)
assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
for _ in range(20):
    pointer = alloc(5 << 20, 0, stream)
    addresses.add(pointer)
    assert runtime.cudaMemsetAsync(ctypes.c_void_p(pointer), 1, ctypes.c_size_t(5 << 20), stream) == 0
    free(pointer, 5 << 20, 0, stream)
assert None not in addresses
print(len(addresses))
"""

# cupy.cuda.CFunctionAllocator does the same with the forms that take a parameter.
CUPY = PYTHON + """
Malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
malloc = Malloc(ctypes.cast(pool.poolcuda_cupy_malloc, ctypes.c_void_p).value)
free = Free(ctypes.cast(pool.poolcuda_cupy_free, ctypes.c_void_p).value)
addresses = set()
for _ in range(20):
    pointer = malloc(0, 3 << 20, 0)
    addresses.add(pointer)
    free(0, pointer, 0)
assert None not in addresses and malloc(0, 0, 0) is None
print(len(addresses))
"""

# Freed by a thread that has no context.
THREAD = PYTHON + """
import threading
for _ in range(3):
    pointer = pool.poolcuda_malloc(6 << 20, 0, None)
    thread = threading.Thread(target=pool.poolcuda_free, args=(pointer, 6 << 20, 0, None))
    thread.start()
    thread.join()
from_thread = []
thread = threading.Thread(target=lambda: from_thread.append(pool.poolcuda_malloc(6 << 20, 0, None)))
thread.start()
thread.join()
print(from_thread == [pointer])
"""


@pytest.mark.parametrize("script", [PYTORCH, CUPY], ids=["pytorch", "cupy"])
def test_allocators_of_frameworks_get_pooled_memory(run, script):
    result = run(["/usr/bin/python3", "-c", script])
    assert (result.out, result.err, result.code) == ("1\n", "", 0)
    assert result.driver_allocations == 1 and result.hazards == 0


def test_threads_without_a_context_allocate_and_free_where_others_did(run):
    result = run(["/usr/bin/python3", "-c", THREAD])
    assert (result.out, result.err, result.code) == ("True\n", "", 0)
    assert result.driver_allocations == 1


@pytest.mark.skipif("SANITIZER_RUNTIME" in os.environ, reason="an instrumented library must be preloaded: run it in a "
                    "build without a sanitizer")
@pytest.mark.parametrize("script", [PYTORCH, CUPY], ids=["pytorch", "cupy"])
def test_a_library_that_is_loaded_by_the_program_alone_pools_nothing_but_works(run, script):
    count = 40 if script is PYTORCH else 20
    result = run(["/usr/bin/python3", "-c", script + """
class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("figures", ctypes.c_uint64 * 17)]
stats = Stats(ctypes.sizeof(Stats))
print(pool.poolcuda_stats(-1, ctypes.byref(stats)), sum(stats.figures))
"""], pooled=False)
    assert result.code == 0 and result.err == "", result.err
    assert result.out.splitlines()[1] == f"{LATE} 0"
    assert result.driver_allocations == count and result.figures["calls.cuMemFree_v2"] == count
    assert result.hazards == 0
