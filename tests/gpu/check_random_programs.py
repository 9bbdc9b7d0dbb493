"""Random programs (tests/differential) on the real GPU.

Without arguments: prints what they saw, so that gpu-check can compare natively with under the pool. With --simulated:
compares what they see here with what the simulated GPU shows them, which is what makes its verdicts worth something.
With --independent: programs that do not count on a free's wait, for POOLCUDA_FREE=defer. With --unshared: only what
every preset promises (docs/policies.md).
Needs a build folder with tests: $BUILD_DIR or build/.
"""

import ctypes
import hashlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
PROGRAMS, SIMULATED = BUILD / "tests/differential/programs", BUILD / "subprojects/simcuda/driver"
PROFILES = ("plain", "captures", "contexts", "streams", "events", "threads", "races", "memory", "shares", "faults")
# Where presets may differ: how much memory can be had, what can be shared, what outlives a context.
UNPROMISED = ("contexts", "memory", "shares", "faults")
PER_PROFILE = 25
# Sizes that are the device's own, and what only the simulated GPU can say.
NOT_COMPARED = ("free ", "memory ", "pitch ", "lies ", "hazards ", "allocated ")


def skip(reason):
    print(f"skip {reason}")
    sys.exit(77)


def find_driver():
    """The real libcuda.so.1's folder (the programs name that of the simulated one) and its number of devices."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        skip("no libcuda.so.1")
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        skip("no usable GPU")
    maps = pathlib.Path("/proc/self/maps").read_text()
    return str(pathlib.Path(re.search(r"(/\S*/libcuda\.so\S*)", maps).group(1)).parent), count.value


def run(profile, libraries, **settings):
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries, **settings}
    relies = "0" if "--independent" in sys.argv else "1"
    done = subprocess.run([PROGRAMS, profile, relies, "1", str(PER_PROFILE)], env=environment, capture_output=True,
                          text=True, errors="replace", timeout=50, check=True)
    return done.stdout


def compared(transcript):
    return [line for line in transcript.splitlines() if not line.startswith(NOT_COMPARED)]


def first_difference(real, simulated):
    """(seed, operation, both lines) of the first line that differs."""
    seed = operation = None
    for one, other in zip(real, simulated):
        if one.startswith("== "):
            seed = one.split()[1]
        if one.startswith("# "):
            operation = one[2:]
        if one != other:
            return f"seed {seed}, {operation}: here '{one}', simulated '{other}'"
    return None if len(real) == len(simulated) else "one is longer"


def main():
    if not PROGRAMS.exists():
        skip(f"{PROGRAMS} is not built")
    (driver, devices), differences = find_driver(), 0
    for profile in PROFILES:
        if profile in UNPROMISED and "--unshared" in sys.argv:
            continue
        seen = run(profile, driver)
        if "--simulated" not in sys.argv:
            digest = hashlib.sha256("\n".join(compared(seen)).encode()).hexdigest()
            print(f"result {profile}: {PER_PROFILE} programs saw {digest[:16]}")
            continue
        total = re.search(r"^memory 0 total (\d+)", seen, re.M).group(1)
        simulated = run(profile, str(SIMULATED), LD_PRELOAD="", SIMCUDA_COST="0", SIMCUDA_MEMORY=total,
                        SIMCUDA_DEVICES=str(min(devices, 8)))
        found = first_difference(compared(seen), compared(simulated))
        print(f"result {profile}: {PER_PROFILE} programs, {found or 'as on the simulated GPU'}")
        differences += bool(found)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
