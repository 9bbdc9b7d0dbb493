"""Processes that share a GPU and its memory help each other."""

import contextlib
import os
import signal
import struct

import guard
import pages
import pytest
from conftest import PROGRAMS
from steered import FOLDER, Program, processes

MIB = 1 << 20
BIG = 160 * MIB  # of 256: two processes cannot have it at once
OUT_OF_MEMORY = 2


@pytest.fixture
def gpu(tmp_path):
    """Settings of processes on one GPU that keep all they can."""
    return {"SIMCUDA_SHARED": str(tmp_path / "gpu"), "SIMCUDA_MEMORY": "256M", "POOLCUDA_MAX_IDLE": "100%",
            "POOLCUDA_IDLE_DECAY": "0", "POOLCUDA_THROTTLE_RATIO": "1"}


def hold_idle(program):
    assert program.do(f"alloc 0 {BIG}") == 0
    assert program.do("free 0") == 0
    program.do("churn")


def try_to_allocate(program):
    return program.do(f"alloc 0 {BIG}")


def allocate(program):
    """With the others' help, whose answer may come too late; who shows life is asked again."""
    guard.wait_for(lambda: try_to_allocate(program) != OUT_OF_MEMORY, f"{program.pid} is helped")


def test_the_simulated_gpus_memory_is_one_for_all_processes_of_a_file(gpu):
    with Program(**gpu) as one, Program(**gpu) as other:
        assert one.do(f"alloc 0 {BIG}") == 0
        assert other.do(f"alloc 0 {BIG}") == OUT_OF_MEMORY
        assert len({p["devices"][0]["uuid"] for p in processes() if p["pid"] in (one.pid, other.pid)}) == 1
        one.say("kill")
        one.process.wait()  # what it had taken is free, however it ended
        assert other.do(f"alloc 0 {BIG}") == 0


def test_each_alone_would_fail_and_with_the_other_s_help_both_finish(gpu):
    with Program(**gpu) as one, Program(**gpu) as other:
        hold_idle(one)
        for program, helper in ((other, one), (one, other)):
            allocate(program)
            assert program.counter("others_released_bytes") >= BIG
            assert helper.counter("given_up_bytes") >= BIG
            assert program.do("free 0") == 0
            program.do("churn")
        assert one.counter("others_answered") >= 1 and one.counter("oom_rescued") >= 1
        assert one.end() == other.end() == 0


@pytest.mark.parametrize("unshared", ["helper", "asker"])
def test_without_sharing_one_of_them_runs_out_of_memory(gpu, unshared):
    with Program(**gpu, POOLCUDA_SHARE=str(int(unshared != "helper"))) as helper, \
            Program(**gpu, POOLCUDA_SHARE=str(int(unshared != "asker"))) as asker:
        hold_idle(helper)
        assert [try_to_allocate(asker) for _ in range(3)] == [OUT_OF_MEMORY] * 3


def test_processes_on_other_gpus_are_not_asked(gpu, tmp_path):
    elsewhere = {**gpu, "SIMCUDA_SHARED": str(tmp_path / "another")}
    with Program(**elsewhere) as other, Program(**gpu) as program:
        hold_idle(other)
        assert program.do(f"alloc 0 {2 * BIG}") == OUT_OF_MEMORY
        assert program.counter("others_asked") == 0


def test_a_process_that_does_not_answer_is_asked_once_until_it_shows_life(gpu):
    with Program(**gpu) as stopped, Program(**gpu) as program:
        assert stopped.do(f"alloc 0 {BIG}") == 0
        assert stopped.do("free 0") == 0
        stopped.process.send_signal(signal.SIGSTOP)
        for _ in range(5):
            assert program.do(f"alloc 0 {BIG}") == OUT_OF_MEMORY
            assert program.counter("others_asked") == 1
        assert program.counter("others_answered") == 0
        stopped.process.send_signal(signal.SIGCONT)
        stopped.do("churn")
        allocate(program)
        assert program.counter("others_asked") > 1
        assert stopped.counter("requests_answered") == program.counter("others_answered")


def test_as_many_are_asked_as_mps_lets_on_one_gpu(gpu):
    """Those that do not answer keep nobody from being asked who would, nor does a lack of descriptors."""
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(Program(**gpu)) for _ in range(48)]
        for other in others:
            assert other.do(f"alloc 0 {2 * MIB}") == other.do("free 0") == 0
        asker = stack.enter_context(Program(("sh", "-c", 'ulimit -n 32; exec "$0"'), **gpu))
        assert asker.do(f"alloc 0 {BIG + 2 * MIB}") == OUT_OF_MEMORY
        assert asker.counter("others_asked") == len(others)


def asks(asker, asked):
    """The program begins an allocation that needs what the other has: returns once it has asked for it."""
    with pages.Joined(asked.page) as page:
        posted = page[pages.MAILBOX_AT:pages.MAILBOX_AT + 4].tobytes()
        asker.say(f"alloc 0 {BIG}")
        guard.wait_for(lambda: page[pages.MAILBOX_AT:pages.MAILBOX_AT + 4].tobytes() != posted, "it has asked")


