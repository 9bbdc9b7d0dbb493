"""A device that is out of memory, or nearly, and busy: nothing hangs, nothing is given up in vain, the loop still hits."""

import re
import subprocess

import pytest
from conftest import BUILD, PROGRAMS
from steered import environment

PROGRAM = PROGRAMS / "short_of_memory"
OLD_DRIVER = BUILD / "src/sim/old_driver"
SAYS = "poolcuda: the device is out of memory, and busy, so that idle memory cannot be given back: the call waits for " \
       "it, but no longer than POOLCUDA_OOM_WAIT says\n"
BIG = {"SIMCUDA_MEMORY": "4G"}
OBJECTS = {"SIMCUDA_MEMORY": "256M", "SIMCUDA_CALL_MEMORY": "16M"}
OLD = {"SIMCUDA_DRIVER_VERSION": "12040", "LD_LIBRARY_PATH": f"{OLD_DRIVER}:{BUILD / 'src/sim/runtime'}"}


def counted(result, text):
    found = re.search(rf"{text}: (\d+)", result.stats)
    return int(found[1]) if found else 0


def of_idle(result):
    return int(re.search(r"allocations: \d+, of which (\d+) from idle memory", result.stats)[1])


# --- out of memory while a kernel waits for the host ---

@pytest.mark.parametrize("driver", [{}, OLD], ids=["new", "old"])
@pytest.mark.parametrize("mode", ["sync", "auto"])
def test_a_larger_idle_block_serves_at_once_while_a_kernel_waits_for_the_host(both, mode, driver):
    _, pooled = both([PROGRAM, "larger"], env={**BIG, **driver, "POOLCUDA_FREE": mode})
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


@pytest.mark.parametrize("driver", [{}, OLD], ids=["new", "old"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_once_the_device_has_done_its_work_a_waiting_allocation_is_served(both, mode, driver):
    _, pooled = both([PROGRAM, "pieces", "50"], env={**BIG, **driver, "POOLCUDA_FREE": mode,
                                                     "POOLCUDA_OOM_WAIT": "86400"})
    assert pooled.out == "pieces: 0\nafterwards: 0\n"
    assert counted(pooled, "allocations that then succeeded") == 1


@pytest.mark.parametrize("mode", ["sync", "auto"])
@pytest.mark.parametrize("case", ["impossible", "too_much"])
def test_a_request_that_nothing_could_serve_costs_no_idle_memory_and_no_wait(both, case, mode):
    _, pooled = both([PROGRAM, case], env={**BIG, "POOLCUDA_FREE": mode, "POOLCUDA_OOM_WAIT": "86400"})
    assert counted(pooled, "allocations that no idle memory could have served") == (2 if case == "impossible" else 1)
    assert counted(pooled, "idle blocks released because of that") == 0
    assert of_idle(pooled) == 1
    assert pooled.err == ""
