"""What was gained: how a report begins. Time is taken only from calls of the driver's that the run made itself."""

import copy
import json
import re
import subprocess

import guard
import pytest
from conftest import COMMAND, PROGRAMS, SAMPLES

BLOCK = 4 << 20  # bytes of each block of the run that is written here


def report(*arguments, code=0):
    done = guard.run([COMMAND, "report", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(name="record")
def fixture_record(run, tmp_path):
    """record(program, **variables): its report as JSON, read."""
    def recorder(program, **variables):
        path = tmp_path / "recorded"
        path.unlink(missing_ok=True)
        assert run(program, env={"POOLCUDA_STATS": "0", "POOLCUDA_STATS_FILE": str(path), **variables}).code == 0
        return json.loads(path.read_text())
    return recorder


def cost(call, *ns, memory="device", size=BLOCK):
    return {"call": call, "memory": memory, "from_bytes": size, "calls": len(ns), "ns": sum(ns), "least_ns": min(ns),
            "most_ns": max(ns)}


def written(costs, hits=99, frees=100, driver_frees=0, memory="device", **counters):
    """A run of one site that allocates and frees 100 blocks of BLOCK bytes."""
    return {
        "format": "poolcuda report", "version": 1, "process": {"command": "/app", "finished": True, "last_ns": 10**9},
        "counters": {"malloc_calls": hits + 1, "malloc_hits": hits, "free_calls": frees, "free_kept": frees,
                     "driver_allocs": 1, "driver_frees": driver_frees, **counters},
        "timed_calls": costs, "modules": [{}, {"path": "/app", "build_id": ""}],
        "sites": [{"id": 1, "allocations": hits + 1, "hits": hits, "allocated_bytes": (hits + 1) * BLOCK, "memory": memory,
                   "live_blocks": hits + 1 - frees, "frames": [{"module": 1, "offset": 64}]}]}


@pytest.fixture(name="told")
def fixture_told(tmp_path):
    """told(run, ...): the lines on what was gained, and time_saved of the JSON, of these runs together."""
    def teller(*runs):
        paths = [tmp_path / f"written.{i}" for i in range(len(runs))]
        for path, one in zip(paths, runs):
            path.write_text(json.dumps(one))
        return report(*paths).split("\n\n")[1].splitlines(), json.loads(report("--json", *paths))["time_saved"]
    return teller


def price(costs, call, memory, mean):
    """As docs/reports.md says it."""
    fitting = sorted((one for one in costs if one["call"] == call and one["memory"] == memory), key=lambda one: one["from_bytes"])
    dearest = max((one["most_ns"] for one in fitting), default=0)
    fitting = [one for one in fitting if call == "free" or one["calls"] > 1 or one["most_ns"] < dearest]
    below = [one for one in fitting if one["from_bytes"] <= mean]
    each = [one["least_ns"] if call == "free" else one["ns"] if one["calls"] == 1 else
            (one["ns"] - one["most_ns"]) / (one["calls"] - 1) for one in fitting]
    return min(each[len(below) - 1:]) if below else each[0] * mean / (2 * fitting[0]["from_bytes"])


@pytest.mark.parametrize("sample", ["three_sites", "varying"])
def test_time_saved_is_each_sites_avoided_calls_times_what_such_calls_took_in_this_run(record, sample):
    page = record(SAMPLES / sample)
    saved = page["time_saved"]["allocation"]
    assert sum(one["calls"] for one in page["timed_calls"]) == page["counters"]["driver_allocs"] == saved["timed"], "few: all are timed"
    assert all(0 < one["least_ns"] <= one["most_ns"] <= one["ns"] for one in page["timed_calls"])
    expected = sum(site["hits"] * price(page["timed_calls"], "allocation", "device", site["allocated_bytes"] / site["allocations"])
                   for site in page["sites"])
    assert saved["avoided"] == saved["priced"] == page["counters"]["malloc_hits"]
    assert saved["device_ns"] == pytest.approx(expected, abs=1)
    assert saved["host_ns"] == saved["managed_ns"] == 0
    assert page["time_saved"]["free"] == {"avoided": page["counters"]["free_kept"], "priced": 0, "timed": 0, "device_ns": 0,
                                          "host_ns": 0, "managed_ns": 0}


def test_what_was_gained_comes_first(told):
    lines, _ = told(written([cost("allocation", 900000, 100000, 300000), cost("free", 70000, 50000)],
                            waits_owed=60, waits_paid=10, free_waited=5, wait_ns=3000000))
    assert lines == ["  time saved: about 24.8 ms",
                     "    driver calls: 1 allocations and 0 frees made, 199 avoided",
                     "    99 allocations avoided: about 19.8 ms, judging by 3 that were made",
                     "    100 frees avoided: about 5.0 ms, judging by 2 that were made",
                     "    waits for the device: 15 made, 3.0 ms in all; 50 spared, not counted as time saved"]


def test_without_timed_calls_the_time_is_not_measured_and_counts_are_reported(told):
    old = written([])
    del old["timed_calls"], old["sites"][0]["memory"]
    for one in (old, written([])):
        lines, saved = told(one)
        assert lines == ["  time saved: not measured", "    driver calls: 1 allocations and 0 frees made, 199 avoided",
                         "    99 allocations avoided: not measured, since none of the calls made was timed",
                         "    100 frees avoided: not measured, since the run made none"]
        assert all(saved[call][f"{memory}_ns"] == 0 for call in saved for memory in ("device", "host", "managed"))


def test_what_was_measured_is_told_apart_from_what_was_not(told):
    lines, _ = told(written([cost("allocation", 1000000, 1000000)], driver_frees=30))
    assert lines == ["  time saved: about 99.0 ms; frees are not in it",
                     "    driver calls: 1 allocations and 30 frees made, 169 avoided",
                     "    99 allocations avoided: about 99.0 ms, judging by 2 that were made",
                     "    70 frees avoided: not measured, since the frees made may have waited for the device"]


def test_a_single_call_is_no_price_as_it_may_have_prepared_something_for_others(told):
    lines, saved = told(written([cost("allocation", 1000000)]))
    assert saved["allocation"]["priced"] == 0 and lines[0] == "  time saved: not measured"
    assert lines[2] == "    99 allocations avoided: not measured, since one timed call is too few"
    _, saved = told(written([cost("allocation", 1000000), cost("allocation", 2000000, size=2 * BLOCK)]))
    assert saved["allocation"]["device_ns"] == 99 * 1000000, "the dearest of all is not this one"


def test_a_run_that_avoids_nothing_saves_nothing(told):
    lines, _ = told(written([cost("allocation", 1000)], hits=0, frees=0))
    assert lines == ["  time saved: none, since no driver call was avoided",
                     "    driver calls: 1 allocations and 0 frees made, 0 avoided"]


def test_a_price_is_never_that_of_a_larger_block(told):
    _, larger = told(written([cost("allocation", 8000000, 8000000, size=16 * BLOCK)]))
    _, smaller = told(written([cost("allocation", 7000, 7000, size=512), cost("allocation", 8000000, 8000000, size=16 * BLOCK)]))
    assert larger["allocation"]["device_ns"] == 99 * 8000000 // 32, "in proportion to its bytes"
    assert smaller["allocation"]["device_ns"] == 99 * 7000
    _, odd = told(written([cost("allocation", 9000000, 9000000), cost("allocation", 8000, 8000, size=16 * BLOCK)]))
    assert odd["allocation"]["device_ns"] == 99 * 8000, "the first call was late for some other reason"


@pytest.mark.parametrize("memory", ["host", "managed"])
def test_each_kind_of_memory_has_its_own_price(told, memory):
    _, unknown = told(written([cost("allocation", 1000000, 1000000)], memory=memory))
    assert unknown["allocation"]["priced"] == 0, "a device's call tells nothing of it"
    lines, known = told(written([cost("allocation", 1000000, 1000000), cost("allocation", 5000000, 5000000, memory=memory)], memory=memory))
    assert known["allocation"][f"{memory}_ns"] == 99 * 5000000 and known["allocation"]["device_ns"] == 0
    assert f"    of the time, for {'pinned host' if memory == 'host' else memory} memory: 495.0 ms" in lines
    _, mixed = told(written([cost("allocation", 1000000, 1000000), cost("allocation", 5000000, 5000000, memory=memory)], memory="mixed"))
    assert mixed["allocation"]["priced"] == 0, "nobody knows which of its calls were which"


@pytest.mark.parametrize("counter", ["async_served", "malloc_stitched"])
def test_calls_that_cost_little_without_the_pool_are_not_priced_as_if_they_did(told, counter):
    lines, saved = told(written([cost("allocation", 1000000, 1000000)], **{counter: 49}))
    assert saved["allocation"]["priced"] == 50 and saved["allocation"]["device_ns"] == 50 * 1000000
    assert any(" for 50 of them, the others not measured" in line for line in lines)
    _, saved = told(written([cost("allocation", 1000000, 1000000), cost("free", 1000)], async_served=1000, async_frees=1000))
    assert saved["allocation"]["priced"] == saved["free"]["priced"] == 0


def test_frees_that_were_made_later_after_all_are_not_saved(told):
    _, saved = told(written([cost("free", 1000)], driver_frees=25))
    assert saved["free"]["avoided"] == saved["free"]["priced"] == 75 and saved["free"]["device_ns"] == 75000


def test_runs_are_priced_each_by_its_own_calls_and_added_up(told):
    slow, quick, old = (written([cost("allocation", ns, ns)] if ns else []) for ns in (1000000, 1000, 0))
    lines, saved = told(slow, quick, old)
    assert saved["allocation"] == {"avoided": 297, "priced": 198, "timed": 4, "device_ns": 99 * 1001000, "host_ns": 0,
                                   "managed_ns": 0}
    assert lines[2] == "    297 allocations avoided: about 99.1 ms for 198 of them, the others not measured, judging by 4 that were made"


def test_the_sum_of_runs_says_the_same_when_it_is_read_again(told, tmp_path):
    one = written([cost("allocation", 1000000, 3000)])
    told(one, one)
    merged = report("--json", tmp_path / "written.0", tmp_path / "written.1")
    (tmp_path / "merged").write_text(merged)
    assert json.loads(report("--json", tmp_path / "merged"))["time_saved"] == json.loads(merged)["time_saved"]


def test_frees_that_the_run_makes_with_nothing_to_wait_for_are_timed(record):
    page = record(SAMPLES / "three_sites", POOLCUDA_MAX_IDLE="0", POOLCUDA_FREE="sync")
    frees = [one for one in page["timed_calls"] if one["call"] == "free"]
    assert page["counters"]["driver_frees"] > 0 and sum(one["calls"] for one in frees) > 0


def test_waits_that_are_made_are_timed_and_spared_ones_only_counted(record):
    page = record(SAMPLES / "three_sites", SIMCUDA_COST="1")
    assert page["counters"]["free_waited"] == 100 and page["counters"]["wait_ns"] > 0
    assert record(SAMPLES / "three_sites", POOLCUDA_FREE="defer")["counters"]["free_waited"] == 0
    assert not any("wait" in name for call in page["time_saved"].values() for name in call)


@pytest.mark.parametrize("preset", ["bfc", "vmm"])
def test_policies_that_ask_the_driver_for_something_else_do_not_tell_of_time(record, preset):
    page = record(SAMPLES / "varying", POOLCUDA_PRESET=preset)
    assert page["timed_calls"] == [] and page["time_saved"]["allocation"]["priced"] == 0


def test_pinned_memory_that_is_pooled_is_judged_by_its_own_calls(record):
    page = record([PROGRAMS / "pinned", "loop"], POOLCUDA_HOST="1")
    assert [(one["memory"], one["from_bytes"], one["calls"]) for one in page["timed_calls"]] == [("host", 64 << 20, 1)]
    assert [site["memory"] for site in page["sites"]] == ["host"]
    assert page["time_saved"]["allocation"]["avoided"] == page["counters"]["host_hits"] > 0


def test_a_program_with_more_misses_than_are_timed_is_judged_by_the_timed_ones(record):
    page = record(SAMPLES / "nearly_all_memory")
    timed = sum(one["calls"] for one in page["timed_calls"] if one["call"] == "allocation")
    assert 16 <= timed <= page["counters"]["driver_allocs"]


@pytest.mark.parametrize("field, value", [("calls", 2**63 - 1), ("ns", 2**63 - 1), ("most_ns", 2**63 - 1), ("calls", 0)])
def test_absurd_figures_of_a_file_harm_nobody(told, field, value):
    one = written([cost("allocation", 1000), cost("free", 1000)], hits=2**40)
    for entry in one["timed_calls"]:
        entry[field] = value
    one["counters"]["free_kept"] = 2**63 - 1
    lines, _ = told(one, copy.deepcopy(one))
    assert lines[0].startswith("  time saved: ") and not re.search(r"-\d|nan|inf", "\n".join(lines))


@pytest.mark.parametrize("entry", [{"call": "x"}, {"memory": "x"}, {"from_bytes": 0}, {"from_bytes": 2**62}, {"ns": -1}])
def test_timed_calls_that_are_none_are_refused(tmp_path, entry):
    one = written([dict(cost("allocation", 1), **entry)])
    (tmp_path / "bad").write_text(json.dumps(one))
    done = subprocess.run([COMMAND, "report", tmp_path / "bad"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "damaged" in done.stderr and len(done.stderr.splitlines()) == 1
