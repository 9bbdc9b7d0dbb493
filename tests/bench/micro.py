"""micro.py BUILD [--quick]: what the pool costs one thread, in instructions, time and memory, beside other allocators."""

import pathlib
import tempfile

import bars
import counting
import instructions
import policies
import report
import timing

NAMES = {"driver": "pool, driver hook", "static": "pool, static runtime", "tagged": "pool, static runtime, site given by a tag",
         "lock_and_hash": "a lock and a hash lookup",
         "cub": "CUB's caching allocator", "bfc": "BFC", "best_fit": "best-fit list"}
KINDS = {"pair": "one block", "set": "64 blocks"}
LIVE = [1000, 10000, 100000, 1000000]
CUB_MISSING = " CUB's headers were not beside CUDA's: not compared."


def program_of(name):
    """A row's program, and its settings: `tagged` is `static` with another."""
    return ("static", instructions.TAGGED) if name == "tagged" else (name, {})


def counted(counts, name, kind):
    allocator, settings = program_of(name)
    return counts.get(allocator, kind, instructions.OPERATIONS, **settings)


def pair_ns(build, name, kind, operations, *arguments):
    """Nanoseconds of processor time per pair of malloc and free, in each fifth of a run."""
    allocator, settings = program_of(name)
    printed = timing.run(build, f"workload-{allocator}", kind, operations, *arguments, pooled=allocator in counting.POOLED,
                         **settings)
    parts = [float(part) for part in printed["cpu_seconds"].split()]
    return [part * len(parts) / int(printed["mallocs"]) * 1e9 for part in parts]


def all_of(runs):
    """The values of several runs as one."""
    return timing.Times([value for run in runs for value in run])


def verdicts(found, names):
    return [bars.COUNTED[name].verdict(found[name]) for name in names if name in found]


def allocators_of(build):
    """The rows of both tables of hits."""
    return ["driver", "static", "tagged", "lock_and_hash", *counting.allocators(build)]


def hit_section(counts, found):
    """The instructions of a hit, and what others take for the same."""
    allocators = allocators_of(counts.build)
    costs = {(name, kind): counted(counts, name, kind) for name in allocators for kind in KINDS}
    return {
        "id": "hit", "title": "A hit, beside other allocators",
        "intro": "One thread; each allocator runs the same mallocs and frees. *one block*: malloc and free of 64 KiB in turns. *64 "
                 "blocks*: a random one is freed, and one of a random size allocated (16 sizes from 1 to 192 KiB, each with a call "
                 "site of its own). Instructions of each malloc and free, without the driver's and the runtime's own. The pool runs "
                 "preloaded; one block stays live, so that no wait is due." + ("" if "cub" in allocators else CUB_MISSING),
        "columns": ["allocator", *(f"{kind}: {what}" for kind in KINDS.values() for what in ("malloc", "free"))],
        "rows": [[NAMES[name], *(f"{cost:.0f}" for kind in KINDS
                                 for cost in (costs[name, kind].malloc(), costs[name, kind].free()))] for name in allocators],
        "verdicts": verdicts(found, ["hit_malloc", "hit_free", "set_malloc", "set_free", "static_site", "static_malloc",
                                     "static_free", "cub_pair", "cub_set", "bfc_pair", "bfc_set", "best_fit_pair",
                                     "best_fit_set"]),
        "plots": [{"kind": "bar", "title": "Instructions of a malloc and a free", "x_label": "", "y_label": "instructions",
                   "log_x": False, "log_y": False,
                   "series": {KINDS[kind]: [(NAMES[name], 2 * costs[name, kind].operation()) for name in allocators
                                            if name != "tagged"] for kind in KINDS}}]}


def hit_times_section(build, quick):
    """The time of the same hits."""
    allocators = allocators_of(build)
    times = {kind: timing.interleaved(
        {name: (lambda name=name, kind=kind: pair_ns(build, name, kind, 400000)) for name in allocators},
        timing.repetitions(quick)) for kind in KINDS}
    return {
        "id": "hit-times", "title": "The time of a hit",
        "intro": "The same mallocs and frees: nanoseconds of processor time per pair, median and quartiles. A pair includes the "
                 "driver that does next to nothing, and the runtime where there is one.",
        "columns": ["allocator", *(f"{kind}: ns per pair" for kind in KINDS.values())],
        "rows": [[NAMES[name], *(str(all_of(times[kind][name])) for kind in KINDS)] for name in allocators],
        "verdicts": [bars.TIMED["pair_ns"].verdict(all_of(times["pair"]["driver"]).median)], "plots": []}


