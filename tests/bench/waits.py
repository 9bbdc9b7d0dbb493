"""waits.py BUILD [--quick]: what becomes of frees' waits: how many POOLCUDA_FREE=auto skips, and what that is worth."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Those that may not be copied into the project lie beside it, if they are there.
TRACES = [ROOT.parent / "shared/traces", ROOT / "tests/data"]
SAMPLES = ["three_sites", "varying", "stencil", "pipeline", "reduction", "threads", "nearly_all_memory"]
# (arguments below tests/programs, further environment): those that run by themselves and free what they allocate.
PROGRAMS = [(["driver_linked"], {}), (["driver_opened"], {}), (["driver_asked", "5"], {}), (["named_sites"], {}),
            (["devices"], {"SIMCUDA_DEVICES": "2"}), (["forks"], {}), (["tainted"], {}), (["ipc"], {}),
            (["answers"], {}), (["free_in_capture"], {}),
            *((["visible", case], {}) for case in ("pinned", "registered", "managed", "query", "event",
                                                   "per_thread_form", "callback", "graph", "destroyed")),
            *((["lifetime", case], {}) for case in ("floating", "green", "released")),
            (["stress", "8", "1", "any"], {}), (["stress", "8", "1", "legacy"], {})]
MODES = ["native", "sync", "auto", "defer"]
FORMS = {"alone": "nothing else allocated", "beside": "another block lives", "stream": "in a stream of its own",
         "read": "result read in every round"}
REPETITIONS = 5


def traces():
    """{name: path} of those that are there."""
    found = {}
    for folder in TRACES:
        for path in sorted(folder.glob("*.csv.gz")):
            found.setdefault(path.name.removesuffix(".csv.gz"), path)
    return found


def environment(build, mode, extra):
    """Of a run on the simulated GPU, under the pool unless mode is "native"."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
    clean["LD_LIBRARY_PATH"] = f"{build / 'subprojects/simcuda/driver'}:{build / 'subprojects/simcuda/runtime'}"
    if mode != "native":
        clean |= {"LD_PRELOAD": str(build / "src/interpose/libpoolcuda.so"), "POOLCUDA_FREE": mode}
    return clean | extra


def run(command, env):
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        sys.exit(f"waits: {' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


class Waits:
    """The waits of one program's frees, all its processes together, as the pool's reports count them."""

    def __init__(self, build, command, extra):
        with tempfile.TemporaryDirectory() as folder:
            run(command, environment(build, "auto", {
                "SIMCUDA_COST": "0", "POOLCUDA_STATS": "json", "POOLCUDA_STATS_FILE": f"{folder}/report.%p", **extra}))
            reports = [json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).iterdir())]
        counters = [told["counters"] for told in reports]
        self.frees, self.at_once, self.owed, self.paid, deferred = (
            sum(c[name] for c in counters)
            for name in ("free_calls", "free_waited", "waits_owed", "waits_paid", "free_deferred"))
        # Neither waited for nor owed by the pool: handed to the driver, whose free waits or refuses.
        self.drivers = self.frees - self.at_once - self.owed - deferred
        self.skipped = self.owed - self.paid
        self.reasons, self.payers = {}, {}
        for told in reports:
            for found, name in ((self.reasons, "waited_because_of"), (self.payers, "waits_made_before")):
                for key, count in told[name].items():
                    found[key] = found.get(key, 0) + count

    def row(self, name):
        share = f"{self.skipped / self.frees:.1%}" if self.frees else "-"
        return [name, *map(str, (self.frees, self.at_once, self.drivers, self.owed, self.paid, self.skipped)), share,
                most(self.reasons), most(self.payers)]


def most(counts):
    """The commonest few of {name: count}, in words."""
    names = sorted(counts, key=lambda name: -counts[name])
    listed = [f"{name} {counts[name]}" for name in names[:3]]
    return ", ".join(listed + (["..."] if len(names) > 3 else [])) or "-"


def counted(build, quick):
    programs = [(name, [build / "samples" / name], {}) for name in SAMPLES]
    programs += [(f"{' '.join(arguments)} (test)", [build / "tests/programs" / arguments[0], *arguments[1:]], extra)
                 for arguments, extra in PROGRAMS
                 if not quick or arguments[0] in ("driver_linked", "devices", "ipc", "visible")]
    programs += [(f"{name} (trace)", [build / "samples/trace_player", path, "unchecked"], {})
                 for name, path in traces().items()]
    rows, of_traces, all_counted = [], [0, 0], True
    for name, command, extra in programs:
        waits = Waits(build, command, extra)
        rows.append(waits.row(name))
        all_counted &= sum(waits.reasons.values()) == waits.at_once and sum(waits.payers.values()) == waits.paid
        if name.endswith("(trace)"):
            of_traces = [of_traces[0] + waits.frees, of_traces[1] + waits.skipped]
    absent = "" if any(row[0].startswith("pytorch") for row in rows) else \
        " Traces that may not be copied into the project are not at hand here."
    return {
        "id": "waits-skipped", "title": "Waits that `auto` skips",
        "intro": "Natively every free waits for the device. With `POOLCUDA_FREE=auto` a wait is made at once, left to "
                 "the driver's own free (blocks that cannot be kept, calls that the pool passes on), or owed; an owed "
                 "wait is paid before a call that could tell, and one payment covers all that is owed. What was owed "
                 "and not paid is skipped. Counts are those of each program's report; the reasons are explained in "
                 "[reports.md](reports.md), and when a wait can be owed in [semantics.md](semantics.md). Recorded traces "
                 "are played by `samples/trace_player` with nothing but their own calls; those of the table's `stress` "
                 "rows differ from run to run." + absent,
        "columns": ["program", "frees", "waited at once", "driver's own free", "owed", "paid", "skipped", "share",
                    "waited at once because of", "paid before"],
        "rows": rows,
        "verdicts": [("every wait made at once or paid has its reason or payer", f"{len(rows)} programs", all_counted),
                     ("waits skipped in the recorded traces (counted; no bar set)",
                      f"{of_traces[1]} of {of_traces[0]}", None)],
        "plots": [{"kind": "bar", "title": "Waits skipped with POOLCUDA_FREE=auto", "x_label": "program",
                   "y_label": "% of frees", "log_x": False, "log_y": False,
                   "series": {"skipped": [(row[0].removesuffix(" (trace)"), float(row[7].rstrip("%"))) for row in rows
                                          if row[7] != "-" and not row[0].endswith("(test)")]}}]}


