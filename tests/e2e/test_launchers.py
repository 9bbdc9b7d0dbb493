"""A program is started by others, under the same options: what has a name is the one's that uses the GPU's memory."""

import pytest
import guard
from conftest import DRIVER, LIBRARY, PROGRAMS
from steered import environment
from writers import names

# Asks about the GPU, as launchers do that look for one, and then starts the program.
LOOKS = f"""
import ctypes, subprocess, sys
driver = ctypes.CDLL("{DRIVER}/libcuda.so.1")
count = ctypes.c_int()
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
context = ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
LAUNCHERS = {
    "shell": ["sh", "-c", 'true; "$@"; exit $?', "sh"],
    "env": ["env", "SOMETHING=1"],
    "python": ["/usr/bin/python3", "-c", "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"],
    "python that looks for a GPU": ["/usr/bin/python3", "-c", LOOKS],
    "shell in a python that looks": ["/usr/bin/python3", "-c", LOOKS, "sh", "-c", '"$@"; exit $?', "sh"],
}


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=LAUNCHERS.keys())
@pytest.mark.parametrize("pattern, made", [("trace", "trace"), ("trace.%n", "trace.0")])
def test_the_program_that_allocates_has_the_traces_name(launcher, pattern, made, tmp_path):
    done = guard.run([*launcher, str(PROGRAMS / "careless"), "exits"], cwd=tmp_path, capture_output=True, text=True, check=False,
                     env=environment(LD_PRELOAD=str(LIBRARY), POOLCUDA_TRACE=pattern))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert names(tmp_path) == [made]
    assert b"careless" in (tmp_path / made).read_bytes()[:4096]
