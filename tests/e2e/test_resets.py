"""Contexts may come and go for as long as a program runs: those that have ended cost nothing."""

import pytest
from conftest import PROGRAMS

FEW = 64 << 10  # bytes, over 9,000 contexts


@pytest.mark.parametrize("options", [
    {"POOLCUDA_FREE": "sync"}, {}, {"POOLCUDA_FREE": "defer"}, {"POOLCUDA_ZERO": "1"}, {"POOLCUDA_POLICY": "bfc"},
    {"POOLCUDA_POLICY": "vmm"}], ids=str)
@pytest.mark.parametrize("what", ["resets", "contexts"])
def test_the_memory_of_ended_contexts_is_used_again(run, what, options):
    grown = [int(run([PROGRAMS / "resets", what], pooled=pooled, env=options).out) for pooled in (False, True)]
    assert grown[1] - grown[0] < FEW
