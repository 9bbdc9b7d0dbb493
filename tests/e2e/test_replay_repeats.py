"""A replay on the simulated GPU says the same each time, whatever lies where in its process and however fast it goes."""

import functools
import json
import os
import subprocess

import made_traces
import pytest
from conftest import BUILD, COMMAND, LIBRARY, PROGRAMS, ROOT, SAMPLES, SANITIZER

PRESETS = ["default", "futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"]
MODES = ["sync", "auto", "defer"]
OURS = sorted((ROOT / "tests/data").glob("*.csv.gz"))
SHARED = sorted((ROOT.parent / "shared/traces").glob("**/*.csv.gz"))
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("POOLCUDA_", "SIMCUDA_", "LD_", "MALLOC_"))}


@functools.cache
def fixed_addresses():
    """What has the system put everything where it did the last time; nothing where it refuses that."""
    try:
        done = subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return [] if done.returncode else ["setarch", "-R"]


def surroundings(folder):
    """(words before the command, environment, folder) of processes that differ in what a replay must not depend on."""
    yield from ((([], {}, ROOT),) * 3)  # another layout of addresses each time
    yield fixed_addresses(), {}, ROOT
    yield [], {"PADDING": "x" * 9000}, ROOT
    yield [], {}, folder
    yield [], {"MALLOC_PERTURB_": "85", "MALLOC_ARENA_MAX": "1"}, ROOT
    yield [], {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_TOP_PAD_": "1000000"}, ROOT
    if not SANITIZER:  # it looks at the clock itself
        yield [], {"LD_PRELOAD": str(PROGRAMS / "libsteady_clock.so")}, ROOT


def said(folder, *arguments):
    """What the command prints in each of the surroundings, but for the time that this machine took: all different answers."""
    answers = set()
    for before, environment, at in surroundings(folder):
        done = subprocess.run([*before, COMMAND, *map(str, arguments)], env={**CLEAN, **environment}, cwd=at, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr
        answers.add("\n".join([done.stderr, *(line for line in done.stdout.splitlines() if '"host_seconds"' not in line)]))
    return answers


def assert_repeats(trace, folder, presets=PRESETS, modes=MODES):
    for preset in presets:
        for mode in modes:
            answers = said(folder, "replay", "--json", "--preset", preset, "--free", mode, trace)
            assert len(answers) == 1, (preset, mode, *answers)


@pytest.mark.parametrize("trace", OURS, ids=lambda path: path.name)
def test_replays_of_recorded_traces_repeat_under_every_preset(trace, tmp_path):
    assert_repeats(trace, tmp_path)


@pytest.mark.parametrize("trace", SHARED or [None], ids=lambda path: path.name if path else "none")
def test_replays_of_the_collected_traces_repeat_under_every_preset(trace, tmp_path):
    if not trace:
        pytest.skip("the collection of traces is not here: expected it in ../shared/traces")
    assert_repeats(trace, tmp_path, modes=["auto"])


@pytest.mark.parametrize("seed", range(6))
def test_replays_of_random_traces_repeat_under_every_preset(seed, tmp_path):
    assert_repeats(made_traces.random_program(tmp_path / "trace.csv", seed, 2000, devices=1 + seed % 2), tmp_path)


def test_which_block_a_replay_keeps_live_for_waits_depends_on_no_address(tmp_path):
    """It was found by its address's hash: of this program one replay in four had one hit less."""
    trace = tmp_path / "varying.trace"
    environment = {**CLEAN, "POOLCUDA_TRACE": str(trace), "LD_PRELOAD": " ".join([*SANITIZER, str(LIBRARY)]),
                   "LD_LIBRARY_PATH": f"{BUILD / 'subprojects/simcuda/driver'}:{BUILD / 'subprojects/simcuda/runtime'}"}
    subprocess.run([SAMPLES / "varying"], env=environment, capture_output=True, check=True)
    answers = {answer for _ in range(4) for answer in said(tmp_path, "replay", "--json", trace)}
    assert len(answers) == 1, answers
    assert json.loads(answers.pop().strip().replace(",\n}", "\n}"))["allocations"] == 301


def test_time_in_a_replay_is_the_traces(tmp_path):
    """What lay idle for two minutes of the recorded program is given back, however fast the replay is."""
    def idle_for(seconds):
        rows = [(0, "A", 0, 100 << 20, 0, "big", 0), (1, "F", 0, "", 0, "", 0)]
        for i in range(1, 101):
            time = i * seconds * 10_000
            rows += [(time, "A", i, 4096, 0, "small", 0), (time + 1, "F", i, "", 0, "", 0)]
        return made_traces.write(tmp_path / f"{seconds}.csv", rows)
    freed = {}
    for seconds in (1, 180):
        done = subprocess.run([COMMAND, "replay", "--json", idle_for(seconds)], env=CLEAN, capture_output=True, text=True, check=True)
        freed[seconds] = json.loads(done.stdout)["driver_frees"]
    assert freed == {1: 0, 180: 1}


def test_tune_recommends_the_same_each_time_and_compare_says_the_same(tmp_path):
    trace = made_traces.random_program(tmp_path / "trace.csv", 7, 2000)
    assert len(said(tmp_path, "tune", "--json", trace)) == 1
    for preset in ("default", "vmm"):
        with open(tmp_path / f"{preset}.json", "w", encoding="utf-8") as file:
            subprocess.run([COMMAND, "replay", "--json", "--preset", preset, trace], env=CLEAN, stdout=file, check=True)
    assert len(said(tmp_path, "compare", tmp_path / "default.json", tmp_path / "vmm.json")) == 1
