"""Stream-ordered allocation: counted, tried again after idle memory was given back; and memory pools of the program are
trimmed before any call fails for want of memory."""

import json

import pytest
from conftest import PROGRAMS

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


def test_nor_for_what_is_no_allocation(run):
    settings = as_json(SIMCUDA_CALL_MEMORY="28M")
    assert run([PROGRAM, "unused_when_a_stream_is_made"], pooled=False, env=settings).out == "stream 2\n"
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
