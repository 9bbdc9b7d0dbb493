"""poolcuda doctor: this machine, its driver, its environment."""

import shlex
import shutil

import guard
import pytest
from conftest import COMMAND, LIBRARY
from diagnoses import CUDART, EMPTY, MALLOC, OPENER, build, doctor, environment
from steered import NEEDS_MOUNT
from test_nvidia_runtime import SOURCE as NVIDIA_SOURCE
from test_nvidia_runtime import toolkit


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


def remedy_without_a_driver(doctor, program, **env):
    said = doctor(program, env={"LD_LIBRARY_PATH": "", **env})
    if said.facts["driver_library"]:
        pytest.skip("this machine has a driver: run it on one without")
    assert "driver-missing" in said.problems
    return said["driver-missing"][0]["remedy"]


def test_without_a_driver_the_command_for_the_simulated_gpu_is_named_and_works(doctor):
    remedy = remedy_without_a_driver(doctor, OPENER)
    assert "LD_LIBRARY_PATH" not in remedy
    command = shlex.split(remedy.rpartition(": ")[2])
    assert command == [str(COMMAND), "run", "--simulate", "--", str(OPENER)]
    guard.run([*command[:2], "--stats=0", *command[2:]], env=environment(LD_LIBRARY_PATH=""), check=True, capture_output=True)


@pytest.mark.skipif(not toolkit(), reason="no CUDA toolkit with NVIDIA's runtime here: install it")
def test_without_a_driver_no_simulated_gpu_is_named_to_a_program_that_it_would_refuse(doctor, build):
    program = build("program", NVIDIA_SOURCE, f"-L{toolkit()}", "-lcudart")
    assert "simulate" not in remedy_without_a_driver(doctor, program, LD_LIBRARY_PATH=str(toolkit()))


@pytest.mark.parametrize("command", [["/bin/true"], ["/bin/sh", "-c", OPENER], ["/no/such/program"]])
def test_without_a_driver_no_simulated_gpu_is_named_to_what_is_not_seen_to_use_cuda(doctor, command):
    said = doctor(*command, env={"LD_LIBRARY_PATH": ""})
    assert "simulate" not in str([finding.get("remedy") for finding in said["driver-missing"]])


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


@pytest.fixture(name="mounted")
def doctor_with_mounts(doctor, tmp_path):
    """mounted(text, ..., env={}): what the doctor says where files with these texts are mounted on /etc/ld.so.preload."""
    def ask(*texts, env=None):
        etc = tmp_path / "etc"
        etc.mkdir(exist_ok=True)
        for name in ("ld.so.cache", "passwd"):
            shutil.copy(f"/etc/{name}", etc)
        (etc / "ld.so.preload").write_text("")
        mounts = [f"mount --bind {etc} /etc"]
        for i, text in enumerate(texts):
            (tmp_path / f"preload.{i}").write_text(text)
            mounts.append(f"mount --bind {tmp_path}/preload.{i} /etc/ld.so.preload")
        inside = tmp_path / "inside"
        inside.write_text("#!/bin/sh\n" + " && ".join([*mounts, f'exec {COMMAND} "$@"']) + "\n")
        inside.chmod(0o755)
        outer = tmp_path / "outer"
        outer.write_text(f'#!/bin/sh\nexec unshare --mount {inside} "$@"\n')
        outer.chmod(0o755)
        return doctor(OPENER, command=outer, env=env)
    return ask


@NEEDS_MOUNT
def test_a_preload_file_from_outside_is_noted_and_one_over_another_is_a_warning(mounted, build):
    library = build("libvgpu.so", EMPTY, "-shared", "-fPIC")
    none, one, two = mounted(), mounted(f"{library}\n"), mounted(f"{library}\n", "# nothing\n")
    assert not none["system-preload"] and not none["preload-mounted"] and not none["preload-hidden"]
    assert one["preload-mounted"] and not one["preload-hidden"] and str(library) in one.text("system-preload")
    assert "2 files are mounted" in two.text("preload-hidden") and not two["system-preload"]
    assert two["preload-hidden"][0]["severity"] == "warning" and two.code == none.code == 0


@NEEDS_MOUNT
@pytest.mark.parametrize("limit", ["CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT"])
def test_limits_whose_library_was_lost_with_its_preload_file_are_a_warning(mounted, build, limit):
    library = build("libvgpu.so", EMPTY, "-shared", "-fPIC")
    limited = {limit: "50"}
    assert not mounted(f"{library}\n", env=limited)["limits-lost"]
    lost = mounted("# the pool's\n", env=limited)
    assert lost["limits-lost"] and "libvgpu.so" in lost.text("limits-lost") and lost.code == 0
    assert not mounted(env={**limited, "LD_PRELOAD": str(library)})["limits-lost"]
    assert not mounted(env={**limited, "CUDA_DISABLE_CONTROL": "true"})["limits-lost"]
    assert mounted(env={**limited, "CUDA_DISABLE_CONTROL": "false"})["limits-lost"]
    assert not mounted(env={limit: ""})["limits-lost"]
    assert not mounted()["limits-lost"]


def bad_library(kind, folder):
    """A libvgpu.so that ld.so passes over."""
    path = folder / "libvgpu.so"
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("no library at all, " * 20)
    elif kind != "missing":
        library = bytearray(LIBRARY.read_bytes())
        at, value = {"class": (4, b"\x01"), "machine": (18, b"\xb7\x00" if library[18] == 62 else b"\x3e\x00")}[kind]
        library[at:at + len(value)] = value
        path.write_bytes(library)
    return path


@NEEDS_MOUNT
@pytest.mark.parametrize("kind", ["missing", "empty", "text", "class", "machine"])
def test_what_ld_so_passes_over_in_the_preload_file_is_a_warning_and_keeps_no_limit(mounted, tmp_path, build, kind):
    bad, good = bad_library(kind, tmp_path), build("libgood.so", EMPTY, "-shared", "-fPIC")
    said = mounted(f"{good}:{bad} # {tmp_path}/libnamed.so\n", env={"CUDA_DEVICE_MEMORY_LIMIT": "1g"})
    assert said.code == 0 and not said["loader"] and said["hooks-reached"]
    assert len(said["preload-missing"]) == 1 and said["preload-missing"][0]["severity"] == "warning"
    assert f"object '{bad}' from /etc/ld.so.preload cannot be preloaded" in said.text("preload-missing")
    assert len(said["system-preload"]) == 1 and str(good) in said.text("system-preload")
    assert "passes over" in said.text("limits-lost")


@NEEDS_MOUNT
def test_a_pool_that_the_preload_file_names_in_vain_is_no_problem_beside_one_that_is_preloaded(mounted):
    said = mounted("/no/such/libpoolcuda.so\n")
    assert said.code == 0 and said["hooks-reached"] and said["preload-missing"][0]["severity"] == "warning"
