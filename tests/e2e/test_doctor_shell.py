"""poolcuda doctor: scripts for a shell, and wrappers."""

import os
import shutil
import subprocess

import pytest
from conftest import COMMAND, DRIVER, PROGRAMS, RUNTIME
from diagnoses import MALLOC, OPENER, STATIC_CUDART, build, doctor, environment, script
from verdicts import right, truth


def test_a_python_script_with_ctypes(doctor, tmp_path):
    script(tmp_path / "program.py", "#!/usr/bin/python3\nimport ctypes\nctypes.CDLL('libcuda.so.1')\n")
    said = doctor("./program.py")
    assert said.code == 0 and {"script", "script-modules"} <= said.ids("note")
    assert "/usr/bin/python3" in said.text("script") and "ctypes" in said.text("script-modules")


def test_a_python_script_given_to_python(doctor, tmp_path):
    script(tmp_path / "train.py", "import torch.cuda as cuda, os\nflags = os.RTLD_DEEPBIND\n", 0o644)
    said = doctor("/usr/bin/env", "X=1", "/usr/bin/python3", "-u", "train.py")
    assert said.code == 0 and "torch" in said.text("own-pool")
    assert "deepbind" in said.ids("warning")


def test_comments_and_other_words_are_no_modules(doctor, tmp_path):
    script(tmp_path / "program.py", "#!/usr/bin/python3\n# import torch\nprint('torchlight')\n")
    said = doctor("./program.py")
    assert said.problems == {"no-cuda"} and not said["script-modules"]


def test_a_job_script_with_a_launcher_and_python(doctor, tmp_path):
    shutil.copy(PROGRAMS / "named_sites", tmp_path / "solve")
    (tmp_path / "train.py").write_text("import cupy as cp\n")
    os.mkfifo(tmp_path / "pipe.py")
    script(tmp_path / "job.sh", "#!/bin/sh\nmodule load cuda\nmpirun -np 4 ./solve > out\npython3 train.py < pipe.py\n")
    said = doctor("./job.sh")
    assert said.code == 0 and "cudaMalloc of ./solve" in said.text("hooks-reached")
    assert [finding["what"].split(":")[0] for finding in said["script-modules"]] == ["train.py names cupy"]


def test_a_shell_script_that_starts_a_cuda_program(doctor, tmp_path):
    shutil.copy(PROGRAMS / "named_sites", tmp_path / "solve")
    script(tmp_path / "job.sh", "#!/bin/sh\nset -e\ncd . && exec ./solve --fast\n")
    said = doctor("./job.sh")
    assert said.code == 0 and "LD_PRELOAD is inherited" in said.text("script")
    assert "cudaMalloc of ./solve" in said.text("hooks-reached")


