"""scripts/gpu-bench's own logic with made-up figures and stand-ins for programs, and the results of its programs,
compiled for the CPU."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import SAMPLES

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "tests/gpu/bench"


@pytest.fixture(scope="session", name="gpu_bench")
def load_script():
    loader = importlib.machinery.SourceFileLoader("gpu_bench", str(ROOT / "scripts/gpu-bench"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_bench", loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


@pytest.fixture(name="measured")
def made_up_load(gpu_bench):
    """T = 10 s, of which t = 6 s; auto leaves 0.2 s of that, defer 0.6 s, sync 3 s."""
    load = gpu_bench.Load("example", ["true"], "1.5x")
    load.times = {"native": [10.0, 9.0, 12.0], "sync": [7.0], "auto": [4.2], "defer": [5.0]}
    load.inside = {"native": 6.0, "sync": 3.0, "auto": 0.2, "defer": 0.6}
    load.hits = 99.0
    return load


def test_the_limit_is_the_time_over_the_time_outside_malloc_and_free(measured):
    assert measured.limit() == 10 / 4


def test_gain_and_share_removed_are_by_mode(measured):
    assert [round(measured.gain(mode), 2) for mode in ("sync", "auto", "defer")] == [1.43, 2.38, 2.0]
    assert [round(measured.removed(mode), 3) for mode in ("sync", "auto", "defer")] == [0.5, 0.967, 0.9]


def test_the_verdict_asks_for_95_percent_in_the_default_mode(measured):
    assert measured.verdict() == "met: 96.7% of t removed"
    measured.inside["auto"] = 0.4
    assert measured.verdict() == "MISSED: 93.3% of t removed"


def test_without_its_parts_there_is_no_limit_and_no_verdict(gpu_bench):
    load = gpu_bench.Load("example", ["true"])
    assert (load.limit(), load.gain("auto"), load.removed("auto")) == (None, None, None)
    assert load.verdict() == "time inside not measured"


def test_the_table_of_programs(gpu_bench, measured):
    skipped = gpu_bench.Load("other", ["true"], missing="skipped: no such thing here")
    rows = gpu_bench.program_section([measured, skipped])
    assert rows[2] == ("| example | 10.000 s (9.000-12.000) | 6.000 s | 2.50x | 1.43x, 50.0% | 2.38x, 96.7% "
                       "| 2.00x, 90.0% | 99.0% | met: 96.7% of t removed | 1.5x |")
    assert rows[3] == "| other | - | - | - | -, - | -, - | -, - | - | skipped: no such thing here | - |"


@pytest.mark.parametrize("cached, verdict", [(4.9, "met"), (4.0, "MISSED")])
def test_pytorch_is_compared_with_its_own_cache(gpu_bench, measured, cached, verdict):
    measured.cached = [cached]
    assert gpu_bench.program_section([measured])[-1].endswith(f"{5.0 / cached:.2f}, goal at most 1.10: {verdict}")


def test_pairs_are_read_and_judged_from_64_mib_on(gpu_bench):
    lines = "pair 1 900.0 800.0 1000.0\npair {} 200.0 190.0 210.0\n"
    assert gpu_bench.pairs_of(lines.format(64 << 20)) == {1: (900, 800, 1000), 64 << 20: (200, 190, 210)}
    measured = {"native": {1: (5000, 4000, 6000), 64 << 20: (300_000, 1, 1), 1 << 30: (900_000, 1, 1)},
                "auto": gpu_bench.pairs_of(lines.format(64 << 20)) | {1 << 30: (250, 200, 300)},
                "cudaMallocAsync": {64 << 20: (900, 1, 1)}, "CuPy's pool": {}}
    rows = gpu_bench.pair_section(measured, ["CuPy's pool: no usable cupy: ImportError"])
    assert rows[0] == "| size | native | auto | cudaMallocAsync |"
    assert rows[2] == "| 1 B | 5 us (4 us-6 us) | 900 ns (800 ns-1 us) | - |"
    assert "- native : auto from 64 MiB on: 1500x to 3600x; goal 1000x, met" in rows
    assert "- cudaMallocAsync : auto from 64 MiB on: 4x to 4x; goal 5x, MISSED" in rows
    assert "- not measured: CuPy's pool: no usable cupy: ImportError" in rows
    assert "- native : auto from 64 MiB on: not measured; goal 1000x" in gpu_bench.pair_section({}, [])


def test_the_ratio_of_pinned_memory_is_printed_by_size(gpu_bench):
    measured = {"native": {4096: (60000.0, 1, 2), 64 << 20: (30e6, 1, 2)}, "auto": {4096: (3000.0, 1, 2), 64 << 20: (3000.0, 1, 2)}}
    rows = gpu_bench.pinned_section(measured, ["defer: out of time"])
    assert "| 64 MiB | 30 ms (1 ns-2 ns) | 3 us (1 ns-2 ns) |" in rows
    assert "- native : auto: 4 KiB 20x, 64 MiB 10000x" in rows
    assert "- not measured: defer: out of time" in rows
    assert "- native : auto: not measured" in gpu_bench.pinned_section({}, [])


STAND_IN = """
import os, sys
preload = os.environ.get("LD_PRELOAD", "").split()
mode = os.environ.get("POOLCUDA_FREE", "native")
if "POOLCUDA_STATS_FILE" in os.environ and SEEN:
    with open(os.environ["POOLCUDA_STATS_FILE"].replace("%p", "1"), "w") as report:
        report.write("  allocations: 200, of which 150 from idle memory (75.0%)\\n"
                     "  driver calls: 50 allocations and 1 frees made\\n")
