"""Calls with arguments that make no sense get the native answer, and write what they write natively."""

import pytest
from conftest import ON_BOTH_DRIVERS, ROOT

pytestmark = ON_BOTH_DRIVERS

PROGRAM = ["/usr/bin/python3", ROOT / "tests/programs/bad_arguments.py"]
# What differs by docs/policies.md and docs/check.md, as the program's lines begin.
IPC = "cuIpcGetMemHandle "
P2P_TOKENS = "cuPointerGetAttribute out 5 "
SETTINGS = {
    "default": ({}, ()), "async": ({"POOLCUDA_ASYNC": "1"}, ()), "managed": ({"POOLCUDA_MANAGED": "1"}, ()),
    "check": ({"POOLCUDA_CHECK": "1"}, (IPC,)), "futhark": ({"POOLCUDA_PRESET": "futhark"}, ()),
    "pyopencl": ({"POOLCUDA_PRESET": "pyopencl"}, ()), "bfc": ({"POOLCUDA_PRESET": "bfc"}, (IPC,)),
    "pytorch": ({"POOLCUDA_PRESET": "pytorch"}, (IPC,)),
    "pytorch-expandable": ({"POOLCUDA_PRESET": "pytorch-expandable"}, (IPC, P2P_TOKENS)),
    "vmm": ({"POOLCUDA_PRESET": "vmm"}, (IPC, P2P_TOKENS)), "paddle": ({"POOLCUDA_PRESET": "paddle"}, (IPC, P2P_TOKENS)),
}


@pytest.mark.parametrize("env, declared", SETTINGS.values(), ids=SETTINGS)
def test_what_makes_no_sense_is_answered_as_natively(run, env, declared):
    native, pooled = (
        [line for line in run(PROGRAM, pooled=pooled, env=env).out.splitlines() if not line.startswith(declared)]
        for pooled in (False, True))
    assert len(native) > 800
    assert pooled == native
