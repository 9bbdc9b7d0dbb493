"""At home in every host: each program of the table does its job natively and with the library preloaded, pooling and
disabled, with the same output, end, files, descriptors and signal masks. Natively it runs twice, and what differs then is
not compared."""

import shlex
import subprocess

import pytest
import start_cost
from guard import run
from runs import HOSTS, Zoo
from table import programs

ROWS = programs()
TRIES = 3  # what two native runs have in common by chance must not fail a test
# Instructions at most that the library adds to a program without CUDA, in the loader and in itself, beyond what any library adds
# that is preloaded: glibc's loader looks every name of the program up in that library first, which in gawk alone takes 57,000.
ADDED = 20000


def faults(zoo, natives):
    """What differs in each kind of preloaded run, from all native runs so far."""
    for preloaded in ({"ends": True}, {"ends": False}, {"ends": False, "disabled": True}):
        run = zoo.run(True, **preloaded)
        found = zoo.differences(natives, run, preloaded["ends"])
        if found:
            how = "disabled" if "disabled" in preloaded else "preloaded"
            return "\n".join([f"{zoo.program}, {how}:", *found[:40]])
    return ""


def compared(zoo):
    """The faults that a second and third look, with more native runs beside it, sees as well."""
    natives = []
    for _ in range(TRIES):
        natives += [zoo.run(False, True), zoo.run(False, True)]
        assert zoo.shows_something(natives), f"natively nothing can be compared:\n{natives[0].out}{natives[0].err}"
        found = faults(zoo, natives)
        if not found:
            return ""
    return found


def skip_without(program):
    missing = program.missing()
    if missing:
        by = program.installed_by()
        pytest.skip(f"{' '.join(missing)} is missing" + (f": {by}" if by else ""))


def test_each_program_runs_alike_natively_and_preloaded(program, tmp_path):
    skip_without(program)
    zoo = Zoo(program, tmp_path)
    found = compared(zoo)
    if program.differs:
        assert found, f"{program} runs alike by now: strike out its column \"differs\""
        pytest.xfail(program.differs)
    assert not found, found


def pytest_generate_tests(metafunc):
    if "program" in metafunc.fixturenames:
        rows = [row for row in ROWS if row.always or metafunc.config.getoption("--all-programs")]
        metafunc.parametrize("program", rows, ids=str)


def instructions(zoo, library):
    """Of one run of the program's counted command."""
    zoo.ready()
    return start_cost.instructions(shlex.split(zoo.program.counted), library, zoo.here, run, cwd=zoo.here, env=zoo.environment(library),
                                   stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("row", [row for row in ROWS if row.counted], ids=str)
def test_a_program_without_cuda_executes_few_instructions_more_than_with_an_empty_library(row, tmp_path):
    skip_without(row)
    zoo = Zoo(row, tmp_path / "here")
    ours = start_cost.with_as_long_a_path(zoo.library, tmp_path / "owned")
    added = instructions(zoo, ours) - instructions(zoo, start_cost.empty_library(tmp_path / "empty"))
    assert added < ADDED, f"{row}: {added} instructions more, the bound is {ADDED}"