def test_a_shell_script_that_starts_a_program_in_path_or_a_script(doctor, tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(OPENER, tmp_path / "bin/solve")
    script(tmp_path / "inner.sh", "#!/usr/bin/env bash\nsolve | tee log\n")
    script(tmp_path / "job.sh", "#!/bin/sh\n./inner.sh\n")
    said = doctor("./job.sh", env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert said.code == 0 and "dlsym of solve" in said.text("hooks-reached")


def test_scripts_that_start_each_other_come_to_an_end(doctor, tmp_path):
    script(tmp_path / "a", "#!/bin/sh\n./b\n")
    script(tmp_path / "b", "#!./a\n./a ./b\n")
    assert doctor("./a").code == 3


def test_what_cannot_be_pooled_in_a_shell_script_is_reported(doctor, build, tmp_path):
    build("solve", MALLOC, "-static", STATIC_CUDART, "-ldl", "-lpthread")
    script(tmp_path / "job.sh", "#!/bin/sh\n./solve\n")
    assert doctor("./job.sh").problems == {"static"}


def test_a_launcher_is_looked_through(doctor):
    said = doctor("nice", "-n", "5", OPENER)
    assert said.code == 0 and "dlsym of " in said.text("hooks-reached")


def test_a_static_launcher_is_looked_through(doctor, build, tmp_path):
    starter = build("starter", "int main(void) { return 0; }", "-static")
    said = doctor(starter, "--option", OPENER)
    assert said.code == 3 and "static-starter" in said.ids("note")
    assert "whether" in said.text("cannot-know") and f"starts {OPENER} cannot be known" in said.text("cannot-know")
    shutil.copy(starter, tmp_path / "valgrind")
    said = doctor("./valgrind", "--leak-check=full", OPENER)
    assert said.code == 0 and "starts" in said.text("launcher")
    assert doctor(starter, "--option", "absent").problems == {"static"}


def test_a_wrapper_script_is_looked_through(doctor, tmp_path):
    script(tmp_path / "wrapper", '#!/bin/sh\nexec "$@"\n')
    said = doctor("./wrapper", OPENER, "argument")
    assert said.code == 0 and "dlsym of " in said.text("hooks-reached") and not said["no-cuda"]
    assert "starts programs" in doctor("./wrapper").text("cannot-know")


# What takes LD_PRELOAD away, or switches the library off, in a script.

@pytest.mark.parametrize("text, problem", [
    ("unset LD_PRELOAD\n./app", "preload-lost"), ("LD_PRELOAD= ./app", "preload-lost"), ("export LD_PRELOAD=\n./app", "preload-lost"),
    ("LD_PRELOAD=\n./app", "preload-lost"), ("unset A LD_PRELOAD; exec ./app", "preload-lost"),
    ("env -i LD_LIBRARY_PATH=$LD_LIBRARY_PATH ./app", "preload-lost"),
    ("env -u LD_PRELOAD ./app", "preload-lost"), ("env --unset=LD_PRELOAD nice ./app", "preload-lost"),
    ("export -n LD_PRELOAD\n./app", "preload-lost"), ("eval 'unset LD_PRELOAD'\n./app", "preload-lost"),
    ("start() {\n  LD_PRELOAD= \"$@\"\n}\nstart ./app", "preload-lost"), ("(unset LD_PRELOAD; ./app)", "preload-lost"),
    ("result=$(LD_PRELOAD= ./app)", "preload-lost"), ("true && LD_PRELOAD='' ./app | cat", "preload-lost"),
    ("APP=./app\nLD_PRELOAD= $APP", "preload-lost"), ("sh -c 'unset LD_PRELOAD; ./app'", "preload-lost"),
    ("sh <<END\nunset LD_PRELOAD\n./app\nEND", "preload-lost"), (". ./settings\n./app", "preload-lost"),
    ("POOLCUDA_DISABLE=1 ./app", "disabled"), ("export POOLCUDA_DISABLE=1\n./app", "disabled"), ("env POOLCUDA_DISABLE=1 ./app", "disabled"),
    ("POOLCUDA_DISABLE=1\nexport POOLCUDA_DISABLE\n./app", "disabled")], ids=lambda text: text.split("\n", maxsplit=1)[0])
@pytest.mark.parametrize("way", ["script", "-c"])
def test_what_a_script_takes_from_its_program_is_reported(doctor, truth, tmp_path, text, problem, way):
    shutil.copy(OPENER, tmp_path / "app")
    (tmp_path / "settings").write_text("export LD_PRELOAD=\n")
    script(tmp_path / "job", f"#!/bin/bash\n{text}\n")
    words = ["./job"] if way == "script" else ["bash", "-c", text]
    assert doctor(*words).problems == {problem} and truth(*words) == (0, 0) and truth.done.returncode == 0


@pytest.mark.parametrize("text", [
    "unset LD_PRELOAD_OTHER\n./app", "(unset LD_PRELOAD)\n./app", "LD_PRELOAD= ls > list\n./app", "echo 'unset LD_PRELOAD'\n./app",
    "# LD_PRELOAD=\n./app", "LD_PRELOAD=$LD_PRELOAD:libm.so.6 ./app", "export LD_PRELOAD=\"$LD_PRELOAD\"\n./app", "POOLCUDA_DISABLE=0 ./app",
    "unset LD_PRELOAD | cat\n./app", "cat <<END\nunset LD_PRELOAD\nEND\n./app", "start() { unset LD_PRELOAD; }\n./app",
    "case x in\n  y) ls ;;\n  x) ./app ;;\nesac", "for i in 1 2; do ./app $i; done", "out=`./app`", "cd inner; ../app", "APP=./app; $APP -v",
    "if ! [[ -n $x && ( $y = 1 ) ]]; then ./app; fi", "POOLCUDA_DISABLE=1\n./app", "run() { shift; \"$@\"; }\nrun a ./app", "set -e; time ./app 2> log",
    "sudo=ls\n$sudo | cat\nenv -C /tmp \"$PWD/app\"", "env -i /bin/ls\n./app"],
    ids=lambda text: text.split("\n", maxsplit=1)[0])
def test_a_script_that_keeps_ld_preload_is_pooled(right, tmp_path, text):
    (tmp_path / "inner").mkdir()
    shutil.copy(OPENER, tmp_path / "app")
    script(tmp_path / "job", f"#!/bin/bash\n{text}\n")
    right(True, "./job")


@pytest.mark.parametrize("text", [
    "if [ -n \"$1\" ]; then unset LD_PRELOAD; fi\n./app", "[ -z \"$1\" ] || export LD_PRELOAD=\n./app", "LD_PRELOAD= ./app\n./app",
    "export LD_PRELOAD=$OTHER$(ls)\n./app", "if true; then LD_PRELOAD= ./app; else ./app; fi", "eval \"unset $X\"; LD_PRELOAD= ./app; $(cat command)",
    "test -n \"$1\" && export POOLCUDA_DISABLE=1\n./app"],
    ids=lambda text: text.split("\n", maxsplit=1)[0])
def test_what_depends_on_how_a_script_goes_cannot_be_known(doctor, tmp_path, text):
    shutil.copy(OPENER, tmp_path / "app")
    script(tmp_path / "job", f"#!/bin/bash\n{text}\n")
    said = doctor("./job")
    assert said.code == 3 and "LD_PRELOAD" in said.text("cannot-know")


def test_sudo_and_containers_in_a_script(doctor, truth, tmp_path):
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin/sudo", '#!/bin/sh\nunset LD_PRELOAD\nexec "$@"\n')
    script(tmp_path / "bin/docker", "#!/bin/sh\n")
    shutil.copy(OPENER, tmp_path / "app")
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    script(tmp_path / "job", "#!/bin/sh\nsudo ./app\n")
    assert doctor("./job", env=path).problems == {"preload-lost"} and truth("./job", env=path) == (0, 0)
    script(tmp_path / "job", "#!/bin/sh\nsudo ls\n./app\ndocker pull image\n")
    assert doctor("./job", env=path).code == 0 and truth("./job", env=path)[0] > 0
    script(tmp_path / "job", "#!/bin/sh\ndocker run image ./app\n")
    said = doctor("./job", env=path)
    assert said.code == 3 and said["cannot-know"] and truth("./job", env=path) == (0, 0)


@pytest.mark.parametrize("folder", ['$(dirname "$0")', '"$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"', '"${0%/*}"', '`pwd`/tool'],
                         ids=["dirname", "pwd", "braces", "unseen"])
def test_programs_beside_a_script(right, doctor, tmp_path, folder):
    (tmp_path / "tool").mkdir()
    shutil.copy(OPENER, tmp_path / "tool/app")
    script(tmp_path / "tool/job", f"#!/bin/bash\ncd {folder}\n./app\n")
    if "`" in folder:
        assert "cannot all be told" in doctor("tool/job").text("cannot-know")
        shutil.copy(OPENER, tmp_path / "app")
        assert "in a folder that cannot be known" in doctor("tool/job").text("cannot-know")
    else:
        right(True, "tool/job")


def test_a_launcher_that_this_machine_lacks(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "app")
    for command, code in (("srun -n 4 ./app", 0), ("srun --export=NONE ./app", 1), ("sudo ./app", 1), ("srun ls", 3)):
        script(tmp_path / "job", f"#!/bin/bash\n{command}\n")
        assert doctor("./job", env={"PATH": "/usr/bin:/bin"}).code == code, command


# Arguments that are only data.

@pytest.mark.parametrize("text", ["echo ./app", "tar cf app.tar ./app", "cp ./app b", "ls -l ./app", "printf '%s\\n' ./app", "test -x ./app", "true ./app",
                                  "which ./app", "bash -n ./inner", "x=./app", "cat <<END\n./app\nEND", "chmod +x ./app", "APPS=(./app)"])
def test_what_a_script_only_names_is_not_taken_for_started(doctor, truth, tmp_path, text):
    shutil.copy(OPENER, tmp_path / "app")
    script(tmp_path / "inner", "./app\n")
    script(tmp_path / "job", f"#!/bin/bash\n{text}\n")
    assert doctor("./job").code == 3 and truth("./job") == (0, 0)


@pytest.mark.parametrize("words", [["tar", "cf", "x.tar", "app"], ["which", "./app"], ["echo", "./app"], ["cp", "app", "b"],
        ["ls", "app"], ["bash", "-n", "./inner"],
                                   ["find", "app", "-type", "f"], ["cat", "inner"], ["env", "tar", "cf", "x.tar", "./app"]])
def test_programs_that_start_none_of_their_arguments(right, tmp_path, words):
    shutil.copy(OPENER, tmp_path / "app")
    script(tmp_path / "inner", "./app\n")
    right(False, *words)


def test_whether_another_program_starts_its_arguments_cannot_be_known(doctor, truth, build, tmp_path):
    shutil.copy(OPENER, tmp_path / "app")
    (tmp_path / "makefile").write_text("./app:\n\t./app\n")
    build("idle", "int system(const char *);\nint main(int n, char **w) { return n > 9 ? system(w[1]) : 0; }")
    build("starts", "int system(const char *);\nint main(int n, char **w) { return system(w[1]); }")
    for words, works in ((["./idle", "./app"], False), (["tar", "cf", "x.tar", "--use-comp=./app", "./app"], True),
            (["./starts", "./app"], True), (["make", "-n", "./app"], False)):
        said = doctor(*words)
        assert said.code == 3 and "starts ./app cannot be known" in said.text("cannot-know"), words
        assert (truth(*words)[0] > 0) == works


# How a script is started.

def test_a_script_without_a_first_line_is_started_by_the_shell_as_run_does(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "app")
    for text, code in ((f"exec ./app\n", 0), ("unset LD_PRELOAD\n./app\n", 1), ("MZ\0\n", 1)):
        script(tmp_path / "job", text)
        assert doctor("./job").code == code
        done = subprocess.run([COMMAND, "run", "./job"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert ("poolcuda: figures in" in done.stderr) == (code == 0), done.stderr
    assert "not-elf" in doctor("./job").problems


@pytest.mark.parametrize("words", [["nice"], ["env", "-C", "."], ["xargs", "-a", "/dev/null"], ["mpirun", "-n", "1"], ["strace", "-o", "log"]])
def test_a_script_without_a_first_line_behind_a_launcher(doctor, truth, tmp_path, words):
    if not shutil.which(words[0]):
        pytest.skip(f"no {words[0]} here: install it")
    shutil.copy(OPENER, tmp_path / "app")
    script(tmp_path / "job", "./app\n")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": "false"}
    said, pooled = doctor(*words, "./job", env=root), truth(*words, "./job", env=root)[0] > 0
    assert (said.code == 0) == pooled == (words[0] in ("nice", "env", "xargs"))


def test_a_carriage_return_behind_the_first_line(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "app")
    for line in ("#!/bin/sh", "#!/usr/bin/env python3", "#!/bin/sh -e"):
        script(tmp_path / "job", f"{line}\r\n./app\n")
        said = doctor("./job")
        assert said.problems == {"interpreter-missing"} and "carriage return" in said.text("interpreter-missing")
        with pytest.raises((OSError, subprocess.CalledProcessError)):
            subprocess.run(["./job"], cwd=tmp_path, env=environment(), check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["sh", "-c", said.said["next"]], cwd=tmp_path, check=True)
        assert doctor("./job").problems != {"interpreter-missing"}


def test_the_word_behind_the_interpreter_counts(right, doctor, truth, tmp_path):
    shutil.copy(OPENER, tmp_path / "app")
    script(tmp_path / "job", "#!/usr/bin/env -S A=1 bash -e\n./app\n")
    right(True, "./job")
    script(tmp_path / "job", f"#!/usr/bin/env -iS LD_LIBRARY_PATH={DRIVER}:{RUNTIME} sh\n./app\n")
    assert doctor("./job").problems == {"preload-lost"}
    script(tmp_path / "job", "#!/bin/bash -n\n./app\n")
    assert doctor("./job").code == 1 and truth("./job") == (0, 0)
