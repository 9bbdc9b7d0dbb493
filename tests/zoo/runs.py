"""Runs a job in a cage, natively or preloaded, and tells how two such runs differ."""

import atexit
import collections
import fnmatch
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import guard  # pylint: disable=wrong-import-position  # noqa: E402
from table import PATH  # pylint: disable=wrong-import-position  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
HOSTS = BUILD / "tests/zoo"


def for_all(path):
    """A copy that every user can open: where the checkout is below /root, only root can open what is in it."""
    folder = tempfile.mkdtemp(prefix="zoo.")
    atexit.register(shutil.rmtree, folder)
    os.chmod(folder, 0o755)
    return pathlib.Path(shutil.copy(path, folder))


LIBRARY = for_all(os.environ.get("LIBRARY_UNDER_TEST", BUILD / "src/interpose/libpoolcuda.so"))
CAGE = for_all(HOSTS / "cage")
DRIVERS = f"{BUILD / 'subprojects/simcuda/driver'}:{BUILD / 'subprojects/simcuda/runtime'}"
NOT_PERMITTED = 77
MULTIARCH = "/usr/lib/x86_64-linux-gnu"


class Run:
    """What one run of a job showed: how it ended, its streams, files, processes' ends, and what it left behind."""

    def __init__(self, log, out, err, files):
        lines = log.splitlines()
        self.end = [line for line in lines if line.startswith(("code ", "signal "))]
        self.out, self.err, self.files = out, err, files
        self.ends = sorted(line for line in lines if line.startswith("end "))
        self.left = sorted(line for line in lines if line.startswith(("left ", "shm ")))


def digest(path):
    """What a file is: its kind, mode, and contents or target."""
    status = path.lstat()
    mode = stat.filemode(status.st_mode)
    if path.is_symlink():
        return f"{mode} -> {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        return f"{mode} {status.st_size} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    return mode


class Zoo:
    """Runs of one program, each in a new folder of the same name."""

    def __init__(self, program, folder, library=LIBRARY):
        self.program, self.folder, self.library = program, folder, library
        self.here = folder / "here"
        self.count = 0

    def environment(self, *preload):
        """What a job finds: nothing of the tests' own environment."""
        found = {"PATH": PATH, "HOME": str(self.here), "TMPDIR": str(self.here / "tmp"), "LC_ALL": "C.UTF-8", "TZ": "UTC",
                 "USER": "root", "TERM": "dumb", "LOOK": f"{CAGE} --look", "HOSTS": str(HOSTS), "BUILD": str(BUILD),
                 "ROOT": str(ROOT), "SIMCUDA_COST": "0", "PYTHONDONTWRITEBYTECODE": "1", "DRIVERS": DRIVERS,
                 "MULTIARCH": MULTIARCH,
                 "XDG_RUNTIME_DIR": str(self.here / "tmp")}
        preload = [str(each) for each in preload if each]
        return {**found, "LD_PRELOAD": " ".join(preload)} if preload else found

    def ready(self):
        """An empty folder with what the program's setup makes in it."""
        shutil.rmtree(self.here, ignore_errors=True)
        (self.here / "tmp").mkdir(parents=True)
        os.chmod(self.here / "tmp", 0o1777)
        if self.program.setup:
            done = guard.run(["sh", "-ec", self.program.setup], cwd=self.here, env=self.environment(),
                             capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
            assert done.returncode == 0, f"the setup of {self.program} failed:\n{done.stdout}{done.stderr}"

    def libraries(self, preloaded):
        """LD_PRELOAD of a run."""
        program = self.program
        return [program.preload, self.library if preloaded else "", program.preload_behind]

    def run(self, preloaded, ends, disabled=False):
        """One run of the job."""
        self.count += 1
        self.ready()
        names = [self.folder / f"{what}.{self.count}" for what in ("log", "out", "err")]
        environment = self.environment(*self.libraries(preloaded))
        if disabled:
            environment["POOLCUDA_DISABLE"] = "1"
        before = set(self.here.rglob("*"))
        command = [CAGE, *(["--ends"] if ends and not self.program.tracer else []), names[0], "sh", "-c", self.program.job]
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            done = guard.run(command, cwd=self.here, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        for name in names[1:]:
            (self.folder / name.stem).rename(name)
        out, err = (name.read_bytes().decode(errors="replace") for name in names[1:])
        if done.returncode == NOT_PERMITTED:
            pytest.skip(f"this machine permits no namespaces to this user, run as root: {err.strip()}")
        assert done.returncode == 0, f"the cage broke with {done.returncode}: {err}"
        files = {str(path.relative_to(self.here)): digest(path) for path in sorted(self.here.rglob("*"))
                 if path not in before or path.is_file() and not path.is_symlink()}
        return Run(names[0].read_text(), out, err, files)

    # What differs.

    def masked(self, line):
        """A line without what the table calls volatile."""
        for expression in self.program.volatile:
            line = re.sub(expression, "~", line)
        return line

    def counted(self, lines):
        """How often each of these lines is there; without those of which nothing remains."""
        lines = [line for line in map(self.masked, lines) if line != "~"]
        return [(line, str(count)) for line, count in collections.Counter(lines).items()]

    def views(self, run, ends):
        """What of a run is compared: {"output 3": line, "file x": digest, ...}."""
        found = {"its end": str(run.end)}
        for name, text in (("output", run.out), ("errors", run.err)):
            lines = text.splitlines(keepends=True)
            found[f"{name}, number of lines"] = str(len(lines))
            found.update({f"{name}, line {number}": self.masked(line) for number, line in enumerate(lines, 1)})
        for name, value in run.files.items():
            unlike = any(fnmatch.fnmatch(name, pattern) for pattern in self.program.unlike)
            found[f"file {self.masked(name)}"] = value.split()[0] if unlike else value
        for line, count in self.counted(run.left):
            found[f"behind it, {line}"] = count
        if ends:
            for line, count in self.counted(run.ends):
                found[f"process {line}"] = count
        return found

    def differences(self, natives, run, ends):
        """Lines that say in what a run differs from native ones that are alike in it. Where those differ in the number
        of lines of a stream, its lines say nothing."""
        views = [self.views(native, ends) for native in natives]
        other = self.views(run, ends)
        found = []
        for what in dict.fromkeys([name for view in [*views, other] for name in view]):
            values = {view.get(what) for view in views}
            stream = what.split(",")[0]
            counts = {view.get(f"{stream}, number of lines") for view in views}
            if len(values) == 1 and len(counts) == 1 and other.get(what) not in values:
                found.append(f"{what}: natively {values.pop()!r}, preloaded {other.get(what)!r}")
        return found

    def shows_something(self, natives):
        """Whether two native runs have in common something that a broken program would not show."""
        view, other = (self.views(native, False) for native in natives[:2])
        return any(view[what] == other.get(what) and (what.startswith("file ") or re.match(r"(output|errors), line", what))
                   for what in view)
