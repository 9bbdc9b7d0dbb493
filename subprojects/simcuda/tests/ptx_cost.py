"""A PTX instruction of a thread costs the host at most 60 instructions, what the hazard detector records included: of a
stencil, a matrix product and a step of a radix sort. Counted by callgrind for two sizes, so that what a process costs
by itself does not count. docs/simulation.md has the figures, and is compared with them: another compiler's differ a little."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MOST = 60
TOLERANCE = 0.1
TABLE = pathlib.Path(__file__).resolve().parent.parent / "docs/simulation.md"


def run(program, name, size, folder):
    """The host's and the threads' instructions."""
    out = pathlib.Path(folder) / f"{name}.{size}"
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, name, str(size)],
                          capture_output=True, text=True, check=False, env=os.environ | {"SIMCUDA_COST": "0", "SIMCUDA_MEMORY": "64M"})
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not collected:
        sys.exit(f"{name}: {done.stdout}{done.stderr}")
    return int(collected[1]), int(done.stdout)


def main():
    if not shutil.which("valgrind"):
        print("valgrind is not there")
        return 77
    text = TABLE.read_text(encoding="utf-8")
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stencil", "product", "radix"):
            small, large = (run(sys.argv[1], name, size, folder) for size in (32, 96))
            cost = (large[0] - small[0]) / (large[1] - small[1])
            print(f"{name}: {cost:.1f} instructions of the host for each of a thread")
            stated = re.search(rf"^\| `{name}`:.* \| ([\d.]+) \|$", text, re.M)
            if not stated or abs(float(stated[1]) - cost) > TOLERANCE * cost:
                print(f"{TABLE}: {stated[1] if stated else 'nothing'} for {name}, counted {cost:.1f}: expected the table to say so")
                wrong = True
            if cost > MOST:
                print(f"{name}: expected at most {MOST}")
                wrong = True
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
