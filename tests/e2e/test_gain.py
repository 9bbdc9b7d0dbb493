"""What was gained: how a report begins. Time is taken only from calls of the driver's that the run made itself."""

import copy
import json
import re
import subprocess

import guard
import pytest
from conftest import COMMAND, PROGRAMS, SAMPLES

BLOCK = 4 << 20  # bytes of each block of the run that is written here
PAGE = 2 << 20   # what the driver maps: smaller blocks share one


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
    """Timed calls about blocks, the smallest of which has `size` bytes."""
    return {"call": call, "memory": memory, "from_bytes": 1 << size.bit_length() - 1, "calls": len(ns), "ns": sum(ns),
            "least_ns": min(ns), "least_bytes": size}


def site(number, hits, frees, memory="device", least=BLOCK):
    """One that has missed once, and asks for BLOCK bytes in the mean."""
    return {"id": number, "allocations": hits + 1, "hits": hits, "allocated_bytes": (hits + 1) * BLOCK, "memory": memory,
            "least_bytes": least, "live_blocks": hits + 1 - frees, "frames": [{"module": 1, "offset": 64 * number}]}


def written(costs, hits=99, frees=100, driver_frees=0, memory="device", least=BLOCK, **counters):
    """A run of one site that allocates and frees 100 blocks, of which the smallest has `least` bytes."""
    return {
        "format": "poolcuda report", "version": 1, "process": {"command": "/app", "finished": True, "last_ns": 10**9},
        "interception": {}, "devices": [],
        "counters": {**dict.fromkeys(("in_use_bytes", "idle_bytes", "waste_bytes", "held_bytes", "live_blocks", "idle_blocks",
                                      "peak_live_bytes", "peak_held_bytes"), 0),
                     "malloc_calls": hits + 1, "malloc_hits": hits, "free_calls": frees, "free_kept": frees,
                     "driver_allocs": 1, "driver_frees": driver_frees, **counters},
        "timed_calls": costs, "modules": [{}, {"path": "/app", "build_id": ""}],
        "sites": [site(1, hits, frees, memory, least)]}


def together(one, *others):
    """One run of several, which have their sites one after the other; its timed calls are those of the first."""
    whole = copy.deepcopy(one)
    for other in others:
        for name, value in other["counters"].items():
            whole["counters"][name] += value
        whole["sites"] += [dict(entry, id=len(whole["sites"]) + 1, frames=[{"module": 1, "offset": 64 + 64 * len(whole["sites"])}])
                           for entry in other["sites"]]
    return whole


@pytest.fixture(name="told")
def fixture_told(tmp_path):
    """told(run, ...): the lines on what was gained, and time_saved of the JSON, of these runs together."""
    def teller(*runs):
        paths = [tmp_path / f"written.{i}" for i in range(len(runs))]
        for path, one in zip(paths, runs):
            path.write_text(json.dumps(one))
        return report(*paths).split("\n\n")[1].splitlines(), json.loads(report("--json", *paths))["time_saved"]
    return teller


def price(costs, call, memory, least):
    """As docs/reports.md says it. None: too few that were no larger were timed."""
    fitting = sorted((one for one in costs if one["call"] == call and one["memory"] == memory), key=lambda one: one["from_bytes"])
    groups = [[one for one in fitting if one["from_bytes"] < PAGE]]
    for one in (one for one in fitting if one["from_bytes"] >= PAGE):
        groups.append([one] + (groups[-1] if one["calls"] == 1 and len(groups) > 1 else []))
    steps = [(group[0]["least_bytes"], min(one["least_ns"] for one in group))
             for group in groups if sum(one["calls"] for one in group) > 1]
    below = sum(size <= least for size, _ in steps)
    return min(each for _, each in steps[below - 1:]) if below else None


