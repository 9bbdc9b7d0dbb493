"""Runs programs natively and under the pool, on the simulated GPU.

The build folder is $BUILD_DIR or build/ in the repository's root. If it is instrumented by a sanitizer,
$SANITIZER_RUNTIME is the sanitizer's library, which wants to be preloaded first. $LIBRARY_UNDER_TEST: another
library than the one that would be installed, such as that of tests/planted, which checks its own locks.
"""

import os
import pathlib
import re
import signal
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import guard  # pylint: disable=wrong-import-position  # noqa: E402
from guard import guarded  # pylint: disable=wrong-import-position,unused-import  # noqa: E402,F401

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
LIBRARY = pathlib.Path(os.environ.get("LIBRARY_UNDER_TEST", BUILD / "src/interpose/libpoolcuda.so")).resolve()
DRIVER = BUILD / "subprojects/simcuda/driver"
RUNTIME = BUILD / "subprojects/simcuda/runtime"
# The simulated driver of CUDA 12.4, which has neither cuCtxRecordEvent nor cuCtxWaitEvent: the environment of programs.
OLD_DRIVER = {"SIMCUDA_DRIVER_VERSION": "12040", "LD_LIBRARY_PATH": f"{BUILD / 'subprojects/simcuda/old_driver'}:{RUNTIME}"}
# A module whose pytestmark this is runs each of its tests on both.
ON_BOTH_DRIVERS = pytest.mark.parametrize("simulated_driver", [pytest.param({}, id="driver_13_0"),
                                                               pytest.param(OLD_DRIVER, id="driver_12_4")], indirect=True)
PROGRAMS = BUILD / "tests/programs"
SAMPLES = BUILD / "samples"
SANITIZER = os.environ.get("SANITIZER_RUNTIME", "").split()
COMMAND = BUILD / "src/cli/poolcuda"

# A shell's background job, and nohup's, has these ignored, and every program that a test starts would as well.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


class Result:
    """What one run of a program left: exit code, output, the simulated driver's and the pool's figures."""

    def __init__(self, done, report, stats):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.stats = stats.read_text(errors="replace") if stats.exists() else ""
        self.figures = {}
        if report.exists():
            for line in report.read_text().splitlines():
                name, _, value = line.partition(" ")
                if re.fullmatch(r"\d+", value):
                    self.figures[name] = int(value)

    @property
    def driver_allocations(self):
        return sum(self.figures.get(f"calls.{name}", 0)
                   for name in ("cuMemAlloc_v2", "cuMemAllocPitch_v2"))

    @property
    def hazards(self):
        return self.figures.get("hazards", 0)

    @property
    def peaks(self):
        """Peak live and peak held bytes as the pool counted them, from its report."""
        units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
        found = re.search(r"at their peak: ([\d.]+) (\w+) live, ([\d.]+) (\w+) held", self.stats)
        return (float(found.group(1)) * units[found.group(2)],
                float(found.group(3)) * units[found.group(4)])

    def sites(self):
        """The report's table: (allocations, module, offset of each frame)."""
        rows = []
        for line in self.stats.splitlines():
            found = re.match(r"\s+(\d+)\s+[\d.]+% .*?((?:\S+\+0x[0-9a-f]+(?: < )?)+)$", line)
            if found:
                frames = [frame.rsplit("+", 1) for frame in found.group(2).split(" < ")]
                rows.append((int(found.group(1)),
                             [(module, int(offset, 16)) for module, offset in frames]))
        return rows


@pytest.fixture(name="simulated_driver")
def driver_of_module(request):
    """What ON_BOTH_DRIVERS chooses."""
    return getattr(request, "param", {})


@pytest.fixture
def run(tmp_path, simulated_driver):
    """run(command, pooled=True, env={}, preload=[...], stats=True): a Result."""
    count = 0

    def runner(command, pooled=True, env=None, before=(), after=(), stats=True, library=LIBRARY,
               libraries=(DRIVER, RUNTIME)):
        nonlocal count
        count += 1
        report, stats_file = tmp_path / f"report.{count}", tmp_path / f"stats.{count}"
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("POOLCUDA_", "SIMCUDA_", "LD_"))}
        environment["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))
        environment["SIMCUDA_COST"] = "0"
        environment["SIMCUDA_REPORT"] = str(report)
        preload = [*SANITIZER, *before, *([library] if pooled else []), *after]
        if preload:
            environment["LD_PRELOAD"] = " ".join(map(str, preload))
        if pooled and stats:
            environment["POOLCUDA_STATS_FILE"] = str(stats_file)
            environment["POOLCUDA_STATS"] = "1"
        environment.update({**simulated_driver, **(env or {})})
        command = [str(part) for part in (command if isinstance(command, (list, tuple)) else [command])]
        done = guard.run(command, env=environment, capture_output=True, text=True, check=False)
        return Result(done, report, stats_file)

    return runner


@pytest.fixture
def both(run):
    """both(command, ...): the native and the pooled Result, whose output and exit code are the same."""

    def runner(command, **arguments):
        native, pooled = run(command, pooled=False, **arguments), run(command, **arguments)
        assert pooled.code == native.code, pooled.err + pooled.out
        assert pooled.out == native.out
        assert pooled.hazards == 0, pooled.err
        return native, pooled

    return runner