def round_times(build, form, size, kernel_ns, rounds):
    """{mode: microseconds of a round, by repetition}, the modes taking turns."""
    command = [build / "tests/bench/loads/alloc_launch_free", form, size, kernel_ns, kernel_ns, rounds]
    times = {mode: [] for mode in MODES}
    for _ in range(REPETITIONS):
        for mode in MODES:
            output = run(command, environment(build, mode, {}))
            times[mode].append(float(output.split()[1]) * 1e6 / rounds)
    return times


def ratios(times, slower, faster):
    """Median, least and greatest of the ratios of runs beside each other."""
    each = [a / b for a, b in zip(times[slower], times[faster])]
    return statistics.median(each), min(each), max(each)


def shown_time(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def pipelining(build, quick):
    sizes = [64 << 20] if quick else [64 << 10, 16 << 20, 1 << 30]
    kernels = [100_000] if quick else [10_000, 100_000, 1_000_000]
    rows, gains, lines = [], {}, {mode: [] for mode in MODES}
    for form in FORMS:
        for size in sizes:
            for kernel_ns in kernels:
                rounds = max(20, min(200, 15_000_000 // kernel_ns))
                times = round_times(build, form, size, kernel_ns, rounds)
                to_sync, to_native, auto = (ratios(times, *pair) for pair in (
                    ("sync", "defer"), ("native", "defer"), ("native", "auto")))
                gains.setdefault(form, []).append((to_sync[0], to_native[0]))
                rows.append([FORMS[form], size_name(size), f"{kernel_ns / 1000:.0f}",
                             *(shown_time(times[mode]) for mode in MODES), f"{auto[0]:.2f}x", f"{to_native[0]:.2f}x",
                             f"{to_sync[0]:.2f}x ({to_sync[1]:.2f}-{to_sync[2]:.2f})"])
                if form == "stream" and size == sizes[len(sizes) // 2]:
                    for mode in MODES:
                        lines[mode].append((kernel_ns / 1000, statistics.median(times[mode])))
    # Where nothing is read back host and device can work at the same time.
    free = [gain for form in ("alone", "beside", "stream") for gain in gains[form]]
    return {
        "id": "pipelining", "title": "What not waiting is worth: malloc, launch, free",
        "intro": "A loop of `cudaMalloc`, a kernel, `cudaFree` and work of the host's own for as long as the kernel "
                 "takes (`tests/bench/loads/alloc_launch_free.c`) on the simulated GPU, whose calls and kernels take the "
                 "time that [its cost model](../subprojects/simcuda/docs/simulation.md) gives them. Microseconds of wall clock per round, the "
                 f"median of {REPETITIONS} runs (least to greatest), the modes taking turns; ratios are medians over "
                 "runs beside each other. A free that waits makes a round as long as kernel and host work together, one "
                 "that does not as long as the longer of them: 2x at most, before what the calls themselves cost.",
        "columns": ["the program", "block", "kernel and host work, us", *(f"{mode}, us" for mode in MODES),
                    "auto : native", "defer : native", "defer : sync"],
        "rows": rows,
        "verdicts": [("`defer` gains over `sync` where nothing is read back: more than 1x in the median",
                      f"{min(g[0] for g in free):.2f}x to {max(g[0] for g in free):.2f}x",
                      statistics.median(g[0] for g in free) > 1),
                     ("`defer` gains over native where nothing is read back: more than 1x in the median",
                      f"{min(g[1] for g in free):.2f}x to {max(g[1] for g in free):.2f}x",
                      statistics.median(g[1] for g in free) > 1)],
        "plots": [{"kind": "line", "title": f"A round of malloc, launch, free ({size_name(sizes[len(sizes) // 2])}, a "
                   "stream of its own)", "x_label": "kernel, and host work, us", "y_label": "us per round", "log_x": True,
                   "log_y": True, "series": lines}] if not quick else [
                  {"kind": "bar", "title": "Gain of defer over sync", "x_label": "the program", "y_label": "ratio",
                   "log_x": False, "log_y": False,
                   "series": {"defer : sync": [(FORMS[form], max(g[0] for g in gains[form])) for form in FORMS]}}]}


def counted_sections(build, quick):
    return [counted(build, quick)]


def timed_sections(build, quick):
    return [pipelining(build, quick)]


if __name__ == "__main__":
    report.main(counted_sections, timed_sections)
