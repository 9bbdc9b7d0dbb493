"""After an error that costs the context every call fails: the pool hears of it from whatever call says so first."""

import subprocess

import pytest
from conftest import DRIVER, PROGRAMS


def calls():
    program = PROGRAMS / "sticky"
    if not program.exists():
        return []
    return subprocess.run([program], env={"LD_LIBRARY_PATH": str(DRIVER)}, capture_output=True, text=True,
                          check=True).stdout.split()


@pytest.mark.parametrize("call", calls())
def test_an_error_that_costs_the_context_is_heard_of_from(both, call):
    native, _ = both([PROGRAMS / "sticky", call])
    assert "cuMemAlloc_v2: 700\ncuMemFree_v2: 700\n" in native.out


def test_there_are_calls_of_every_kind():
    assert len(calls()) == 20
