"""Frees that the driver refuses, and frees beside what other contexts and threads do, are answered as natively."""

import pytest
from conftest import PROGRAMS

EXPECTED = {
    "second_beside_an_end": "cuMemFree_v2(block): 1\nthe end was under way\n0 addresses twice, 0 refused\n",
    "second_beside_releases": "0 freed twice\n0 addresses twice, 0 refused\n",
    "elsewhere_beside_an_end": "cuMemFree_v2(block): 0\nthe work was over\n",
    "beside_unrelated_work": "cuMemFree_v2(block): 0\nthe free has not waited\n",
    "beside_a_lost_context": "cuCtxSynchronize(): 700\ncuMemFree_v2(healthy): 700\nit holds 7\ncuMemFree_v2(block): 700\ncuMemFree_v2(healthy): 0\n",
    "after_a_loss_told_elsewhere": "cuEventQuery(event): 700\ncuMemAlloc_v2(&block, BYTES): 700\ncuMemFree_v2(of_lost): 700\n"
                                   "cuMemFree_v2(healthy): 0\ncuMemFree_v2(healthy): 1\n0 addresses twice, 0 refused\n",
    "below_a_green_context": "cuStreamSynchronize(stream): 700\ncuMemAlloc_v2(&block, BYTES): 700\n",
    "after_a_destroyed_context": "cuCtxSynchronize(): 709\ncuMemFree_v2(block): 0\ncuMemFree_v2(its): 0\n0 addresses twice, 0 refused\n",
    "without_a_context": "cuMemFree_v2(block): 201\nit holds 7\ncuMemFree_v2(block): 0\n",
    "in_a_destroyed_stream": "cuMemFreeAsync(block, stream): 400\nit holds 7\ncuMemFree_v2(block): 0\n",
}
# With `defer` no free waits: a fence stands for the work.
CASES = [(case, mode) for case in EXPECTED for mode in ("sync", "auto", "defer") if (case, mode) != ("elsewhere_beside_an_end", "defer")]
PRESETS = ["default", "futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"]


@pytest.mark.parametrize("case", EXPECTED)
def test_natively_they_are_answered_so(run, case):
    assert run([PROGRAMS / "odd_frees", case], pooled=False).out == EXPECTED[case]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("case, mode", CASES)
def test_the_pool_answers_them_as_the_driver(run, case, mode, preset):
    done = run([PROGRAMS / "odd_frees", case], env={"POOLCUDA_PRESET": preset, "POOLCUDA_FREE": mode})
    assert (done.code, done.out, done.hazards) == (0, EXPECTED[case], 0), done.err


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", ["beside_a_lost_context", "after_a_loss_told_elsewhere", "after_a_destroyed_context", "without_a_context",
                                  "in_a_destroyed_stream"])
def test_with_the_check_they_leave_contents_alone(run, case, mode):
    done = run([PROGRAMS / "odd_frees", case], env={"POOLCUDA_CHECK": "1", "POOLCUDA_FREE": mode})
    assert (done.code, done.out) == (0, EXPECTED[case]), done.err


def test_the_call_in_a_destroyed_context_ends_no_pooling(run):
    done = run([PROGRAMS / "odd_frees", "after_a_destroyed_context"])
    assert done.driver_allocations < 54, done.err  # of which two come from idle memory
