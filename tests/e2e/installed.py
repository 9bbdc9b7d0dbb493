"""What every installed copy of poolcuda must be able to do, wherever it lies."""

import json
import os
import re

import guard
from conftest import COMMAND, DRIVER, ROOT, RUNTIME, SAMPLES

VERSION = re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text()).group(1)
TRACE = ROOT / "tests/data/ssim.csv.gz"
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_", "PYTHON"))}


def told(*command, **environment):
    done = guard.run(list(map(str, command)), env={**CLEAN, "SIMCUDA_COST": "0", **environment}, capture_output=True,
                     text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def replayed(command):
    return {key: value for key, value in json.loads(told(command, "replay", "--json", TRACE)).items()
            if not key.endswith("seconds")}


def works(prefix, library, man="share/man"):
    """The command knows its version and finds the simulated GPU that lies beside it; the library pools."""
    command = prefix / "bin/poolcuda"
    assert told(command, "--version") == f"poolcuda {VERSION}\n"
    assert told(command, "options") == told(COMMAND, "options")
    assert replayed(command) == replayed(COMMAND)
    stats = told("sh", "-c", '"$0" 2>&1', SAMPLES / "three_sites", LD_PRELOAD=str(prefix / library), POOLCUDA_STATS="1",
                 LD_LIBRARY_PATH=f"{DRIVER}:{RUNTIME}")
    assert f"poolcuda {VERSION}: " in stats and "297 from idle memory" in stats
    for page in ("poolcuda", "poolcuda-replay", "libpoolcuda"):
        assert told("man", "-M", prefix / man, "-w", page).startswith(str(prefix / man))


def files(folder):
    """All that is in a folder, but Python's caches."""
    return {path.relative_to(folder) for path in folder.rglob("*") if "__pycache__" not in path.parts}
