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


def preloads(command, library):
    """What the README prints makes a program pooled, however it was installed: typed in a shell that finds the command."""
    assert told(command, "preload") == f"{library.resolve()}\n"
    shell = {"PATH": f"{command.parent}:{os.environ['PATH']}", "LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}"}
    line, = re.findall(r"^\$ (LD_PRELOAD=.* POOLCUDA_STATS=1) ./three_sites$", (ROOT / "README.md").read_text(), re.M)
    assert "297 from idle memory" in told("sh", "-c", f'{line} "$0" 2>&1', SAMPLES / "three_sites", **shell)
    exported, = re.findall(r"^\$ (export LD_PRELOAD=.*)$", (ROOT / "docs/getting-started.md").read_text(), re.M)
    assert "297 from idle memory" in told("sh", "-c", f'{exported}; export POOLCUDA_STATS=1; "$0" 2>&1',
                                          SAMPLES / "three_sites", **shell)
    sanitized, = re.findall(r'`(LD_PRELOAD="\$\(gcc -print-file-name=libasan\.so\) .*")`', (ROOT / "README.md").read_text())
    assert "297 from idle memory" in told("sh", "-c", f'{sanitized} POOLCUDA_STATS=1 "$0" 2>&1', SAMPLES / "three_sites",
                                          **shell, ASAN_OPTIONS="detect_leaks=0")


def links_lead_somewhere(folder):
    """All relative ones of all documents below it."""
    seen = 0
    for document in folder.rglob("*.md"):
        for link in re.findall(r"\]\((?!https?:)([^)\s#]+)", re.sub(r"^```.*?^```", "", document.read_text(), flags=re.S | re.M)):
            assert (document.parent / link).exists(), f"{document}: {link}"
            seen += 1
    assert seen > 100


def documents_are_there(command, prefix):
    """Where the command says that they are, with what they refer to."""
    path, = re.findall(r"what that gives up is in (.*)$", told(command, "tune", ROOT / "tests/data/segment-reduce.csv.gz"), re.M)
    docs = prefix / "share/doc/poolcuda/docs"
    assert path == str((docs / "policies.md").resolve())
    simulation = docs.parent / "subprojects/simcuda/docs/simulation.md"
    for document in [docs.parent / "README.md", *docs.glob("*.md"), simulation.parents[1] / "README.md", simulation]:
        source = ROOT / document.relative_to(docs.parent)
        assert document.read_text() == source.read_text()
    links_lead_somewhere(docs.parent)
    assert {path.name for path in docs.iterdir()} == {path.name for path in (ROOT / "docs").iterdir()}


def works(prefix, library, man="share/man"):
    """The command knows its version and finds the simulated GPU that lies beside it; the library pools."""
    command = prefix / "bin/poolcuda"
    assert told(command, "--version") == f"poolcuda {VERSION}\n"
    assert told(command, "options") == told(COMMAND, "options")
    assert replayed(command) == replayed(COMMAND)
    stats = told("sh", "-c", '"$0" 2>&1', SAMPLES / "three_sites", LD_PRELOAD=str(prefix / library), POOLCUDA_STATS="1",
                 LD_LIBRARY_PATH=f"{DRIVER}:{RUNTIME}")
    assert f"poolcuda {VERSION}: " in stats and "297 from idle memory" in stats
    preloads(command, prefix / library)
    documents_are_there(command, prefix)
    for page in ("poolcuda", "poolcuda-replay", "poolcuda-preload", "libpoolcuda"):
        assert told("man", "-M", prefix / man, "-w", page).startswith(str(prefix / man))


def files(folder):
    """All that is in a folder, but Python's caches."""
    return {path.relative_to(folder) for path in folder.rglob("*") if "__pycache__" not in path.parts}
