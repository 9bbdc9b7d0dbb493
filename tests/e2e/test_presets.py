"""What a program sees under each preset: as natively, but for what docs/policies.md says it gives up."""

import re

import pytest
from conftest import PROGRAMS, SAMPLES

PRESETS = ["futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"]
NOT_SHARED = ("poolcuda: cuIpcGetMemHandle: with this POOLCUDA_POLICY a block is no allocation of its own and "
              "cannot be shared with a process; use POOLCUDA_POLICY=site\n")


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("preset", ["default", *PRESETS])
def test_captures_may_allocate_and_free_in_all_four_combinations(both, preset, mode):
    native, _ = both(PROGRAMS / "captured_memory", env={"POOLCUDA_PRESET": preset, "POOLCUDA_FREE": mode})
    assert native.code == 0
    assert native.out.count("wrote abcd") == 8 and "all free: 1" in native.out


@pytest.mark.parametrize("preset", PRESETS)
def test_a_loop_is_served_from_idle_memory(both, preset):
    _, pooled = both(SAMPLES / "three_sites", env={"POOLCUDA_PRESET": preset})
    hits = float(re.search(r"from idle memory \(([\d.]+)%", pooled.stats)[1])
    assert hits > 95


@pytest.mark.parametrize("preset", PRESETS)
def test_contexts_may_come_and_go(both, preset):
    for case in ("floating", "green", "thread_without_context", "executed"):
        native, _ = both([PROGRAMS / "lifetime", case], env={"POOLCUDA_PRESET": preset})
        assert native.code == 0


@pytest.mark.parametrize("preset", ["futhark", "pyopencl"])
def test_whole_blocks_can_be_shared_with_processes(both, preset):
    both(PROGRAMS / "tainted", env={"POOLCUDA_PRESET": preset})


@pytest.mark.parametrize("preset", ["paddle", "vmm", "pytorch-expandable"])
def test_what_cannot_be_shared_with_processes_is_refused_in_a_line_that_names_the_remedy(run, preset):
    result = run(PROGRAMS / "tainted", env={"POOLCUDA_PRESET": preset, "POOLCUDA_STATS": "0"})
    assert result.code == 1
    assert result.err == NOT_SHARED


def test_a_block_that_is_a_region_of_its_own_can_be_shared_with_processes(run):
    assert run(PROGRAMS / "tainted", env={"POOLCUDA_PRESET": "bfc"}).code == 0


@pytest.mark.parametrize("preset", ["bfc", "pytorch"])
def test_a_part_of_a_region_cannot_be_shared(run, preset):
    result = run([PROGRAMS / "tainted", "beside"], env={"POOLCUDA_PRESET": preset, "POOLCUDA_STATS": "0"})
    assert result.code == 1
    assert result.err == NOT_SHARED


def test_a_device_without_memory_pools_is_left_to_the_driver_with_one_line(run):
    native = run(SAMPLES / "three_sites", pooled=False)
    pooled = run(SAMPLES / "three_sites", env={"POOLCUDA_PRESET": "paddle", "SIMCUDA_MEMORY_POOLS": "0"})
    assert pooled.code == 0
    assert pooled.driver_allocations == native.driver_allocations
    assert [line for line in pooled.err.splitlines() if "seconds" not in line] == [
        "poolcuda: this device has no memory pools: POOLCUDA_POLICY=async pools nothing there, every call goes to "
        "the driver"]