@pytest.mark.parametrize("sample", ["three_sites", "varying"])
def test_time_saved_is_each_sites_avoided_calls_times_what_such_calls_took_in_this_run(record, sample):
    page = record(SAMPLES / sample)
    saved = page["time_saved"]["allocation"]
    assert sum(one["calls"] for one in page["timed_calls"]) == page["counters"]["driver_allocs"] == saved["timed"], "few: all are timed"
    assert all(0 < one["least_ns"] <= one["ns"] for one in page["timed_calls"])
    assert all(one["from_bytes"] <= one["least_bytes"] < 2 * one["from_bytes"] for one in page["timed_calls"])
    hits = [(one["hits"], price(page["timed_calls"], "allocation", "device", one["least_bytes"])) for one in page["sites"] if one["hits"]]
    priced = [(count, each) for count, each in hits if each is not None]
    assert saved["avoided"] == sum(count for count, _ in hits) == page["counters"]["malloc_hits"]
    assert saved["priced"] == sum(count for count, _ in priced) > 0
    assert saved["device_ns"] == pytest.approx(sum(count * each for count, each in priced), abs=1)
    assert saved["host_ns"] == saved["managed_ns"] == 0
    assert page["time_saved"]["free"] == {"avoided": page["counters"]["free_kept"], "priced": 0, "timed": 0, "device_ns": 0,
                                          "host_ns": 0, "managed_ns": 0}


def test_a_site_of_one_size_is_priced_at_the_least_that_a_call_of_that_size_took(record):
    page = record([PROGRAMS / "sizes", "Ax4x4194304", "ax50x4194304"])
    timed, = page["timed_calls"]
    assert timed["calls"] == 5 and timed["least_bytes"] == page["sites"][0]["least_bytes"] == BLOCK
    assert page["time_saved"]["allocation"]["priced"] == page["sites"][0]["hits"] == 49
    assert page["time_saved"]["allocation"]["device_ns"] == 49 * timed["least_ns"]


# Costs beside which those of the machine that runs the test are small.
COSTS = {"SIMCUDA_ALLOC_NS": "2000000", "SIMCUDA_ALLOC_SMALL_NS": "50000", "SIMCUDA_FREE_NS": "1000000", "SIMCUDA_FREE_SMALL_NS": "50000"}


@pytest.mark.parametrize("before", [[], ["ax1x8"], ["bx1x8"]], ids=["one_size", "one_site", "another_size_before"])
def test_no_more_is_promised_than_the_native_run_takes_where_the_calls_that_were_made_opened_pages(record, run, before):
    """Two blocks of a MiB share a page: every second call that the run makes opens one, and none of those that it avoids."""
    program = [PROGRAMS / "sizes", *before, "Ax31x1048576", "ax5000x1048576"]
    native, pooled = (run(program, pooled=pooled, env={**COSTS, "SIMCUDA_COST": "2"}).figures["modelled_ns"] for pooled in (False, True))
    page = record(program, **COSTS, SIMCUDA_COST="1")
    saved = page["time_saved"]["allocation"]
    assert saved["timed"] >= 16 and saved["priced"] >= 4999
    assert 4999 * 50000 <= saved["device_ns"] <= native - pooled, "the least that a call can take, and what was saved"


def least_of_class(page, size):
    """The least that a timed allocation of that size's class took."""
    return min(one["least_ns"] for one in page["timed_calls"] if one["from_bytes"] <= size < 2 * one["from_bytes"])


def test_a_site_of_very_different_sizes_is_not_priced_at_a_size_that_its_hits_did_not_have(record):
    page = record([PROGRAMS / "sizes", "Ax5x1073741824", "Ax2x4096", "ax150x4096", "bx10x33554432"], SIMCUDA_COST="1", SIMCUDA_PAGE_NS="200000")
    saved = page["time_saved"]["allocation"]
    wrapper, other = page["sites"]
    assert (wrapper["hits"], other["hits"]) == (149, 9) and saved["priced"] == 158
    assert wrapper["allocated_bytes"] / wrapper["allocations"] > 32 << 20, "its mean is that of no call"
    assert 0 < saved["device_ns"] <= 149 * least_of_class(page, 4096) + 9 * least_of_class(page, 32 << 20)


def test_a_site_is_not_priced_by_larger_blocks_of_the_same_size_class(record):
    page = record([PROGRAMS / "sizes", "Cx1x512", "Bx5x2096640", "ax100x1048576"], SIMCUDA_COST="1", SIMCUDA_ALLOC_NS="2000000")
    timed, = (one for one in page["timed_calls"] if one["from_bytes"] == 1 << 20)
    assert (timed["calls"], timed["least_bytes"]) == (6, 1 << 20)
    assert page["time_saved"]["allocation"]["priced"] == 99
    assert 0 < page["time_saved"]["allocation"]["device_ns"] <= 99 * timed["least_ns"]


