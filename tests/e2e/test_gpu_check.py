"""scripts/gpu-check's own logic, with stand-ins for programs: comparing, counting, time limits.

The preloaded object is an empty one, and the stand-ins write the report that a pool would write."""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import guard
import pytest
from conftest import BUILD, DRIVER

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu-check"

REPORT = """
report = os.environ["POOLCUDA_STATS_FILE"].replace("%p", str(os.getpid()))
open(report, "w").write("  allocations: 200, of which 150 from idle memory (75.0%, 3 another site's)\\n"
                        "  driver calls: 50 allocations and 10 frees made, 290 avoided\\n")
"""


@pytest.fixture(scope="session", name="gpu_check")
def load_script():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


@pytest.fixture(name="library")
def empty_library(tmp_path):
    source = tmp_path / "empty.c"
    source.write_text("int nothing_at_all;\n")
    library = tmp_path / "libempty.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture(name="judged")
def judge(gpu_check, library, tmp_path):
    def run(program, name="stand-in", seconds=guard.LIMIT):
        script = tmp_path / "program.py"
        script.write_text("import os, sys, time\npooled = 'LD_PRELOAD' in os.environ\n" + program)
        check = gpu_check.Check(name, [sys.executable, str(script)])
        gpu_check.judge(check, library, tmp_path, gpu_check.Clock(seconds))
        return check
    return run


POOLED_REPORT = "if pooled:\n" + "".join(f"    {line}\n" for line in REPORT.strip().splitlines())


def test_the_same_results_pass_with_their_figures(judged):
    check = judged(POOLED_REPORT + "print('result 1'); print('time loop', 1.0 if pooled else 3.0)")
    assert (check.verdict, check.reason) == ("passed", "")
    assert (check.native_s, check.pooled_s) == (3.0, 1.0)
    assert (check.hits, check.driver_allocations) == (75.0, 50)


def test_times_may_differ_results_may_not(judged):
    check = judged(POOLED_REPORT + "print('result same'); print('result', 2 if pooled else 1)")
    assert check.verdict == "failed"
    assert "natively 'result 1', pooled 'result 2'" in check.reason


def test_a_missing_result_is_a_difference(judged):
    check = judged(POOLED_REPORT + "print('result 1')\nif not pooled: print('result 2')")
    assert check.verdict == "failed" and "(nothing)" in check.reason


def test_reports_of_several_processes_are_added_up(judged):
    check = judged(POOLED_REPORT + "if pooled: open(report + '1', 'w').write(open(report).read()"
                   ".replace('150 from', '50 from'))\nprint('result 1')")
    assert (check.verdict, check.allocations, check.hits) == ("passed", 400, 50.0)


def test_a_pool_that_saw_nothing_fails(judged):
    check = judged("print('result 1')")
    assert (check.verdict, check.reason) == ("failed", "the pool saw no allocation")


def test_unless_the_library_may_bypass_it(judged):
    assert judged("print('result 1')", name="jax").verdict == "passed"


def test_no_result_at_all_fails(judged):
    assert judged(POOLED_REPORT).verdict == "failed"


def test_exit_codes(judged):
    assert "natively: exit 4" in judged("print('result 1'); sys.exit(4)").reason
    assert "pooled: exit 5" in judged("print('result 1'); sys.exit(5 if pooled else 0)").reason


def test_a_program_that_skips_says_why(judged):
    check = judged("print('skip no such thing here'); sys.exit(77)")
    assert (check.verdict, check.reason) == ("skipped", "no such thing here")


def test_skipping_only_under_the_pool_is_a_failure(judged):
    assert judged("print('result 1'); sys.exit(77 if pooled else 0)").verdict == "failed"


def test_a_hang_and_its_children_are_ended(judged):
    check = judged("os.fork(); time.sleep(600)", seconds=6)
    assert check.verdict == "failed" and "out of time" in check.reason


