"""The command on a real GPU: doctor expects pooling to work for a real CUDA program, run pools it, report reads what it left.

Needs a build folder with the command-line tool and gpu/reduce-*: $BUILD_DIR or build/.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
COMMAND = BUILD / "src/cli/poolcuda"
PROGRAMS = [BUILD / f"gpu/reduce-{form}" for form in ("static", "shared")]
# Without the pool that this check itself may run under: the command preloads it.
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "POOLCUDA_"))}


def skip(reason):
    print(f"skip {reason}")
    sys.exit(77)


def told(*arguments, folder=None):
    return subprocess.run([COMMAND, *arguments], env=CLEAN, cwd=folder, capture_output=True, text=True, timeout=60,
                          check=False)


def main():
    if not COMMAND.exists() or not all(program.exists() for program in PROGRAMS):
        skip(f"{COMMAND} or a program in {BUILD / 'gpu'} is not built")
    tried = told("--version")
    if tried.returncode:  # it was carried here, its libraries were not
        skip(f"the command cannot be run: {tried.stderr.strip()[-200:]}")
    good = True
    for program in PROGRAMS:
        doctor = told("doctor", "--json", str(program))
        problems = [finding["what"] for finding in json.loads(doctor.stdout)["findings"]
                    if finding["severity"] == "problem"]
        print(f"result doctor {program.name}: {'works' if doctor.returncode == 0 else problems}")
        with tempfile.TemporaryDirectory() as folder:
            native = subprocess.run([program], env=CLEAN, capture_output=True, text=True, timeout=60, check=False)
            pooled = told("run", "--", str(program), folder=folder)
            files = [str(path) for path in pathlib.Path(folder).glob("poolcuda.*.json")]
            report = told("report", "--json", *files, folder=folder)
            counters = json.loads(report.stdout)["counters"] if report.returncode == 0 else {"malloc_hits": 0}
        same = pooled.returncode == native.returncode and bool(files)
        print(f"result run {program.name}: {'as natively' if same else pooled.stderr.strip()[-200:]}, "
              f"{'hits' if counters['malloc_hits'] else 'no hits'}")
        good = good and doctor.returncode == 0 and same and counters["malloc_hits"] > 0
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
