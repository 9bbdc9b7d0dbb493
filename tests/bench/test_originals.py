"""The models of the originals do what the originals did, which were compiled from their own source."""

import csv
import gzip

import originals
import policies
import pytest

FOLDER = policies.FOLDERS[0]
SECOND_DEVICE = 2 * originals.PAGE
needs_traces = pytest.mark.skipif(not (FOLDER / "expected/figures.csv").exists(), reason="the originals' figures are not at hand")


def decisions(trace):
    """{original: [whether it was a hit]} of expected/TRACE.txt.gz."""
    with gzip.open(FOLDER / f"expected/{trace}.txt.gz", "rt") as file:
        lines = [line.split() for line in file]
    return {name: [run[0] == "H" for run in runs for _ in range(int(run[1:]))] for name, *runs in lines}


def peak_of(trace):
    live, sizes, peak = 0, {}, 0
    for op, block, size, _ in trace:
        sizes[block] = size if op == "A" else sizes.get(block, 0)
        live += size if op == "A" else -sizes.pop(block)
        peak = max(peak, live)
    return peak


@needs_traces
def test_the_models_decide_each_allocation_as_the_originals():
    for name, path in policies.traces_of_originals(FOLDER).items():
        trace, expected = originals.operations(path), decisions(name)
        for original in originals.POOLS:
            assert originals.replay(original, trace)["hits"] == expected[original], (name, original)


@needs_traces
def test_the_models_call_the_driver_fail_and_hold_as_the_originals_on_devices_of_all_sizes():
    paths = policies.traces_of_originals(FOLDER)
    traces = {name: originals.operations(path) for name, path in paths.items()}
    rows = [row for row in csv.DictReader((FOLDER / "expected/figures.csv").read_text().splitlines()) if row["allocator"] in originals.POOLS]
    assert len(rows) == 5 * 5 * len(traces)
    for row in rows:
        trace = traces[row["trace"]]
        result = originals.replay(row["allocator"], trace, policies.device_size(row["memory"], peak_of(trace)))
        assert f"{sum(result['hits']) / len(result['hits']):.6f}" == f"{float(row['hit_rate']):.6f}", row
        assert [str(result[key]) for key in ("driver_calls", "peak_held_bytes", "oom_failures")] == [
            row["driver_calls"], row["peak_held_bytes"], row["failed"]], row


@pytest.mark.parametrize("original, calls, failed", [
    ("futhark-2018", 1, 1), ("futhark-2020", 3, 0), ("futhark-2025", 3, 0), ("pycuda", 3, 0), ("cub", 3, 0)])
def test_a_device_without_room_gets_idle_memory_back_but_from_the_first(original, calls, failed):
    trace = [("A", "1", originals.PAGE - 1, "here"), ("F", "1", 0, ""), ("A", "2", SECOND_DEVICE - 1, "there")]
    result = originals.replay(original, trace, SECOND_DEVICE)
    assert (result["driver_calls"], result["oom_failures"]) == (calls, failed)
