"""Replays the traces at hand under every preset and prints the table of hits and memory held. Called by scripts/bench.

LIMITS is also what tests/e2e/test_replay.py holds the pool to: hit rates and memory do not depend on time.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Those that may not be copied into the project lie beside it, if they are there.
FOLDERS = [ROOT.parent / "shared/traces", ROOT / "tests/data"]
PRESETS = ["default", "futhark", "pyopencl", "bfc", "paddle", "vmm"]
SIZES = ["16G", "80G"]

# trace: for the default and for the best of bfc and vmm, the least hit rate and the most that may be held of
# (peak live + 64 MiB) at any time.
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
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def meets(result, limit):
    return result["hit_rate"] >= limit[0] and result["worst_held_ratio"] <= limit[1]


def row(name, size, preset, result, limit):
    shown = f"{limit[0]:6.2%} {limit[1]:5.2f} {'met' if meets(result, limit) else 'MISSED'}" if limit else ""
    calls = result["driver_allocs"] + result["driver_frees"]
    print(f"{name:<22} {size:>4} {preset:<9} {result['hit_rate']:7.2%} {result['worst_held_ratio']:6.3f} {calls:>7} "
          f"{result['map_calls']:>7} {result['modelled_seconds'] * 1e3:9.1f}  {shown}".rstrip())


def main():
    command = ROOT / "build/src/cli/poolcuda"
    missed = 0
    print("held: at most, of (peak live + 64 MiB); ms: in malloc and free, by the simulated GPU's model\n")
    print(f"{'trace':<22} {'GPU':>4} {'preset':<9} {'hits':>7} {'held':>6} {'calls':>7} {'maps':>7} {'ms':>9}  limits")
    for name, path in traces().items():
        for size in SIZES:
            results = {preset: replay(command, path, size, preset) for preset in PRESETS}
            limits = LIMITS.get(name)
            best = max(("bfc", "vmm"), key=lambda preset: (limits and meets(results[preset], limits[1]),
                                                           results[preset]["hit_rate"]))
            for preset, result in results.items():
                limit = limits and {"default": limits[0], best: limits[1]}.get(preset)
                missed += bool(limit) and not meets(result, limit)
                row(name, size, preset, result, limit)
    absent = sorted(set(LIMITS) - set(traces()))
    if absent:
        print(f"not at hand: {', '.join(absent)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
