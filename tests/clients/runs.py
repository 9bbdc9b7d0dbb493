"""Runs a client natively or with the pool, on the simulated GPU, and tells how two such runs differ."""

import collections
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
LIBRARY = pathlib.Path(os.environ.get("LIBRARY_UNDER_TEST", BUILD / "src/interpose/libpoolcuda.so")).resolve()
DRIVER = BUILD / "subprojects/simcuda/driver"
COMPILER = ROOT / "scripts/simcuda-nvcc"
RUNTIME = BUILD / "subprojects/simcuda/runtime/libcudart_static.a"  # which the compiler puts into programs
FOLDER = ROOT / "build/clients"
LIMIT = 1200  # seconds of one command: a guard against what hangs
COUNTED = ("malloc_calls", "malloc_hits", "async_calls", "async_served", "check_errors", "check_filled_bytes")


class CannotRun(Exception):
    """Why a client cannot run at all: a package that cannot be had, a program that ends badly."""


def filled_in(command, folder):
    """A command of the table for a client whose own folder this is."""
    words = {"{python}": folder / "bin/python", "{own}": folder, "{here}": HERE, "{driver}": DRIVER, "{simcuda-nvcc}": COMPILER}
    return [functools.reduce(lambda part, name: part.replace(name, str(words[name])), words, part) for part in command]


def is_installed(package):
    """Whether Debian's package is."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", package], capture_output=True, text=True, check=False)
    return done.stdout.startswith("ii")


def inputs(client):
    """What its folder is made of, as text: packages, commands, what of ours they read, and the driver if one of them runs on it."""
    named = {part for command in client.make for part in filled_in(command, FOLDER / client.name) if part.startswith(str(HERE))}
    files = [*sorted(named), *sorted(HERE.glob("programs/*.h"))]
    texts = [pathlib.Path(file).read_text() for file in files]
    if any(part.startswith("LD_LIBRARY_PATH={driver}") for command in client.make for part in command):
        texts.append(hashlib.sha256((DRIVER / "libcuda.so.1").read_bytes()).hexdigest())
    if any("{simcuda-nvcc}" in command for command in client.make):
        texts.append(hashlib.sha256(RUNTIME.read_bytes()).hexdigest())
    return "\n".join([*client.packages, *(" ".join(command) for command in client.make), *texts])


def prepared(client):
    """The client's own folder: an environment with exactly its packages, and what its commands have made there."""
    folder = FOLDER / client.name
    stamp, wanted = folder / "inputs", inputs(client)
    missing = [package for package in client.debs if not is_installed(package)]
    if missing:
        raise CannotRun(f"{client.name}: needs packages of Debian: apt-get install {' '.join(missing)}")
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    install = [("/usr/bin/python3", "-m", "venv", "{own}"), ("{python}", "-m", "pip", "install", "-q", "--no-deps", *client.packages)]
    for command in (*(install if client.packages else []), *client.make):
        try:
            done = subprocess.run(filled_in(command, folder), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                                  timeout=LIMIT, cwd=folder)
        except subprocess.TimeoutExpired as error:
            raise CannotRun(f"{client.name}: {' '.join(command)}: no end after {LIMIT} s") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
            raise CannotRun(f"{client.name}: {' '.join(command)} failed: {last}")
    stamp.write_text(wanted)
    return folder


class Run:
    """What one run showed."""

    def __init__(self, client, folder, code, out):
        self.code, self.out = code, out
        found = re.findall(client.outcome, out, flags=re.M)
        self.outcomes = dict(found)
        if len(self.outcomes) != len(found):
            raise CannotRun(f"{client.name}: two tests have one name")
        self.calls = collections.Counter()
        for report in folder.glob("report.*"):
            for name, count in re.findall(r"^calls\.(\w+) (\d+)$", report.read_text(), flags=re.M):
                self.calls[name] += int(count)
            hazards = re.search(r"^hazards (\d+)$", report.read_text(), flags=re.M)
            self.calls["hazards"] += int(hazards[1]) if hazards else 0
        self.counters, self.waits, self.sites = collections.Counter(), collections.Counter(), 0
        for stats in folder.glob("stats.*"):
            try:
                read = json.loads(stats.read_text())
            except ValueError as error:  # the page that a process keeps there while it runs
                raise CannotRun(f"{client.name}: a process was ended before it wrote its figures to {stats}") from error
            self.counters.update({name: read["counters"][name] for name in COUNTED})
            self.waits.update(read["waited_because_of"])
            self.sites += len(read["sites"])
            self.counters["allocated_bytes"] += sum(site["allocated_bytes"] for site in read["sites"])


def run(client, own, mode, settings):
    """One run of a client that has its own folder; settings is None natively."""
    folder = FOLDER / "runs" / client.name / mode
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8", "SIMCUDA_COST": "0",
                   "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "SIMCUDA_REPORT": str(folder / "report.%p"),
                   "LD_LIBRARY_PATH": str(DRIVER), **dict(zip(client.settings, filled_in(client.settings.values(), own)))}
    if settings is not None:
        environment |= {"LD_PRELOAD": str(LIBRARY), "POOLCUDA_STATS_FILE": str(folder / "stats.%p"), **settings}
    with open(folder / "errors", "wb") as errors:
        try:
            done = subprocess.run(filled_in(client.command, own), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=errors, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired as error:
            raise CannotRun(f"{client.name}, {mode}: no end after {LIMIT} s") from error
    (folder / "output").write_bytes(done.stdout)
    return Run(client, folder, done.returncode, done.stdout.decode(errors="replace"))


def unlike_calls(natives, other, allowed):
    """Calls of which a run makes more or fewer than native ones that agree, where nothing allows it."""
    found = []
    for name in sorted(set(natives[0].calls) | set(other.calls)):
        counts = {native.calls[name] for native in natives}
        count = other.calls[name]
        if len(counts) == 1 and count not in counts:
            native = counts.pop()
            most = native + allowed["added"].get(name, 0)
            if count > most or count < native and name not in allowed["saved"]:
                found.append(f"{name}: natively called {native} times, pooled {count} times" + (f", at most {most}" if most > native else ""))
    return found


def differences(natives, other, allowed):
    """What differs from native runs that agree in it: lines."""
    found = []
    if other.code not in {native.code for native in natives}:
        found.append(f"exit code: natively {natives[0].code}, pooled {other.code}")
    for name in dict.fromkeys([*natives[0].outcomes, *other.outcomes]):
        outcomes = {native.outcomes.get(name) for native in natives}
        if len(outcomes) == 1 and other.outcomes.get(name) not in outcomes:
            found.append(f"{name}: natively {str(outcomes.pop())[:80]!r}, pooled {str(other.outcomes.get(name))[:80]!r}")
    if len({native.out for native in natives}) == 1 and other.out != natives[0].out and not found:
        found.append("what it prints besides its outcomes differs")
    return found + unlike_calls(natives, other, allowed)
