"""scale.py BUILD [--quick]: whether cost and metadata stay flat: a soak of 256 threads, and what its figures come to at scale."""

import collections
import json
import os
import pathlib
import random as random_numbers
import re
import statistics
import subprocess
import sys
import tempfile

import report

THREADS, DEVICES, POINTS = 256, 8, 10
# Operations of the timed soak, of the one under callgrind, and counted of each thread at each point there.
FULL, QUICK = (100_000_000, 20_000_000, 40), (1_000_000, 500_000, 40)
# Of the estimate.
ALLOCATIONS_PER_S, DAY_S, HELD_BLOCKS = 10_000_000, 86400, 1_000_000
# Operations of recorded runs, and allocations of traces that last a day.
RECORDED, DAYS = [200_000, 800_000], [250_000, 500_000, 1_000_000]
RECORDINGS = 5


def environment(build, pooled, extra):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
    clean["LD_LIBRARY_PATH"] = str(build / "tests/bench/loads")
    clean["POOLCUDA_SHARE"] = "0"
    if pooled:
        clean["LD_PRELOAD"] = str(build / "src/interpose/libpoolcuda.so")
    return clean | extra


def run(command, env):
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        sys.exit(f"scale: {' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return done


def soak(build, operations, threads=THREADS, pooled=True, stretch=0, before=(), **extra):
    """What tests/bench/loads/soak.c says at each point: {name: number}."""
    output = run([*before, build / "tests/bench/loads/soak", operations, threads, min(threads, DEVICES), POINTS,
                  stretch], environment(build, pooled, extra)).stdout
    points = [dict(re.findall(r"(\w+) (\d+)", line)) for line in output.splitlines()]
    return [{name: int(value) for name, value in point.items()} for point in points]


def objects(path):
    """{object: instructions spent in its own code} of one file of callgrind's."""
    names, spent, current, of_call = {}, collections.Counter(), None, False
    for line in path.read_text().splitlines():
        if found := re.match(r"(c?)ob=\((\d+)\)(?: (.*))?$", line):
            if found[3]:
                names[found[2]] = pathlib.Path(found[3]).name
            if not found[1]:
                current = names[found[2]]
        elif line.startswith("calls="):
            of_call = True  # the next line is what the callee took
        elif re.match(r"[+\-*\d]", line):
            parts = line.split()
            if not of_call and len(parts) > 1:
                spent[current] += int(parts[1])
            of_call = False
    return spent


def instructions(build, operations, stretch):
    """At each point: (operations so far, the pool's instructions per operation): all but those of the soak itself and
    of its driver, the C library's on the pool's behalf included."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        points = soak(build, operations, stretch=stretch, before=["valgrind", "--tool=callgrind", "--instr-atstart=no",
                                                                  f"--callgrind-out-file={out}"])
        counted, so_far = [], 0
        for number, point in enumerate(points, 1):
            so_far += point["operations"]
            spent = objects(pathlib.Path(f"{out}.{number}"))
            if not spent["libpoolcuda.so"]:
                sys.exit("scale: callgrind saw nothing of the pool; expected it to be preloaded")
            own = sum(spent.values()) - spent["soak"] - spent["libcuda.so.1"]
            counted.append((so_far, own / (stretch * THREADS)))
    return counted


def flatness(build, quick):
    """The section of the soak, and what the estimate needs of it."""
    operations, counted_operations, stretch = QUICK if quick else FULL
    counted = instructions(build, counted_operations, stretch)
    native = soak(build, QUICK[0], pooled=False)
    points = soak(build, operations)
    rows, times, heaps, so_far = [], [], [], 0
    for point, bare, (counted_at, cost) in zip(points, native, counted):
        so_far += point["operations"]
        held = point["live"] + point["idle"]
        wall, cpu = (point[name] / point["operations"] for name in ("wall_ns", "cpu_ns"))
        heap, resident = point["heap"] - bare["heap"], point["resident"] - bare["resident"]
        rows.append([f"{so_far / 1e6:.1f} M", f"{wall:.0f}", f"{cpu:.0f}", f"{counted_at / 1e6:.1f} M", f"{cost:.0f}",
                     f"{point['hits'] / point['allocations']:.2%}", str(held), f"{heap / 1024:.0f}",
                     f"{resident / 1024:.0f}", f"{heap / held:.0f}"])
        times.append((so_far / 1e6, wall))
        heaps.append((so_far / 1e6, heap / 1024))
    ratio = counted[-1][1] / counted[1][1]
    # The heap grows by a slab when more blocks are held than ever before: half the run is warm-up.
    heap = [point["heap"] for point in points]
    growth = heap[-1] / heap[POINTS // 2 - 1] - 1
    resident = points[-1]["resident"] / points[POINTS // 2 - 1]["resident"] - 1
    return {
        "id": "soak", "title": f"A soak of {operations // 1_000_000} million operations",
        "intro": f"{THREADS} threads on {DEVICES} devices free and allocate blocks of 16 bytes to 64 MiB, most of them "
                 "short-lived, at 16 call sites (`tests/bench/loads/soak.c`), over a driver that does nothing "
                 "(`flat_driver.c`), so that time and memory are the pool's. With several contexts and `auto` each free "
                 "waits for all of them. Wall clock and CPU time are those of each tenth of the run, per operation, the "
                 "program's own and waiting for each other on the machine's cores included; instructions are those of "
                 f"{stretch * THREADS} operations at the end of each tenth of a run of {counted_operations / 1e6:g} "
                 "million under callgrind, without the program's and the driver's. Heap: bytes that the pool has from "
                 "`malloc`; resident: of the process, less what it takes without the pool.",
        "columns": ["operations", "wall, ns", "CPU, ns", "callgrind at", "instructions", "hits", "blocks held",
                    "heap, KiB", "resident, KiB", "heap bytes per block held"],
        "rows": rows,
        "verdicts": [("flat cost: instructions per operation in the last tenth at most 1.1x those in the second",
                      f"{ratio:.2f}x", ratio <= 1.1),
                     ("flat metadata: heap in the second half of the run grows by at most 5%", f"{growth:.1%}",
                      None if quick else growth <= 0.05),
                     ("flat metadata: resident memory grows by at most 5%", f"{resident:.1%}", None if quick else resident <= 0.05),
                     ("time per operation, least to greatest tenth (no bar: threads outnumber cores)",
                      f"{min(t for _, t in times):.0f} to {max(t for _, t in times):.0f} ns", None)],
        "plots": [{"kind": "line", "title": "Instructions per operation during the soak",
                   "x_label": "million operations", "y_label": "instructions", "log_x": False, "log_y": False,
                   "series": {"pool": [(at / 1e6, cost) for at, cost in counted]}},
                  {"kind": "line", "title": "Host memory of the pool during the soak", "x_label": "million operations",
                   "y_label": "heap, KiB", "log_x": False, "log_y": False, "series": {"heap": heaps}}]}


def recorded(build, operations, folder):
    """(events, bytes of the trace file, bytes of heap more than unrecorded at the end) of a recorded run. The heap is the
    median of several: what threads hold at the end is another number of blocks each time."""
    trace = pathlib.Path(folder) / f"{operations}.trace"
    more = []
    for _ in range(RECORDINGS):
        points = soak(build, operations, threads=DEVICES, POOLCUDA_TRACE=str(trace))
        size = trace.stat().st_size
        trace.unlink()
        more.append(points[-1]["heap"] - soak(build, operations, threads=DEVICES)[-1]["heap"])
    return sum(point["operations"] for point in points), size, statistics.median(more)


def write_day(path, allocations):
    """A trace of a day: so many allocations of 512 B to 12 MiB at 16 sites, 500 of them live at any time."""
    random, live = random_numbers.Random(1), []
    with open(path, "w", encoding="ascii") as file:
        file.write("t_us,op,id,size,stream,site\n")
        for number in range(allocations):
            time_us = number * DAY_S * 1_000_000 // allocations
            size = random.randrange(1 << (power := random.randrange(9, 23)), (1 << power) * 3)
            file.write(f"{time_us},A,{number},{size},0,{random.randrange(16)}\n")
            live.append(number)
            if len(live) > 500:
                chosen = random.randrange(len(live))
                live[chosen], live[-1] = live[-1], live[chosen]
                file.write(f"{time_us},F,{live.pop()},,0,\n")


def replayed(build, allocations, folder):
    """(events, bytes resident at most, result) of `poolcuda replay` of a day's trace."""
    trace = pathlib.Path(folder) / "day.csv"
    write_day(trace, allocations)
    # Its own resident memory counts as the command's at first: the traces are long enough for that not to matter.
    script = ("import resource, subprocess, sys\n"
              "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, check=True)\n"
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
              "print(done.stdout)\n")
    output = run([sys.executable, "-c", script, build / "src/cli/poolcuda", "replay", "--json", trace],
                 environment(build, False, {})).stdout
    trace.unlink()
    peak, _, result = output.partition("\n")
    result = json.loads(result)
    return result["allocations"] + result["frees"], int(peak), result


def shown_bytes(value):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def slope(points):
    """Of the line through the first and the last (x, y)."""
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def at_scale(build, quick):
    """The section of the estimate: every figure follows from one measured here."""
    share = 8 if quick else 1
    with tempfile.TemporaryDirectory() as folder:
        runs = [recorded(build, operations // share, folder) for operations in RECORDED]
        days = [replayed(build, allocations, folder) for allocations in (DAYS[:2] if quick else DAYS)]
    one = soak(build, 400_000 if quick else 2_000_000, threads=1)
    pair_ns = 2 * statistics.median(point["cpu_ns"] / point["operations"] for point in one[1:])
    many = soak(build, QUICK[0])[-1]
    one_thread_blocks = one[-1]["live"] + one[-1]["idle"]
    per_block = (many["heap"] - one[-1]["heap"]) / (many["live"] + many["idle"] - one_thread_blocks)
    per_event = slope([(run_[0], run_[1]) for run_ in runs])
    read_per_event = slope([(day[0], day[1]) for day in days])
    ratios = [day[2]["worst_held_ratio"] for day in days]
    record_heap = runs[-1][2] - runs[0][2]
    events = 2 * ALLOCATIONS_PER_S * DAY_S
    rows = [
        ["CPU for malloc + free", f"{pair_ns:.0f} ns a pair, one thread, driver included",
         f"{ALLOCATIONS_PER_S * pair_ns / 1e9:.1f} cores: {ALLOCATIONS_PER_S * pair_ns / 1e9 / THREADS:.1%} of each of "
         f"{THREADS} threads"],
        ["host memory of the pool", f"{per_block:.0f} bytes for each block more that is held",
         f"{shown_bytes(per_block * HELD_BLOCKS)} for {HELD_BLOCKS:,} blocks held, however long"],
        ["trace file", f"{per_event:.1f} bytes an event",
         f"{shown_bytes(per_event * events)} a day for {events:.3g} events, "
         f"{shown_bytes(per_event * 2 * ALLOCATIONS_PER_S)}/s"],
        ["the program's memory while it records",
         f"heap {shown_bytes(runs[0][2])} and {shown_bytes(runs[-1][2])} more than unrecorded "
         f"after {runs[0][0] / 1e6:g} M and {runs[-1][0] / 1e6:g} M events", "the same"],
        ["the pool in a day's replay", "held at most " + ", ".join(f"{ratio:.3f}" for ratio in ratios)
         + " of (peak requested + 64 MiB) in traces of " + ", ".join(f"{day[0] / 1e6:g} M" for day in days) + " events",
         "bounded by what was live, not by how long"],
        ["the reader of `poolcuda replay`", f"{read_per_event:.0f} bytes an event, on top of "
         f"{shown_bytes(days[0][1] - read_per_event * days[0][0])}",
         f"{shown_bytes(read_per_event * events)} for such a day: not possible; 1,000 allocations a second for a day: "
         f"{shown_bytes(read_per_event * 2 * 1000 * DAY_S)}"]]
    return {
        "id": "at-scale", "title": "On paper: 8 GPUs, 256 threads, 10 million allocations a second, a day",
        "intro": "Each figure at scale is computed from the one measured beside it: the CPU time of the soak on one "
                 f"thread; host memory as the difference between {THREADS} threads and one; trace files by recording "
                 f"the soak on {DEVICES} threads; replays of synthetic traces whose events are spread over a day. That many threads "
                 "do not slow each other down is not part of the estimate: see the scaling over threads.",
        "columns": ["what", "measured", "at scale"], "rows": rows,
        "verdicts": [("recording: heap does not grow with the trace (by 64 KiB at most: runs differ by some slabs)",
                      shown_bytes(record_heap), record_heap <= 64 << 10),
                     ("replaying a day: what the pool holds does not grow with the trace's length (at most 1.25 of peak "
                      "live + 64 MiB)", f"{max(ratios):.3f}", max(ratios) <= 1.25),
                     ("replaying a day: the reader's memory does not grow with the trace's length",
                      f"{read_per_event:.0f} bytes an event", read_per_event < 1)],
        "plots": [{"kind": "line", "title": "Memory of poolcuda replay", "x_label": "million events of a day",
                   "y_label": "MiB", "log_x": False, "log_y": False,
                   "series": {"resident": [(day[0] / 1e6, day[1] / 2**20) for day in days]}}]}


def timed_sections(build, quick):
    return [flatness(build, quick), at_scale(build, quick)]


if __name__ == "__main__":
    report.main(timed_sections)
