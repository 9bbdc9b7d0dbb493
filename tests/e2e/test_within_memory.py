"""Many threads at once on a device that their live blocks fill: what the program may hold, it gets."""

import pytest
from conftest import BUILD, PROGRAMS, SANITIZER

PLANTED = BUILD / "tests/planted/libpoolcuda.so"

MODES = ["sync", "auto", "defer"]
# Those that keep whole blocks of what was asked for: all of the device can be had. Under the others a live block takes
# more than it was asked for, or keeps memory around it from the driver (docs/policies.md).
WHOLE = ["default", "futhark", "paddle"]
SHARED = ["pyopencl", "bfc", "pytorch", "vmm", "pytorch-expandable"]
STEPS = 4000 if SANITIZER else 16000


def within(run, preset, mode, threads, percent, plant=None, life=0):
    env = {"POOLCUDA_FREE": mode, "POOLCUDA_PRESET": preset, "SIMCUDA_MEMORY": "256M"}
    pauses = {"library": PLANTED, "env": {**env, "POOLCUDA_PLANT": plant}} if plant else {"env": env}
    result = run([PROGRAMS / "within_memory", threads, STEPS // threads, percent, 40, life], **pauses)
    assert result.hazards == 0, result.err
    return result.out


@pytest.mark.parametrize("threads", [3, 16])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("preset", WHOLE)
def test_threads_that_fill_the_device_together_get_every_block(run, preset, mode, threads):
    assert within(run, preset, mode, threads, 100) == "failed 0 wrong 0\n"


@pytest.mark.skipif(not PLANTED.exists(), reason="the library with pauses is not in a build with a sanitizer")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("preset", WHOLE)
def test_what_threads_give_back_between_a_refusal_and_the_search_for_memory_is_found(run, preset, mode):
    assert within(run, preset, mode, 3, 100, "slow_refusal") == "failed 0 wrong 0\n"


@pytest.mark.skipif(not PLANTED.exists(), reason="the library with pauses is not in a build with a sanitizer")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("preset", ["default", "futhark"])
def test_no_block_is_lost_where_contexts_end_beside_a_full_device(run, preset, mode):
    assert within(run, preset, mode, 8, 100, "slow_between", 20) == "failed 0 wrong 0\n"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("preset", SHARED)
def test_threads_find_their_data_whole_where_some_blocks_are_refused(run, preset, mode):
    assert within(run, preset, mode, 16, 100).endswith(" wrong 0\n")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("preset", SHARED)
def test_threads_get_every_block_where_part_of_the_device_is_enough(run, preset, mode):
    assert within(run, preset, mode, 4, 40) == "failed 0 wrong 0\n"
