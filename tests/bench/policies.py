"""policies.py BUILD [--quick]: replays the traces at hand under every preset, on the simulated GPU; and, where the figures of
the originals are at hand, on devices of the capacities that these have, beside them.

LIMITS is also what tests/e2e/test_replay.py holds the pool to: hit rates and memory do not depend on time.
"""

import csv
import gzip
import json
import os
import pathlib
import subprocess

import originals
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Those that may not be copied into the project lie beside it, if they are there.
FOLDERS = [ROOT.parent / "shared/traces", ROOT / "tests/data"]
PRESETS = ["default", "futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"]
SIZES = ["16G", "80G"]

# trace: for the default and for the best of bfc and vmm, the least hit rate and the most that may be held of
# (peak requested + 64 MiB) at any time.
LIMITS = {
    "pytorch-train-v100": ((0.935, 1.25), (0.99, 1.15)),
    "mindspore-pangu-2.6b": ((0.90, 1.25), (0.98, 1.15)),
    "mgpu_reduce": ((0.92, 1.05), (0.99, 1.05)),
    "segment-reduce": ((0.88, 1.05), (0.90, 1.05)),
    "moe-align": ((0.98, 1.05), (0.99, 1.05)),
    "ssim": ((0.98, 1.05), (0.99, 1.05)),
}


def traces():
    """{name: path} of those that are there."""
    found = {}
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.csv.gz")):
            found.setdefault(path.name.removesuffix(".csv.gz"), path)
    return found


def operations_of(trace, path):
    """Writes a recorded trace as the lines that workload.c reads: no block is live at the end, sites are numbers."""
    sites, slots, spare, live, lines = {}, {}, [], {}, []
    with gzip.open(trace, "rt") as file:
        for row in csv.DictReader(file):
            if row["op"] == "A":
                slot = spare.pop() if spare else len(slots)
                slots[slot] = True
                live[row["id"]] = slot
                lines.append(f"m {slot} {sites.setdefault(row['site'], len(sites))} {row['size']}")
            elif row["op"] == "F" and row["id"] in live:
                lines.append(f"f {live[row['id']]}")
                spare.append(live.pop(row["id"]))
    lines += [f"f {slot}" for slot in live.values()]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")
    return len(lines)


def replay(command, path, size, preset, **simulated):
    """The result of one replay, a dictionary. preset: "native" for the driver alone; simulated: settings of the device."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_"))} | simulated
    how = "--native" if preset == "native" else f"--preset={preset}"
    done = subprocess.run([command, "replay", "--json", f"--memory={size}", how, path],
                          env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def meets(result, limit):
    return result["hit_rate"] >= limit[0] and result["worst_held_ratio"] <= limit[1]


def row(name, size, preset, result, limit):
    return [name, size, preset, f"{result['hit_rate']:.2%}", f"{result['worst_held_ratio']:.3f}",
            f"{result['driver_allocs'] + result['driver_frees']:,}", f"{result['map_calls']:,}",
            f"{result['modelled_seconds'] * 1e3:,.1f}", f"{limit[0]:.2%}, {limit[1]:.2f}" if limit else ""]


def counted_sections(build, quick):
    """One table; `quick`: for a device of one size alone."""
    command = build / "src/cli/poolcuda"
    rows, verdicts = [], []
    for name, path in traces().items():
        for size in SIZES[-1:] if quick else SIZES:
            results = {preset: replay(command, path, size, preset) for preset in PRESETS}
            limits = LIMITS.get(name)
            best = max(("bfc", "vmm"), key=lambda preset: (limits and meets(results[preset], limits[1]),
                                                           results[preset]["hit_rate"]))
            for preset, result in results.items():
                limit = limits and {"default": limits[0], best: limits[1]}.get(preset)
                rows.append(row(name, size, preset, result, limit))
                if limit:
                    verdicts.append((f"{name}, {size}, {preset}: hits >= {limit[0]:.2%}, held <= {limit[1]:.2f}",
                                     f"{result['hit_rate']:.2%}, {result['worst_held_ratio']:.3f}", meets(result, limit)))
    absent = sorted(set(LIMITS) - set(traces()))
    return [{
        "id": "policies", "title": "Policies on recorded traces",
        "intro": "Each trace replayed on the simulated GPU under every preset. *held*: at most, of (peak requested + 64 MiB); *ms*: in "
                 "malloc and free, by the simulated GPU's model." +
                 (f" Not at hand: {', '.join(absent)}." if absent else ""),
        "columns": ["trace", "GPU", "preset", "hits", "held", "driver calls", "maps", "ms", "limits: hits, held"],
        "rows": rows, "verdicts": verdicts, "plots": []}]


# Which originals a preset is to be no worse than: its own, or those that keep memory as it does. The driver's pool has none.
ORIGINALS = {
    "default": ("futhark-2018", "futhark-2020", "futhark-2025", "pycuda", "cub"),
    "futhark": ("futhark-2018",),
    "pyopencl": ("pycuda",),
    "bfc": ("tensorflow-bfc",),
    "pytorch": ("pytorch",),
    "paddle": (),
    "vmm": ("pytorch-expandable-model",),
    "pytorch-expandable": ("pytorch-expandable-model",),
}


def traces_of_originals(folder):
    """{name: path} of the traces that the originals' figures may be of."""
    return {path.name.removesuffix(".csv.gz"): path for path in [*folder.glob("*.csv.gz"), *folder.glob("random/*.csv.gz")]}


