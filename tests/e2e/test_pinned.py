"""Pinned host memory is pooled as device memory is: by site and flags, within bounds, and never too early."""

import pytest
from conftest import PROGRAMS

FORMS = ["pinned", "pinned-static"]


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("form", FORMS)
def test_a_loop_makes_one_call_of_the_driver(both, form, mode):
    native, pooled = both([PROGRAMS / form, "loop"], env={"POOLCUDA_FREE": mode})
    assert native.figures["calls.cuMemHostAlloc"] == 100
    assert pooled.figures["calls.cuMemHostAlloc"] == 1
    assert pooled.figures.get("calls.cuMemFreeHost", 0) == 0
    assert "pinned host memory: 100 allocations, 99 of them from idle memory, 100 frees; at its peak 64.0 MiB held" \
        in pooled.stats


@pytest.mark.parametrize("form", FORMS)
def test_its_site_is_the_program_and_not_the_runtime(run, form):
    pooled = run([PROGRAMS / form, "loop"])
    (allocations, frames), = pooled.sites()
    assert allocations == 100
    assert [module for module, _ in frames] == [form]


def test_on_the_cost_model_it_costs_what_one_call_does(both):
    costs = {"SIMCUDA_COST": "2"}
    native, pooled = both([PROGRAMS / "pinned", "loop"], env=costs)
    assert pooled.figures["modelled_ns"] < native.figures["modelled_ns"] / 25


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_what_is_idle_is_never_why_no_more_can_be_pinned(both, mode):
    _, pooled = both([PROGRAMS / "pinned", "limit"], env={"SIMCUDA_HOST_MEMORY": "64M", "POOLCUDA_FREE": mode})
    assert pooled.out == "too much: 2\nlast error 0\n"
    assert "allocations that then succeeded: 2" in pooled.stats


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_nobody_gets_it_before_all_work_on_it_is_done(both, mode):
    _, pooled = both([PROGRAMS / "pinned", "first_use"], env={"POOLCUDA_FREE": mode})
    assert pooled.out == "wrong 0\n"
    assert pooled.figures["calls.cuMemHostAlloc"] == 1


def test_it_can_be_left_to_the_driver(both):
    native, pooled = both([PROGRAMS / "pinned", "loop"], env={"POOLCUDA_HOST": "0"})
    assert pooled.figures["calls.cuMemHostAlloc"] == native.figures["calls.cuMemHostAlloc"]
    assert "pinned host memory:" not in pooled.stats


@pytest.mark.parametrize("policy", ["tag", "bins", "bfc", "segments", "async", "vmm", "expandable"])
def test_it_is_pooled_whatever_the_policy_for_device_memory(both, policy):
    _, pooled = both([PROGRAMS / "pinned", "loop"], env={"POOLCUDA_POLICY": policy})
    assert pooled.figures["calls.cuMemHostAlloc"] == 1
