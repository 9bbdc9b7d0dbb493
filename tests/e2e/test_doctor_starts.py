"""poolcuda doctor on what launchers change of a program's environment and folder."""

import shutil

import pytest
from conftest import DRIVER, PROGRAMS, RUNTIME
from diagnoses import CUDART, build, doctor
from test_doctor_kinds import MPI
from verdicts import ALLOCATING_LIBRARY, right, truth

POOLED = PROGRAMS / "driver_opened"


def test_a_launcher_that_switches_the_library_off(doctor, truth):
    for words in (["env", "POOLCUDA_DISABLE=1"], ["env", "-S", "POOLCUDA_DISABLE=1"], ["nice", "env", "A=1", "POOLCUDA_DISABLE=yes"]):
        said = doctor(*words, POOLED)
        assert said.problems == {"disabled"} and "env sets POOLCUDA_DISABLE" in said.text("disabled"), words
        assert truth(*words, POOLED) == (0, 0)
    assert doctor("env", "POOLCUDA_DISABLE=0", POOLED).code == 0


def test_env_with_letters_together(doctor, truth):
    libraries = f"LD_LIBRARY_PATH={DRIVER}:{RUNTIME}"
    for words in (["env", f"-iS{libraries} {POOLED}"], ["env", "-iv", libraries, str(POOLED)], ["env", "-vuLD_PRELOAD", str(POOLED)],
                  ["env", "-iC", "/tmp", libraries, str(POOLED)], ["env", "-S", f"-u LD_PRELOAD {POOLED}"]):
        assert doctor(*words).problems == {"preload-lost"}, words
        assert truth(*words) == (0, 0) and truth.done.returncode == 0


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun here: install openmpi-bin")
def test_mpirun_that_takes_ld_preload_away(doctor, truth):
    for setting, problem in (("LD_PRELOAD=", "preload-lost"), ("POOLCUDA_DISABLE=1", "disabled")):
        words = ["mpirun", "-n", "1", "-x", setting, POOLED]
        assert doctor(*words, env=MPI).problems == {problem} and truth(*words, env=MPI) == (0, 0)


def test_libraries_are_looked_for_as_the_program_will(doctor, right, build, tmp_path):
    solver = build("lib/libmine.so", ALLOCATING_LIBRARY.replace("FUNCTION", "mine"), "-shared", "-fPIC", CUDART,
                   "-Wl,-soname,libmine.so")
    program = build("program", "int mine(void);\nint main(void) { return mine(); }", solver,
                    "-Wl,--allow-shlib-undefined")
    assert "library-not-found" in doctor(program).problems
    right(True, "env", f"LD_LIBRARY_PATH={tmp_path}/lib:{DRIVER}:{RUNTIME}", program)
    assert "library-not-found" in doctor("env", "LD_LIBRARY_PATH=/other", program).problems


def test_env_that_goes_to_another_folder(right, doctor, tmp_path):
    (tmp_path / "inner").mkdir()
    shutil.copy(POOLED, tmp_path / "inner/app")
    right(True, "env", "-C", "inner", "./app")
    right(True, "env", "--chdir=inner", "./app")
    assert doctor("env", "-C", "absent", "./app").problems == {"missing"}
    assert doctor("env", "-C", "inner", "./inner/app").problems == {"missing"}