def traces_section(build):
    """Instructions per operation of recorded programs, whose mix of sizes and lifetimes no loop has."""
    counts, rows, plotted = counting.Counts(build), [], {}
    allocators = ["driver", *counting.allocators(build)]
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for name, trace in policies.traces().items():
            operations = policies.operations_of(trace, f"{folder}/{name}")
            for allocator in allocators:
                runs[name, allocator] = counts.start(allocator, "trace", min(operations, instructions.OPERATIONS),
                                                     f"{folder}/{name}")
        for name in policies.traces():
            found = [runs[name, allocator].result().operation() for allocator in allocators]
            rows.append([name, *(f"{value:.0f}" for value in found)])
            for allocator, value in zip(allocators, found, strict=True):
                plotted.setdefault(NAMES[allocator], []).append((name, value))
    return {
        "id": "traces", "title": "Recorded programs",
        "intro": "Instructions per operation (malloc or free, hit or miss) of recorded traces, played in rounds with each "
                 "allocator; without the driver's and the runtime's own. The pool's bounds on idle memory hold; the others keep "
                 "all that they ever had.",
        "columns": ["trace", *(NAMES[name] for name in allocators)], "rows": rows,
        "verdicts": [bars.COUNTED["recorded"].verdict(max(value for _, value in plotted[NAMES["driver"]]))],
        "plots": [{"kind": "bar", "title": "Instructions per operation of recorded programs", "x_label": "",
                   "y_label": "instructions", "log_x": False, "log_y": False, "series": plotted}]}


def live_section(counts):
    """From 1,000 to 1,000,000 live blocks."""
    for live in reversed(LIVE):
        counts.start("driver", "live", instructions.OPERATIONS, live)
    costs = {live: counts.get("driver", "live", instructions.OPERATIONS, live).operation() for live in LIVE}
    bytes_each = {live: instructions.block_bytes(counts.build, live) for live in LIVE[1:]}
    return {
        "id": "live", "title": "1,000 to 1,000,000 live blocks",
        "intro": "That many live blocks of a hundred sizes at 64 sites; a random one is freed and allocated anew. *bytes*: what the "
                 "process has in memory for each block, beyond what the program has natively (/proc/self/smaps, by difference).",
        "columns": ["live blocks", "instructions per operation", "bytes per block"],
        "rows": [[f"{live:,}", f"{costs[live]:.0f}", f"{bytes_each[live]:.0f}" if live in bytes_each else ""] for live in LIVE],
        "verdicts": [bars.TIMED["live_million"].verdict(costs[LIVE[-1]] / costs[LIVE[0]]),
                     bars.TIMED["million_bytes"].verdict(bytes_each[LIVE[-1]])],
        "plots": [{"kind": "line", "title": "An operation, by live blocks", "x_label": "live blocks", "y_label": "instructions",
                   "log_x": True, "log_y": False, "series": {"instructions per operation": list(costs.items())}}]}


def live_times_section(build, quick):
    """The time of the same operations."""
    times = timing.interleaved({live: (lambda live=live: pair_ns(build, "driver", "live", 200000, live)) for live in LIVE},
                               1 if quick else 3)
    return {
        "id": "live-times", "title": "The time of an operation among that many",
        "intro": "The time grows where the instructions do not: the records of so many blocks are not in the processor's caches. "
                 "Nanoseconds of processor time per pair of malloc and free, median and quartiles.",
        "columns": ["live blocks", "ns per pair"], "rows": [[f"{live:,}", str(all_of(times[live]))] for live in LIVE],
        "verdicts": [], "plots": []}


def miss_section(counts, found):
    """What the pool adds where it cannot help, what recording adds, and what it takes for itself."""
    hit = counts.get("driver", "pair", instructions.OPERATIONS)
    reserved = instructions.start_bytes(counts.build, "start_reserved")
    return {
        "id": "rest", "title": "Misses, recording, memory",
        "intro": "Instructions of the pool per malloc, the driver's own left out: of a program that never frees, and of one "
                 "whose every request is larger than any before. Of a recorded event: the difference between the same run "
                 "with and without `POOLCUDA_TRACE`, per malloc or free. Memory at the start: what the process has in memory after "
                 "its first allocation, beyond what it has natively.",
        "columns": ["what", "measured"],
        "rows": [["miss of a program that never frees, instructions", f"{found['miss_never']:.0f}"],
                 ["its device memory, by the native program's", f"{found['never_device']:.3f}"],
                 ["such a miss while a block is idle that does not fit, instructions", f"{found['miss_idle']:.0f}"],
                 ["miss with ever new sizes, instructions", f"{found['miss_sizes']:.0f}"],
                 ["recording an event, instructions", f"{found['trace']:.0f}"],
                 ["the hit that is recorded, instructions", f"{hit.operation():.0f}"],
                 ["memory at the start, KiB", f"{found['start_bytes']:.0f}"],
                 ["address space at the start, writable, no file's, KiB", f"{reserved / 1024:.0f}"],
                 [f"bytes per block, of {instructions.BLOCKS:,}", f"{found['block_bytes']:.0f}"]],
        "verdicts": verdicts(found, ["miss_never", "miss_idle", "miss_sizes", "never_device", "trace", "block_bytes", "start_bytes"]),
        "plots": []}


def counted_sections(build, _):
    counts = counting.Counts(build)
    found = instructions.values(counts)
    return [hit_section(counts, found), traces_section(build), live_section(counts), miss_section(counts, found)]


def timed_sections(build, quick):
    return [hit_times_section(build, quick), live_times_section(build, quick)]


if __name__ == "__main__":
    report.main(counted_sections, timed_sections)
