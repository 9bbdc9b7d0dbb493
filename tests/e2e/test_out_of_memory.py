"""Idle memory is never why a call fails, whichever call it is; and what the report of one that does fail says."""

import re

import pytest
from conftest import PROGRAMS
from steered import Program

ARRAYS = ["array", "array_3d", "mipmapped_array"]
RUNTIME_ARRAYS = ["runtime_array", "runtime_array_3d", "runtime_mipmapped_array"]
RUNTIME_CASES = ["alloc", "pitch", "volume", "alloc_async", *RUNTIME_ARRAYS, "stream", "event", "instantiate",
                 "graph_launch"]
CASES = [*RUNTIME_CASES, "physical", *ARRAYS, "module", "context", "launch", "in_capture"]
# Objects of the driver take 16 MiB each, so that they find no room either.
SMALL_DEVICE = {"SIMCUDA_MEMORY": "256M", "SIMCUDA_CALL_MEMORY": "16M", "SIMCUDA_LAUNCH_MEMORY": "16M"}
KEEP_ALL = {"POOLCUDA_MAX_IDLE": "100%"}


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", CASES)
def test_a_call_gets_the_memory_that_the_pool_holds_idle(both, case, mode):
    _, pooled = both([PROGRAMS / "out_of_memory", case, "freed"],
                     env={**SMALL_DEVICE, **KEEP_ALL, "POOLCUDA_FREE": mode})
    assert pooled.out == f"{case}: 0, last error 0\n"
    assert re.search(r"out of memory: \d+ times\n.*released because of that: [1-9]", pooled.stats)


@pytest.mark.parametrize("case", CASES)
def test_a_call_gets_the_idle_memory_with_the_default_bounds(both, case):
    _, pooled = both([PROGRAMS / "out_of_memory", case, "freed"], env=SMALL_DEVICE)
    assert pooled.out == f"{case}: 0, last error 0\n"


@pytest.mark.parametrize("case", CASES)
def test_without_idle_memory_the_error_is_the_drivers(both, case):
    native, _ = both([PROGRAMS / "out_of_memory", case, "held"], env=SMALL_DEVICE)
    assert native.out.startswith(f"{case}: 2, last error {2 if case in RUNTIME_CASES else 0}")


PLACES = ["device", "context", "busy", "global", "thread_local", "relaxed", "beside"]
ELSEWHERE = ["alloc", "alloc_async", "create_memory", "map", "create_pool", "create_context", "retain_primary",
             "create_stream", "create_event", "instantiate", "upload", "launch_graph", "launch"]
# What CUDA itself refuses during a capture, for whatever reason.
REFUSED = [("alloc", "global"), ("alloc", "thread_local"), ("alloc", "beside")]


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", ELSEWHERE)
@pytest.mark.parametrize("place", PLACES)
def test_a_call_gets_idle_memory_wherever_it_is_and_whatever_is_being_captured(both, run, place, case, mode):
    small = {"SIMCUDA_MEMORY": "256M", "SIMCUDA_CALL_MEMORY": "4M", "SIMCUDA_LAUNCH_MEMORY": "4M"}
    command, settings = [PROGRAMS / "memory_elsewhere", place, case], {
        **small, **KEEP_ALL, "SIMCUDA_DEVICES": "2", "POOLCUDA_FREE": mode}
    if place in ("device", "context", "busy"):
        native, _ = both(command, env=settings)
        assert native.out == f"{case}: 0\n"
        return
    # During a capture the pool makes no call of its own, but for an allocation that ran out: any other call may fail
    # though idle memory would do, but the capture goes on.
    native, pooled = run(command, pooled=False, env=settings), run(command, env=settings)
    assert native.out == f"{case}: 0, end of the capture: 0\n" or (case, place) in REFUSED
    allocates = case in ("alloc", "alloc_async", "create_memory", "map", "create_pool")
    assert pooled.out == native.out or (not allocates and pooled.out == f"{case}: 2, end of the capture: 0\n")


def test_a_failure_is_reported_in_the_log_once(run, tmp_path):
    log = tmp_path / "log"
    result = run([PROGRAMS / "out_of_memory", "alloc", "held"], env={**SMALL_DEVICE, "POOLCUDA_LOG": str(log)})
    assert result.err == ""
    reports = log.read_text().split("poolcuda: ")[1:]
    assert len(reports) == 3  # 16 MiB blocks, then 2 MiB blocks up to the end, then the call
    assert re.fullmatch(
        r"out of memory in cuMemAlloc on device 0: 100\.0 MiB requested, nothing idle left to release\n"
        r"  capacity 256\.0 MiB = \S+ \w+ free \+ \S+ MiB live \+ 0 B idle \+ \S+ MiB of other processes, contexts "
        r"and code; waste \S+ \w+\n"
        r"(  \S+ [MK]iB live in (1 block|\d\d+ blocks): out_of_memory\+0x[0-9a-f]+\n){2}"
        r"  to try: the program holds this much itself: .*\n", reports[-1])