def test_a_hit_in_a_larger_block_is_priced_as_what_was_asked_for(record):
    page = record([PROGRAMS / "sizes", "Bx3x3000000", "ax1x8000000", "ax50x6000000"])
    reused, = (one for one in page["sites"] if one["hits"])
    assert reused["hits"] == 50 and reused["least_bytes"] == 6 << 20, "6000000 bytes are three pages"
    assert {one["least_bytes"] for one in page["timed_calls"]} == {4 << 20, 8 << 20}
    expected = 50 * price(page["timed_calls"], "allocation", "device", 6 << 20)
    assert page["time_saved"]["allocation"]["device_ns"] == pytest.approx(expected, abs=1)


def test_a_size_that_was_only_asked_from_the_driver_does_not_count(record):
    page = record([PROGRAMS / "sizes", "Ax2x512", "ax50x4194304"])
    assert page["sites"][0]["least_bytes"] == BLOCK


def test_what_was_gained_comes_first(told):
    lines, _ = told(written([cost("allocation", 900000, 100000, 300000), cost("free", 70000, 50000)],
                            waits_owed=60, waits_paid=10, free_waited=5, wait_ns=3000000))
    assert lines == ["  time saved: at least 14.9 ms",
                     "    driver calls: 1 allocation and 0 frees made, 199 avoided",
                     "    99 allocations avoided: at least 9.9 ms, judging by 3 that were made",
                     "    100 frees avoided: at least 5.0 ms, judging by 2 that were made",
                     "    waits for the device: 15 made, 3.0 ms in all; 50 spared, not counted as time saved"]


def test_without_timed_calls_the_time_is_not_measured_and_counts_are_reported(told):
    old = written([])
    del old["timed_calls"], old["sites"][0]["memory"]
    for one in (old, written([])):
        lines, saved = told(one)
        assert lines == ["  time saved: not measured", "    driver calls: 1 allocation and 0 frees made, 199 avoided",
                         "    99 allocations avoided: not measured, since none of the calls made was timed",
                         "    100 frees avoided: not measured, since the run made none"]
        assert all(saved[call][f"{memory}_ns"] == 0 for call in saved for memory in ("device", "host", "managed"))


def test_what_was_measured_is_told_apart_from_what_was_not(told):
    lines, _ = told(written([cost("allocation", 1000000, 1000000)], driver_frees=30))
    assert lines == ["  time saved: at least 99.0 ms; frees are not in it",
                     "    driver calls: 1 allocation and 30 frees made, 169 avoided",
                     "    99 allocations avoided: at least 99.0 ms, judging by 2 that were made",
                     "    70 frees avoided: not measured, since the frees made may have waited for the device"]


