"""srun --poolcuda where something is odd: what the environment, the folder or the site's configuration has, and what tasks do."""

import contextlib
import os
import pathlib
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys

import guard
import pytest
from cluster import USERS
from conftest import COMMAND, LIBRARY, SAMPLES, SIMULATED, UNHURRIED
from steps import environment_of, last_lines, other_configuration, ranks_in, report, sbatch, sums

ENV = "/usr/bin/env"
WORKING = (SAMPLES / "varying", 2)
NO_FIGURES = "no task used CUDA, the library was not reached, or nothing could be written there"


def poolcuda_lines(done):
    return [line for line in done.stderr.splitlines() if line.startswith("poolcuda: ")]


@pytest.mark.in_every_run
def test_what_the_environment_says_of_other_pools_and_figures_does_not_spoil_a_steps_own(cluster):
    gone = "/nowhere/libpoolcuda.so"
    env = {**SIMULATED, "POOLCUDA_STATS": "1", "POOLCUDA_STATS_FILE": "/nowhere/figures", "SLURM_RESTART_COUNT": "5th"}
    done = cluster.run("srun", f"--export=ALL,LD_PRELOAD={gone}", "--poolcuda", *WORKING, env=env, cwd=cluster.work)
    (line,) = poolcuda_lines(done)
    assert line.startswith("poolcuda: step 1.0.restart5: 1 rank: ")
    assert report(cluster.work / "poolcuda-figures/1.0.restart5")["counters"]["malloc_calls"]


@pytest.mark.in_every_run
def test_the_sites_library_is_the_first_whatever_libraries_of_its_name_are_preloaded(cluster):
    old, empty, link = (cluster.work / name / "libpoolcuda.so" for name in ("old", "empty", "link"))
    for file in (old, empty, link):
        file.parent.mkdir()
    shutil.copy(LIBRARY, old)
    empty.touch()
    link.symlink_to(LIBRARY)
    other = "libutil.so.1"
    for before, after in ((f"/nowhere/libpoolcuda.so:{LIBRARY}", LIBRARY), ("libpoolcuda.so", LIBRARY), (empty, LIBRARY),
                          (f"{other}:{old}", f"{LIBRARY}:{other}"), (f"{old}:{other}", f"{LIBRARY}:{other}"),
                          (f"{link}:{other}", f"{link}:{other}"), (f"{LIBRARY}:{other}", f"{LIBRARY}:{other}")):
        done = cluster.run("srun", "--poolcuda", ENV, env={"LD_PRELOAD": str(before)}, cwd=cluster.work)
        assert environment_of(done)["LD_PRELOAD"] == str(after), before


def test_a_preload_without_room_for_the_library_is_told_and_the_step_runs_unpooled(cluster):
    full = "libutil.so.1" + ":" * (128 * 1024 - len("LD_PRELOAD=libutil.so.1") - 1)
    command = ("sh", "-c", f"echo ${{#LD_PRELOAD}}; exec {WORKING[0]} 2")
    native = cluster.run("srun", *command, env={**SIMULATED, "LD_PRELOAD": full})
    pooled = cluster.run("srun", "--poolcuda", *command, env={**SIMULATED, "LD_PRELOAD": full}, cwd=cluster.work)
    assert sums(native) == sums(pooled) and str(len(full)) in sums(native)
    assert poolcuda_lines(pooled)[0] == "poolcuda: LD_PRELOAD: Argument list too long; this step runs unpooled"


def test_figures_of_an_earlier_step_with_the_same_number_stay_apart(cluster):
    # As of a cluster whose numbers have begun again.
    before = [cluster.work / "figures" / name for name in ("1.0", "2.0", "2.0.again1")]
    for folder in before:
        folder.mkdir(parents=True)
        (folder / "rank0.json").write_text("{}\n")
    for step, name in (("1.0", "1.0.again1"), ("2.0", "2.0.again2")):
        done = cluster.run("srun", "--poolcuda-stats=figures", *WORKING, env=SIMULATED, cwd=cluster.work)
        folder = cluster.work / "figures" / name
        assert ranks_in(folder) == [0] and last_lines(done.stderr)[step].endswith(f"poolcuda report {folder}")
    assert all((folder / "rank0.json").read_text() == "{}\n" and len(list(folder.iterdir())) == 1 for folder in before)


