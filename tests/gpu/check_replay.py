"""The project's traces, replayed on the real GPU: what the pool does there is what it does on the simulated one.

Whole blocks, cut regions and mapped pages depend on requests and the device's size alone, so hits and allocations must be
the same; of `paddle`, which leaves memory to the driver's own pool, the figures are only told. Needs a build folder with the
command-line tool: $BUILD_DIR or build/.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
COMMAND = BUILD / "src/cli/poolcuda"
TRACES = sorted((ROOT / "tests/data").glob("*.csv.gz"))
COMPARED = ("hits", "driver_allocs", "oom_failures")


def skip(reason):
    print(f"skip {reason}")
    sys.exit(77)


def device_memory():
    """Bytes of device 0, as the driver tells them."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        skip("no libcuda.so.1")
    device, total = ctypes.c_int(), ctypes.c_size_t()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or \
            cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device):
        skip("no usable GPU")
    return total.value


def replay(trace, *arguments):
    """Without the pool that this check itself may run under: the command has its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "POOLCUDA_"))}
    done = subprocess.run([COMMAND, "replay", "--json", *arguments, trace], env=environment, capture_output=True,
                          text=True, timeout=50, check=False)
    if done.returncode:
        print(f"result {trace.name} {' '.join(arguments)}: {done.stderr.strip()}")
        sys.exit(1)
    return json.loads(done.stdout)


def main():
    if not COMMAND.exists():
        skip(f"{COMMAND} is not built")
    tried = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=False)
    if tried.returncode:  # it was carried here, its libraries were not
        skip(f"the command cannot be run: {tried.stderr.strip()[-200:]}")
    memory, differences = device_memory(), 0
    for trace in TRACES:
        name = trace.name.removesuffix(".csv.gz")
        native = replay(trace, "--gpu", "--native")["host_seconds"]
        for preset in ("default", "bfc", "vmm", "paddle"):
            here = replay(trace, "--gpu", f"--preset={preset}")
            there = replay(trace, f"--memory={memory}", f"--preset={preset}")
            print(f"info {name} {preset}: {native / max(here['host_seconds'], 1e-9):.2f}x faster, hits {here['hit_rate']:.2%}, "
                  f"held {here['peak_held_bytes']}", file=sys.stderr)
            if preset == "paddle":
                continue
            same = all(here[figure] == there[figure] for figure in COMPARED)
            print(f"result {name} {preset}: {'as on the simulated GPU' if same else f'{here} instead of {there}'}")
            differences += not same
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
