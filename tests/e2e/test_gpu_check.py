"""scripts/gpu-check's own logic, with stand-ins for the GPU and for the programs."""

import os
import shutil
import subprocess

import pytest
from conftest import LIBRARY, ROOT


@pytest.fixture
def gpu_check(tmp_path):
    """gpu_check({program: shell script}): the finished run and its written section."""
    build, tools, out = tmp_path / "build", tmp_path / "tools", tmp_path / "out"
    (build / "gpu").mkdir(parents=True)
    tools.mkdir()
    shutil.copy(LIBRARY, build / "libpoolcuda.so")

    def script(path, text):
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def runner(programs, only, gpu=True):
        if gpu:
            script(tools / "nvidia-smi", "echo Stand-in\n")
        script(tools / "nvcc", "echo release 13.0; exit 1\n")
        for name, text in programs.items():
            script(build / "gpu" / name, text)
        done = subprocess.run(
            [ROOT / "scripts/gpu-check", "--build", build, "--out", out, "--only", only],
            env=dict(os.environ, PATH=f"{tools}:/usr/bin:/bin"), capture_output=True, text=True,
            check=False)
        section = out / "gpu-check.md"
        return done, section.read_text() if section.exists() else ""

    return runner


def test_equal_results_pass_and_are_written_down(gpu_check):
    same = "echo result sum 42\necho time loop 0.5\n"
    done, section = gpu_check({"thrust_sort-static": same, "thrust_sort-shared": same}, "thrust_sort")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("2 passed, 0 failed, 0 skipped\n")
    assert "| thrust_sort-static | 0.500 s | 0.500 s | 1.00x |" in section
    assert "GPU Stand-in" in section and "CUDA 13.0" in section


def test_results_that_differ_under_the_pool_fail(gpu_check):
    differs = 'echo result x${LD_PRELOAD:+pooled}\n'
    done, section = gpu_check({"thrust_sort-static": differs}, "thrust_sort-static")
    assert done.returncode == 1
    assert "failed: the results differ" in section
    assert done.stdout.endswith("0 passed, 1 failed, 0 skipped\n")


def test_a_program_that_fails_under_the_pool_fails(gpu_check):
    done, section = gpu_check({"thrust_sort-static": 'echo result; [ -z "$LD_PRELOAD" ]\n'},
                              "thrust_sort-static")
    assert done.returncode == 1 and "pooled: exit 1" in section


def test_a_program_without_results_fails(gpu_check):
    done, _ = gpu_check({"thrust_sort-static": "true\n"}, "thrust_sort-static")
    assert done.returncode == 1


def test_what_is_absent_is_skipped_by_name(gpu_check):
    done, section = gpu_check({"thrust_sort-static": "echo skip no such GPU; exit 77\n"},
                              "thrust_sort")
    assert done.returncode == 0
    assert "skipped: no such GPU" in section
    assert "thrust_sort-shared" in section and "skipped: it does not compile" in section


def test_measurements_are_kept_and_failures_named(gpu_check):
    program = 'case $1 in --list) echo one; echo two;; one) echo measure one: yes;; *) exit 3;; esac\n'
    done, section = gpu_check({"measure": program}, "measure")
    assert done.returncode == 0
    assert "- measure one: yes" in section
    assert "- measure two: not answered to the end, exit 3" in section


def test_without_a_gpu_nothing_is_claimed(gpu_check):
    done, section = gpu_check({}, "thrust_sort", gpu=False)
    assert done.returncode == 0 and "no NVIDIA GPU" in done.stdout and section == ""