def expected_figures(folder):
    """{(trace, memory): {original: row}} of expected/figures.csv; nothing if it is not there."""
    path = folder / "expected/figures.csv"
    found = {}
    for line in csv.DictReader(path.read_text().splitlines()) if path.exists() else ():
        found.setdefault((line["trace"], line["memory"]), {})[line["allocator"]] = {
            "hit_rate": float(line["hit_rate"]), "worst_held_ratio": float(line["worst_held_ratio"]),
            "driver_calls": int(line["driver_calls"]), "oom_failures": int(line["failed"])}
    return found


def leads(original, preset):
    """Whether the original serves more from idle memory, and needs less memory: fails fewer allocations or, failing as many,
    holds less. Figures of originals have six digits of hits and four of memory."""
    hits = original["hit_rate"] > preset["hit_rate"] + 1e-6
    memory = (original["oom_failures"], original["worst_held_ratio"] + 1e-4)
    return hits and memory < (preset["oom_failures"], preset["worst_held_ratio"])


def device_size(memory, peak):
    """Of the simulated device in bytes, from what figures.csv calls it."""
    return 80 << 30 if memory == "unlimited" else int(float(memory) * peak)


def cells_of(command, path, memory, peak, originals):
    """{preset: (its result, the originals that lead)} of a trace on a device that counts memory as that of the figures does: by 512
    bytes below 2 MiB, however much lies in pages that others have broken."""
    cells, size = {}, str(device_size(memory, peak))
    for preset in PRESETS:
        result = replay(command, path, "80G", preset, SIMCUDA_COUNTED_MEMORY=size)
        result["driver_calls"] = result["driver_allocs"] + result["driver_frees"] + result["map_calls"]
        cells[preset] = (result, [name for name in ORIGINALS[preset] if name in originals and leads(originals[name], result)])
    return cells


def original_row(name, memory, allocator, result, verdict):
    return [name, memory, allocator, f"{result['hit_rate']:.2%}", f"{result['worst_held_ratio']:.3f}",
            f"{result['driver_calls']:,}", f"{result['oom_failures']:,}", verdict]


def summary(cells):
    """Over all cells, (preset, result, the originals that lead): a row for each preset that has originals."""
    rows = []
    for preset in (preset for preset in PRESETS if ORIGINALS[preset]):
        results = [result for of, result, _ in cells if of == preset]
        missed = sum(bool(ahead) for of, _, ahead in cells if of == preset)
        rows.append([preset, f"{len(results):,}", f"{missed:,}", f"{sum(result['driver_calls'] for result in results):,}",
                     f"{sum(result['oom_failures'] for result in results):,}", ", ".join(ORIGINALS[preset])])
    return {"id": "originals-summary", "title": "Presets and originals, all traces and devices",
            "intro": "*MISSED* as above; driver calls and failed allocations are sums.",
            "columns": ["preset", "cells", "MISSED", "driver calls", "failed", "originals"], "rows": rows, "verdicts": [], "plots": []}


