"""srun --poolcuda on a cluster of three nodes: tasks are pooled, nothing else is, and the step's last line tells what came
of it."""

import collections
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sys

import guard
import pytest
from cluster import NODES, USERS
from conftest import COMMAND, DRIVER, LIBRARY, PLUGIN, PROGRAMS, ROOT, RUNTIME, SAMPLES, SIMULATED, UNHURRIED
from steps import environment_of, has_ended, last_lines, other_configuration, ranks_in, report, sbatch, states, sums

sys.path.append(str(ROOT / "tests/docs"))
from blocks import parse, run as run_block  # pylint: disable=wrong-import-position  # noqa: E402

ENV = "/usr/bin/env"
WORKING = SAMPLES / "varying"
MPI_HEADER = pathlib.Path(f"/usr/lib/{os.uname().machine}-linux-gnu/openmpi/include/mpi.h")


@pytest.mark.in_every_run
@pytest.mark.parametrize("nodes, ranks", [(1, 8), (3, 6)])
def test_the_ranks_of_a_job_print_the_same_bytes_and_leave_a_file_each(make_cluster, network_if_allowed, nodes, ranks):
    cluster = make_cluster(network=network_if_allowed)
    command = ("srun", "-N", nodes, "-n", ranks)
    native = cluster.run(*command, SAMPLES / "varying", 3, env=SIMULATED, cwd=cluster.work)
    pooled = cluster.run(*command, "--poolcuda", SAMPLES / "varying", 3, env=SIMULATED, cwd=cluster.work)
    assert sums(native) == sums(pooled) and sum(sums(native).values()) == ranks
    assert not last_lines(native.stderr)
    folder = cluster.work / "poolcuda-figures/2.0"
    assert ranks_in(folder) == list(range(ranks))
    assert re.fullmatch(rf"{ranks} ranks: \d+ of \d+ allocations from idle memory \([\d.]+%\), at least .* saved, .* held for "
                        rf".* live at the peaks, never out of memory; poolcuda report {folder}", last_lines(pooled.stderr)["2.0"])
    counters = report(folder)["counters"]
    assert f"{counters['malloc_hits']} of {counters['malloc_calls']} allocations" in pooled.stderr
    hosts = {json.loads(path.read_text())["process"]["host"] for path in folder.iterdir()}
    here = set(NODES) if cluster.has_hosts else {socket.gethostname()}
    assert hosts <= here and len(hosts) == min(nodes, len(here))
    assert not network_if_allowed or all(network_if_allowed.received(node) for node in NODES)


@pytest.mark.in_every_run
def test_a_tasks_environment_is_what_was_asked_for_and_no_more(cluster):
    plain = environment_of(cluster.run("srun", ENV))
    assert "LD_PRELOAD" not in plain and not any("POOLCUDA" in name for name in plain)
    folder = cluster.work / "100% mine"
    done = cluster.run("srun", "--poolcuda=bfc", "--poolcuda-set=POOLCUDA_ZERO=1", "--poolcuda-set=POOLCUDA_HOST=0",
                       "--poolcuda-set=POOLCUDA_ZERO=0", f"--poolcuda-stats={folder}", ENV, env={"LD_PRELOAD": "libutil.so.1"})
    pooled = environment_of(done)
    assert {name: value for name, value in pooled.items() if "POOLCUDA" in name} == {
        "POOLCUDA_PRESET": "bfc", "POOLCUDA_ZERO": "0", "POOLCUDA_HOST": "0", "POOLCUDA_STATS": "file",
        "POOLCUDA_STATS_FILE": f"{cluster.work}/100%% mine/2.0/rank%r.json"}
    assert pooled["LD_PRELOAD"] == f"{LIBRARY}:libutil.so.1"
    assert last_lines(done.stderr)["2.0"] == (f"1 task: no figures in {folder}/2.0: no task used CUDA, the library was not "
                                              "reached, or nothing could be written there")