def test_no_time_left_is_a_plain_skip(judged):
    check = judged("print('result 1')", seconds=1)
    assert (check.verdict, check.reason) == ("skipped", "no time left")


def test_the_table_has_a_row_per_check(gpu_check, judged):
    rows = gpu_check.table([judged(POOLED_REPORT + "print('result 1'); print('time loop 2.0')")])
    assert rows[-1] == "| stand-in | 2.000 s | 2.000 s | 1.00x | 75.0% | 50 | passed |"


def test_a_library_that_cannot_be_loaded_is_refused(tmp_path):
    (tmp_path / "libpoolcuda.so").write_text("not an object")
    done = subprocess.run([sys.executable, str(SCRIPT), "--build", str(tmp_path), "--out",
                           str(tmp_path / "out")], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "cannot be preloaded" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--simulated"]], ids=["", "simulated"])
def test_random_programs_are_compared(arguments):
    """The simulated GPU in the place of the real one: they must agree, and a disagreement must be reported."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(DRIVER), "SIMCUDA_COST": "0", "SIMCUDA_MEMORY": "1G",
                   "BUILD_DIR": str(BUILD)}
    command = [sys.executable, SCRIPT.parents[1] / "tests/gpu/check_random_programs.py", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("result ") == 10
    if arguments:
        # A device that does not wait at a free, so to speak.
        faulty = {"LD_PRELOAD": str(BUILD / "tests/planted/libpoolcuda.so"), "POOLCUDA_PLANT": "no_wait",
                  "POOLCUDA_FREE": "sync"}
        unlike = subprocess.run(command, env={**environment, **faulty}, capture_output=True, text=True, check=False)
        assert unlike.returncode == 1 and "simulated '" in unlike.stdout


# --- what order assumes of a GPU, asked of the simulated one ---

PROBES = BUILD / "tests/gpu/order_probes"
LOST = "900 LOST (901, 0 nodes)"


@pytest.fixture(name="answers")
def asked_of_the_simulated_gpu(gpu_check, monkeypatch):
    """answers(NAME=VALUE...): {question: answer}, as gpu-check asks them."""
    def ask(**settings):
        for name, value in {"LD_LIBRARY_PATH": str(DRIVER), "SIMCUDA_COST": "0", **settings}.items():
            monkeypatch.setenv(name, value)
        lines = gpu_check.take_measurements((PROBES, None), gpu_check.Clock(guard.LIMIT))
        assert lines and not [line for line in lines if "not answered" in line]
        return dict(line.split(": ", 2)[1:] for line in lines)
    return ask


def test_the_probes_of_order_get_the_answers_that_the_simulated_gpu_gives(answers):
    seen = answers(SIMCUDA_PAGEABLE_ACCESS="1")
    captures = {question: answer for question, answer in seen.items() if question.endswith(" capture")}
    assert len(captures) == 39
    harmless = ["cuStreamGetCtx of the captured stream", "cuStreamIsCapturing of the captured stream", "cuCtxGetCurrent",
                "cuEventRecord in another stream"]
    assert not [question for question, answer in captures.items() if question.startswith(tuple(harmless)) and "LOST" in answer]
    alone = {"global": LOST, "thread-local": "0 kept", "relaxed": "0 kept"}
    for mode, answer in alone.items():
        for call in ("cuEventQuery of an event that was reached", "cuEventSynchronize with an event that was reached"):
            assert f"another thread: {answer}," in seen[f"{call} during a {mode} capture"]
            assert "another thread relaxed: 0 kept, non-blocking stream 0 kept" in seen[f"{call} during a {mode} capture"]
        assert seen[f"cuEventRecord in the legacy stream during a {mode} capture"].count(
            ": 906 LOST (901, 0 nodes), non-blocking stream 0 kept") == 4
    assert "cuCtxGetCurrent CUDA_ERROR_NOT_PERMITTED (800), no context" in seen["in a host function"]
    assert seen["cuFuncGetParamInfo of a function without arguments"].startswith("argument 0: CUDA_ERROR_INVALID_VALUE (1)")
    assert seen["cuKernelGetParamInfo of a kernel"].startswith(
        "argument 0: CUDA_SUCCESS (0), 8 bytes at 0; argument 1: CUDA_SUCCESS (0), 4 bytes at 8; argument 2: CUDA_ERROR_INVALID_VALUE")
    for question in ("a kernel is given an address of plain host memory",
                     "a kernel finds an address of plain host memory on the device"):
        assert seen[question].startswith("the host reads 0 before a free (CUDA_SUCCESS (0)), 7 after it")
    waits = [answer for question, answer in seen.items() if "while a kernel runs in" in question]
    assert waits == ["of 4 KiB 3 of 3 waited, of 8 MiB 3 of 3"] * 8
    for block in ("a block beside another one", "the context's last block"):
        assert seen[f"cuMemFree of {block} behind a kernel that faults"].startswith("CUDA_ERROR_ILLEGAL_ADDRESS (700); ")
        assert seen[f"cuMemFree of {block} behind a kernel that prints"].startswith("the line is there after it (CUDA_SUCCESS (0)); ")


def test_a_probe_says_what_a_driver_does_not_have(answers):
    seen = answers(SIMCUDA_DRIVER_VERSION="12030", LD_LIBRARY_PATH=str(DRIVER.parent / "old_driver"))
    assert seen["a kernel is given an address of plain host memory"] == "not asked: PAGEABLE_MEMORY_ACCESS is 0"
    assert "another thread: 801 kept" in seen["cuCtxRecordEvent during a global capture"]


# --- PTX, whose results the simulated GPU's tests know ---

KEPT = "subprojects/simcuda/tests/oracle/1-f0-f24"


@pytest.fixture(name="compared")
def ptx_on_the_simulated_gpu(gpu_check, monkeypatch, tmp_path):
    """compared(NAME, ARGUMENT...): the check of that name with these arguments of its script, and the differences."""
    def run(name, *arguments, build=BUILD, **settings):
        for variable, value in {"LD_LIBRARY_PATH": str(DRIVER), "SIMCUDA_MEMORY": "64M", "SIMCUDA_CC": "90", **settings}.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setattr(gpu_check, "PTX", [(word, [*command, *arguments]) for word, command in gpu_check.PTX])
        (check,), lines = gpu_check.compare_ptx(str(build), tmp_path, name, gpu_check.Clock(guard.LIMIT))
        return check, lines
    return run


def test_ptx_written_by_hand_computes_what_it_is_to(compared):
    check, lines = compared("ptx-by-hand", "comparisons", "approximate", "across")
    assert (check.verdict, lines) == ("passed", [])
    assert check.reason == "comparisons: 121 cases, 0 fail; approximate: 42 cases, 0 fail; across: 6 cases, 0 fail"


def test_what_ptx_written_by_hand_computes_otherwise_is_told_with_its_case_and_line(compared, tmp_path):
    """A wrong expectation, an error below that of single precision, a result that is right, an instruction that is none."""
    (tmp_path / "planted.py").write_text("""
import numbers_of as n
from case import Case, Near
def cases():
    yield Case("add.u32 d32, a32, b32;", 32, lambda a, b, c: a + b + (1 if c & 1 else 0))
    yield Near("ex2.approx.f32 d32, a32;", "f32", lambda a, b, c: (n.Fraction(2) ** 200, 0), "f32 near 1")
    yield Case("sub.u32 d32, a32, b32;", 32, lambda a, b, c: a - b)
    yield Case("sub.u31 d32, a32, b32;", 32, lambda a, b, c: a - b)
""")
    check, lines = compared("ptx-by-hand", "planted", PYTHONPATH=str(tmp_path))
    assert (check.verdict, check.reason) == ("failed", "planted: 4 cases, 3 fail")
    text = (tmp_path / "ptx/planted.ptx").read_text().splitlines()
    places = [line for line, words in enumerate(text, 1) if ".entry" in words]
    assert lines[0].startswith("ptx-by-hand: differs planted.ptx line") and "sub.u31" in lines[0] and "unknown" in lines[0]
    assert lines[1].startswith(f"ptx-by-hand: differs planted.ptx line {places[0]}: add.u32 d32, a32, b32;: thread ")
    assert lines[2].startswith(f"ptx-by-hand: differs planted.ptx line {places[1]}: ex2.approx.f32 d32, a32;: thread 0: ")
    assert lines[2].endswith("with an error of at most 0") and len(lines) == 3


@pytest.fixture(name="drawn")
def kept_programs(tmp_path):
    """A build's folder with the drawn programs that the unit tests have compiled."""
    if not (BUILD / KEPT / "made_of").exists():
        pytest.skip("no program was drawn and compiled: the unit test oracle does so, where there is an nvcc")
    build = tmp_path / "build"
    shutil.copytree(BUILD / KEPT, build / KEPT)
    (build / KEPT).parent.with_name("oracle_run").symlink_to((BUILD / KEPT).parent.with_name("oracle_run"))
    return build


def test_drawn_programs_are_run_without_nvcc_where_they_lie_ready(compared, drawn):
    check, lines = compared("ptx-drawn", build=drawn, NVCC_FOLDERS="/nowhere")
    assert (check.verdict, len(lines)) == ("passed", 1)
    assert "skipped: 175 programs, to compile which there is no nvcc" in lines[0]
    assert check.reason.startswith("25 programs") and check.reason.endswith("0 differ")


def test_what_differs_fails_the_run_and_is_written_as_a_section(drawn, library, tmp_path):
    """What is carried to a machine with a GPU is the repository and a build; nvidia-smi is a stand-in, and so is the GPU."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho Made-up GPU\n")
    (tools / "nvidia-smi").chmod(0o755)
    shutil.copy(library, drawn / "libpoolcuda.so")
    text = drawn / KEPT / "programs.ptx"
    text.write_text(text.read_text().replace(".entry k_f3(", ".entry renamed("))
    done = subprocess.run([sys.executable, SCRIPT, "--build", drawn, "--out", tmp_path, "--only", "ptx-drawn"],
                          env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(DRIVER),
                               "SIMCUDA_MEMORY": "64M", "SIMCUDA_CC": "90", "NVCC_FOLDERS": "/nowhere"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout.endswith("0 passed, 1 failed, 0 skipped\n"), done.stdout + done.stderr
    section = (tmp_path / "gpu-check.md").read_text()
    assert ": Made-up GPU\n" in section and "| ptx-drawn | - | - | - | - | - | failed: 25 programs (" in section
    assert "\n- ptx-drawn: differs program 3 of seed 1 (2 blocks of 96)" in section


def test_what_a_drawn_program_computes_otherwise_is_told_with_its_line(compared, drawn):
    folder = drawn / KEPT
    expected = bytearray((folder / "expected").read_bytes())
    expected[len(expected) // 25 * 3 + 100] ^= 4
    (folder / "expected").write_bytes(expected)
    check, lines = compared("ptx-drawn", build=drawn, NVCC_FOLDERS="/nowhere")
    assert check.verdict == "failed" and check.reason.endswith("1 differ")
    line = 1 + next(number for number, text in enumerate((folder / "programs.ptx").read_text().splitlines()) if ".entry k_f3(" in text)
    assert lines[0].startswith(f"ptx-drawn: differs program 3 of seed 1 (2 blocks of 96), {folder.name}/programs.ptx line {line}: thread 1, word 1: 0x")


def test_without_a_driver_that_starts_ptx_is_not_run(compared, tmp_path):
    check, lines = compared("ptx-by-hand", LD_LIBRARY_PATH=str(tmp_path))
    assert (check.verdict, lines) == ("skipped", [])
    assert check.reason.startswith("the driver does not start: no driver: libcuda.so.1")
