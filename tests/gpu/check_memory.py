"""POOLCUDA_CHECK on the real GPU: a program with two faults gets their reports, in both ways of checking.

Needs a build folder with libpoolcuda.so and gpu/out_of_bounds-shared: $BUILD_DIR or build/.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
LIBRARY = BUILD / "src/interpose/libpoolcuda.so"
PROGRAM = BUILD / "gpu/out_of_bounds-shared"
EXPECTED = ("Invalid write of size 4 bytes", "and is 1 bytes after the nearest allocation", "is inside freed memory: 28 bytes inside",
            "ERROR SUMMARY: 2 errors")


def main():
    for path in (LIBRARY, PROGRAM):
        if not path.exists():
            print(f"skip no {path.name} in {BUILD}")
            sys.exit(77)
    for check in ("1", "sync"):
        environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "POOLCUDA_CHECK": check, "POOLCUDA_CHECK_EXIT": "99"}
        done = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, timeout=50, check=False)
        missing = [text for text in EXPECTED if text not in done.stderr]
        print(f"result checked with {check}: exit {done.returncode}, missing {missing}")
        if done.returncode != 99 or missing:
            sys.exit(f"{done.stderr}{done.stdout}")


if __name__ == "__main__":
    main()