# What srun says to an option's value.
BAD_VALUES = [
    ("--poolcuda=bcf", '--poolcuda=bcf: POOLCUDA_PRESET="bcf": expected one of default|futhark|pyopencl|bfc|pytorch|paddle|vmm|pytorch-expandable'),
    ("--poolcuda-set=POOLCUDA_ZER=1", "--poolcuda-set=POOLCUDA_ZER=1: POOLCUDA_ZER: unknown option, did you mean POOLCUDA_ZERO?"),
    ("--poolcuda-set=POOLCUDA_ZERO=2", '--poolcuda-set=POOLCUDA_ZERO=2: POOLCUDA_ZERO="2": expected 0 or 1'),
    ("--poolcuda-set=zero", "--poolcuda-set=zero: expected POOLCUDA_NAME=VALUE"),
    ("--poolcuda-set=POOLCUDA_STATS_FILE=x",
     "--poolcuda-set=POOLCUDA_STATS_FILE=x: expected --poolcuda-stats=DIR for the files of figures"),
    ("--poolcuda-set=POOLCUDA_STATS=1", "--poolcuda-set=POOLCUDA_STATS=1: expected --poolcuda-stats=DIR for the files of figures"),
    ("--poolcuda=vmm\n\33[1mx", '--poolcuda=vmm??[1mx: POOLCUDA_PRESET="vmm??[1mx": expected one of '
                                  "default|futhark|pyopencl|bfc|pytorch|paddle|vmm|pytorch-expandable"),
    ("--poolcuda-stats=a\nb", "--poolcuda-stats=a?b: expected the path of a folder"),
    ("--poolcuda-stats=/etc/passwd", "--poolcuda-stats=/etc/passwd: is no folder, expected one"),
    ("--poolcuda-stats=", "--poolcuda-stats=: expected the path of a folder"),
]


@pytest.mark.in_every_run
def test_a_bad_value_is_one_line_before_anything_starts(cluster):
    for option, expected in BAD_VALUES:
        done = cluster.run("srun", option, "/usr/bin/touch", cluster.work / "started", code=1)
        assert done.stderr == f"poolcuda: {expected}; nothing was started\n" and not done.stdout
        assert not (cluster.work / "started").exists() and not states(cluster)


