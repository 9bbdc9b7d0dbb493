"""Ranks of one job: each leaves a file of its own, and one report adds them up."""

import json
import os
import shutil
import subprocess
import sys

import guard
import pytest
from conftest import COMMAND, DRIVER, LIBRARY, ROOT, RUNTIME, SAMPLES

sys.path.append(str(ROOT / "tests/docs"))
from blocks import parse, run as run_block  # pylint: disable=wrong-import-position  # noqa: E402

MPIRUN = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
RANKS = 4


NEEDS_MPI = pytest.mark.skipif(not MPIRUN, reason="mpirun is not installed: package openmpi-bin")
NEEDS_MPICH = pytest.mark.skipif(not shutil.which("mpiexec.hydra") or not shutil.which("mpicc.mpich"),
                                 reason="scripts/test --all installs Debian's mpich and libmpich-dev")


@NEEDS_MPI
def test_the_ranks_of_mpirun_leave_a_file_each_and_one_report_adds_them_up(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "LD_"))}
    # Root, few processors and no other host: what a test machine has.
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", SIMCUDA_COST="0")
    done = guard.run(
        [MPIRUN, "-n", str(RANKS), "--oversubscribe", "--mca", "plm_rsh_agent", "false",
         "-x", f"LD_LIBRARY_PATH={DRIVER}:{RUNTIME}", "-x", f"LD_PRELOAD={LIBRARY}",
         "-x", f"POOLCUDA_STATS_FILE={tmp_path}/job.json", SAMPLES / "varying"],
        env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [f"job.json.rank{rank}" for rank in range(RANKS)]
    runs = [json.loads(file.read_text()) for file in files]
    assert [run["process"]["rank"] for run in runs] == list(range(RANKS))
    shown = subprocess.run([COMMAND, "report", tmp_path], capture_output=True, text=True, check=True).stdout
    total = sum(run["counters"]["malloc_calls"] for run in runs)
    assert f", {RANKS} runs on " in shown and f"allocations: {total}," in shown


def commands_of_the_document(launcher, tmp_path, **more):
    """Runs the commands of docs/clusters.md that need this launcher; the ranks whose files they leave."""
    work, tools = tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    tools.mkdir()
    (work / "solver").symlink_to(SAMPLES / "varying")
    (tools / "poolcuda").symlink_to(COMMAND)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "SHELL": "/bin/bash", "SIMCUDA_COST": "0",
                   "LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", **more}
    name = "docs/clusters.md"
    blocks = [block for block in parse(name, (ROOT / name).read_text()) if f"tests/e2e/test_mpi.py has {launcher}," in block.reason]
    assert len(blocks) == 1
    blocks[0].reason = ""
    run_block(blocks[0], work, environment)
    return sorted(json.loads(file.read_text())["process"]["rank"] for file in (work / "job").iterdir())


@NEEDS_MPI
def test_the_document_s_commands_of_openmpi_run_as_shown(tmp_path):
    ranks = commands_of_the_document("OpenMPI", tmp_path, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                                     OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_plm_rsh_agent="false")
    assert ranks == sorted(2 * [*range(RANKS)])


@NEEDS_MPICH
def test_the_document_s_commands_of_mpich_run_as_shown(tmp_path):
    assert commands_of_the_document("MPICH", tmp_path) == [*range(RANKS)]


@NEEDS_MPICH
def test_a_sample_and_collectives_under_mpich_give_the_same_bytes_natively_and_pooled(tmp_path):
    program, rounds = tmp_path / "collectives", 5
    guard.run(["mpicc.mpich", "-O1", "-Wall", "-Werror", ROOT / "tests/cluster/collectives.c", "-o", program, f"-L{RUNTIME}", "-l:libcudart.so.13",
               f"-Wl,-rpath-link,{DRIVER}"], check=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "LD_"))}

    def ranks(*words, **variables):
        given = [word for name, value in variables.items() for word in ("-genv", name, value)]
        done = guard.run(["mpiexec.hydra", "-n", str(RANKS), *given, *map(str, words)], env=environment, cwd=tmp_path, capture_output=True,
                         text=True, check=True)
        return sorted(done.stdout.splitlines())

    for words in ((SAMPLES / "varying", 5), (program, rounds)):
        folder = tmp_path / words[0].name[:3]
        folder.mkdir()
        simulated = {"LD_LIBRARY_PATH": f"{DRIVER}:{RUNTIME}", "SIMCUDA_COST": "0"}
        native = ranks(*words, **simulated)
        assert ranks(*words, **simulated, LD_PRELOAD=str(LIBRARY), POOLCUDA_STATS_FILE=f"{folder}/job.json") == native and native
        runs = [json.loads(file.read_text()) for file in sorted(folder.iterdir())]
        assert [run["process"]["rank"] for run in runs] == [*range(RANKS)]
        assert all(run["counters"]["malloc_hits"] > 0 for run in runs)
