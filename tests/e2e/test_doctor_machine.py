"""poolcuda doctor: this machine, its driver, its environment."""

import shutil

import pytest
from conftest import COMMAND, LIBRARY
from diagnoses import CUDART, EMPTY, MALLOC, OPENER, build, doctor


def test_the_machine_alone(doctor):
    said = doctor()
    assert said.code == 0 and said.said["app"] is None and said.facts["library"] == str(LIBRARY)
    assert {"library"} <= said.ids("ok") and "driver-simulated" in said.ids("note")


def test_without_a_driver(doctor):
    said = doctor(env={"LD_LIBRARY_PATH": ""})
    if said.facts["driver_library"]:
        pytest.skip("this machine has a driver: run it on one without")
    assert said.problems == {"driver-missing"}
    assert said.code == 1


def test_a_driver_that_is_too_old_for_the_runtime(doctor, build, tmp_path):
    build("libcuda.so.450.80.02", EMPTY, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.450.80.02")
    shutil.copy(CUDART, tmp_path / "libcudart.so.12.4.127")
    (tmp_path / CUDART.name).symlink_to("libcudart.so.12.4.127")
    said = doctor(build("program", MALLOC, CUDART), env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert said.facts["driver_library_version"] == "450.80.02" and said.facts["runtime_version"] == "12.4.127"
    assert said.problems == {"driver-too-old"}


def test_without_the_library(doctor, tmp_path):
    shutil.copy(COMMAND, tmp_path / "alone")
    said = doctor(OPENER, command=tmp_path / "alone")
    assert "library-missing" in said.problems and not said["hooks-reached"]


def test_options(doctor):
    said = doctor(OPENER, env={"POOLCUDA_FREE": "nver", "POOLCUDA_FRE": "1"})
    assert said.code == 0 and len(said["option"]) == 2
    assert 'POOLCUDA_FREE="nver": expected one of' in said.text("option")
    assert doctor(OPENER, env={"POOLCUDA_DISABLE": "1"}).problems == {"disabled"}


def test_memory_checkers_and_profilers(doctor, build, tmp_path):
    said = doctor(OPENER, env={"CUDA_INJECTION64_PATH": "/opt/compute-sanitizer/libsanitizer-collection.so"})
    assert said.problems == {"memory-checker"} and "compute-sanitizer" in said.text("memory-checker")
    tool = build("libcupti.so.13", EMPTY, "-shared", "-fPIC")
    said = doctor(OPENER, env={"LD_PRELOAD": str(tool)})
    assert said.code == 0 and "a CUPTI tool" in said.text("profiler")
    shutil.copy(OPENER, tmp_path / "compute-sanitizer")
    assert "memory-checker" in doctor("./compute-sanitizer", "app").problems
