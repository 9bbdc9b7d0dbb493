"""What cuMemGetInfo costs, in instructions: no more however many blocks there are."""

import re
import shutil

import guard
import pytest
from conftest import BUILD, LIBRARY, PROGRAMS

pytestmark = pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind: apt-get install valgrind")
AT_MOST = 200_000  # instructions: a thousand blocks of either kind are looked at, and no more


@pytest.fixture
def collected(tmp_path):
    """collected(small, large, questions): the instructions of all questions, on a driver that does next to nothing."""
    def run(*numbers):
        done = guard.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp_path}/counted", "--collect-atstart=no",
                          "--toggle-collect=hook_cuMemGetInfo_v2", PROGRAMS / "memory_asked", *map(str, numbers)],
                         env={"LD_LIBRARY_PATH": str(BUILD / "tests/bench"), "LD_PRELOAD": str(LIBRARY), "PATH": "/usr/bin:/bin"},
                         capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(re.search(r"Collected : (\d+)", done.stderr).group(1))
    return run


@pytest.mark.parametrize("small, large", [(0, 0), (1000, 1000), (20000, 500), (500, 20000), (20000, 20000)])
def test_a_question_for_the_free_memory_costs_no_more_however_many_blocks_there_are(collected, small, large):
    """The first one is left out: it looks at all blocks, once in the program's life."""
    first, many = collected(small, large, 1), collected(small, large, 11)
    assert first > 100
    assert (many - first) / 10 < AT_MOST
