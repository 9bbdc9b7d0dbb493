"""Managed memory: left to the driver by default, but never short of what the pool holds idle; and with
POOLCUDA_MANAGED=1 pooled, so that an owner finds nothing of what a former one has said about it."""

import pytest
from conftest import PROGRAMS

FORMS = ["managed", "managed-static"]
MODES = ["sync", "auto", "defer"]
POOLED = {"POOLCUDA_MANAGED": "1", "SIMCUDA_DEVICES": "2"}


def calls(result, name):
    return result.figures.get(f"calls.{name}", 0)


@pytest.mark.parametrize("mode", MODES)
def test_by_default_it_passes_through(both, mode):
    native, pooled = both([PROGRAMS / "managed", "loop"], env={"POOLCUDA_FREE": mode})
    assert calls(native, "cuMemAllocManaged") == calls(pooled, "cuMemAllocManaged") == 100
    assert calls(native, "cuMemFree_v2") == calls(pooled, "cuMemFree_v2")
    assert "managed memory:" not in pooled.stats.split("waited because")[0]


@pytest.mark.parametrize("pooling", ["0", "1"])
def test_what_is_idle_is_never_why_there_is_none(run, pooling):
    # The driver answers OUT_OF_MEMORY once, to each call of the library in turn.
    environment = {"POOLCUDA_MANAGED": pooling, "SIMCUDA_FAIL_CALLER": "libpoolcuda", "SIMCUDA_FAIL_ERROR": "2"}
    command = [PROGRAMS / "managed", "after_device"]
    plain = run(command, env=environment, stats=False)
    repeated = []
    for number in range(1, plain.figures["calls_by_caller"] + 1):
        result = run(command, env={**environment, "SIMCUDA_FAIL_CALL": str(number)}, stats=False)
        if calls(result, "cuMemAllocManaged") == 2:
            repeated.append(result)
    result, = repeated
    assert result.out == plain.out == "0, last error 0\n"
    assert calls(plain, "cuMemFree_v2") == 0
    assert calls(result, "cuMemFree_v2") == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_a_loop_makes_one_call_of_the_driver(both, form, mode):
    _, pooled = both([PROGRAMS / form, "loop"], env={**POOLED, "POOLCUDA_FREE": mode})
    assert calls(pooled, "cuMemAllocManaged") == 1
    assert calls(pooled, "cuMemFree_v2") == 0
    assert "managed memory: 100 allocations, 99 of them from idle memory, 100 frees, 0 of them undid advice; " \
        "at its peak 8.1 MiB held" in pooled.stats


@pytest.mark.parametrize("form", FORMS)
def test_its_site_is_the_program_and_not_the_runtime(run, form):
    pooled = run([PROGRAMS / form, "loop"], env=POOLED)
    (allocations, frames), = pooled.sites()
    assert allocations == 100
    assert [module for module, _ in frames] == [form]


@pytest.mark.parametrize("mode", MODES)
def test_an_owner_finds_nothing_of_what_a_former_one_has_said(both, mode):
    # `both` compares what the program sees, which is what fresh memory shows.
    _, pooled = both([PROGRAMS / "managed", "said"], env={**POOLED, "POOLCUDA_FREE": mode})
    fresh = "mostly read 0, preferred -2, accessed by -2 -2, prefetched to -2, attached 1"
    said = "mostly read 1, preferred -1, accessed by 1 -1, prefetched to 0, attached 4"
    assert pooled.out.splitlines() == [fresh, said, fresh, fresh] * 2 + [fresh, said]
    assert calls(pooled, "cuMemAllocManaged") == 1
    assert "3 of them undid advice" in pooled.stats


def test_what_the_driver_does_not_undo_goes_back_to_it(run):
    environment = {**POOLED, "SIMCUDA_FAIL_CALLER": "libpoolcuda"}
    plain = run([PROGRAMS / "managed", "said"], env=environment, stats=False)
    freed = 0
    # Each call that the library makes fails once. The program gets the error if the call is its own that the library passes on.
    for number in range(1, plain.figures["calls_by_caller"] + 1):
        result = run([PROGRAMS / "managed", "said"], env={**environment, "SIMCUDA_FAIL_CALL": str(number)}, stats=False)
        if result.code == 0:
            assert result.out == plain.out
            freed += calls(result, "cuMemAllocManaged") == 2
    assert freed >= 16  # two of the three frees have a next owner; each undoes what was said by eight calls


def test_what_was_discarded_is_really_freed(both):
    _, pooled = both([PROGRAMS / "managed", "discarded"], env=POOLED)
    assert calls(pooled, "cuMemAllocManaged") == 5
    assert "managed memory that was discarded: 5" in pooled.stats


def test_a_prefetch_of_a_part_is_reported_as_natively(both):
    _, pooled = both([PROGRAMS / "managed", "parts"], env=POOLED)
    assert [line.split(", ")[3] for line in pooled.out.splitlines()] == [
        f"prefetched to {place}" for place in (-2, -1, -2, 1)]
    assert calls(pooled, "cuMemAllocManaged") == 1


@pytest.mark.parametrize("mode", MODES)
def test_nobody_gets_it_before_all_work_on_it_is_done(both, mode):
    _, pooled = both([PROGRAMS / "managed", "first_use"], env={**POOLED, "POOLCUDA_FREE": mode})
    assert pooled.out == "wrong 0\n"
    assert calls(pooled, "cuMemAllocManaged") == 1


@pytest.mark.parametrize("pooling", ["0", "1"])
def test_idle_it_does_not_exist(both, pooling):
    _, pooled = both([PROGRAMS / "managed", "freed"], env={"POOLCUDA_MANAGED": pooling})
    assert pooled.out == "advice 1, prefetch 1, attachment 1, discard 1, question 1, free 1\n"


@pytest.mark.parametrize("policy", ["tag", "bins", "bfc", "segments", "async", "vmm", "expandable"])
def test_it_is_pooled_whatever_the_policy_for_device_memory(both, policy):
    _, pooled = both([PROGRAMS / "managed", "said"], env={**POOLED, "POOLCUDA_POLICY": policy})
    assert calls(pooled, "cuMemAllocManaged") == 1