@pytest.fixture
def for_all(make_cluster, copies):
    """A cluster whose library all users can read."""
    return make_cluster(f"library={copies[LIBRARY]}")


@pytest.fixture
def shared_folder(for_all):
    """A folder that all users may write to, and one that is the first user's alone."""
    cluster = for_all
    shared, own = cluster.work / "shared", cluster.work / "own"
    shared.mkdir()
    shared.chmod(0o1777)
    own.mkdir(mode=0o700)
    entry = pwd.getpwnam(USERS[0])
    subprocess.run(["chown", f"{entry.pw_uid}:{entry.pw_gid}", own], check=True)
    return shared, own


def test_what_another_user_has_put_in_the_place_of_a_steps_folder_is_not_written_to(for_all, shared_folder):
    cluster = for_all
    shared, own = shared_folder
    step = ("srun", f"--poolcuda-stats={shared}", ENV)

    def links(names):
        script = "import os, sys\nfor name in sys.argv[2:]: os.symlink(sys.argv[1], name)"
        cluster.run(sys.executable, "-c", script, own, *(shared / name for name in names), user=USERS[1])

    links(["1.0"])
    tasks = environment_of(cluster.run(*step, user=USERS[0]))
    assert tasks["POOLCUDA_STATS_FILE"] == f"{shared}/1.0.again1/rank%r.json"
    links(["2.0", *(f"2.0.again{number}" for number in range(1, 1001))])
    done = cluster.run(*step, user=USERS[0])
    assert poolcuda_lines(done)[0] == f"poolcuda: {shared}/2.0: another user has made it, or it is a link; this step runs unpooled"
    assert "LD_PRELOAD" not in environment_of(done)
    assert not list(own.iterdir())


def test_nodes_with_a_bad_argument_or_without_the_plugin_do_not_go_unnoticed(cluster):
    env = other_configuration(cluster, cluster.plugstack)
    cluster.write_plugstack(f"{cluster.plugstack.rstrip()} preset=none\n")
    done = cluster.run("srun", "-N", 3, "--poolcuda", "--poolcuda-set=POOLCUDA_ZERO=1", ENV, env=env, cwd=cluster.work)
    assert poolcuda_lines(done)[0] == ('poolcuda: this node: plugstack.conf: preset=none: POOLCUDA_PRESET="none": expected one of '
                                       "default|futhark|pyopencl|bfc|pytorch|paddle|vmm|pytorch-expandable; this step runs unpooled")
    assert not any("POOLCUDA" in name for name in environment_of(done))
    cluster.write_plugstack("")
    done = cluster.run("srun", "--poolcuda", ENV, env=env, cwd=cluster.work)
    assert poolcuda_lines(done) == [f"poolcuda: step 2.0: no folder {cluster.work}/poolcuda-figures/2.0 here: the nodes have it to "
                                    "themselves, or no plugin poolcuda_spank.so"]


@contextlib.contextmanager
def full_file_system(folder, options):
    """A file system of its own on a folder, for a while."""
    folder.mkdir()
    folder.parent.chmod(0o755)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=1777,{options}", "none", folder], capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_folder_without_room_takes_nothing_from_the_program(make_cluster, tmp_path):
    with full_file_system(tmp_path / "full", "size=4k") as room:
        (room / "all").write_bytes(b"x" * 4096)
        cluster = make_cluster()
        native = cluster.run("srun", *WORKING, env=SIMULATED)
        pooled = cluster.run("srun", f"--poolcuda-stats={room}", *WORKING, env=SIMULATED)
        assert sums(native) == sums(pooled)
        assert [line for line in pooled.stderr.splitlines() if not line.startswith("seconds ")] == [
            f'poolcuda: POOLCUDA_STATS_FILE="{f"{room}/2.0/rank%r.json":.80}": cannot be made (error 28), no figures of this process',
            f"poolcuda: step 2.0, 1 task: no figures in {room}/2.0: {NO_FIGURES}"]
        cluster.__exit__()


