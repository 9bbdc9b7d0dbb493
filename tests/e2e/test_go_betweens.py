"""The site is beyond code that allocates on behalf of others: src/interpose/go_betweens.def, POOLCUDA_SITE_SKIP."""

import ctypes.util
import shutil

import pytest
from conftest import PROGRAMS
from test_sites import names_of

LIBRARY = PROGRAMS / "libgo_between_library.so"
LIBFFI = ctypes.util.find_library("ffi")

# How libraries that are in the table are called by those who make them.
KNOWN = ["libffi-3f5a.so.8", "_ctypes.cpython-313-x86_64-linux-gnu.so", "_cffi_backend.abi3.so",
         "cydriver.cpython-312-x86_64-linux-gnu.so", "cuda/bindings/driver.cpython-312-x86_64-linux-gnu.so",
         "cupy/cuda/memory.cpython-312-x86_64-linux-gnu.so", "pycuda/_driver.cpython-311-x86_64-linux-gnu.so",
         "libomptarget.rtl.cuda.so", "libgomp-plugin-nvptx.so.1", "libpi_cuda.so", "libc10_cuda.so"]


def named(tmp_path, name):
    """The library under another name."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(LIBRARY, path)
    return path


def sites_of(result, program):
    """(allocations, functions) of each site that is in the program."""
    assert result.code == 0, result.out + result.err
    assert result.out == "done\n"
    return names_of(result, program)


@pytest.mark.parametrize("name", KNOWN)
def test_the_site_is_beyond_a_library_of_the_table(run, tmp_path, name):
    program = PROGRAMS / "beyond"
    result = run([program, named(tmp_path, name)])
    assert sites_of(result, program) == [(100, ["site_alpha"]), (100, ["site_beta"])]
    assert result.driver_allocations == 2


def test_a_library_that_nobody_knows_is_itself_the_site(run, tmp_path):
    result = run([PROGRAMS / "beyond", named(tmp_path, "libmypool.so")])
    assert [(count, module) for count, [(module, _)] in result.sites()] == [(200, "libmypool.so")]


@pytest.mark.parametrize("skip", ["libmypool.so", "other,libmy*.so", "*/libmypool.so", "!between_*", "libmy*!between_allocate,!allocate_inside"])
def test_an_option_names_further_go_betweens(run, tmp_path, skip):
    program = PROGRAMS / "beyond"
    # What is not exported has no name in a library: its whole module is named beside.
    skip = skip if "!" not in skip else skip + ",libmypool.so"
    result = run([program, named(tmp_path, "libmypool.so")], env={"POOLCUDA_SITE_SKIP": skip})
    assert sites_of(result, program) == [(100, ["site_alpha"]), (100, ["site_beta"])]


@pytest.mark.parametrize("skip", ["", ",", "!", "libmypool", "libmypool.so!", "!libmypool.so", "x!y!z", "/libmypool.so", "libmypool.so!other"])
def test_what_names_something_else_changes_nothing(run, tmp_path, skip):
    result = run([PROGRAMS / "beyond", named(tmp_path, "libmypool.so")], env={"POOLCUDA_SITE_SKIP": skip})
    assert [(count, module) for count, [(module, _)] in result.sites()] == [(200, "libmypool.so")]


@pytest.mark.skipif(not LIBFFI, reason="no libffi is installed")
def test_the_site_is_beyond_libffi(run):
    program = PROGRAMS / "beyond"
    assert sites_of(run([program, LIBFFI]), program) == [(200, ["call_ffi"])]
    skip = {"POOLCUDA_SITE_SKIP": "beyond!call_ffi,beyond!ffi_*"}
    result = run([program, LIBFFI], env=skip)
    assert sites_of(result, program) == [(100, ["site_alpha"]), (100, ["site_beta"])]
    assert result.driver_allocations == 2


@pytest.mark.parametrize("form", ["", "-static"])
def test_the_site_is_beyond_templates_of_known_libraries(run, form):
    program = PROGRAMS / f"templates{form}"
    result = run(program)
    assert sites_of(result, program) == [(100, ["site_alpha"]), (100, ["site_beta"]), (100, ["site_gamma"])]
    assert result.driver_allocations == 3


@pytest.mark.parametrize("form", ["", "-static"])
def test_a_function_of_the_program_can_be_a_go_between(run, form):
    program = PROGRAMS / f"named_sites{form}"
    result = run(program, env={"POOLCUDA_SITE_SKIP": "named_sites*!wrapper"})
    assert sites_of(result, program) == [(100, [name]) for name in ("caller_one", "caller_two", "site_alpha", "site_beta")]


def test_go_betweens_are_no_frames_of_deeper_sites(run, tmp_path):
    program = PROGRAMS / "beyond"
    result = run([program, named(tmp_path, "libomptarget.rtl.cuda.so")], env={"POOLCUDA_SITE_DEPTH": "2"})
    assert sites_of(result, program) == [(100, ["site_alpha", "main"]), (100, ["site_beta", "main"])]


def test_two_libraries_at_once_have_the_same_sites(run, tmp_path):
    program = PROGRAMS / "beyond"
    result = run([program, named(tmp_path, "libomptarget.rtl.cuda.so"), named(tmp_path, "cydriver.abi3.so")])
    assert sites_of(result, program) == [(200, ["site_alpha"]), (200, ["site_beta"])]
    assert result.driver_allocations == 2