@pytest.mark.parametrize("how", ["killed", "at its end"])
def test_a_process_that_ends_while_it_is_asked_gives_all_that_it_had(gpu, how):
    def is_served():
        """Unless the other's end comes only when the time for asking is over: then nothing is shown."""
        with Program(**gpu) as asked, Program(**gpu) as asker:
            assert asked.do(f"alloc 0 {BIG}") == 0
            assert asked.do("free 0") == 0
            assert asker.do("alloc 1 1") == 0
            asks(asker, asked)
            if how == "killed":
                asked.process.kill()
            else:
                asked.process.stdin.close()
            return int(asker.hear().split(": ")[1]) == 0

    guard.wait_for(is_served, "the allocation is served though nobody has answered")


def test_an_allocation_that_a_handler_forks_in_while_others_are_asked_goes_on_in_the_child(gpu, run):
    """Each program asks once, and waits for one that does not answer."""
    with Program(**gpu) as asked:
        assert asked.do(f"alloc 0 {BIG}") == asked.do("free 0") == 0
        asked.process.send_signal(signal.SIGSTOP)
        for _ in range(6):
            done = run([PROGRAMS / "forks_in_handler", "1", str(BIG), "90000"], env={**gpu, "POOLCUDA_STATS": "1"})
            assert (done.out, done.code) == ("1 children\n", 0), done.err
        asked.process.send_signal(signal.SIGCONT)


def test_an_asker_that_is_stopped_while_it_asks_bars_no_other(gpu):
    with Program(**gpu) as asked, Program(**gpu) as stopped, Program(**gpu) as program:
        assert asked.do(f"alloc 0 {BIG}") == 0
        assert asked.do("free 0") == 0
        asked.process.send_signal(signal.SIGSTOP)
        asks(stopped, asked)
        stopped.process.send_signal(signal.SIGSTOP)
        asked.process.send_signal(signal.SIGCONT)
        hold_idle(asked)  # again, where the request of the stopped one came through
        allocate(program)
        assert program.counter("others_released_bytes") >= BIG
        stopped.process.send_signal(signal.SIGCONT)
        stopped.hear()
        assert stopped.end() == asked.end() == 0


def test_nobody_waits_during_a_capture(gpu):
    with Program(**gpu) as helper, Program(**gpu) as program:
        hold_idle(helper)
        assert program.do("capture") == 0
        assert program.do(f"alloc 0 {BIG}") == OUT_OF_MEMORY
        assert program.counter("others_asked") == 0
        assert program.do("captured") == 0
        allocate(program)


def test_both_out_of_memory_at_once_come_to_an_end(gpu):
    """Each holds what the other needs, and asks for it at the same time."""
    with Program(**gpu) as one, Program(**gpu) as other:
        for program in (one, other):
            for number in range(3):
                assert program.do(f"alloc {number} {30 * MIB}") == 0
            assert program.do("free 0") == 0
        for program in (one, other):
            program.say(f"alloc 0 {220 * MIB}")
        assert [int(program.hear().split(": ")[1]) for program in (one, other)] == [OUT_OF_MEMORY] * 2
        assert one.end() == other.end() == 0


def forge(page, pid, namespace=None, born=None):
    """A copy of a page that says it is another process's."""
    forged = bytearray(page)
    at = pages.PROCESS_AT
    assert struct.unpack_from("<Q", page, at)[0] == pid[0]
    struct.pack_into("<Q", forged, at, pid[1])
    if namespace is not None:
        struct.pack_into("<Q", forged, at + 8, namespace)
    if born is not None:
        struct.pack_into("<Q", forged, at + 16, born)
    return bytes(forged)


def test_hostile_entries_in_the_folder_do_no_harm(gpu):
    made = []

    segments = []

    def put(name, data):
        path = FOLDER / name
        if len(data) > 1 << 20:
            segments.append(pages.put(path, data))
        else:
            path.write_bytes(data)
        made.append(path)
        return path

    with Program(**gpu) as helper, Program(**gpu) as program:
        hold_idle(helper)
        page = pages.read(helper.page)
        dead = put("4194301", forge(page, (helper.pid, 4194301)))  # of no process: stale
        elsewhere = put("4194302", forge(page, (helper.pid, 4194302), namespace=5))  # who will never answer
        put("4194303", b"")
        put("4194304", b"\xff" * 70000)
        put("4194305", page[:5000])
        put("4194306", page[:200] + b"\xff" * (len(page) - 200))
        put("..5", b"x")
        put("12-34-56", b"x")
        for name in ("4194307", "4194308", "4194309", "4194310"):
            made.append(FOLDER / name)
        os.mkfifo(FOLDER / "4194307")
        (FOLDER / "4194308").symlink_to("/etc/passwd")
        (FOLDER / "4194309").symlink_to("4194309")
        (FOLDER / "4194310").mkdir()
        try:
            allocate(program)
            assert not dead.exists() and elsewhere.exists()
            names = {p["name"] for p in processes()}
            assert {str(helper.pid), str(program.pid), "4194302"} <= names
            assert not names & {path.name for path in made if path != elsewhere}
            assert program.do("free 0") == 0 and program.end() == 0
            assert helper.end() == 0
        finally:
            for segment in segments:
                pages.forget(segment)
            for path in made:
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                else:
                    path.unlink(missing_ok=True)


def test_a_fork_before_cuda_leaves_two_processes_that_share(gpu, run):
    done = run([PROGRAMS / "forks", "before"], env={**gpu})
    assert done.code == 0 and done.out == "child 7\nparent done\n"