def beside_originals(build, quick):
    """The presets beside the originals, and their sums. `quick`: of three traces alone. Nothing without the originals' figures."""
    command, folder = build / "src/cli/poolcuda", FOLDERS[0]
    expected, rows, verdicts, peaks, all_cells = expected_figures(folder), [], [], {}, []
    paths = traces_of_originals(folder)
    names = [name for name in dict.fromkeys(name for name, _ in expected) if name in paths]
    for name, memory in expected:
        if name not in (names[:3] if quick else names):
            continue
        peaks.setdefault(name, replay(command, paths[name], "80G", "default")["peak_live_bytes"])
        cells = cells_of(command, paths[name], memory, peaks[name], expected[name, memory])
        all_cells += [(preset, *cell) for preset, cell in cells.items()]
        for preset, (result, ahead) in cells.items():
            rows.append(original_row(name, memory, preset, result, f"MISSED: {', '.join(ahead)}" if ahead else ""))
            if ORIGINALS[preset]:
                verdicts.append((f"{name}, {memory} x peak, {preset}: no original serves more and needs less memory",
                                 ", ".join(ahead) or "none", not ahead))
        rows += [original_row(name, memory, f"({allocator})", result, "")
                 for allocator, result in expected[name, memory].items()]
    if not expected:
        return []
    return [{
        "id": "originals", "title": "Presets and originals",
        "intro": "Each trace, on devices of so many times its peak of requested memory. *MISSED*: these originals serve more from idle memory, and "
                 "fail fewer allocations or, failing as many, hold less of (peak requested + 64 MiB). The device counts memory as that of the "
                 "originals' figures does: blocks of less than 2 MiB by 512 bytes, not by the pages that they share.",
        "columns": ["trace", "device", "allocator", "hits", "held", "driver calls", "failed", "verdict"],
        "rows": rows, "verdicts": [verdict for verdict in verdicts if not verdict[2]], "plots": []}, summary(all_cells)]


def makes_fewer_calls(original, preset):
    """Whether the original does with fewer calls, and fails no more allocations."""
    return original["driver_calls"] < preset["driver_calls"] and original["oom_failures"] <= preset["oom_failures"]


def at_the_defaults_held_memory(command, path):
    """The default's result on a device of 80 GiB, and {original: its result on one of as much as the default held at most}."""
    result = replay(command, path, "80G", "default", SIMCUDA_COUNTED_MEMORY=str(device_size("unlimited", 0)))
    result["driver_calls"] = result["driver_allocs"] + result["driver_frees"]
    trace = originals.operations(path)
    return result, {name: originals.replay(name, trace, result["peak_held_bytes"]) for name in originals.POOLS}


def held_sections(build, quick):
    """The originals of the default given what it holds. `quick`: on three traces alone. Nothing without the originals' figures."""
    paths, rows, verdicts = traces_of_originals(FOLDERS[0]), [], []
    names = [name for name in dict.fromkeys(name for name, _ in expected_figures(FOLDERS[0])) if name in paths]
    for name in names[:3] if quick else names:
        default, results = at_the_defaults_held_memory(build / "src/cli/poolcuda", paths[name])
        held = f"{default['peak_held_bytes']:,}"
        rows.append([name, held, "default", f"{default['driver_calls']:,}", f"{default['oom_failures']:,}", ""])
        for original, result in results.items():
            fewer = makes_fewer_calls(result, default)
            rows.append([name, held, f"({original})", f"{result['driver_calls']:,}", f"{result['oom_failures']:,}", "MISSED" if fewer else ""])
            if fewer:
                verdicts.append((f"{name}, {original}: makes no fewer calls on a device of {held} bytes than the default, which holds them",
                                 f"{result['driver_calls']:,}, {default['driver_calls']:,}", False))
    return [{
        "id": "at-held-memory", "title": "At the default's held memory",
        "intro": "Each trace under the default on a device of 80 GiB, and each original that keeps whole blocks, as a model that decides as it does, "
                 "on one of just what the default held at most. *MISSED*: it makes fewer driver calls, and fails no more allocations.",
        "columns": ["trace", "held", "allocator", "driver calls", "failed", "verdict"],
        "rows": rows, "verdicts": verdicts, "plots": []}] if rows else []


def printed_sections(build, quick):
    return beside_originals(build, quick) + held_sections(build, quick)


if __name__ == "__main__":
    report.main(counted_sections, printed_sections)