@pytest.mark.parametrize("call, made", [("allocation", 0), ("free", 1)])
def test_a_single_call_is_no_price_as_it_may_have_prepared_something_for_others(told, call, made):
    lines, saved = told(written([cost(call, 1000000)], driver_frees=made))
    assert saved[call]["priced"] == 0 and lines[0] == "  time saved: not measured"
    assert f"    99 {call}s avoided: not measured, since one timed call is too few" in lines
    two = [cost(call, 1000000), cost(call, 2000000, size=2 * BLOCK)]
    assert told(written(two, driver_frees=made))[1][call]["priced"] == 0, "one is larger"
    assert told(written(two, driver_frees=made, least=2 * BLOCK))[1][call]["device_ns"] == 99 * 1000000, "both are no larger"
    pages = [cost(call, 3000, size=PAGE // 2), cost(call, 2000000)]
    assert told(written(pages, driver_frees=made))[1][call]["priced"] == 0, "a block that shares a page tells nothing of one that does not"


@pytest.mark.parametrize("call, calls", [("allocation", 99), ("free", 100)])
def test_blocks_that_share_pages_are_priced_at_the_least_of_all_these(told, call, calls):
    timed = [cost(call, 200000, size=512), cost(call, 5000, 180000, size=4096), cost(call, 190000, 200000, size=PAGE // 2), cost(call, 300000, 300000)]
    for least, each in ((512, 5000), (4096, 5000), (PAGE // 2, 5000), (BLOCK, 300000)):
        assert told(written(timed, least=least))[1][call]["device_ns"] == calls * each


def test_a_run_that_avoids_nothing_saves_nothing(told):
    lines, _ = told(written([cost("allocation", 1000)], hits=0, frees=0))
    assert lines == ["  time saved: none, since no driver call was avoided",
                     "    driver calls: 1 allocation and 0 frees made, 0 avoided"]


def test_a_price_is_never_that_of_a_larger_block(told):
    large = cost("allocation", 8000000, 8000000, size=16 * BLOCK)
    lines, larger = told(written([large]))
    assert larger["allocation"]["priced"] == larger["allocation"]["device_ns"] == 0, "nor in proportion to its bytes"
    assert lines[2] == "    99 allocations avoided: not measured, since the timed calls were too few, larger, or of other memory"
    _, smaller = told(written([cost("allocation", 7000, 7000, size=512), large]))
    assert smaller["allocation"]["device_ns"] == 99 * 7000
    _, odd = told(written([cost("allocation", 9000000, 9000000), cost("allocation", 8000, 8000, size=16 * BLOCK)]))
    assert odd["allocation"]["device_ns"] == 99 * 8000, "the first call was late for some other reason"


def test_a_size_class_costs_what_the_least_of_its_calls_took(told):
    costs = [cost("allocation", 100, 4000, 7000)]
    for least, each in ((BLOCK, 100), (BLOCK + BLOCK // 2, 100), (BLOCK - 512, 0)):
        _, saved = told(written(costs, least=least))
        assert saved["allocation"]["device_ns"] == 99 * each


def test_a_free_costs_what_the_least_free_of_no_larger_block_took_whatever_its_size(told):
    def of(costs, least):
        return told(written(costs, least=least))[1]["free"]
    timed = [cost("free", 70000, 50000), cost("free", 90000, 90000, size=16 * BLOCK)]
    for least, each in ((BLOCK, 50000), (3 * BLOCK, 50000), (16 * BLOCK, 90000), (1000 * BLOCK, 90000)):
        assert of(timed, least)["device_ns"] == 100 * each, "no proportion to its bytes"
    assert of(timed, BLOCK - 512)["priced"] == of(timed, BLOCK - 512)["device_ns"] == 0, "nor where all that were timed were larger"
    late = [cost("free", 90000, 90000), cost("free", 50000, 50000, size=16 * BLOCK)]
    assert of(late, BLOCK)["device_ns"] == 100 * 50000, "never more than a larger one's"


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
    assert "      49 of them are not in it, since nobody knows what they would have taken" in lines
    _, saved = told(written([cost("allocation", 1000000, 1000000), cost("free", 1000, 1000)], async_served=1000, async_frees=1000))
    assert saved["allocation"]["priced"] == saved["free"]["priced"] == 0


def test_frees_that_were_made_later_after_all_are_not_saved(told):
    _, saved = told(written([cost("free", 1000, 1000)], driver_frees=25))
    assert saved["free"]["avoided"] == saved["free"]["priced"] == 75 and saved["free"]["device_ns"] == 75000


def test_calls_that_were_not_avoided_are_taken_to_be_the_dearest(told):
    small, large = (written([cost(call, ns, ns, size=size) for call in ("allocation", "free") for ns, size in ((1000, BLOCK), (90000, 16 * BLOCK))],
                            least=least) for least in (BLOCK, 16 * BLOCK))
    both = together(small, large)
    _, saved = told(both)
    assert saved["allocation"]["device_ns"] == 99 * 91000 and saved["free"]["device_ns"] == 100 * 91000
    both["counters"].update(driver_frees=110, async_served=50)
    _, saved = told(both)
    assert saved["allocation"]["priced"] == 148 and saved["allocation"]["device_ns"] == 99 * 1000 + 49 * 90000
    assert saved["free"]["priced"] == 90 and saved["free"]["device_ns"] == 90 * 1000


@pytest.mark.parametrize("missing", ["sites", "timed_calls"])
def test_files_that_do_not_tell_the_least_sizes_are_read_and_promise_less(told, missing):
    old = written([cost("allocation", 1000, 1000), cost("free", 500, 500)])
    for entry in old[missing]:
        del entry["least_bytes"]
    lines, saved = told(old)
    assert lines[0] == "  time saved: not measured" and saved["allocation"]["priced"] == saved["free"]["priced"] == 0
    for entry in old["sites"]: # the timed ones may have been as large as their class allows
        entry["least_bytes"] = 2 * BLOCK
    _, saved = told(old)
    assert saved["allocation"]["device_ns"] == 99 * 1000 and saved["free"]["device_ns"] == 100 * 500


def test_processes_of_one_job_are_priced_by_their_own_calls_and_added_up(run, tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    for rank, arguments in enumerate((["ax30x4096"], ["Ax3x4194304", "ax40x4194304"], ["Bx2x4194304", "ax50x512"])):
        done = run([PROGRAMS / "sizes", *arguments], env={"POOLCUDA_STATS": "0", "POOLCUDA_STATS_FILE": str(folder / f"{rank}.json"),
                                                          "RANK": str(rank)})
        assert done.code == 0, done.err
    each = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(3)]
    whole = json.loads(report("--json", folder))
    assert whole["runs"] == 3 and each[1]["time_saved"]["allocation"]["priced"] == 39
    expected = {call: {name: sum(one["time_saved"][call][name] for one in each) for name in each[0]["time_saved"][call]}
                for call in each[0]["time_saved"]}
    assert whole["time_saved"] == expected
    (tmp_path / "two").write_text(report("--json", folder / "0.json", folder / "1.json"))
    assert json.loads(report("--json", tmp_path / "two", folder / "2.json"))["time_saved"] == expected, "sums are added to, too"
    least = {one["least_bytes"] for one in whole["sites"] if one["hits"]}
    assert least == {min(site["least_bytes"] for one in each for site in one["sites"] if site["hits"])}, "they share a site"


def test_runs_are_priced_each_by_its_own_calls_and_added_up(told):
    slow, quick, old = (written([cost("allocation", ns, ns)] if ns else []) for ns in (1000000, 1000, 0))
    lines, saved = told(slow, quick, old)
    assert saved["allocation"] == {"avoided": 297, "priced": 198, "timed": 4, "device_ns": 99 * 1001000, "host_ns": 0,
                                   "managed_ns": 0}
    assert lines[2:4] == ["    297 allocations avoided: at least 99.1 ms, judging by 4 that were made",
                          "      99 of them are not in it, since nobody knows what they would have taken"]


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


@pytest.mark.parametrize("preset", ["bfc", "pytorch", "vmm", "pytorch-expandable"])
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


@pytest.mark.parametrize("field, value", [("calls", 2**63 - 1), ("ns", 2**63 - 1), ("least_ns", 2**63 - 1), ("calls", 0),
                                          ("least_bytes", 2**63 - 1), ("least_bytes", 0)])
def test_absurd_figures_of_a_file_harm_nobody(told, field, value):
    one = written([cost("allocation", 1000), cost("free", 1000)], hits=2**40)
    for entry in one["timed_calls"]:
        entry[field] = value
    one["counters"]["free_kept"] = 2**63 - 1
    lines, _ = told(one, copy.deepcopy(one))
    assert lines[0].startswith("  time saved: ") and not re.search(r"-\d|nan|inf", "\n".join(lines))


@pytest.mark.parametrize("entry", [{"call": "x"}, {"memory": "x"}, {"from_bytes": 0}, {"from_bytes": 2**62}, {"ns": -1}, {"least_bytes": -1}])
def test_timed_calls_that_are_none_are_refused(tmp_path, entry):
    one = written([dict(cost("allocation", 1), **entry)])
    (tmp_path / "bad").write_text(json.dumps(one))
    done = subprocess.run([COMMAND, "report", tmp_path / "bad"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "damaged" in done.stderr and len(done.stderr.splitlines()) == 1
