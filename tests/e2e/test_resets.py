"""Contexts may come and go for as long as a program runs: those that have ended cost nothing."""

import re

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


@pytest.mark.parametrize("left", ["capture_of_a_context", "capture_of_a_thread", "streams"])
def test_what_ends_with_its_context_or_thread_is_not_in_the_pools_way_for_good(both, left):
    _, pooled = both([PROGRAMS / "unended", left])
    assert pooled.driver_allocations < 50
    if left == "streams":
        assert int(re.search(r"waits for the device: (\d+) made", pooled.stats).group(1)) < 10
