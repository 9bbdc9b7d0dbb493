"""Every way in which a command writes a file that its command line names."""

import os
import pathlib
import re

import guard
import pytest
from conftest import COMMAND, DRIVER, LIBRARY, ROOT, RUNTIME, SAMPLES

TRACE = ROOT / "tests/data/ssim.csv.gz"
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
VIEWS = re.findall(r"^VIEW\((\w+),", (ROOT / "src/cli/views/views.def").read_text(), re.M)

# OUT stands for the file, BASE for its name without .svg, STATS for a report.
WRITERS = {
    "convert": ["convert", TRACE, "OUT"],
    "top": ["top", "--prometheus=OUT"],
    "top --openmetrics": ["top", "--openmetrics=OUT"],
    "tune": ["tune", TRACE, "--plot=BASE"],
    **{f"report --{view}": ["report", "--no-symbols", f"--{view}=OUT", "STATS"] for view in VIEWS},
}


def poolcuda(*words, prefix=(), **options):
    return guard.run([*map(str, prefix), str(COMMAND), *map(str, words)], env=CLEAN, text=True, check=False,
                     **{"capture_output": True, **options})


def record(path):
    """Leaves a report of a program's run."""
    environment = {**CLEAN, "LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "LD_PRELOAD": str(LIBRARY), "SIMCUDA_COST": "0",
                   "POOLCUDA_STATS_FILE": str(path)}
    guard.run([SAMPLES / "varying"], env=environment, capture_output=True, check=True)
    return path


@pytest.fixture(scope="session", name="stats")
def fixture_stats(tmp_path_factory):
    return record(tmp_path_factory.mktemp("stats") / "varying.json")


def words_of(writer, out, stats):
    out = str(out)
    places = {"OUT": out, "BASE": out.removesuffix(".svg"), "STATS": str(stats)}
    return [re.sub(r"\b(OUT|BASE|STATS)$", lambda found: places[found[1]], str(word)) for word in WRITERS[writer]]


def names(folder):
    return sorted(path.name for path in pathlib.Path(folder).iterdir())
