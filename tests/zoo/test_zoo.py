"""At home in every host: each program of the table does its job natively and with the library preloaded, pooling and
disabled, with the same output, end, files, descriptors and signal masks. Natively it runs twice, and what differs then is
not compared."""

import re
import subprocess

import pytest
from guard import run
from runs import HOSTS, Zoo
from table import programs

ROWS = programs()
TRIES = 3  # what two native runs have in common by chance must not fail a test
# Instructions at most that the library adds to a program without CUDA, beyond what any library adds that is preloaded: glibc's
# loader looks every name of the program up in that library first, which in gawk alone takes 65,000.
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
    """Of one run of the program's counted command, by valgrind."""
    zoo.ready()
    command = f"valgrind --tool=callgrind --callgrind-out-file=/dev/null {zoo.program.counted}"
    done = run(["sh", "-c", command], cwd=zoo.here, env=zoo.environment(library), capture_output=True, text=True,
               errors="replace", stdin=subprocess.DEVNULL)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert done.returncode == 0 and found, done.stderr
    return int(found.group(1))


@pytest.mark.parametrize("row", [row for row in ROWS if row.counted], ids=str)
def test_a_program_without_cuda_executes_few_instructions_more_than_with_a_library_that_does_nothing(row, tmp_path):
    skip_without(row)
    zoo = Zoo(row, tmp_path)
    added = instructions(zoo, zoo.library) - instructions(zoo, HOSTS / "libfaults.so")
    assert added < ADDED, f"{row}: {added} instructions more, the bound is {ADDED}"
