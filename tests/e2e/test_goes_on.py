"""A context goes on behind calls that could have ended it, with all that it has: a use that is not the last, a refused end."""

import pytest
from conftest import PROGRAMS

PRESETS = ["default", "futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"]
CASES = pytest.mark.parametrize("case", ["detached", "elsewhere", "refused", "destroyed_in_host_function", "reset_in_host_function", "no_device"])
MODES = pytest.mark.parametrize("mode", ["sync", "auto", "defer"])


@CASES
@MODES
@pytest.mark.parametrize("preset", PRESETS)
def test_all_goes_on_in_it_under_the_pool(both, case, mode, preset):
    native, _ = both([PROGRAMS / "goes_on", case], env={"POOLCUDA_PRESET": preset, "POOLCUDA_FREE": mode})
    assert native.code == 0 and native.out.count("0, holds ") == 3


@CASES
@MODES
@pytest.mark.parametrize("preset", ["default", "vmm"])
def test_all_goes_on_in_it_under_the_check(run, case, mode, preset):
    native = run([PROGRAMS / "goes_on", case], pooled=False)
    checked = run([PROGRAMS / "goes_on", case], env={"POOLCUDA_CHECK": "1", "POOLCUDA_PRESET": preset, "POOLCUDA_FREE": mode})
    assert (checked.code, checked.out, checked.hazards) == (native.code, native.out, 0), checked.err
    assert checked.err.count("Invalid cuMemFree") == native.out.count("cuMemFree_v2(blocks[1]): 1"), checked.err
