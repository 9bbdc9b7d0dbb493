"""poolcuda doctor on scripts that hand LD_PRELOAD on, take it away, or may do either: held against a run of each."""

import os
import re
import shutil

import pytest
from conftest import COMMAND, DRIVER, RUNTIME
from diagnoses import OPENER, build, doctor, script
from test_doctor_kinds import MPI
from verdicts import right, truth

PATH = {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
LIBRARIES = f"LD_LIBRARY_PATH={DRIVER}:{RUNTIME}"
FIGURES = "POOLCUDA_STATS=$POOLCUDA_STATS POOLCUDA_STATS_FILE=$POOLCUDA_STATS_FILE SIMCUDA_COST=0"


@pytest.fixture
def job(tmp_path):
    """job(text): a script that is started as ./job, with a program that uses CUDA beside it, ./app."""
    def make(text):
        if not (tmp_path / "app").exists():
            shutil.copy(OPENER, tmp_path / "app")
        script(tmp_path / "job", f"#!/bin/bash\n{text}\n")
        return "./job"
    return make


@pytest.mark.parametrize("text", [
    'env LD_PRELOAD="$LD_PRELOAD" ./app', 'env LD_PRELOAD="libm.so.6:$LD_PRELOAD" ./app', 'L="$LD_PRELOAD"; env LD_PRELOAD="$L" ./app',
    f'env -i {LIBRARIES} {FIGURES} LD_PRELOAD="$LD_PRELOAD" ./app', 'L=$LD_PRELOAD; unset LD_PRELOAD; export LD_PRELOAD=$L; ./app',
    'LD_PRELOAD="${LD_PRELOAD:-none}" ./app', 'export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}libm.so.6"; ./app',
    "unset LD_PRELOAD; LD_PRELOAD=$(poolcuda preload) ./app", "unset LD_PRELOAD; export LD_PRELOAD=`poolcuda preload`; ./app",
    "unset LD_PRELOAD; LD_PRELOAD=$(poolcuda preload); export LD_PRELOAD; ./app",
    "f() { local LD_PRELOAD=; :; }; f; ./app", "f() { declare -x LD_PRELOAD=; :; }; f; ./app", "f() ( unset LD_PRELOAD; date ); f; ./app",
    "unset -f LD_PRELOAD; ./app"])
def test_a_script_that_hands_ld_preload_on_is_pooled(right, job, text):
    right(True, job(text), env=PATH)


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun here: install openmpi-bin")
def test_mpirun_that_is_handed_ld_preload_by_a_script(right, job):
    right(True, job('mpirun -n 1 -x LD_PRELOAD="$LD_PRELOAD" ./app'), env=MPI)


@pytest.mark.parametrize("text", [
    "unset LD_PRELOAD; LD_PRELOAD=$(poolcuda preload); ./app", 'unset LD_PRELOAD; env LD_PRELOAD="$LD_PRELOAD" ./app',
    "f() { declare -gx LD_PRELOAD=; }; f; ./app", "f() { unset LD_PRELOAD; }; f; ./app", "f() ( unset LD_PRELOAD; ./app ); f",
    "f() { local LD_PRELOAD=; ./app; }; f"])
def test_a_script_that_takes_ld_preload_away_is_not(doctor, truth, job, text):
    said = doctor(job(text), env=PATH)
    assert said.problems == {"preload-lost"}, said.findings
    assert truth("./job", env=PATH) == (0, 0) and truth.done.returncode == 0


# Names or values that cannot be read.

@pytest.mark.parametrize("text", [
    'for v in LD_PRELOAD FOO; do unset "$v"; done', 'eval "$(echo unset LD_PRELOAD)"', "export $(echo LD_PRELOAD=)", ". <(echo unset LD_PRELOAD)",
    "unset ${!LD_P*}", "LD_PRELOAD=${LD_PRELOAD%/*}", "declare -n r=LD_PRELOAD; r=", 'for LD_PRELOAD in ""; do :; done',
    "mapfile LD_PRELOAD </dev/null; LD_PRELOAD=(); unset LD_PRELOAD[0]", "read LD_PRELOAD </dev/null", 'v=$(echo LD_PRELOAD); printf -v "$v" ""',
    'v=$(echo LD_PRELOAD); declare -x "$v="'])
def test_what_a_script_does_to_names_that_cannot_be_read_is_not_known(doctor, truth, job, text):
    said = doctor(job(f"{text}\n./app"), env=PATH)
    assert said.code == 3 and "LD_PRELOAD" in said.text("cannot-know"), said.findings
    assert truth("./job", env=PATH) == (0, 0) and truth.done.returncode == 0, truth.done.stderr


@pytest.mark.parametrize("text", [
    f"env -u LD_PRELOAD {LIBRARIES} bash -c \"LD_PRELOAD='$LD_PRELOAD' ./app\"", 'env LD_PRELOAD="$(echo $LD_PRELOAD)" ./app',
    "env -u LD_PRELOAD poolcuda run -- ./app"])
def test_a_launcher_that_may_hand_ld_preload_on_is_not_known(doctor, truth, job, text):
    said = doctor(job(text), env=PATH)
    assert said.code == 3 and "LD_PRELOAD" in said.text("cannot-know"), said.findings
    assert truth("./job", env=PATH)[0] > 0


def test_what_cannot_be_read_in_a_script_is_no_part_of_the_next_step(doctor, job):
    said = doctor(job('env -u LD_PRELOAD A="$(date)" ./app'))
    assert said.problems == {"preload-lost"} and "\\00" not in said.said["next"] and "\\00" not in said.text("preload-lost")


def test_a_folder_that_is_called_poolcuda_is_not_the_pool(doctor, tmp_path):
    (tmp_path / "poolcuda").mkdir()
    shutil.copy(OPENER, tmp_path / "poolcuda/app")
    assert doctor("env", "-u", "LD_PRELOAD", tmp_path / "poolcuda/app").problems == {"preload-lost"}
    assert doctor("env", "-u", "LD_PRELOAD", "poolcuda", "run", tmp_path / "poolcuda/app", env=PATH).code == 3


# What is started, and what is not.

@pytest.mark.parametrize("words", [["flock", "lock", "-c", "./app 3"], ["flock", "-n", "lock", "--command", "exec ./app"]], ids=" ".join)
def test_flock_gives_a_text_to_a_shell(right, doctor, job, words):
    job("")
    right(True, *words)
    assert doctor("flock", "lock", "-c", "unset LD_PRELOAD; ./app").problems == {"preload-lost"}


def test_what_find_finds_and_starts_is_not_known(doctor, truth, job):
    job("")
    words = ["find", ".", "-maxdepth", "1", "-name", "app", "-exec", "{}", "3", ";"]
    said = doctor(*words)
    assert said.code == 3 and "find starts what it finds" in said.text("cannot-know")
    assert truth(*words)[0] > 0


def test_what_a_static_program_starts_by_itself_is_not_known(doctor, truth, build, job):
    job("")
    build("launcher", "int system(const char *);\nint main(void) { return system(\"./app\"); }", "-static")
    build("silent", "int main(void) { return 0; }", "-static")
    said = doctor("./launcher")
    assert said.code == 3 and "static-starter" in said.ids("note"), said.findings
    assert truth("./launcher")[0] > 0
    assert doctor("./silent").problems == {"static"}


@pytest.mark.parametrize("text", ["exit\n./app", "exit 0; ./app", "exec ls\n./app", "f() { exit; }; f; ./app", "f() { return; ./app; }; f",
                                  "true; exec 2>log; exec date\n./app"])
def test_what_stands_behind_the_end_of_a_script_is_not_started(doctor, truth, job, text):
    said = doctor(job(text))
    assert said.code == 3 and "no CUDA is seen" in said.text("cannot-know"), said.findings
    assert truth("./job") == (0, 0)


@pytest.mark.parametrize("text", ["(exit)\n./app", "exec 2>log\n./app", "[ -n \"$1\" ] && exit\n./app", "if [ -n \"$1\" ]; then exit; fi\n./app",
                                  "f() { return; }; f; ./app", "exit | cat; ./app", "x=$(exit); ./app", "exec ./app; exit"])
def test_what_stands_behind_another_end_is_started(right, job, text):
    right(True, job(text))


# Python programs that change the environment of what they start.

@pytest.mark.parametrize("text", [
    "for k in list(os.environ):\n    if k.startswith('LD_P'):\n        del os.environ[k]", "os.environ.update({'LD_P' + 'RELOAD': ''})",
    "for k in list(os.environ):\n    if k[:4] == 'LD_P': os.environ.pop(k)", "more = {'LD_P' + 'RELOAD': ''}\nos.environ.update(**more)",
    "os.environ.update(LD_PRELOAD='')", "os.environ['LD_' + 'PRELOAD'] = ''", "name = 'LD_P' + 'RELOAD'\nos.environ[name] = ''",
    "kept = os.environ['LD_LIBRARY_PATH']\nos.environ.clear()\nos.environ['LD_LIBRARY_PATH'] = kept",
    "mine = os.environ\nfor k in list(mine):\n    if k[:4] == 'LD_P': mine.pop(k)", "os.putenv('LD_' + 'PRELOAD', '')",
    "from os import environ as e\nfor k in list(e):\n    if k[:4] == 'LD_P': e.pop(k)"])
def test_a_python_program_that_changes_an_environment_it_puts_together_is_not_known(doctor, truth, job, tmp_path, text):
    job("")
    (tmp_path / "work.py").write_text(f"import os, subprocess\n{text}\nsubprocess.run(['./app'], check=True)\n")
    said = doctor("/usr/bin/python3", "work.py")
    assert said.code == 3 and re.search("environment|LD_PRELOAD", said.text("cannot-know")), said.findings
    assert truth("/usr/bin/python3", "work.py") == (0, 0) and truth.done.returncode == 0, truth.done.stderr


@pytest.mark.parametrize("text", [
    "os.environ['A'] = str(1)", "del os.environ['HOME']", "os.environ.update({'A': '1', 'B': '2'}, C='3')", "x = os.environ.get('A' + 'B')",
    "for k in os.environ: print(k, os.environ[k])", "x = dict(os.environ)", "os.environ.setdefault('OMP_NUM_THREADS', '1')", "os.putenv('A', '1')"])
def test_a_python_program_that_changes_other_variables_is_pooled(right, job, tmp_path, text):
    job("")
    (tmp_path / "work.py").write_text(f"import os, subprocess\n{text}\nsubprocess.run(['./app'], check=True)\n")
    right(True, "/usr/bin/python3", "work.py")
