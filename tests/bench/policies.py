"""policies.py BUILD [--quick]: replays the traces at hand under every preset, on the simulated GPU.

LIMITS is also what tests/e2e/test_replay.py holds the pool to: hit rates and memory do not depend on time.
"""

import json
import os
import pathlib
import subprocess

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Those that may not be copied into the project lie beside it, if they are there.
FOLDERS = [ROOT.parent / "shared/traces", ROOT / "tests/data"]
PRESETS = ["default", "futhark", "pyopencl", "bfc", "paddle", "vmm"]
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


def replay(command, path, size, preset):
    """The result of one replay, a dictionary."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_"))}
    done = subprocess.run([command, "replay", "--json", f"--memory={size}", f"--preset={preset}", path],
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


if __name__ == "__main__":
    report.main(counted_sections)
