"""The parts of tests/bench/waits.py and scale.py that do not depend on time."""

import importlib
import sys

import pytest
from conftest import BUILD, PROGRAMS, ROOT, SAMPLES


@pytest.fixture(autouse=True, name="bench_path")
def put_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/bench"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.fixture(name="waits")
def load_waits(bench_path):
    return importlib.import_module("waits")


@pytest.fixture(name="scale")
def load_scale(bench_path):
    return importlib.import_module("scale")


def test_waits_made_owed_paid_and_skipped_are_counted_apart(waits):
    row = waits.Waits(BUILD, [SAMPLES / "three_sites"], {}).row("three_sites")
    assert row == ["three_sites", "300", "100", "0", "200", "0", "200", "66.7%", "last_block 100", "-"]
    paid = waits.Waits(BUILD, [PROGRAMS / "visible", "event"], {})
    assert (paid.owed, paid.paid, paid.skipped, paid.payers) == (1, 1, 0, {"cuEventQuery": 1})


def test_waits_of_the_drivers_own_frees_and_of_all_processes_are_counted(waits):
    tainted = waits.Waits(BUILD, [PROGRAMS / "tainted"], {})
    assert (tainted.frees, tainted.at_once, tainted.drivers, tainted.owed) == (6, 1, 5, 0)
    assert waits.Waits(BUILD, [PROGRAMS / "ipc"], {}).frees == 10


def test_reads_and_waits_for_the_context_pay_nothing_for_frees(waits):
    trace = ROOT / "tests/data/moe-align.csv.gz"
    for more in ([], ["unchecked"]):
        counted = waits.Waits(BUILD, [SAMPLES / "trace_player", trace, *more], {})
        assert counted.owed > 0 and counted.payers == {}


def test_ratios_are_those_of_runs_beside_each_other(waits):
    times = {"sync": [4.0, 9.0, 2.0], "defer": [2.0, 3.0, 2.0]}
    assert waits.ratios(times, "sync", "defer") == (2.0, 1.0, 3.0)


def test_a_loop_of_malloc_launch_and_free_runs_in_every_form_and_mode(waits):
    for form in waits.FORMS:
        for mode in waits.MODES:
            command = [BUILD / "tests/bench/loads/alloc_launch_free", form, 4096, 1000, 0, 2]
            assert waits.run(command, waits.environment(BUILD, mode, {})).startswith("seconds ")


CALLGRIND = """ob=(1) /lib/libpoolcuda.so
fn=(1) pool_malloc
16 30
+2 12
cob=(2) /lib/libc.so.6
cfn=(2) memcpy
calls=3 0
+1 500
* 8
ob=(2)
fn=(2)
0 500
ob=(3) /bin/soak
fn=(3) main
0 7
"""


def test_instructions_are_those_of_each_objects_own_code(scale, tmp_path):
    (tmp_path / "callgrind.1").write_text(CALLGRIND)
    assert scale.objects(tmp_path / "callgrind.1") == {"libpoolcuda.so": 50, "libc.so.6": 500, "soak": 7}


def test_the_soak_is_pooled_and_says_what_it_holds(scale):
    points = scale.soak(BUILD, 8000, threads=8)
    assert len(points) == scale.POINTS and sum(point["operations"] for point in points) == 8000
    assert points[-1]["hits"] > 0 and points[-1]["live"] > 0 and points[-1]["heap"] > 0
    native = scale.soak(BUILD, 8000, threads=8, pooled=False)
    assert native[-1]["allocations"] == 0 and native[-1]["heap"] < points[-1]["heap"]


def test_a_days_trace_can_be_replayed(scale, tmp_path):
    events, peak, result = scale.replayed(BUILD, 2000, tmp_path)
    assert (events, result["allocations"]) == (3500, 2000) and peak > 0
    assert result["hit_rate"] > 0
