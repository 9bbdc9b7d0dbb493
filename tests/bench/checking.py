"""checking.py BUILD [--quick]: what POOLCUDA_CHECK=1 adds to programs: launches and bytes of its own, calls of the driver.

Everything is counted, so that it is the same on any machine. What the calls cost is the sum of what the simulated GPU
takes for them (subprojects/simcuda/docs/simulation.md); the time that the GPU itself needs for the bytes is not in it.
"""

import json
import pathlib
import tempfile

import report
import waits

COUNTED = ["malloc_calls", "check_launches", "check_copies", "check_filled_bytes", "check_verified_bytes", "check_unchecked_blocks",
           "check_errors"]


class Run:
    """One run of a program, native or under the pool: the driver's calls, what they cost, and the pool's counters."""

    def __init__(self, build, command, mode, check):
        with tempfile.TemporaryDirectory() as folder:
            figures, stats = pathlib.Path(folder, "figures"), pathlib.Path(folder, "stats")
            waits.run(command, waits.environment(build, mode, {
                "SIMCUDA_COST": "2", "SIMCUDA_REPORT": str(figures), "POOLCUDA_CHECK": check,
                "POOLCUDA_STATS": "json", "POOLCUDA_STATS_FILE": str(stats)}))
            lines = [line.partition(" ") for line in figures.read_text().splitlines()]
            told = json.loads(stats.read_text())["counters"] if mode != "native" else {}
        figures = {name: int(value) for name, _, value in lines if value.isdigit()}
        self.calls = sum(value for name, value in figures.items() if name.startswith("calls."))
        self.launches = figures.get("calls.cuLaunchKernel", 0)
        self.cost_ns, self.hazards = figures["modelled_ns"], figures["hazards"]
        self.counters = {name: told.get(name, 0) for name in COUNTED}


def size_name(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def programs(build, quick):
    """(name, command, whether a check after every launch ends in reasonable time) of the samples and of the recorded
    traces, with nothing but their own calls."""
    found = [(name, [build / "samples" / name], True) for name in waits.SAMPLES]
    traces = [(f"{name} (trace)", [build / "samples/trace_player", path, "unchecked"], False)
              for name, path in waits.traces().items()]
    return found + traces[:2 if quick else len(traces)]


def counted_sections(build, quick):
    rows, right = [], True
    for name, command, in_sync in programs(build, quick):
        native, pooled, checked = (Run(build, command, *mode) for mode in (("native", "0"), ("auto", "0"), ("auto", "1")))
        exact = Run(build, command, "auto", "sync") if in_sync else None
        told = checked.counters
        mallocs = max(told["malloc_calls"], 1)
        right &= checked.launches == native.launches + told["check_launches"] and pooled.launches == native.launches \
            and not told["check_errors"] and not checked.hazards
        rows.append([name, str(told["malloc_calls"]), str(native.launches), str(told["check_launches"]),
                     str(told["check_copies"]),
                     f"{(told['check_launches'] + told['check_copies']) / mallocs:.2f}", size_name(told["check_filled_bytes"]),
                     size_name(told["check_verified_bytes"]), str(told["check_unchecked_blocks"]),
                     *(f"{run.cost_ns / 1e6:.1f}" for run in (native, pooled, checked)),
                     f"{checked.cost_ns / max(native.cost_ns, 1):.2f}x",
                     f"{exact.cost_ns / max(native.cost_ns, 1):.2f}x" if exact else "-"])
    return [{
        "id": "checking", "title": "Checking memory",
        "intro": "Launches and copies of our own, and the bytes that they fill and verify, with `POOLCUDA_CHECK=1`; the "
                 "modelled cost of all of the driver's calls, in milliseconds, natively, under the pool, and with the check.",
        "columns": ["program", "allocations", "launches", "added", "copies", "per allocation", "filled", "verified", "unchecked",
                    "native, ms", "pool, ms", "checked, ms", "checked : native", "sync : native"],
        "rows": rows,
        "verdicts": [("each launch is the program's or counted as ours; no error, no hazard", f"{len(rows)} programs",
                      right)],
        "plots": []}]


if __name__ == "__main__":
    report.main(counted_sections)