def test_a_folder_that_has_no_room_for_another_is_told_once_and_the_step_runs_unpooled(make_cluster, tmp_path):
    with full_file_system(tmp_path / "full", "nr_inodes=1") as room:
        cluster = make_cluster()
        done = cluster.run("srun", "-n", 2, f"--poolcuda-stats={room}", *WORKING, env=SIMULATED)
        assert sum(sums(done).values()) == 2
        assert poolcuda_lines(done) == [f"poolcuda: {room}: No space left on device; this step runs unpooled"]
        cluster.__exit__()


@pytest.mark.parametrize("full", ["size=4k", "nr_inodes=1"])
def test_a_full_file_system_on_one_node_costs_the_figures_of_its_ranks_alone(cluster, full):
    if not cluster.has_hosts:
        pytest.skip("no namespaces here, and so no file system of a node's own")
    folder = cluster.work / "figures"
    folder.mkdir()
    on_node = ["nsenter", f"--target={cluster.daemons['n2'].pid}", "--mount", "--root"]
    subprocess.run([*on_node, "mount", "-t", "tmpfs", "-o", full, "none", folder], check=True)
    subprocess.run([*on_node, "sh", "-c", f"head -c 4096 /dev/zero >{folder}/all"], stderr=subprocess.DEVNULL, check=full.startswith("size"))
    native = cluster.run("srun", "-N", 3, "--ntasks-per-node=2", *WORKING, env=SIMULATED)
    pooled = cluster.run("srun", "-N", 3, "--ntasks-per-node=2", f"--poolcuda-stats={folder}", *WORKING, env=SIMULATED)
    assert sums(native) == sums(pooled) and sum(sums(native).values()) == 6
    *told, line = poolcuda_lines(pooled)
    assert len(told) == (2 if full == "size=4k" else 0) and all("cannot be made" in each for each in told), "by the library in these ranks"
    assert line.startswith("poolcuda: step 2.0, 6 tasks: 4 ranks: ") and ranks_in(folder / "2.0") == [0, 1, 4, 5]


def test_a_command_that_fails_is_not_taken_for_ranks_without_figures(make_cluster):
    cluster = make_cluster("command=/bin/false")
    done = cluster.run("srun", "--poolcuda", *WORKING, env=SIMULATED, cwd=cluster.work)
    folder = cluster.work / "poolcuda-figures/1.0"
    assert poolcuda_lines(done) == [f"poolcuda: step 1.0, 1 task: /bin/false finds no figures in the files of {folder}"]
    assert ranks_in(folder) == [0]


def test_a_working_folder_with_an_odd_name_is_told_in_one_line_or_refused_by_its_length(cluster):
    odd = cluster.work / "two\nlines: %p"
    odd.mkdir()
    (line,) = poolcuda_lines(cluster.run("srun", "--poolcuda", *WORKING, env=SIMULATED, cwd=odd))
    assert line.endswith(f"poolcuda report '{cluster.work}/two?lines: %p/poolcuda-figures/1.0'") and ": 1 rank: " in line
    assert ranks_in(odd / "poolcuda-figures/1.0") == [0]
    script = ("import os\nfor _ in range(12): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
              f"os.execvp('srun', ['srun', '--poolcuda', {ENV!r}])")
    done = cluster.run(sys.executable, "-c", script, cwd=cluster.work, code=1)
    assert done.stderr == ("poolcuda: the path of the folder poolcuda-figures is too long here; expected --poolcuda-stats=DIR with one "
                           "of less than 3968 bytes; nothing was started\n")


