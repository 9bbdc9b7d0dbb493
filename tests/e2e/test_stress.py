"""Many threads at once. POOLCUDA_STRESS_SECONDS makes it longer than two seconds for each test."""

import os
import re

import pytest
from conftest import PROGRAMS

SECONDS = int(os.environ.get("POOLCUDA_STRESS_SECONDS", "2"))
THREADS = 64


def stress(run, streams, mode, memory, preset="default"):
    result = run([PROGRAMS / "stress", THREADS, SECONDS, streams],
                 env={"POOLCUDA_FREE": mode, "POOLCUDA_PRESET": preset, "SIMCUDA_MEMORY": memory},
                 timeout=SECONDS * 3 + 120)
    assert result.out == "wrong 0\n", result.err
    assert result.hazards == 0, result.err
    assert result.figures["held_bytes"] == 0
    return result


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_64_threads_find_their_data_whole_and_lock_nobody_up(run, mode):
    stress(run, "any", mode, "1G")


@pytest.mark.parametrize("mode", ["auto", "defer"])
def test_so_they_do_when_all_memory_is_used_up_now_and_then(run, mode):
    result = stress(run, "any", mode, "96M")
    assert re.search(r"out of memory: [1-9]", result.stats)


def test_so_they_do_while_waits_are_put_off(run):
    result = stress(run, "legacy", "auto", "1G")
    assert re.search(r"[1-9]\d* frees? put the wait off", result.stats)


@pytest.mark.parametrize("mode", ["auto", "defer"])
@pytest.mark.parametrize("preset", ["futhark", "pyopencl", "bfc", "paddle", "vmm"])
def test_so_they_do_under_every_preset(run, preset, mode):
    stress(run, "any", mode, "96M", preset)
