"""Many threads at once. POOLCUDA_STRESS_ROUNDS makes it more than one round for each test."""

import os
import re

import pytest
from conftest import BUILD, LIBRARY, PROGRAMS, SANITIZER

PLANTED = BUILD / "tests/planted/libpoolcuda.so"

ROUNDS = int(os.environ.get("POOLCUDA_STRESS_ROUNDS", "1"))
# With a sanitizer a step takes ten times as long: a third of them, but with scripts/test --all.
THREADS, STEPS = 64, 100 if SANITIZER and not os.environ.get("TEST_ALL") else 300


# pylint: disable-next=too-many-arguments,too-many-positional-arguments
def stress(run, streams, mode, memory, preset="default", full=(), steps=STEPS, library=LIBRARY, plant=""):
    result = run([PROGRAMS / "stress", THREADS, steps, streams, ROUNDS, *full], library=library,
                 env={"POOLCUDA_FREE": mode, "POOLCUDA_PRESET": preset, "SIMCUDA_MEMORY": memory,
                      **({"POOLCUDA_PLANT": plant} if plant else {})})
    assert result.out == "wrong 0\n", result.err  # there are the last steps
    assert result.hazards == 0, result.err
    assert result.figures["held_bytes"] == 0
    return result


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_64_threads_find_their_data_whole_and_lock_nobody_up(run, mode):
    stress(run, "any", mode, "1G")


@pytest.mark.parametrize("mode", ["auto", "defer"])
def test_64_threads_find_their_data_whole_when_all_memory_is_used_up_now_and_then(run, mode):
    result = stress(run, "any", mode, "96M", full=["full"])
    assert re.search(r"out of memory: [1-9]", result.stats)


def test_64_threads_find_their_data_whole_while_waits_are_put_off(run):
    result = stress(run, "legacy", "auto", "1G")
    assert re.search(r"[1-9]\d* frees? put the wait off", result.stats)


@pytest.mark.parametrize("mode", ["auto", "defer"])
@pytest.mark.parametrize("preset", ["futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"])
def test_64_threads_find_their_data_whole_under_every_preset(run, preset, mode):
    stress(run, "any", mode, "96M", preset)


@pytest.mark.skipif(not PLANTED.exists(), reason="the library with pauses is not in a build with a sanitizer: run it in "
                    "one without")
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("preset", ["default", "bfc"])
@pytest.mark.parametrize("pause", ["slow_between", "slow_gate"])
def test_64_threads_find_their_data_whole_with_pauses_where_a_race_would_show(run, pause, preset, mode):
    """Where the pool has let go of its lock in the midst of something, and before a call that a capture forbids."""
    stress(run, "any", mode, "96M", preset, steps=STEPS // 4, library=PLANTED, plant=pause)


def test_a_wrong_run_prints_the_last_steps_of_all_threads(run):
    """So that a failure that comes once in a thousand runs can be explained."""
    result = run([PROGRAMS / "stress", 4, 200, "any", 1, "full"], pooled=False,
                 env={"SIMCUDA_FAIL_CALLER": "stress", "SIMCUDA_FAIL_CALL": "200", "SIMCUDA_FAIL_ERROR": "719"})
    assert re.search(r"^wrong [1-9]", result.out, re.M), result.out
    steps = re.findall(r"^ *(\d+) thread +(\d+): [a-z, ]+ (?:0|0x[0-9a-f]+) \d+$", result.err, re.M)
    numbers = [int(number) for number, _ in steps]
    assert numbers == sorted(numbers) and {"1", "2", "3", "4"} <= {thread for _, thread in steps}