@pytest.mark.in_every_run
def test_the_command_in_the_last_line_can_be_pasted_whatever_the_folders_name(cluster):
    for name in ("plain-1", "it's odd", "$HOME; d%n", "a&b*"):
        done = cluster.run("srun", f"--poolcuda-stats={name}", *WORKING, env=SIMULATED, cwd=cluster.work)
        pasted = poolcuda_lines(done)[-1].rpartition("; poolcuda report ")[2]
        (folder,) = (cluster.work / name).iterdir()
        assert shlex.split(pasted) == [str(folder)] and (name != "plain-1" or pasted == str(folder))
        assert subprocess.run(["sh", "-c", f"printf %s {pasted}"], capture_output=True, text=True, check=True).stdout == str(folder)


def test_a_folder_of_a_step_that_its_user_may_not_enter_is_named(make_cluster, copies):
    cluster = make_cluster(f"library={copies[LIBRARY]}")
    shared = cluster.work / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    done = cluster.run("sh", "-c", f"umask 777; exec srun --poolcuda-stats={shared} /bin/true", user=USERS[0])
    assert poolcuda_lines(done)[0] == f"poolcuda: {shared}/1.0: Permission denied; this step runs unpooled"


def test_steps_at_once_in_one_folder_and_a_step_in_a_steps_task_keep_their_figures_apart(cluster):
    sample = f"{WORKING[0]} 2"
    inner = f"srun -n 2 --overlap --poolcuda-stats=inner {sample}"
    job = sbatch(cluster, f"for i in 0 1 2 3; do srun -n 2 --overlap --poolcuda-stats=figures {sample} & done\nwait\n"
                          f"srun -n 1 --overlap --poolcuda-stats=figures sh -c '{inner}; {sample}'\n", "-n", 4, "--wait")
    told = last_lines((cluster.work / f"slurm-{job}.out").read_text())
    assert set(told) == {f"{job}.{step}" for step in range(6)}
    for step in range(4):
        assert ranks_in(cluster.work / f"figures/{job}.{step}") == [0, 1] and told[f"{job}.{step}"].startswith("2 ranks: ")
    assert told[f"{job}.4"].startswith("1 rank: ") and told[f"{job}.5"].startswith("2 ranks: ")
    assert ranks_in(cluster.work / f"figures/{job}.4") == [0] and ranks_in(cluster.work / f"inner/{job}.5") == [0, 1]


def test_programs_of_several_kinds_in_one_step_and_one_that_execs_another_are_told_by_their_ranks(cluster):
    programs, killed = cluster.work / "programs", cluster.work / "killed"
    killed.write_text(f"#!/bin/sh\n{UNHURRIED} &\n"
                      f"until {COMMAND} report --brief poolcuda-figures/1.0/rank3.json 2>/dev/null | grep ' of '; do sleep 0.1; done >&2\n"
                      "kill -9 $! $$\n")
    killed.chmod(0o755)
    programs.write_text(f"0 {WORKING[0]} 2\n1 /bin/echo no CUDA\n2 sh -c '{WORKING[0]} 2; {WORKING[0]} 2; exec {WORKING[0]} 2'\n"
                        f"3 {killed}\n")
    done = cluster.run("srun", "-n", 4, "--kill-on-bad-exit=0", "--poolcuda", "--multi-prog", programs, env=SIMULATED, cwd=cluster.work,
                       code=None)
    assert done.returncode == 128 + signal.SIGKILL and sum(sums(done).values()) == 5
    line = last_lines(done.stderr)["1.0"]
    assert line.startswith("4 tasks: 3 ranks in 5 processes (1 running or killed): "), line


