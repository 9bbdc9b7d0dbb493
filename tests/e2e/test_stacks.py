"""Stacks that a program made itself, and that end right above what is called: nothing of ours reads beyond what natively is read."""

import platform

import pytest
from conftest import PROGRAMS, SANITIZER

EVERY = PROGRAMS / "every"
# What is called natively, by the library, and by the library that is to do nothing.
WAYS = pytest.mark.parametrize("way", [{"pooled": False}, {}, {"env": {"POOLCUDA_DISABLE": "1"}}], ids=["native", "pooled", "disabled"])


@WAYS
def test_a_stub_reads_no_more_of_the_stack_than_its_function_takes(run, way):
    done = run(EVERY / "every_on_fiber", libraries=[EVERY], **way)
    assert (done.code, done.err) == (0, "")
    [calls] = done.out.splitlines()
    assert int(calls.split()[0]) > 1800


@WAYS
def test_the_stack_is_unwound_from_inside_every_function_through_its_stub(run, way):
    done = run(EVERY / "every_unwound", libraries=[EVERY], **way)
    assert (done.code, done.err) == (0, "")
    [calls] = done.out.splitlines()
    assert int(calls.split()[0]) > 1800


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has the flag by which a program steps through itself")
@pytest.mark.parametrize("env", [{}, {"POOLCUDA_DISABLE": "1"}, {"POOLCUDA_FREE": "defer"}], ids=["pooled", "disabled", "deferred"])
def test_the_stack_is_unwound_from_every_instruction_of_a_call(run, env):
    done = run(EVERY / "every_step", env=env)
    assert done.code == 0
    [steps] = done.out.splitlines()
    assert int(steps.split()[0]) > (100 if "POOLCUDA_DISABLE" in env else 1000)


# What the simulated driver needs natively is 8 KiB, half of the smallest stack that a thread can have.
@pytest.mark.skipif(bool(SANITIZER), reason="a sanitizer's frames are larger")
@pytest.mark.parametrize("preset", ["default", "bfc", "vmm", "paddle", "pytorch-expandable"])
def test_the_library_needs_at_most_8_kib_of_the_stack_of_who_calls(run, preset):
    results = [run(PROGRAMS / "small_stack", pooled=pooled, stats=False, env={"POOLCUDA_PRESET": preset}) for pooled in (False, True)]
    assert [result.code for result in results] == [0, 0], results[1].out
    native, pooled = (int(result.out) for result in results)
    assert native < pooled <= native + 8192


@WAYS
@pytest.mark.parametrize("depth", ["1", "8"])
@pytest.mark.parametrize("how", ["context", "signal", "hand", "thread"])
@pytest.mark.parametrize("program", ["fiber_sites", "fiber_sites-static"])
def test_a_site_is_looked_for_within_the_stack(run, program, how, depth, way):
    done = run([EVERY / program, how], **{**way, "env": {**way.get("env", {}), "POOLCUDA_SITE_DEPTH": depth}})
    assert (done.code, done.out) == (0, "done\n"), done.err