def test_sixty_four_ranks_on_three_nodes_print_the_same_bytes_and_are_reported_as_one(cluster):
    command = ("srun", "-N", 3, "-n", 64)
    for step, sample in ((2, "varying"), (4, "three_sites")):
        native = cluster.run(*command, SAMPLES / sample, 5, env=SIMULATED, cwd=cluster.work)
        pooled = cluster.run(*command, "--poolcuda", SAMPLES / sample, 5, env=SIMULATED, cwd=cluster.work)
        assert sums(native) == sums(pooled) and sum(sums(native).values()) == 64
        folder = cluster.work / f"poolcuda-figures/{step}.0"
        assert ranks_in(folder) == list(range(64))
        assert ", 64 runs on " in guard.run([COMMAND, "report", folder], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("ranks, rounds, addresses", [(6, 20, "shared"), (6, 20, "own"), (64, 5, "own")])
def test_the_collectives_of_openmpi_with_shared_and_pinned_memory_give_the_same_bytes_on_three_nodes(make_cluster, request, ranks, rounds,
                                                                                                     addresses):
    if not MPI_HEADER.exists():
        pytest.skip("OpenMPI's headers are not installed: package libopenmpi-dev")
    network = request.getfixturevalue("network") if addresses == "own" else None
    cluster = make_cluster(network=network)
    program = cluster.work / "collectives"
    guard.run(["mpicc.openmpi", "-O1", "-Wall", "-Werror", ROOT / "tests/cluster/collectives.c", "-o", program, f"-L{RUNTIME}", "-l:libcudart.so.13",
               f"-Wl,-rpath-link,{DRIVER}"], check=True)
    command = ("srun", "--mpi=pmix", "-N", 3, "-n", ranks, "--overcommit")
    # UCX: OpenMPI 4.1's own TCP crashes now and then as MPI begins, not pooled, with an address for each node as well. UCX uses TCP where
    # that is not the default, and prints an error when peers have left before it.
    env = {**SIMULATED, "OMPI_MCA_pml": "ucx", "OMPI_MCA_pml_ucx_tls": "any", "OMPI_MCA_pml_ucx_devices": "any", "OMPI_MCA_osc": "ucx",
           "UCX_TLS": "self,tcp", "UCX_LOG_LEVEL": "fatal", "OMPI_MCA_mpi_yield_when_idle": "1"}
    native = cluster.run(*command, program, rounds, env=env, cwd=cluster.work)
    before = network and {node: network.received(node) for node in NODES}
    pooled = cluster.run(*command, "--poolcuda", program, rounds, env=env, cwd=cluster.work)
    for node in NODES if network else ():
        # A round's sums alone are so many bytes.
        assert network.received(node) - before[node] > rounds * 4096 * 8
    assert native.stdout == pooled.stdout and native.stdout.startswith(f"{ranks} ranks, checksum ")
    folder = cluster.work / "poolcuda-figures/2.0"
    assert ranks_in(folder) == list(range(ranks))
    counters = report(folder)["counters"]
    # those of pinned memory are in both
    assert (counters["malloc_calls"], counters["host_calls"]) == (3 * ranks * rounds, 2 * ranks * rounds)


def test_eight_ranks_of_a_step_finish_on_a_gpu_that_has_room_for_the_idle_memory_of_five(cluster):
    ranks, fit, env = 8, 5, {**SIMULATED, "SIMCUDA_MEMORY": "256M", "SIMCUDA_SHARED": str(cluster.work / "gpu")}

    def step(count, name, tries, *options, **more):
        rank = f"{name}.$1" if count == 1 else name
        script = f'exec {PROGRAMS}/ranks ${{1:-$SLURM_PROCID}} {count} {cluster.work}/{rank} {tries}'
        return cluster.run("srun", "-w", "n1", "-n", count, "--wait=0", "--kill-on-bad-exit=0", *options, "sh", "-c", script, "sh",
                           *more.pop("arguments", ()), env=env, cwd=cluster.work, **more)

    alone = sum((sums(step(1, "alone", 1, arguments=[rank])) for rank in range(ranks)), collections.Counter())
    assert len(alone) == ranks and sums(step(ranks, "native", 1)) == alone
    kept = sums(step(ranks, "kept", 3, "--poolcuda", *(f"--poolcuda-set=POOLCUDA_{name}" for name in ("SHARE=0", "THROTTLE_RATIO=1")),
                     code=1))
    assert kept.pop("out of memory") >= ranks - fit and kept and not kept - alone
    # another rank's help may come too late, on a busy machine; who shows life is asked again
    given = step(ranks, "given", 1 << 31, "--poolcuda")
    assert sums(given) == alone
    assert report(cluster.work / f"poolcuda-figures/{ranks + 3}.0")["counters"]["given_up_bytes"] > 0


def allocations(file):
    """0 as long as the file is not there, or has room for figures and none in it."""
    done = guard.run([COMMAND, "report", "--json", file], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["counters"]["malloc_calls"] if done.returncode == 0 else 0


def start_working(cluster, *options, ranks):
    """A step of programs that work until they are killed, once each of them has left some figures; and what these were."""
    step = cluster.start_command("srun", "--poolcuda", "-n", ranks, *options, UNHURRIED, env=SIMULATED, cwd=cluster.work)
    files = [cluster.work / f"poolcuda-figures/1.0/rank{rank}.json" for rank in range(ranks)]
    for file in files:
        guard.wait_for(lambda file=file: allocations(file) > 100, f"work of {file.name}")
    return step, {file: allocations(file) for file in files}


def test_the_last_figures_of_a_node_that_is_killed_are_read(make_cluster):
    cluster = make_cluster(hasty=True)
    step, before = start_working(cluster, "-N", 3, "--ntasks-per-node=2", "--kill-on-bad-exit=1", ranks=6)
    cluster.kill_node("n2")
    said = step.communicate()[0]
    assert step.returncode != 0
    after = {file: allocations(file) for file in before}
    assert all(after[file] >= before[file] for file in before)
    folder = cluster.work / "poolcuda-figures/1.0"
    assert ranks_in(folder) == list(range(6)) and report(folder)["counters"]["malloc_calls"] == sum(after.values())
    assert re.match(rf"6 ranks \(6 running or killed\): \d+ of {sum(after.values())} allocations", last_lines(said)["1.0"])


def test_the_figures_of_a_rank_that_is_stopped_are_read_and_the_step_can_be_ended(cluster):
    step, before = start_working(cluster, "-N", 3, ranks=3)
    rank = next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_rank(cluster, pid, 1))
    os.kill(rank, signal.SIGSTOP)
    guard.wait_for(lambda: all(stat.read_text().rpartition(")")[2].split()[0] == "T"
                               for stat in pathlib.Path(f"/proc/{rank}/task").glob("*/stat")), "all threads of rank 1 stopped")
    others, stopped = [file for file in before if file.name != "rank1.json"], cluster.work / "poolcuda-figures/1.0/rank1.json"
    figures = allocations(stopped)
    for file in others:
        now = allocations(file)
        guard.wait_for(lambda file=file, now=now: allocations(file) > now, f"more work of {file.name}")
    assert allocations(stopped) == figures >= before[stopped]
    cluster.run("scancel", 1)
    assert last_lines(step.communicate()[0])["1.0"].startswith("3 ranks (3 running or killed): ")
    assert allocations(stopped) >= figures


@pytest.mark.in_every_run
def test_the_last_line_is_true_of_ranks_that_end_without_a_last_word(cluster):
    ranks, rounds = 4, 300
    for number, how in enumerate(("exit", "exec", "abort", "kill"), 1):
        done = cluster.run("srun", "-N", 2, "-n", ranks, "--kill-on-bad-exit=0", "--wait=0", "--poolcuda", "sh", "-c",
                           f"ulimit -c 0; {PROGRAMS}/last_words {rounds} {how} shortage", env=SIMULATED, cwd=cluster.work, code=None)
        line = last_lines(done.stderr)[f"{number}.0"]
        assert line.startswith(f"{ranks} ranks ({ranks} running or killed): {ranks * (rounds - 1)} of {ranks * (rounds + 1)} "), line
        assert f", out of memory {ranks} times; poolcuda report " in line, line


def test_the_figures_of_an_ordinary_users_ranks_are_completed_with_that_users_rights(make_cluster, copies):
    cluster = make_cluster(f"library={copies[LIBRARY]}", f"command={copies[COMMAND]}")
    program = copies[PROGRAMS / "last_words"]
    env = {**SIMULATED, "LD_LIBRARY_PATH": str(program.parent)}
    done = cluster.run("srun", "-n", 2, "--poolcuda", program, 300, "exit", user=USERS[0], env=env, cwd=cluster.work)
    assert last_lines(done.stderr)["1.0"].startswith("2 ranks (2 running or killed): 598 of 600 ")
    assert all(path.owner() == USERS[0] for path in (cluster.work / "poolcuda-figures/1.0").iterdir())


def test_a_node_without_the_command_has_the_figures_of_the_last_write_and_that_is_all(make_cluster):
    cluster = make_cluster()
    env = other_configuration(cluster, cluster.plugstack)
    cluster.write_plugstack(f"{cluster.plugstack.rstrip()} command=/nowhere/poolcuda\n")
    done = cluster.run("srun", "--poolcuda", PROGRAMS / "last_words", 300, "exit", "shortage", env={**SIMULATED, **env}, cwd=cluster.work)
    line = last_lines(done.stderr)["1.0"]
    assert line.startswith("1 rank (1 running or killed): ") and ", out of memory 1 time; " in line, line


def is_rank(cluster, pid, rank):
    """Whether it is that rank of this cluster: another test may have one of its own."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read().split(b"\0")
        marks = f"SLURM_PROCID={rank}".encode(), f"SLURM_CONF={cluster.configuration}".encode()
        return all(mark in environment for mark in marks) and os.path.samefile(f"/proc/{pid}/exe", UNHURRIED)
    except OSError:
        return False


def test_a_job_that_is_requeued_overwrites_nothing(make_cluster):
    cluster = make_cluster(hasty=True)
    job = sbatch(cluster, f"srun -n 3 --poolcuda {SAMPLES}/varying 2\n"
                          f"[ -n \"$SLURM_RESTART_COUNT\" ] || {{ touch first; sleep 1000; }}\n", "--requeue", "-n", 3)
    guard.wait_for((cluster.work / "first").exists, "the job's first step")
    folder = cluster.work / f"poolcuda-figures/{job}.0"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert ranks_in(folder) == [0, 1, 2]
    cluster.run("scontrol", "requeue", job)
    guard.wait_for(lambda: has_ended(cluster, job), f"the end of job {job}")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert ranks_in(cluster.work / f"poolcuda-figures/{job}.0.restart1") == [0, 1, 2]
    assert f"{job}.0.restart1" in last_lines((cluster.work / f"slurm-{job}.out").read_text())


def test_the_jobs_of_an_array_have_folders_of_their_own(cluster):
    first = sbatch(cluster, f"srun --poolcuda {SAMPLES}/varying 2\n", "--array=0-3")
    guard.wait_for(lambda: has_ended(cluster, first), f"the end of array {first}")
    folders = sorted((cluster.work / "poolcuda-figures").iterdir())
    assert len(folders) == 4 and all(ranks_in(folder) == [0] for folder in folders)
    told = [last_lines(path.read_text()) for path in sorted(cluster.work.glob("slurm-*.out"))]
    assert sorted(step for lines in told for step in lines) == [folder.name for folder in folders]


def test_the_components_of_a_heterogeneous_step_are_pooled_with_one_number_for_each_rank(cluster):
    sample = SAMPLES / "varying"
    # Which component's thread srun starts first differs from step to step.
    for job in (1, 3, 5, 7, 9):
        done = cluster.run("srun", "--poolcuda", "-n", 2, sample, 1, ":", "--poolcuda", "-n", 3, sample, 1, env=SIMULATED,
                           cwd=cluster.work)
        assert ranks_in(cluster.work / f"poolcuda-figures/{job}.0") == list(range(5))
        assert list(last_lines(done.stderr)) == [f"{job}.0"] and last_lines(done.stderr)[f"{job}.0"].startswith("5 ranks: ")


@pytest.mark.in_every_run
def test_a_heterogeneous_step_does_not_add_up_what_an_earlier_one_of_its_number_has_left(cluster):
    folder = cluster.work / "poolcuda-figures"
    cluster.run("srun", "--poolcuda", "-n", 5, PROGRAMS / "last_words", 50, "exit", env=SIMULATED, cwd=cluster.work)
    for name in ("2.0", "4.0", "4.0.again1"):
        shutil.copytree(folder / "1.0", folder / name)
    before = set(folder.iterdir())
    sample = SAMPLES / "varying"
    for job, name in ((2, "2.0.again1"), (4, "4.0.again2")):
        done = cluster.run("srun", "--poolcuda", "-n", 2, sample, 1, ":", "--poolcuda", "-n", 3, sample, 1, env=SIMULATED, cwd=cluster.work)
        assert ranks_in(folder / name) == list(range(5))
        line = last_lines(done.stderr)[f"{job}.0"]
        assert line.startswith("5 ranks: ") and line.endswith(f"; poolcuda report {folder / name}")
    assert {path.name for path in set(folder.iterdir()) - before} == {"2.0.again1", "4.0.again2"}


def test_the_options_of_one_component_hold_for_all_of_a_step_whose_tasks_are_all_counted(cluster):
    sample = SAMPLES / "varying"
    for job, ranks, words in ((1, 3, ("--poolcuda", "-n", 2, "/bin/true", ":", "-n", 3, sample, 1)),
                              (3, 2, ("-n", 2, sample, 1, ":", "--poolcuda", "-n", 3, "/bin/true"))):
        done = cluster.run("srun", *words, env=SIMULATED, cwd=cluster.work)
        assert last_lines(done.stderr)[f"{job}.0"].startswith(f"5 tasks: {ranks} ranks: ")
        assert len(ranks_in(cluster.work / f"poolcuda-figures/{job}.0")) == ranks


def test_a_step_with_no_environment_of_the_user_is_pooled(cluster):
    done = cluster.run("srun", "--export=NONE", "--poolcuda", "--poolcuda-set=POOLCUDA_ZERO=1", ENV,
                       env={"MINE": "1", "POOLCUDA_HOST": "0"}, cwd=cluster.work)
    tasks = environment_of(done)
    assert "MINE" not in tasks and "POOLCUDA_HOST" not in tasks
    assert (tasks["LD_PRELOAD"], tasks["POOLCUDA_ZERO"]) == (str(LIBRARY), "1")
    assert tasks["POOLCUDA_STATS_FILE"] == f"{cluster.work}/poolcuda-figures/1.0/rank%r.json"


def test_neither_a_jobs_script_nor_prologs_nor_slurms_own_processes_are_pooled(make_cluster, tmp_path):
    for name in ("Prolog", "Epilog", "TaskProlog"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\n(echo $LD_PRELOAD; env | grep POOLCUDA) >>{tmp_path}/{name}.saw\nexit 0\n")
        script.chmod(0o755)
    cluster = make_cluster(lines=[f"{name}={tmp_path}/{name}" for name in ("Prolog", "Epilog", "TaskProlog")])
    parent = "cat /proc/$PPID/environ /proc/$PPID/maps | tr '\\0' '\\n' | grep -c -e LD_PRELOAD -e libpoolcuda"
    job = sbatch(cluster, "echo script=$LD_PRELOAD\n"
                          f"srun --poolcuda sh -c 'echo task=$LD_PRELOAD; echo parent=$({parent.replace(chr(39), chr(34))})'\n"
                          "srun sh -c 'echo other=$LD_PRELOAD'\n")
    guard.wait_for(lambda: has_ended(cluster, job) and (tmp_path / "Epilog.saw").exists(), f"the end of job {job}")
    said = (cluster.work / f"slurm-{job}.out").read_text().splitlines()
    assert "script=" in said and f"task={LIBRARY}" in said and "parent=0" in said and "other=" in said
    for name in ("Prolog", "Epilog"):
        assert not (tmp_path / f"{name}.saw").read_text().strip(), name
    # Slurm gives it the environment that the task has: those of the script, the pooled task and the other one.
    assert [line for line in (tmp_path / "TaskProlog.saw").read_text().splitlines() if line.endswith(".so")] == [str(LIBRARY)]


def test_a_missing_library_is_told_once_and_the_step_runs_unpooled(make_cluster):
    cluster = make_cluster("library=/nowhere/libpoolcuda.so")
    done = cluster.run("srun", "-N", 3, "-n", 6, "--poolcuda", SAMPLES / "varying", 2, env=SIMULATED, cwd=cluster.work)
    assert sum(sums(done).values()) == 6
    assert [line for line in done.stderr.splitlines() if "poolcuda" in line] == [
        "poolcuda: /nowhere/libpoolcuda.so: No such file or directory; this step runs unpooled"]


def test_a_folder_that_cannot_be_made_is_told_once_and_the_step_runs_unpooled(cluster):
    done = cluster.run("srun", "-N", 3, "-n", 6, "--poolcuda-stats=/nowhere/figures", SAMPLES / "varying", 2, env=SIMULATED,
                       cwd=cluster.work)
    assert sum(sums(done).values()) == 6
    assert [line for line in done.stderr.splitlines() if "poolcuda" in line] == [
        "poolcuda: /nowhere/figures: No such file or directory; this step runs unpooled"]


def test_a_site_says_who_may_and_what_holds_where_nothing_is_asked_for(make_cluster, copies):
    cluster = make_cluster(f"library={copies[LIBRARY]}", f"allow=root,@{USERS[0]}", "preset=vmm", "folder=here")
    tasks = environment_of(cluster.run("srun", "--poolcuda", ENV, user=USERS[0], cwd=cluster.work))
    assert tasks["POOLCUDA_PRESET"] == "vmm" and tasks["POOLCUDA_STATS_FILE"] == f"{cluster.work}/here/1.0/rank%r.json"
    refused = cluster.run("srun", "--poolcuda", ENV, user=USERS[1], code=1)
    assert refused.stderr == (f"poolcuda: --poolcuda: the site does not allow it to {USERS[1]}, but to root,@{USERS[0]}; "
                              "nothing was started\n")
    assert "LD_PRELOAD" not in environment_of(cluster.run("srun", ENV, user=USERS[1]))
    assert environment_of(cluster.run("srun", "--poolcuda=bfc", ENV, cwd=cluster.work))["POOLCUDA_PRESET"] == "bfc"


# What srun says to an argument in plugstack.conf.
BAD_ARGUMENTS = [
    ("preset=none", 'preset=none: POOLCUDA_PRESET="none": expected one of default|futhark|pyopencl|bfc|pytorch|paddle|vmm|pytorch-expandable'),
    ("preset=", "preset=: expected the name of a preset"),
    ("library=here.so", "library=here.so: expected an absolute path without spaces and colons"),
    ("folder=", "folder=: expected the path of a folder"),
    ("allow=", "allow=: expected USER,@GROUP,..."),
    ("alow=\33all", "alow=?all: expected library=PATH, command=PATH, folder=PATH, preset=NAME or allow=USER,@GROUP,..."),
]


def test_a_bad_argument_of_the_sites_is_told_and_the_step_runs_unpooled(cluster):
    for argument, expected in BAD_ARGUMENTS:
        cluster.write_plugstack(f"{cluster.plugstack.rstrip()} {argument}\n")
        done = cluster.run("srun", "--poolcuda", ENV)
        assert done.stderr == f"poolcuda: plugstack.conf: {expected}; no step is pooled\n"
        assert not any("POOLCUDA" in name for name in environment_of(done)) and "LD_PRELOAD" not in environment_of(done)


def test_two_users_on_one_node_neither_see_nor_trim_each_others_programs(make_cluster, copies):
    cluster = make_cluster(f"library={copies[LIBRARY]}")
    env = {**SIMULATED, "LD_LIBRARY_PATH": str(copies[LIBRARY].parent)}
    steps, folders = {}, {}
    for job, user in enumerate(USERS, 1):
        folders[user] = cluster.work / user
        steps[user] = cluster.start_command("srun", "-w", "n1", "--overlap", f"--poolcuda-stats={folders[user]}",
                                            copies[UNHURRIED], user=user, env=env, cwd=cluster.work)
        figures = folders[user] / f"{job}.0/rank0.json"
        guard.wait_for(lambda file=figures: file.exists() and file.stat().st_size, f"the figures of {user}")

    def seen(user):
        done = cluster.run("srun", "-w", "n1", "--overlap", copies[COMMAND], "top", "--json", user=user)
        return [process["pid"] for process in json.loads(done.stdout)["processes"]]

    for user in USERS:
        guard.wait_for(lambda user=user: len(seen(user)) == 1, f"the program of {user} in its own table")
    assert seen(USERS[0]) != seen(USERS[1])
    said = cluster.run("srun", "-w", "n1", "--overlap", copies[COMMAND], "trim", "--timeout=60", "all", user=USERS[0])
    assert str(seen(USERS[0])[0]) in said.stdout + said.stderr and str(seen(USERS[1])[0]) not in said.stdout + said.stderr
    assert report(folders[USERS[0]])["counters"]["requests_answered"] == 1
    assert report(folders[USERS[1]])["counters"]["requests_answered"] == 0
    for job, user in enumerate(USERS, 1):
        cluster.run("scancel", job)
        assert f"{job}.0" in last_lines(steps[user].communicate()[0])


def test_without_the_command_the_last_line_says_where_the_figures_are(make_cluster):
    cluster = make_cluster("command=/nowhere/poolcuda")
    done = cluster.run("srun", "--poolcuda", SAMPLES / "varying", 2, env=SIMULATED, cwd=cluster.work)
    folder = cluster.work / "poolcuda-figures/1.0"
    assert last_lines(done.stderr)["1.0"] == f"1 task: figures in {folder}; /nowhere/poolcuda is not here to add them up"
    assert ranks_in(folder) == [0]


def test_ranks_without_figures_can_be_seen_in_the_last_line(cluster):
    done = cluster.run("srun", "-n", 3, "--poolcuda", "sh", "-c", f"[ $SLURM_PROCID = 1 ] || exec {SAMPLES}/varying 2", env=SIMULATED,
                       cwd=cluster.work)
    assert last_lines(done.stderr)["1.0"].startswith("3 tasks: 2 ranks: ")


def test_the_commands_of_the_document_run_as_shown(cluster):
    """Those of docs/clusters.md that its own test cannot run."""
    solver, batch = cluster.work / "solver", cluster.work / "job.sh"
    solver.write_text(f"#!/bin/sh\nexec {SAMPLES}/three_sites 2\n")
    solver.chmod(0o755)
    text = (ROOT / "docs/clusters.md").read_text()
    section = text.partition("\n## Slurm\n")[2].partition("\n## ")[0]
    batch.write_text(re.search(r"```text\n(#!.*?)```", section, re.S)[1])
    tools = cluster.work / "bin"
    tools.mkdir()
    (tools / "poolcuda").symlink_to(COMMAND)
    environment = {**cluster.base(), **SIMULATED, "SHELL": "/bin/bash"}
    environment["PATH"] = f"{tools}:{environment['PATH']}"
    blocks = parse("docs/clusters.md", section)
    assert blocks and all(block.reason for block in blocks)
    for block in blocks:
        block.reason = ""
        run_block(block, cluster.work, environment)


def test_the_line_of_plugstack_conf_that_the_document_shows_is_taken(cluster):
    """With paths and a group that are there."""
    (line,) = re.findall(r"^optional (\S+poolcuda_spank\.so .*)$", (ROOT / "docs/clusters.md").read_text(), re.M)
    path, *arguments = line.split()
    assert path.rpartition("/")[2] == PLUGIN.name
    folder = next(argument.partition("=")[2] for argument in arguments if argument.startswith("folder="))
    (group,) = [argument for argument in arguments if argument.startswith("allow=@")]
    taken = " ".join(arguments).replace(folder, str(cluster.work / "site")).replace(group, "allow=@root")
    cluster.write_plugstack(f"optional {PLUGIN} library={LIBRARY} command={COMMAND} {taken}\n")
    done = cluster.run("srun", "--poolcuda", WORKING, 2, env=SIMULATED)
    assert ": 1 rank: " in done.stderr and ranks_in(cluster.work / "site/1.0") == [0]
    assert environment_of(cluster.run("srun", "--poolcuda", ENV))["POOLCUDA_PRESET"] == "vmm"


@pytest.mark.in_every_run
def test_a_cluster_leaves_no_daemon_behind(make_cluster):
    cluster = make_cluster()
    assert len(cluster.left()) >= 1 + len(NODES)
    cluster.start_command("srun", "sleep", 1000)
    guard.wait_for(lambda: states(cluster).get("1") == "RUNNING", "a step")
    cluster.__exit__()
    assert cluster.left() == [] and all(daemon.poll() is not None for daemon in cluster.daemons.values())