def test_a_step_on_a_terminal_and_one_that_is_interrupted_tell_what_came_of_them(cluster):
    terminal = cluster.run("script", "-qec", f"srun --pty --poolcuda {WORKING[0]} 2", "/dev/null", env={**SIMULATED, "SHELL": "/bin/sh"},
                           cwd=cluster.work)
    assert "poolcuda: step 1.0: 1 rank: " in terminal.stdout
    step = cluster.start_command("srun", "-n", 2, "--poolcuda", "sh", "-c", f"{WORKING[0]} 2; echo ready; exec sleep 1000", env=SIMULATED,
                                 cwd=cluster.work)
    figures = [cluster.work / f"poolcuda-figures/2.0/rank{rank}.json" for rank in range(2)]

    def written():
        with contextlib.suppress(AssertionError, OSError, subprocess.CalledProcessError, KeyError):
            return report(cluster.work / "poolcuda-figures/2.0")["counters"]["malloc_calls"] > 0 and all(file.exists() for file in figures)
        return False

    guard.wait_for(written, "figures of both ranks")
    # At the second one within a second srun ends the step; a slow machine needs more of them.
    while step.poll() is None:
        step.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            step.wait(0.2)
    assert last_lines(step.communicate()[0])["2.0"].startswith("2 ranks"), "what an interrupted step tells"


def blocks(pid, number):
    """Whether that signal would not reach the process; not if it has ended."""
    with contextlib.suppress(OSError):
        (mask,) = re.findall(r"^SigBlk:\s+(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
        return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def start_added_up_by(make_cluster, slow, script, has_started):
    """A step of two tasks whose figures are added up by that script; the cluster and the step, once it does so."""
    slow.parent.chmod(0o755)
    slow.write_text(script)
    slow.chmod(0o755)
    cluster = make_cluster(f"command={slow}")
    step = cluster.start_command("srun", "-n", 2, "--poolcuda", *WORKING, env=SIMULATED, cwd=cluster.work, start_new_session=True)
    guard.wait_for(has_started, "the command that adds up")
    return cluster, step


@pytest.mark.in_every_run
def test_ctrl_c_while_figures_are_added_up_ends_that_at_once_and_leaves_them(make_cluster, tmp_path):
    started, slow = tmp_path / "started", tmp_path / "slow"
    # No shell, which would let all signals in. The nodes run the command as well, not to add up.
    script = f"#!{sys.executable}\nimport os, sys\nif sys.argv[1] != 'report': sys.exit()\nos.symlink(str(os.getpid()), {str(started)!r})\nos.execvp('sleep', ['sleep', '1000'])\n"
    cluster, step = start_added_up_by(make_cluster, slow, script, started.is_symlink)
    adding = int(os.readlink(started))
    os.killpg(step.pid, signal.SIGINT)  # as a terminal does
    guard.wait_for(lambda: step.poll() is not None or blocks(adding, signal.SIGINT), "srun's end")
    assert step.poll() is not None, "Ctrl-C does not reach what srun waits for"
    (line,) = [line for line in step.communicate()[0].splitlines() if line.startswith("poolcuda: ")]
    folder = cluster.work / "poolcuda-figures/1.0"
    assert line == f"poolcuda: step 1.0, 2 tasks: figures in {folder}; {slow} was ended before it had added them up"
    assert ranks_in(folder) == [0, 1] and report(folder)["counters"]["malloc_calls"]


def test_an_interrupt_of_srun_alone_while_figures_are_added_up_takes_nothing_from_the_last_line(make_cluster, tmp_path):
    started, go = tmp_path / "started", tmp_path / "go"
    script = f"#!/bin/sh\n[ $1 = report ] || exit\ntouch {started}\nuntil [ -e {go} ]; do sleep 0.1; done\nexec {COMMAND} \"$@\"\n"
    cluster, step = start_added_up_by(make_cluster, tmp_path / "slow", script, started.exists)
    step.send_signal(signal.SIGINT)
    go.touch()
    (line,) = [line for line in step.communicate()[0].splitlines() if line.startswith("poolcuda: ")]
    assert step.returncode == 0 and line.startswith("poolcuda: step 1.0: 2 ranks: ")
    assert line.endswith(f"; poolcuda report {cluster.work}/poolcuda-figures/1.0")