# A request, what is held before, and what the figures bear out.
@pytest.mark.parametrize("settings, blocks, request_, advice", [
    ({"SIMCUDA_CLIENT_MEMORY": "256M"}, [1], 300, "enough is free, but the driver refused it: a limit below the device's memory is likely"),
    ({"SIMCUDA_CLIENT_MEMORY": "256M"}, [200 << 20], 100, "enough is free, but the driver refused it: a limit below the device's memory is likely"),
    ({}, [1], 1023, "more was requested than the device has, even without what the program holds"),
    ({}, [600 << 20], 1 << 20, "more was requested than the device has, even without what the program holds"),
    ({}, [900 << 20], 200, "the program holds this much itself"),
])
def test_the_advice_of_a_report_is_what_its_figures_bear_out(tmp_path, settings, blocks, request_, advice):
    log = tmp_path / "log"
    with Program(SIMCUDA_MEMORY="1G", POOLCUDA_LOG=str(log), **settings) as program:
        for number, size in enumerate(blocks, 1):
            assert program.do(f"alloc {number} {size}") == 0
        assert program.do(f"alloc 0 {request_ << 20}") == 2
        assert program.end() == 0
    assert re.search(rf"  to try: ({advice})", log.read_text()), log.read_text()


def test_waste_is_told_where_less_of_it_would_have_sufficed(tmp_path):
    log = tmp_path / "log"
    keep = {"POOLCUDA_MAX_IDLE": "100%", "POOLCUDA_IDLE_DECAY": "0", "POOLCUDA_REUSE_RATIO": "16", "POOLCUDA_MAX_WASTE": "100%"}
    with Program(SIMCUDA_MEMORY="1G", POOLCUDA_LOG=str(log), POOLCUDA_THROTTLE_RATIO="1", **keep) as program:
        assert program.do(f"alloc 1 {900 << 20}") == 0 and program.do("free 1") == 0
        assert program.do(f"alloc 1 {100 << 20}") == 0
        assert program.do(f"alloc 0 {300 << 20}") == 2
    assert "  to try: reused blocks are much larger than their requests" in log.read_text(), log.read_text()


def test_pages_that_requests_leave_unused_are_no_waste_of_reuse(tmp_path):
    log = tmp_path / "log"
    with Program(SIMCUDA_MEMORY="256M", POOLCUDA_LOG=str(log)) as program:
        for number in range(50):
            assert program.do(f"alloc {number % 8} 2200000") == 0
        assert program.do(f"alloc 0 {100 << 20}") == 2
    assert "  to try: requests leave much of the driver's pages of 2 MiB unused: " in log.read_text(), log.read_text()


def test_the_figures_of_a_report_add_up_to_the_capacity(run, tmp_path):
    log = tmp_path / "log"
    run([PROGRAMS / "out_of_memory", "alloc", "held"], env={**SMALL_DEVICE, "POOLCUDA_LOG": str(log)})
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
    facts = re.findall(r"  capacity (.*); waste", log.read_text())[-1]
    capacity, *parts = [float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) ([KM]?i?B)\b", facts)]
    assert len(parts) == 4
    assert abs(capacity - sum(parts)) < 0.5 * units["MiB"]  # one decimal each


def test_a_call_that_got_its_memory_in_the_end_is_not_reported(run, tmp_path):
    log = tmp_path / "log"
    run([PROGRAMS / "out_of_memory", "alloc", "freed"], env={**SMALL_DEVICE, "POOLCUDA_LOG": str(log)})
    assert log.read_text().count("out of memory") == 2  # while the memory was used up


# While the memory is used up there are two failures more.
@pytest.mark.parametrize("calls, reports", [(3, 5), (5, 5), (6, 6), (13, 6), (14, 7), (30, 8)])
def test_the_log_gets_the_first_five_failures_and_then_every_power_of_two(run, tmp_path, calls, reports):
    log = tmp_path / "log"
    run([PROGRAMS / "out_of_memory", "alloc", "held", calls], env={**SMALL_DEVICE, "POOLCUDA_LOG": str(log)})
    assert log.read_text().count("poolcuda: out of memory") == reports


def test_without_a_log_nothing_is_said_and_the_stats_end_with_the_last_report(run):
    result = run([PROGRAMS / "out_of_memory", "alloc", "held"], env=SMALL_DEVICE)
    assert result.err == ""
    assert re.search(r"\npoolcuda: out of memory in cuMemAlloc on device 0: 100\.0 MiB requested", result.stats)


def test_the_log_may_be_standard_error(run):
    result = run([PROGRAMS / "out_of_memory", "stream", "held"], env={**SMALL_DEVICE, "POOLCUDA_LOG": "stderr"})
    assert "out of memory in cuStreamCreateWithPriority on device 0: nothing idle left to release" in result.err


def test_a_log_that_cannot_be_opened_is_reported_and_standard_error_used(run):
    result = run([PROGRAMS / "out_of_memory", "alloc", "held"],
                 env={**SMALL_DEVICE, "POOLCUDA_LOG": "/nowhere/log"})
    assert result.err.startswith('poolcuda: POOLCUDA_LOG="/nowhere/log": cannot be opened')
    assert "out of memory in cuMemAlloc" in result.err
