"""The differential search finds nothing in the pool, and every fault that is planted in it."""

import os
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import guard  # pylint: disable=wrong-import-position  # noqa: E402
from guard import guarded  # pylint: disable=wrong-import-position,unused-import  # noqa: E402,F401

SEARCH = HERE / "search.py"

# The fault, the profile and mode that show it, and the number of programs that are enough where the host is as fast as
# it mostly is beside the device. Many faults show only while work is under way: on a busy machine the device has mostly
# done it before the host goes on. So there are PATIENCE times as many programs; the first that differs is the last.
FAULTS = [
    ("no_wait", "plain", "sync", 100),
    ("fence_after_publish", "streams", "defer", 100),
    ("fence_before_free", "streams", "defer", 100),
    ("fence_after_submission", "held", "defer", 100),
    ("wrong_context", "contexts", "sync", 400),
    ("destroyed_stream_not_fenced", "streams", "defer", 200),
    ("per_thread_stream_not_fenced", "threads", "defer", 100),
    ("query_in_capture", "captures", "auto", 100),
    ("capture_race", "races", "sync", 100),
    ("stale_context", "contexts", "auto", 200),
    ("record_removed_late", "races", "auto", 6),
    ("query_after_owed_wait", "events", "auto", 100),
    ("stream_not_ordered", "streams", "auto", 100),
    ("submission_not_noted", "streams", "auto", 100),
    ("other_thread_not_seen", "threads", "auto", 100),
    ("note_kept", "streams", "auto", 100),
    ("oversize", "memory", "auto", 100),
    ("idle_not_free", "memory", "auto", 100),
    ("answered_from_books", "streams", "auto", 100),
    ("taint_recycled", "shares", "auto", 100),
    ("host_memory_not_waited_for", "pinned", "auto", 100),
    ("flags_not_in_key", "pinned", "auto", 100),
    ("managed_not_waited_for", "managed", "auto", 100),
    ("managed_state_kept", "managed", "auto", 100),
    ("former_prefetch_told", "managed", "auto", 100),
]
PATIENCE = 50
# With 900, every profile has programs of its own in each mode on both drivers, under each preset in one of them on one.
ALL = bool(os.environ.get("TEST_ALL"))
PROGRAMS = int(os.environ.get("SEARCH_PROGRAMS", "7200" if ALL else "900"))
MODES = [] if ALL else ["--in-turn"]


PRESETS = ["futhark", "pyopencl", "bfc", "pytorch", "paddle", "vmm", "pytorch-expandable"]


def search(*arguments):
    return guard.run(["/usr/bin/python3", SEARCH, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("fault, profile, mode, programs", FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_planted_fault_is_found(fault, profile, mode, programs):
    done = search("--plant", fault, "--profile", profile, "--mode", mode, "--programs", PATIENCE * programs,
                  "--first", "--show", 0)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r", 1 differences, \d+ s\n$", done.stdout)


# Faults that need POOLCUDA_ASYNC=1.
@pytest.mark.parametrize("fault", ["any_stream_has_it", "fence_after_publish", "fence_before_free"])
@pytest.mark.parametrize("mode", ["auto", "defer"])
def test_a_planted_fault_of_stream_order_is_found(fault, mode):
    done = search("--plant", fault, "--profile", "ordered", "--mode", mode, "--programs", PATIENCE * 300, "--first",
                  "--show", 0, "--set", "POOLCUDA_ASYNC=1")
    assert done.returncode == 1, done.stdout + done.stderr


def test_the_build_with_faults_has_none_unless_one_is_named():
    done = search("--plant", "none", "--programs", 50)
    assert done.returncode == 0, done.stdout + done.stderr


def test_to_a_fence_the_end_of_a_stream_is_one_step():
    done = search("--plant", "slow_stream_end", "--profile", "threads", "--mode", "defer", "--programs", 150)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_difference_is_shrunk_to_the_operations_that_matter():
    # A fault that shows in every run, however long the device takes for what: in it no work is under way.
    done = search("--plant", "taint_recycled", "--profile", "shares", "--mode", "auto", "--programs", 100, "--first",
                  "--show", 1)
    shown = re.findall(r"^    \d+ (\w+):", done.stdout, re.M)
    assert "share" in shown and 2 <= len(shown) <= 10, done.stdout
    assert "repeat: tests/differential/search.py --seed" in done.stdout


def test_random_programs_see_the_same_under_the_pool():
    done = search("--programs", PROGRAMS, *MODES)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_programs_see_the_same_where_the_pool_serves_stream_ordered_calls():
    done = search("--programs", PROGRAMS // 6, *MODES, "--set", "POOLCUDA_ASYNC=1")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("preset", PRESETS)
def test_random_programs_see_only_declared_differences_under(preset):
    count = PROGRAMS // 6  # each preset has others, so that few of them, too, are of all profiles
    done = search("--seed", 1 + PRESETS.index(preset) * count, "--programs", count, *MODES, "--preset", preset)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_planted_fault_of_frees_of_checked_memory_is_found():
    done = search("--plant", "free_in_host_function", "--check", "1", "--profile", "events", "--mode", "sync",
                  "--programs", PATIENCE * 100, "--first", "--show", 0)
    assert done.returncode == 1, done.stdout + done.stderr


# A check after each launch takes ten times as long.
@pytest.mark.parametrize("check, part, modes", [("1", 3, MODES), ("sync", 3 if ALL else 6, ["--mode", "auto"])])
def test_random_programs_see_the_same_while_their_memory_is_checked(check, part, modes):
    done = search("--programs", PROGRAMS // part, "--check", check, *modes)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
