"""Stacks that a program made itself, and that end right above what is called: nothing of ours reads beyond what natively is read."""

import pytest
from conftest import PROGRAMS

EVERY = PROGRAMS / "every"
# What is called natively, by the library, and by the library that is to do nothing.
WAYS = pytest.mark.parametrize("way", [{"pooled": False}, {}, {"env": {"POOLCUDA_DISABLE": "1"}}], ids=["native", "pooled", "disabled"])


@WAYS
def test_a_stub_reads_no_more_of_the_stack_than_its_function_takes(run, way):
    done = run(EVERY / "every_on_fiber", libraries=[EVERY], **way)
    assert (done.code, done.err) == (0, "")
    [calls] = done.out.splitlines()
    assert int(calls.split()[0]) > 1800
