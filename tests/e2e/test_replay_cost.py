"""What a replay takes, in instructions, so that no machine's speed counts: no more for an event of a long trace than of a short one."""

import os
import re
import shutil
import subprocess

import made_traces
import pytest
from conftest import COMMAND, SANITIZER

MOST = 3000  # instructions an event, the reading of the trace included
MOST_MAPPED = 120_000  # of an allocation of what is mapped, and of its free
ALL = "all of them, many live blocks"
# valgrind leaves less room for addresses than the device has by itself
REPLAY = [str(COMMAND), "replay", "--memory", "8G"]
pytestmark = [pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed"),
              pytest.mark.skipif(bool(SANITIZER), reason="valgrind runs no program of a sanitizer")]


def instructions(trace, folder, *arguments):
    """The cost of the command and of the process that replays."""
    for file in folder.glob("counted.*"):
        file.unlink()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counted.%p", *REPLAY, *arguments, trace],
                          env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # The one that replays was forked from the other, whose count it goes on with.
    totals = [int(re.search(r"^totals: (\d+)", file.read_text(), re.M).group(1)) for file in folder.glob("counted.*")]
    assert len(totals) == 2
    return max(totals)


@pytest.mark.parametrize("shape, mode", [*((shape, "auto") for shape in made_traces.SHAPES),
                                         (ALL, "sync"), (ALL, "defer"), ("kernels in one stream", "defer")])
def test_an_event_takes_few_instructions_however_long_the_trace(shape, mode, tmp_path):
    """Kernels, copies and waits outnumber allocations by 13 to 1, as in what programs record of themselves."""
    short = 20_000 if "1,000" in shape or os.environ.get("TEST_ALL") else 10_000  # many streams are all in use only then
    long = 4 * short
    taken = {}
    for events in (short, long):
        trace = made_traces.mostly_others(tmp_path / f"{events}.csv", events, events // 15, shape)
        taken[events] = instructions(trace, tmp_path, "--free", mode)
        assert taken[events] <= MOST * events, f"{taken[events] / events:.0f} instructions an event"
    assert taken[long] <= 4.2 * taken[short]


def test_chunks_that_are_mapped_take_no_longer_the_more_there_are(tmp_path):
    taken = {}
    for blocks in (500, 2000):
        rows = [(i, "A", i, (3 << 20) - i, 0, "app", 0) for i in range(blocks)]
        rows += [(blocks + i, "F", i, "", 0, "", 0) for i in range(blocks)]
        trace = made_traces.write(tmp_path / f"{blocks}.csv", rows)
        taken[blocks] = instructions(trace, tmp_path, "--preset", "vmm")
    assert taken[2000] <= MOST_MAPPED * 2000
    assert taken[2000] - taken[500] <= 1.2 * 3 * taken[500]
