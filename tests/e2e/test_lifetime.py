"""Contexts, threads and processes may come and go: the program is answered as natively."""

import re

import pytest
from conftest import PROGRAMS

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


def test_an_importer_never_sees_another_owners_data(both):
    native, pooled = both(PROGRAMS / "ipc")
    assert native.out.count("opened 0") == 5
    assert "IPC handle taken: 5" in pooled.stats
    assert [int(seen) for seen in re.findall(r"then (\d+)", pooled.out)] == [10, 11, 12, 13, 14]
