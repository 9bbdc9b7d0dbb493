"""Where CPython calls CUDA through a go-between, the line of Python is the site."""

import platform
import re
import shutil
import subprocess
import sys

import pytest
from conftest import DRIVER, LIBRARY, ROOT, SANITIZER

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64" or bool(SANITIZER),
                                reason="the layouts of CPython 3.11 on x86-64 are what is known")
PROGRAM = ROOT / "tests/programs/python_lines.py"
PYTHON = "/usr/bin/python3"


def lines_of(result):
    """(allocations, function, line) of each site that is a line of Python."""
    assert result.code == 0, result.out + result.err
    assert result.out == "done\n"
    found = re.findall(r"^\s+(\d+)\s+[\d.]+%.*\[(\S+) \((\S+):(\d+)\)\]$", result.stats, re.M)
    assert all(file.endswith("python_lines.py") for _, _, file, _ in found)
    return sorted((function, int(line), int(allocations)) for allocations, function, _, line in found)


EXPECTED = sorted((line.split("# here: ")[1], number) for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
                  if "# here: " in line)


@pytest.mark.parametrize("how", [[], ["thread"]])
def test_each_line_of_python_is_a_site(run, how):
    result = run([PYTHON, PROGRAM, "100", *how])
    assert lines_of(result) == [(*line, 100) for line in EXPECTED] and len(EXPECTED) == 3
    assert result.driver_allocations == 3


def test_without_the_system_call_the_program_runs_and_the_interpreter_is_the_site(run):
    result = run([PYTHON, PROGRAM, "100", "refuse"])
    assert lines_of(result) == []
    assert [(count, module) for count, [(module, _)] in result.sites()] == [(300, "python3.11")]


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_nothing_is_read_on_a_hit(tmp_path):
    def reads(rounds):
        out = tmp_path / f"strace.{rounds}"
        subprocess.run(["strace", "-f", "-e", "trace=process_vm_readv", "-E", f"LD_PRELOAD={LIBRARY}", "-E", f"LD_LIBRARY_PATH={DRIVER}",
                        "-E", "SIMCUDA_COST=0", "-o", out, PYTHON, PROGRAM, str(rounds)], check=True, capture_output=True)
        return out.read_text().count("process_vm_readv(")

    assert reads(5) == reads(200) > 0
