"""Stream-ordered allocation: counted, tried again after idle memory was given back; and memory pools of the program are
trimmed before any call fails because memory is lacking. With POOLCUDA_ASYNC=1 the pool serves the device's default one."""

import json
import re

import pytest
from conftest import ON_BOTH_DRIVERS, OLD_DRIVER, PROGRAMS

pytestmark = ON_BOTH_DRIVERS
PROGRAM = PROGRAMS / "ordered"
ROUNDS = 100
SMALL_DEVICE = {"SIMCUDA_MEMORY": "256M"}
MODES = pytest.mark.parametrize("mode", ["sync", "auto", "defer"])


def counters(result):
    return json.loads(result.stats)["counters"]


def as_json(mode="auto", **more):
    return {**SMALL_DEVICE, "POOLCUDA_FREE": mode, "POOLCUDA_STATS": "json", **more}


def test_stream_ordered_calls_are_counted(both):
    _, pooled = both([PROGRAM, "counts"], env=as_json())
    seen = counters(pooled)
    assert pooled.out == "too much: 2\nnothing: 0\n"
    assert seen["async_calls"] == ROUNDS + 2
    assert seen["async_bytes"] == ROUNDS * 3000 + 5000
    assert seen["async_frees"] == ROUNDS
    assert seen["async_rescued"] == 0
    assert seen["malloc_calls"] == 0


def test_the_text_tells_them(run):
    stats = run([PROGRAM, "counts"], env=SMALL_DEVICE).stats
    assert f"  stream-ordered allocations: {ROUNDS + 2}\n" in stats
    assert f"  stream-ordered frees: {ROUNDS}\n" in stats


def test_without_stream_ordered_calls_the_text_says_nothing_of_them(run):
    assert "stream-ordered" not in run([PROGRAMS / "out_of_memory", "alloc", "freed"], env=SMALL_DEVICE).stats


def test_a_stream_ordered_allocation_that_got_idle_memory_is_counted_as_rescued(both):
    _, pooled = both([PROGRAMS / "out_of_memory", "alloc_async", "freed"], env=as_json(POOLCUDA_MAX_IDLE="100%"))
    assert counters(pooled)["async_rescued"] == 1


UNUSED = ["unused_in_the_default_pool", "unused_in_a_created_pool", "unused_in_another_pool"]


@MODES
@pytest.mark.parametrize("case", UNUSED)
def test_what_lies_unused_in_a_memory_pool_of_the_program_is_no_reason_to_fail(run, case, mode):
    assert run([PROGRAM, case], pooled=False, env=SMALL_DEVICE).out == "alloc 2\n"
    pooled = run([PROGRAM, case], env=as_json(mode))
    assert pooled.out == "alloc 0\n"
    assert counters(pooled)["oom_trimmed_bytes"] == 160 << 20
    assert counters(pooled)["oom_rescued"] == 1
    assert pooled.hazards == 0


def test_what_lies_unused_in_a_memory_pool_is_no_reason_for_another_call_to_fail(run, simulated_driver):
    settings = as_json(SIMCUDA_CALL_MEMORY="28M")
    assert run([PROGRAM, "unused_when_a_stream_is_made"], pooled=False, env=settings).out == "stream 2\n"
    if simulated_driver:  # the pool knows the context since it has a stream that fences name: its own event takes as much
        settings = {**settings, "SIMCUDA_MEMORY": "284M"}
        assert run([PROGRAM, "unused_when_a_stream_is_made"], pooled=False, env=settings).out == "stream 0\n"
    assert run([PROGRAM, "unused_when_a_stream_is_made"], env=settings).out == "stream 0\n"


def test_what_is_in_use_in_a_memory_pool_stays(run):
    assert run([PROGRAM, "live_in_a_pool"], env=SMALL_DEVICE).out == "alloc 0\nkept 77\n"


def test_no_memory_pool_is_trimmed_during_a_capture(run):
    pooled = run([PROGRAM, "unused_during_a_capture"], env=as_json())
    assert pooled.out == "alloc 2\nend 0\nalloc 0\n"


def test_a_memory_pool_that_was_destroyed_is_left_alone(run):
    pooled = run([PROGRAM, "destroyed"], env=as_json())
    assert pooled.out == "again 1\nalloc 0\nalloc 0\n"
    assert pooled.code == 0