print("result x", RESULT)
print("time x", {"native": 4, "sync": 3, "auto": 2, "defer": 1}[mode])
if len(preload) - (mode != "native") == 1:
    print("inside x", {"native": 3, "sync": 2, "auto": 0.1, "defer": 0.3}[mode])
"""


@pytest.fixture(name="stand_in")
def measure_stand_in(gpu_bench, tmp_path):
    def run(seen=True, outcome="1"):
        for name in ("pool", "shim"):
            (tmp_path / f"{name}.c").write_text("int nothing_at_all;\n")
            subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / f"{name}.c", "-o", tmp_path / f"{name}.so"],
                           check=True)
        script = tmp_path / "program.py"
        script.write_text(f"SEEN = {seen}\n" + STAND_IN.replace("RESULT", outcome))
        load = gpu_bench.Load("stand-in", [sys.executable, str(script)])
        gpu_bench.measure_load(load, tmp_path / "pool.so", tmp_path / "shim.so", gpu_bench.gpu_check.Clock(60), True)
        return load
    return run


def test_a_round_runs_every_mode_with_and_without_the_shim(stand_in):
    load = stand_in()
    assert load.times == {"native": [4], "sync": [3], "auto": [2], "defer": [1]}
    assert load.inside == {"native": 3, "sync": 2, "auto": 0.1, "defer": 0.3}
    assert (load.limit(), load.hits, load.missing) == (4, 75.0, None)


def test_a_pool_that_saw_nothing_is_no_measurement(stand_in):
    assert stand_in(seen=False).verdict() == "the pool saw no allocation"


def test_results_that_differ_are_reported(stand_in):
    assert stand_in(outcome="mode == 'defer'").verdict() == "defer: the results differ"


def test_without_a_gpu_nothing_is_measured():
    done = subprocess.run([sys.executable, ROOT / "scripts/gpu-bench"], env={**os.environ, "PATH": "/nowhere"},
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "gpu-bench: no NVIDIA GPU is visible here; nothing was measured\n")


def test_what_is_handed_over_is_run_and_written_as_a_section(tmp_path):
    """With stand-ins for nvidia-smi and for the one program that --only chooses."""
    tools, programs = tmp_path / "bin", tmp_path / "build/gpu-bench"
    for path, text in ((tools / "nvidia-smi", "#!/bin/sh\necho Made-up GPU\n"),
                       (programs / "canny", f"#!{sys.executable} -IS\nSEEN = True\n"
                        + STAND_IN.replace("RESULT", "1"))):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "empty.c").write_text("int nothing_at_all;\n")
    for library in (programs / "inside.so", tmp_path / "build/libpoolcuda.so"):
        subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "empty.c", "-o", library], check=True)
    done = subprocess.run([sys.executable, ROOT / "scripts/gpu-bench", "--build", tmp_path / "build", "--out", tmp_path,
                           "--only", "canny, 256"], env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    section = (tmp_path / "gpu-bench.md").read_text()
    assert ": Made-up GPU, benchmarks\n" in section and "Medians of 5 rounds" in section
    assert ("| canny, 256 x 256 | 4.000 s (4.000-4.000) | 3.000 s | 4.00x | 1.33x, 33.3% | 2.00x, 96.7% | 4.00x, 90.0% "
            "| 75.0% | met: 96.7% of t removed | 9.06x and 9.18x |") in section


def test_the_shim_leaves_results_and_call_sites_as_they_are(run, tmp_path):
    shim = tmp_path / "inside.so"
    subprocess.run(["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden",
                    BENCH / "inside.c", "-o", shim], check=True)
    bare = run(SAMPLES / "three_sites")
    timed = run(SAMPLES / "three_sites", before=[shim], env={"POOLCUDA_SITE_DEPTH": "2"})
    assert (timed.code, timed.out) == (0, bare.out)
    assert [allocations for allocations, _ in timed.sites()] == [100, 100, 100]


# Program, its data set made small: those with a check of their own end with an error if the results are wrong.
SMALL = [["canny", "128"], ["kmeans", "2000"], ["bfs", "4096"], ["lud", "96"], ["lavamd", "2"],
         ["options", "small"], ["stencil", "64"]]


@pytest.mark.parametrize("program, size", SMALL, ids=[name for name, _ in SMALL])
def test_the_programs_compute_what_they_should(tmp_path, program, size):
    built = tmp_path / program
    subprocess.run(["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-DBENCH_ON_CPU", "-x", "c++",
                    BENCH / f"{program}.cu", "-o", built], check=True)
    more = ["1", "16384" if program == "options" else "20"]
    done = subprocess.run([built, size, *more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"result {program}-")


def test_every_program_of_the_table_is_there(gpu_bench):
    assert {command[0] for _, command, _ in gpu_bench.LOADS} == \
        {path.stem for path in BENCH.glob("*.cu")} - {"pairs"}
