"""The report's sites are the application's call sites, behind every form of runtime."""

import subprocess

import pytest
from conftest import PROGRAMS, RUNTIME


def functions_of(program):
    """(low, high, name) of the program's functions."""
    listing = subprocess.run(["nm", "-S", "--defined-only", program], capture_output=True,
                             text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return [(int(r[0], 16), int(r[0], 16) + int(r[1], 16), r[3]) for r in rows if len(r) == 4]


def names_of(result, program, symbols_of=None):
    """For each site of the report: its allocations and the functions that its frames lie in."""
    functions = functions_of(symbols_of or program)
    sites = []
    for allocations, frames in result.sites():
        names = []
        for module, offset in frames:
            assert module == program.name
            names.append(next(name for low, high, name in functions if low < offset <= high))
        sites.append((allocations, names))
    return sorted(sites)


EXPECTED = [(100, ["site_alpha"]), (100, ["site_beta"]), (200, ["wrapper"])]


@pytest.mark.parametrize("form, folder", [("", ""), ("-static", ""), ("-dlsym", "by_dlsym"),
                                          ("-four", "four_arguments")])
def test_sites_are_the_functions_that_allocate(run, form, folder):
    program = PROGRAMS / f"named_sites{form}"
    result = run(program, libraries=[RUNTIME.parent / "driver", RUNTIME / folder])
    assert names_of(result, program) == EXPECTED


def test_a_stripped_static_runtime_shows_the_application_too(run, tmp_path):
    program = PROGRAMS / "named_sites-static"
    stripped = tmp_path / program.name
    subprocess.run(["strip", "-o", stripped, program], check=True)
    result = run(stripped)
    assert result.code == 0
    names = names_of(result, stripped, symbols_of=program)
    allocating = {"site_alpha", "site_beta", "wrapper", "caller_one", "caller_two", "main"}
    assert all(name in allocating for _, frames in names for name in frames)
    merged = {}
    for allocations, frames in names:
        merged[frames[0]] = merged.get(frames[0], 0) + allocations
    # The first calls are made while it is still being learnt how deep the runtime is.
    assert merged["site_alpha"] >= 90 and merged["site_beta"] >= 90 and merged["wrapper"] >= 180
    assert result.driver_allocations <= 12


@pytest.mark.parametrize("form", ["", "-static"])
def test_depth_two_tells_the_callers_of_one_wrapper_apart(run, form):
    program = PROGRAMS / f"named_sites{form}"
    result = run(program, env={"POOLCUDA_SITE_DEPTH": "2"})
    assert names_of(result, program) == [
        (100, ["site_alpha", "main"]), (100, ["site_beta", "main"]),
        (100, ["wrapper", "caller_one"]), (100, ["wrapper", "caller_two"])]
