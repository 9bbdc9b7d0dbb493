"""POOLCUDA_FREE: what a program sees after a free is what it sees natively, whether the wait was made or owed."""

import os
import re

import pytest
from conftest import ON_BOTH_DRIVERS, PROGRAMS, SAMPLES

pytestmark = ON_BOTH_DRIVERS

# What each case sees right after its free, and what made the free wait itself in mode auto (None: the wait was
# owed, and paid before the call that asked).
CASES = {
    "pinned": (7, "the program had pinned host memory"),
    "pinned_beside_a_free_of_null": (7, "the program had pinned host memory"),
    "pinned_by_the_first_abi": (7, "the program had pinned host memory"),
    "copied": (7, "the program had pinned host memory"),
    "registered": (7, "the program had registered host memory"),
    "managed": (7, "the program used managed memory"),
    "event": (0, None),
    "query": (0, None),
    "elapsed": (1, None),
    "blocking": (0, None),
    "non_blocking": (0, None),
    "per_thread": (0, None),  # a blocking stream: the legacy stream keeps the order
    "per_thread_form": (0, None),
    "destroyed": (0, "a callback, a graph or a destroyed stream had work just before"),
    "callback": (7, "a callback, a graph or a destroyed stream had work just before"),
    "graph": (7, "a callback, a graph or a destroyed stream had work just before"),
    "another_thread": (0, None),
    "looked_up": (0, None),
}


@pytest.mark.parametrize("mode", ["sync", "auto"])
@pytest.mark.parametrize("case", CASES)
def test_after_a_free_everything_is_seen_as_natively(both, case, mode):
    seen, reason = CASES[case]
    _, pooled = both([PROGRAMS / "visible", case], env={"POOLCUDA_FREE": mode})
    assert pooled.out == f"{case}: {seen}\n"
    if mode == "sync":
        assert "waited because POOLCUDA_FREE=sync asks for it\n" in pooled.stats
    elif reason:
        assert f"waited because {reason}" in pooled.stats
        assert "put the wait off" not in pooled.stats
    else:
        assert "1 free put the wait off; made later: 1, spared: 0" in pooled.stats


def test_the_report_names_the_call_before_which_a_wait_was_made(both):
    _, pooled = both([PROGRAMS / "visible", "event"])
    assert "1 wait was made later, before the program's cuEventQuery\n" in pooled.stats


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("sample", ["three_sites", "varying", "stencil", "pipeline", "reduction", "threads"])
def test_the_samples_compute_the_same_in_every_mode(both, sample, mode):
    rounds = [] if os.environ.get("TEST_ALL") else ["40"]  # of at least 60 by itself
    both([SAMPLES / sample, *rounds], env={"POOLCUDA_FREE": mode})


def test_deferred_frees_wait_for_nothing(both, simulated_driver):
    _, pooled = both(SAMPLES / "stencil", env={"POOLCUDA_FREE": "defer"})
    assert re.search(r"frees: \d+, of which \d+ kept, 0 waited", pooled.stats)
    assert ("calls.cuCtxRecordEvent" in pooled.figures) == (not simulated_driver)
    assert "cuMemFree_v2" not in str(pooled.figures) or pooled.figures.get("calls.cuMemFree_v2", 0) < 100


@pytest.mark.parametrize("mode", ["sync", "auto"])
@pytest.mark.parametrize("preset", ["default", "bfc", "paddle", "vmm"])
def test_a_stream_has_no_work_when_it_is_asked_after_a_free(both, preset, mode):
    native, _ = both([PROGRAMS / "asked_after_free"], env={"POOLCUDA_PRESET": preset, "POOLCUDA_FREE": mode})
    assert native.out == "at rest after 50 of 50 frees\n"


def test_in_auto_mode_a_loop_in_the_legacy_stream_waits_less(both):
    _, pooled = both(SAMPLES / "three_sites")
    put_off = re.search(r"(\d+) frees put the wait off", pooled.stats)
    assert int(put_off.group(1)) == 200
