"""What programs do to files and processes that they do not know costs neither them nor the pool anything."""

import json
import shutil
import subprocess

import guard
import pytest
from conftest import COMMAND, LIBRARY, PROGRAMS
from steered import FOLDER, NEEDS_MOUNT, Program, environment, processes

CARELESS = PROGRAMS / "careless"
MIB = 1 << 20


def start(mode, folder, program=CARELESS, **variables):
    return guard.run([program, mode], cwd=folder, env=environment(LD_PRELOAD=str(LIBRARY), **variables),
                     capture_output=True, text=True, check=False)


@pytest.mark.parametrize("mode", ["closes", "forks"])
def test_a_file_that_takes_the_place_of_a_closed_descriptor_is_not_touched(mode, tmp_path):
    done = start(mode, tmp_path, POOLCUDA_STATS_FILE="figures")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert (tmp_path / "mine").read_text() == "precious\n" * 100000
    shown = subprocess.run([COMMAND, "report", tmp_path / "figures"], capture_output=True, text=True, check=False)
    assert "allocations: 1," in shown.stdout, "the page is left as a killed program's is"


@pytest.mark.parametrize("variables", [{}, {"POOLCUDA_STATS_FILE": "figures"}])
def test_a_child_of_a_bare_clone_ends_for_itself_alone(variables, tmp_path):
    done = start("clones", tmp_path, **variables)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    if variables:
        report = json.loads((tmp_path / "figures").read_text())
        assert report["counters"]["malloc_calls"] == 101 and report["process"]["finished"]


def test_a_limit_on_files_is_no_signal_when_memory_runs_out(tmp_path):
    gpu = {"SIMCUDA_SHARED": str(tmp_path / "gpu"), "SIMCUDA_MEMORY": "256M", "POOLCUDA_MAX_IDLE": "100%",
           "POOLCUDA_IDLE_DECAY": "0", "POOLCUDA_THROTTLE_RATIO": "1"}
    with Program(**gpu) as other:
        assert other.do(f"alloc 0 {160 * MIB}") == 0
        assert other.do("free 0") == 0
        other.do("churn")
        done = start("limited", tmp_path, **gpu)
        assert (done.returncode, done.stderr) == (0, "0\n"), "the other is asked without a file"


@NEEDS_MOUNT
def test_a_full_disk_is_reported_and_no_signal(tmp_path):
    """The file's page is more than the disk has room for."""
    script = 'mount -t tmpfs -o size=64k none "$1" && cd "$1" && exec "$0" closes'
    done = guard.run(["unshare", "--mount", "sh", "-c", script, CARELESS, tmp_path],
                     env=environment(LD_PRELOAD=str(LIBRARY), POOLCUDA_STATS_FILE="figures"),
                     capture_output=True, text=True, check=False)
    assert "POOLCUDA_STATS_FILE=\"figures\": cannot be made" in done.stderr
    assert done.returncode == 1 and "fflush(mine)" in done.stdout, "what the program itself cannot write, it sees itself"


def test_pages_of_programs_that_end_by_exit_at_once_do_not_pile_up(tmp_path):
    before = {path.name for path in FOLDER.iterdir()} if FOLDER.exists() else set()
    for _ in range(10):
        assert start("exits", tmp_path).returncode == 0
    left = {path.name for path in FOLDER.iterdir()} - before
    assert len(left) <= 1, "each program clears away what others have left"


def test_a_program_whose_executable_is_renamed_is_still_known(tmp_path):
    program = tmp_path / "program"
    shutil.copy(CARELESS, program)
    with subprocess.Popen([program, "moved"], cwd=tmp_path, env=environment(LD_PRELOAD=str(LIBRARY)),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "moved\n"
        assert [p for p in processes() if p["pid"] == running.pid]
        assert running.communicate("\n")[0] == "done\n"
