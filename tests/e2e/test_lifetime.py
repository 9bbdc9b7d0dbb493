"""Contexts, threads and processes may come and go: the program is answered as natively."""

import re

import pytest
from conftest import ON_BOTH_DRIVERS, PROGRAMS

pytestmark = ON_BOTH_DRIVERS

CASES = ["thread_without_context", "floating", "green", "released", "after_the_end", "exit_of_a_thread",
         "runtime_closed", "executed", "lost"]


@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
@pytest.mark.parametrize("case", CASES)
def test_answers_are_the_native_ones_when(both, case, mode):
    native, pooled = both([PROGRAMS / "lifetime", case], env={"POOLCUDA_FREE": mode})
    assert native.code == 0
    if case not in ("exit_of_a_thread", "after_the_end"):
        assert re.search(r"of which [1-9]\d* from idle memory", pooled.stats)


def test_threads_that_go_on_while_the_report_is_written_do_no_harm(run):
    for _ in range(20):
        result = run([PROGRAMS / "lifetime", "exit_of_a_thread"])
        assert (result.code, result.out) == (0, "leaving\n")
        assert "held from the driver" in result.stats


def test_blocks_that_the_driver_has_tied_state_to_are_really_freed(both):
    _, pooled = both(PROGRAMS / "tainted")
    assert pooled.figures["calls.cuMemFree_v2"] == 5  # the sixth block is kept
    assert re.search(r"blocks shared or registered elsewhere, and so not reused: 5\n"
                     r"    IPC handle taken: 1\n"
                     r"    handle of the address range taken: 1\n"
                     r"    P2P tokens read: 1\n"
                     r"    BUFFER_ID read: 1\n"
                     r"    SYNC_MEMOPS set: 1\n", pooled.stats)


def test_an_importer_never_sees_another_owners_data(both, tmp_path):
    native, pooled = both(PROGRAMS / "ipc", env={"POOLCUDA_STATS_FILE": str(tmp_path / "process.%p")})
    assert native.out.count("opened 0") == 5
    assert any("IPC handle taken: 5" in path.read_text() for path in tmp_path.glob("process.*"))
    assert [int(seen) for seen in re.findall(r"then (\d+)", pooled.out)] == [10, 11, 12, 13, 14]
