"""Many threads at once. POOLCUDA_STRESS_SECONDS makes it longer than a few seconds for each mode."""

import os

import pytest
from conftest import PROGRAMS

SECONDS = int(os.environ.get("POOLCUDA_STRESS_SECONDS", "4"))
THREADS = 64


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_64_threads_find_their_data_whole_and_lock_nobody_up(run, mode):
    result = run([PROGRAMS / "stress", THREADS, SECONDS], env={"POOLCUDA_FREE": mode, "SIMCUDA_MEMORY": "1G"},
                 timeout=SECONDS * 3 + 120)
    assert result.out == "wrong 0\n", result.err
    assert result.hazards == 0, result.err