@MODES
def test_memory_that_was_freed_in_stream_order_before_a_free_can_be_had_after_it(both, mode):
    native, _ = both([PROGRAM, "queued_behind_a_free"], env={**SMALL_DEVICE, "POOLCUDA_FREE": mode})
    assert native.out == "alloc 0\n"


# --- POOLCUDA_ASYNC=1 ---


def served(mode="auto", **more):
    return as_json(mode, POOLCUDA_ASYNC="1", **more)


def stream_ordered_calls(result):
    return sum(count for name, count in result.figures.items()
               if re.match(r"calls\.cuMem(AllocAsync|AllocFromPoolAsync|FreeAsync)", name))


@MODES
def test_a_stream_gets_what_it_freed_without_a_call_of_the_driver(both, mode):
    native, pooled = both([PROGRAM, "one_stream"], env=served(mode))
    seen = counters(pooled)
    assert native.out == f"last {ROUNDS - 1}\nfree 0\n"
    assert stream_ordered_calls(native) == 2 * ROUNDS + 1
    assert stream_ordered_calls(pooled) == 0
    assert pooled.driver_allocations == 2
    assert seen["async_served"] == ROUNDS + 1
    assert seen["async_same_stream"] == ROUNDS - 1
    assert seen["fences_waited"] == 0


@MODES
def test_another_stream_gets_it_only_after_the_work_on_it(both, mode):
    _, pooled = both([PROGRAM, "two_streams"], env=served(mode))
    assert pooled.out == f"last {ROUNDS // 10 - 1}\n"
    assert stream_ordered_calls(pooled) == 0
    assert counters(pooled)["fences"] > 0


@MODES
def test_each_kind_of_memory_may_be_freed_in_the_others_way(both, mode):
    _, pooled = both([PROGRAM, "freed_the_other_way"], env=served(mode))
    assert pooled.out == f"last {ROUNDS - 1}\n"
    assert stream_ordered_calls(pooled) == 0


@MODES
def test_memory_of_streams_that_are_gone_waits_for_a_fence(both, mode):
    _, pooled = both([PROGRAM, "streams_come_and_go"], env=served(mode))
    assert pooled.out == "wait 0\n"
    assert counters(pooled)["async_same_stream"] == 0


@MODES
@pytest.mark.parametrize("option", ["0", "1"])
def test_errors_are_the_drivers(both, mode, option):
    _, pooled = both([PROGRAM, "errors"], env=as_json(mode, POOLCUDA_ASYNC=option))
    assert "its own pool: 0" in pooled.out


@MODES
@pytest.mark.parametrize("case", ["unused_in_a_created_pool", "unused_in_another_pool", "destroyed"])
def test_memory_pools_of_the_program_stay_the_drivers_to_serve(run, case, mode):
    pooled = run([PROGRAM, case], env=served(mode))
    assert "alloc 0\n" in pooled.out and "2" not in pooled.out
    assert pooled.hazards == 0


def test_a_device_without_memory_pools_has_none_under_the_pool(both):
    _, pooled = both([PROGRAMS / "out_of_memory", "alloc_async", "freed"], env=served(SIMCUDA_MEMORY_POOLS="0"))
    assert pooled.out == "alloc_async: 801, last error 801\n"


@MODES
@pytest.mark.parametrize("held", ["freed", "held"])
def test_a_full_device_is_reported_as_natively(both, held, mode):
    both([PROGRAMS / "out_of_memory", "alloc_async", held], env=served(mode, POOLCUDA_MAX_IDLE="100%"))


@MODES
def test_captures_have_memory_of_their_graphs(both, mode):
    both([PROGRAMS / "captured_memory"], env={"POOLCUDA_FREE": mode, "POOLCUDA_ASYNC": "1"})


@pytest.mark.parametrize("preset", ["futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"])
@pytest.mark.parametrize("case", ["one_stream", "two_streams", "freed_the_other_way", "streams_come_and_go", "errors"])
def test_so_it_is_with_every_preset(both, case, preset):
    both([PROGRAM, case], env=served(POOLCUDA_PRESET=preset))


def test_an_old_driver_fences_each_stream(both):
    _, pooled = both([PROGRAM, "two_streams"], env={**served(), **OLD_DRIVER})
    assert counters(pooled)["fences"] > 0


def test_without_the_option_the_driver_serves(both):
    _, pooled = both([PROGRAM, "one_stream"], env=as_json())
    assert stream_ordered_calls(pooled) == 2 * ROUNDS + 1
    assert counters(pooled)["async_served"] == 0
