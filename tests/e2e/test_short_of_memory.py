"""A device that is out of memory, or nearly, and busy: nothing hangs, nothing is given up in vain, the loop still hits."""

import re
import subprocess

import pytest
from conftest import ON_BOTH_DRIVERS, PROGRAMS
from steered import NEEDS_MOUNT, environment

PROGRAM = PROGRAMS / "short_of_memory"
SAYS = "poolcuda: the device is out of memory, and busy, so that idle memory cannot be given back: the call waits for " \
       "it, but no longer than POOLCUDA_OOM_WAIT says\n"
BIG = {"SIMCUDA_MEMORY": "4G"}
OBJECTS = {"SIMCUDA_MEMORY": "256M", "SIMCUDA_CALL_MEMORY": "16M"}


def counted(result, text):
    found = re.search(rf"{text}: (\d+)", result.stats)
    return int(found[1]) if found else 0


def of_idle(result):
    return int(re.search(r"allocations: \d+, of which (\d+) from idle memory", result.stats)[1])


# --- out of memory while a kernel waits for the host ---

@ON_BOTH_DRIVERS
@pytest.mark.parametrize("mode", ["sync", "auto"])
def test_a_larger_idle_block_serves_at_once_while_a_kernel_waits_for_the_host(both, mode):
    _, pooled = both([PROGRAM, "larger"], env={**BIG, "POOLCUDA_FREE": mode})
    assert pooled.out == "larger: 0\n"
    assert pooled.err == ""
    assert counted(pooled, "allocations served by larger idle blocks than the bounds allow") == 1
    assert counted(pooled, "calls that waited for a busy device, see POOLCUDA_OOM_WAIT") == 0


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", ["pieces", "object"])
def test_what_only_a_busy_device_could_give_back_is_waited_for_no_longer_than_allowed(run, case, mode):
    result = run([PROGRAM, case], env={**(OBJECTS if case == "object" else BIG), "POOLCUDA_FREE": mode,
                                       "POOLCUDA_OOM_WAIT": "0.1"})
    assert result.out == f"{case}: 2\nafterwards: 0\n"
    assert result.err == SAYS
    assert counted(result, "calls that waited for a busy device, see POOLCUDA_OOM_WAIT") == 1


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_without_a_wait_the_error_comes_at_once_and_without_a_word(run, mode):
    result = run([PROGRAM, "pieces"], env={**BIG, "POOLCUDA_FREE": mode, "POOLCUDA_OOM_WAIT": "0"})
    assert result.out == "pieces: 2\nafterwards: 0\n"
    assert result.err == ""
    assert counted(result, "calls that waited for a busy device, see POOLCUDA_OOM_WAIT") == 0


@ON_BOTH_DRIVERS
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_once_the_device_has_done_its_work_a_waiting_allocation_is_served(both, mode, simulated_driver):
    _, pooled = both([PROGRAM, "pieces", "50"], env={**BIG, "POOLCUDA_FREE": mode, "POOLCUDA_OOM_WAIT": "86400"})
    assert pooled.out == "pieces: 0\nafterwards: 0\n"
    # No more is given back than is lacking. What is then beyond the bounds goes before the second allocation, if the driver can say
    # that the context is quiet: the old one cannot, so that one is short as well.
    assert counted(pooled, "allocations that then succeeded") == (2 if simulated_driver else 1)


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("preset", ["default", "paddle", "vmm", "bfc", "pytorch", "pytorch-expandable"])
def test_what_another_context_has_freed_is_had_although_there_are_pages_that_are_not_full(both, preset, mode):
    _, pooled = both([PROGRAM, "elsewhere"], env={"SIMCUDA_MEMORY": "256M", "POOLCUDA_FREE": mode, "POOLCUDA_PRESET": preset})
    assert pooled.out == "elsewhere: 0\n"


@pytest.mark.parametrize("mode", ["sync", "auto"])
@pytest.mark.parametrize("case", ["impossible", "too_much"])
def test_a_request_that_nothing_could_serve_costs_no_idle_memory_and_no_wait(both, case, mode):
    _, pooled = both([PROGRAM, case], env={**BIG, "POOLCUDA_FREE": mode, "POOLCUDA_OOM_WAIT": "86400"})
    assert counted(pooled, "allocations that no idle memory could have served") == (2 if case == "impossible" else 1)
    assert counted(pooled, "idle blocks released because of that") == 0
    assert of_idle(pooled) == 1
    assert pooled.err == ""


@pytest.mark.parametrize("mode", ["sync", "auto"])
@pytest.mark.parametrize("preset", ["default", "bfc", "pytorch", "vmm", "paddle"])
def test_a_request_for_more_than_is_free_waits_for_no_device(both, preset, mode):
    _, pooled = both([PROGRAM, "beyond"], env={**BIG, "POOLCUDA_PRESET": preset, "POOLCUDA_FREE": mode, "POOLCUDA_OOM_WAIT": "86400"})
    assert pooled.out == "beyond: 2\n"
    assert counted(pooled, "calls that waited for a busy device, see POOLCUDA_OOM_WAIT") == 0


# --- a device that is nearly full ---

@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("share", [90, 94, 96, 98])
def test_a_loop_hits_on_a_device_that_the_program_has_nearly_filled(both, share, mode):
    _, pooled = both([PROGRAM, "loop", share], env={**BIG, "POOLCUDA_FREE": mode})
    assert of_idle(pooled) >= 296  # of 300, of three sizes


@pytest.mark.parametrize("share", [90, 94, 96, 98])
def test_a_loop_hits_on_a_device_that_another_process_has_nearly_filled(both, share, tmp_path):
    settings = {**BIG, "SIMCUDA_SHARED": str(tmp_path / "gpu")}
    with subprocess.Popen([PROGRAM, "hold", str(share)], env=environment(**settings), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        _, pooled = both([PROGRAM, "loop", 0], env=settings)
        other.communicate("\n")
    assert of_idle(pooled) >= 296


def test_the_report_says_which_misses_a_bound_has_made(both):
    _, free = both([PROGRAM, "loop", 0], env=BIG)
    _, bounded = both([PROGRAM, "loop", 0], env={**BIG, "POOLCUDA_MAX_IDLE": "0"})
    text = "allocations that these releases, not the program, made the driver's, at least"
    assert counted(free, text) == 0
    assert counted(bounded, text) >= 290


@NEEDS_MOUNT
@pytest.mark.parametrize("available, released", [("3G", 0), ("100M", 1)])
def test_where_the_gpu_has_the_hosts_memory_what_the_system_can_free_counts(run, tmp_path, available, released):
    """cuMemGetInfo says that 3.9 of 4 GiB are used, mostly for files; /proc/meminfo knows better."""
    kib = {"3G": 3 << 20, "100M": 100 << 10}[available]
    (tmp_path / "meminfo").write_text(f"MemTotal: 4194304 kB\nMemFree: 1 kB\nMemAvailable: {kib} kB\n")
    script = f'mount --bind {tmp_path}/meminfo /proc/meminfo && exec "$@"'
    pooled = run(["unshare", "--mount", "sh", "-c", script, "sh", PROGRAM, "phases"],
                 env={**BIG, "SIMCUDA_INTEGRATED": "1", "SIMCUDA_PAGE_CACHE": "3900M", "POOLCUDA_MAX_IDLE": "100%"})
    assert pooled.out == "phases\n", pooled.err
    assert (counted(pooled, "idle blocks released to keep memory free for launches") > 0) == bool(released)
