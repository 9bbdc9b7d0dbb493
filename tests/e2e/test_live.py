"""Pooled programs that are seen and steered while they run."""

import fcntl
import json
import os
import pathlib
import pty
import pwd
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import guard
import pages
import pytest
from conftest import COMMAND, PROGRAMS
from steered import FOLDER, NEEDS_IPC, NEEDS_MOUNT, NEEDS_PIDS, Program, command, processes

MIB = 1 << 20
MAX_IDLE = 1  # POOLCUDA_LIMIT_MAX_IDLE
# What is idle stays so: no small request takes a large block.
KEEP = {"POOLCUDA_MAX_IDLE": "100%", "POOLCUDA_IDLE_DECAY": "0", "POOLCUDA_REUSE_RATIO": "1"}
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: run it with sudo")


@pytest.fixture
def program():
    with Program(**KEEP) as started:
        yield started


def idle(program):
    return sum(device["idle_bytes"] for device in program.figures()["devices"])


# --- the page ---

def test_a_pooled_program_is_seen_while_it_runs_and_no_longer(program):
    assert program.do(f"alloc 0 {3 * MIB}") == 0
    assert program.do("free 0") == 0
    seen = program.figures()
    assert seen["pid"] == program.pid and seen["command"] == str(PROGRAMS / "steered")
    assert seen["counters"]["malloc_calls"] == 2 and not seen["other_pid_namespace"]
    assert seen["devices"][0]["idle_bytes"] == idle(program) >= 3 * MIB
    assert oct(program.page.stat().st_mode & 0o777) == "0o600"
    assert oct(FOLDER.stat().st_mode & 0o777) == "0o700"
    assert program.end() == 0
    assert not program.page.exists() and program.figures() is None


def test_it_holds_no_file_open_and_little_memory(program):
    open_files = {os.readlink(link.path) for link in os.scandir(f"/proc/{program.pid}/fd")}
    assert not [path for path in open_files if "poolcuda" in path]
    assert program.page.stat().st_blocks * 512 <= 32 << 10
    smaps = pathlib.Path(f"/proc/{program.pid}/smaps").read_text()
    taken = re.search(r"/SYSV00000000 .*?\nRss: +(\d+) kB", smaps, re.S)
    assert int(taken[1]) <= 128


def test_a_killed_programs_page_is_removed_by_who_looks(program):
    program.say("kill")
    program.process.wait()
    assert program.page.exists()
    assert program.figures() is None
    assert not program.page.exists()


def test_a_program_that_became_another_one_is_gone(program):
    """By exec of the same program, whose page takes the old one's place, or of one that does not pool."""
    program.do("alloc 0 4096")
    program.say("again")
    assert program.hear() == "ready"
    assert program.counter("malloc_calls") == 1
    program.do("free 0")
    assert program.end() == 0
    assert not program.page.exists()


def test_a_page_of_a_program_that_is_now_another_is_stale():
    """The process id lives on, and so does the time it began: only the program differs."""
    script = 'import os; print(os.getpid(), flush=True); input(); os.execv("/bin/sleep", ["sleep", "600"])'
    with Program() as program, subprocess.Popen(["/usr/bin/python3", "-c", script], stdin=subprocess.PIPE,
                                                stdout=subprocess.PIPE, text=True) as other:
        pid = int(other.stdout.readline())
        page = bytearray(pages.read(program.page))
        born = int(open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[19])
        struct.pack_into("<Q", page, pages.PROCESS_AT, pid)
        struct.pack_into("<Q", page, pages.PROCESS_AT + 16, born)
        made = pages.put(FOLDER / str(pid), page)
        assert not [p for p in processes() if p["name"] == str(pid)]
        assert not (FOLDER / str(pid)).exists() and not pages.exists(made)
        other.kill()


def test_a_page_of_another_pid_namespace_is_shown_and_kept(program):
    page = bytearray(pages.read(program.page))
    struct.pack_into("<QQ", page, pages.PROCESS_AT, 4194999, 77)
    elsewhere = FOLDER / "4194999"
    made = pages.put(elsewhere, page)
    try:
        row = next(p for p in processes() if p["name"] == "4194999")
        assert row["other_pid_namespace"]
        assert re.search(r"^ *4194999\* ", command("top").stdout, re.M)
        assert elsewhere.exists()
        pages.forget(made)  # as seen from where its memory is not shared
        assert "4194999" not in {p["name"] for p in processes()} and command("top").stderr == ""
        assert elsewhere.exists()
    finally:
        elsewhere.unlink()
        pages.forget(made)


@NEEDS_PIDS
def test_programs_of_two_pid_namespaces_with_one_number_are_both_seen():
    with Program(prefix=["unshare", "--pid", "--fork", "--kill-child"]) as one, \
            Program(prefix=["unshare", "--pid", "--fork", "--kill-child"]) as other:
        # In either its number is 1.
        names = [p["name"] for p in processes() if p["other_pid_namespace"] and p["pid"] == 1]
        assert len(names) == 2 and "1" in names
        try:
            for program in (one, other):
                program.do("churn")
            for name in names:
                assert re.fullmatch(rf"{name}: released (0 B|4\.0 KiB)\n", command("trim", name).stdout)
            assert one.end() == other.end() == 0
            assert not [name for name in names if (FOLDER / name).exists()]
        finally:
            for name in names:  # nobody else would remove them
                (FOLDER / name).unlink(missing_ok=True)


@NEEDS_PIDS
def test_a_program_whose_proc_is_of_another_pid_namespace_does_not_take_itself_for_another():
    """There its number, 1, is another program's."""
    inside = 'unshare --pid --fork --kill-child "$0"'
    with Program(prefix=["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", inside]) as program:
        try:
            assert program.do("churn") == 0
            assert [p["other_pid_namespace"] for p in processes() if p["pid"] == 1] == [True]
            assert program.end() == 0
            assert not [p for p in processes() if p["pid"] == 1]
        finally:
            for page in (FOLDER / "1", *FOLDER.glob("1-*")):
                page.unlink(missing_ok=True)


def test_a_forked_child_has_a_page_of_its_own_and_leaves_its_parents_alone(program):
    program.do("alloc 0 4096")
    program.say("fork")
    child = int(program.hear().split()[1])
    assert (FOLDER / str(child)).exists() and program.page.exists()
    seen = {p["pid"]: p["counters"]["malloc_calls"] for p in processes()}
    assert seen[child] == 1 and seen[program.pid] == 2  # CUDA answers a child with errors, but it has asked
    program.say("child may end")
    assert program.hear() == "fork 0: 0"
    assert not (FOLDER / str(child)).exists() and program.page.exists()


def test_a_program_with_a_stats_file_is_seen_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Program(POOLCUDA_STATS_FILE="figures") as program:
        made = pages.number(program.page)
        program.do("alloc 0 4096")
        assert program.counter("malloc_calls") == 2
        assert program.end() == 0
        assert not program.page.exists() and not pages.exists(made)
    assert json.loads((tmp_path / "figures").read_text())["counters"]["malloc_calls"] == 2


@pytest.mark.parametrize("variables", [{}, {"POOLCUDA_STATS_FILE": "figures"}])
def test_a_killed_program_leaves_no_memory_behind_once_somebody_looks(variables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Program(**variables) as program:
        made = pages.number(program.page)
        program.do("alloc 0 4096")
        program.say("kill")
        program.process.wait()
        assert pages.exists(made) == bool(variables)
        processes()
        assert not pages.exists(made) and not program.page.exists()
    if variables:  # which has the last figures from then on
        shown = command("report", "figures")
        assert shown.returncode == 0 and "allocations: 2," in shown.stdout


def test_nor_does_one_that_becomes_another_by_exec_and_uses_cuda_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left = []
    with Program(POOLCUDA_STATS_FILE="figures") as program:
        for _ in range(2):
            left.append(pages.number(program.page))
            program.do("alloc 0 4096")
            program.say("again")
            assert program.hear() == "ready"
        assert pages.number(program.page) not in left and not [made for made in left if pages.exists(made)]
        assert program.counter("malloc_calls") == 1
        assert program.end() == 0
    for figures in ("figures", "figures.1"):
        shown = command("report", figures)
        assert shown.returncode == 0 and "allocations: 2," in shown.stdout
    assert json.loads((tmp_path / "figures.2").read_text())["counters"]["malloc_calls"] == 1


@ROOT_ONLY
@pytest.mark.parametrize("variables", [{}, {"POOLCUDA_STATS_FILE": "figures"}], ids=["private", "lasting"])
@pytest.mark.parametrize("change", ["root", "user 65534", "leave"])
def test_what_a_program_cannot_take_away_at_its_end_goes_once_somebody_looks(change, variables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Program(**variables) as program:
        made = pages.number(program.page)
        if change == "leave":
            program.say(change)
        else:
            assert program.do(change) == program.do("alloc 0 4096") == 0
        assert program.end() == 0
        assert program.page.exists()
        processes()
        assert not program.page.exists() and not pages.exists(made)


def segments_in(namespace):
    listed = guard.run(["nsenter", f"--ipc=/proc/{os.getpid()}/fd/{namespace}", "ipcs", "-m"], capture_output=True, text=True, check=True)
    return [int(line.split()[1]) for line in listed.stdout.splitlines() if line.startswith("0x")]


@NEEDS_IPC
@pytest.mark.parametrize("variables", [{}, {"POOLCUDA_STATS_FILE": "figures"}])
def test_in_an_ipc_namespace_of_its_own_a_programs_segments_stay(variables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Program(**variables) as program:
        made = pages.number(program.page)
        assert program.do(f"apart {made}") == 0
        namespace = os.open(f"/proc/{program.pid}/ns/ipc", os.O_RDONLY)
        try:
            kept = segments_in(namespace)
            assert made in kept
            assert program.end() == 0
            assert segments_in(namespace) == kept
        finally:
            os.close(namespace)
        processes()  # who looks in the former one ends what the program could not
        assert not pages.exists(made) and not program.page.exists()
    for figures in variables.values():
        assert json.loads((tmp_path / figures).read_text())["process"]["finished"]


def test_a_program_may_choose_not_to_be_seen():
    with Program(POOLCUDA_SHARE="0") as program:
        assert not program.page.exists()
        refused = command("trim", program.pid)
        assert refused.returncode == 1 and "not a pooled process" in refused.stderr


@NEEDS_MOUNT
@pytest.mark.parametrize("size", ["4k", "16k", "32k", "48k", "96k"])
def test_a_full_dev_shm_neither_ends_the_program_nor_changes_its_figures(size, tmp_path):
    script = f"mount -t tmpfs -o size={size},nr_inodes=16 none /dev/shm && exec \"$0\""
    with Program(prefix=["unshare", "--mount", "sh", "-c", script], POOLCUDA_STATS="1",
                 POOLCUDA_STATS_FILE=str(tmp_path / "with")) as program:
        assert program.do("sites 100") == 0
        assert program.end() == 0
    with Program(prefix=["unshare", "--mount", "sh", "-c", script]) as program:
        assert program.do("sites 100") == 0
        assert program.end() == 0


@ROOT_ONLY
def test_nobody_else_can_read_or_take_a_users_folder():
    def as_user(user):
        return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]

    if subprocess.run([*as_user(54321), "test", "-x", COMMAND], check=False).returncode:
        pytest.skip("another user cannot reach the build folder: put the checkout where all may read")
    taken = FOLDER.with_name("poolcuda-54321")
    with Program() as program:
        seen = subprocess.run([*as_user(54321), "cat", program.page], capture_output=True, check=False)
        assert seen.returncode != 0 and seen.stdout == b""
        assert command("top", prefix=as_user(54321)).stdout == ""
        refused = command("trim", program.pid, prefix=as_user(54321))
        assert refused.returncode == 1 and "another user's process" in refused.stderr
    try:
        # Another user has made the folder first, open to all, or a link, or open to the owner's group.
        for make in (["mkdir", "-m", "777"], ["ln", "-s", "/tmp"]):
            subprocess.run([*as_user(54322), *make, taken], check=True)
            with Program(prefix=as_user(54321)) as program:
                assert program.do("alloc 0 4096") == 0
                assert not (taken / str(program.pid)).exists()
                told = command("top", prefix=as_user(54321))
                assert told.returncode == 1 and len(told.stderr.splitlines()) == 1
                assert f"{taken}: not a folder that is yours alone" in told.stderr
                assert program.end() == 0
            subprocess.run(["rm", "-r", taken], check=True)
        subprocess.run([*as_user(54321), "mkdir", "-m", "770", taken], check=True)
        with Program(prefix=as_user(54321)) as program:
            assert not list(taken.iterdir())
    finally:
        shutil.rmtree(taken, ignore_errors=True)


# --- trim and set ---

def test_trim_has_a_program_release_its_idle_memory(program):
    for number in range(2):
        program.do(f"alloc {number} {64 * MIB}")
    for number in range(2):
        program.do(f"free {number}")
    held = idle(program)
    program.do("churn")
    some = command("trim", program.pid, "1M")
    assert some.returncode == 0 and re.fullmatch(rf"{program.pid}: released 64\.0 MiB\n", some.stdout), some
    assert 60 * MIB <= idle(program) < held - 60 * MIB
    rest = command("trim", program.pid)
    assert rest.returncode == 0 and idle(program) < MIB * 3
    nothing = command("trim", program.pid, "--device", "7")
    assert nothing.returncode == 1
    assert nothing.stdout == f"{program.pid}: released 0 B: the program has allocated nothing on a device of that number\n"
    assert program.counter("requests_answered") == 3
    assert program.counter("given_up_bytes") >= 128 * MIB


def test_so_does_one_that_allocates_through_the_librarys_own_functions(program):
    program.do(f"alloc 0 {64 * MIB}")
    program.do("free 0")
    assert program.do("api") == 0
    program.do("churn")
    assert command("trim", program.pid, "1M").stdout == f"{program.pid}: released 64.0 MiB\n"


def test_a_program_that_allocates_nothing_is_reported(program):
    missed = command("trim", program.pid, "--timeout", "0.05")
    assert missed.returncode == 1 and missed.stdout == ""
    assert missed.stderr == (f"poolcuda trim: {program.pid}: not answered within 0.05 s: it allocates and frees no "
                             "memory just now; nothing was done\n")
    # It comes to it late, and does nothing: nobody waits any more.
    program.do(f"alloc 0 {8 * MIB}")
    program.do("free 0")
    assert idle(program) >= 8 * MIB and program.counter("requests_answered") == 0


def test_an_allocation_does_not_wait_for_a_kernel_because_of_a_trim(program):
    program.do(f"alloc 0 {8 * MIB}")
    program.do("free 0")
    program.do("busy")
    with subprocess.Popen([COMMAND, "trim", str(program.pid), "--timeout", str(guard.LIMIT)], stdout=subprocess.PIPE,
                          text=True) as asking:
        posted = struct.Struct("<I")
        guard.wait_for(lambda: posted.unpack_from(pages.read(program.page), pages.MAILBOX_AT)[0], "the request is posted")
        assert program.do("alloc 1 4096") == 0  # natively it waits for nothing, so it must not here
        assert idle(program) >= 8 * MIB
        program.do("done")
        assert program.do("alloc 2 4096") == 0
        assert "released" in asking.stdout.read()
    assert asking.returncode == 0 and idle(program) < 8 * MIB


def is_asked(program):
    """Whether a request waits in its mailbox."""
    posted, answered = struct.unpack_from("<II", pages.read(program.page), pages.MAILBOX_AT)
    return posted != answered


def test_a_request_waits_for_a_busy_program_as_long_as_somebody_waits_for_it(program):
    program.do(f"alloc 0 {8 * MIB}")
    program.do("free 0")
    program.do("busy")
    with subprocess.Popen([COMMAND, "trim", str(program.pid), "--timeout", str(guard.LIMIT)], stdout=subprocess.PIPE,
                          text=True) as asking:
        guard.wait_for(lambda: is_asked(program), "the request is posted")
        for _ in range(1500):  # however many calls that takes; a free would wait for the device
            assert program.do("alloc 1 4096") == 0
        assert is_asked(program)
        program.do("done")
        assert program.do("alloc 2 4096") == 0
        assert "released" in asking.stdout.read()
    assert asking.returncode == 0 and idle(program) < 8 * MIB


def test_a_request_whose_asker_was_killed_is_dropped_when_it_would_have_given_up(program):
    program.do(f"alloc 0 {8 * MIB}")
    program.do("free 0")
    program.do("busy")
    asked = False
    while not asked:  # else it has given up before it was seen
        with subprocess.Popen([COMMAND, "trim", str(program.pid), "--timeout", "1"]) as asking:
            guard.wait_for(lambda: is_asked(program) or asking.poll() is not None, "the request is posted")
            asked = is_asked(program)
            asking.kill()
    guard.wait_for(lambda: program.do("alloc 1 4096") == 0 and not is_asked(program), "the request is dropped")
    assert idle(program) >= 8 * MIB, "nobody wants it any more"


def test_a_program_that_comes_to_a_request_when_its_asker_would_have_given_up_does_nothing(program):
    program.do(f"alloc 0 {8 * MIB}")
    program.do("free 0")
    with subprocess.Popen([COMMAND, "trim", str(program.pid), "--timeout", "1"]) as asking:
        guard.wait_for(lambda: is_asked(program), "the request is posted")
        asking.kill()
    gives_up, = struct.unpack_from("<Q", pages.read(program.page), pages.MAILBOX_AT + 544)
    guard.wait_for(lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC) > gives_up, "its time is up")
    assert is_asked(program)
    assert program.do("alloc 1 4096") == 0
    assert not is_asked(program)
    assert idle(program) >= 8 * MIB and program.counter("requests_answered") == 0


def test_during_a_capture_nothing_is_released_and_the_answer_says_so(program):
    program.do(f"alloc 0 {8 * MIB}")
    program.do("free 0")
    program.do("capture")
    program.do("churn")
    told = command("trim", program.pid)
    assert told.returncode == 1
    assert told.stdout == (f"{program.pid}: released 0 B: a stream is being captured: nothing can be released just "
                           "now\n")
    assert program.do("captured") == 0  # and the capture is sound
    program.do("churn")
    assert command("trim", program.pid).returncode == 0


def test_set_changes_an_option_of_a_running_program(program):
    program.do(f"alloc 0 {64 * MIB}")
    program.do("churn")
    done = command("set", program.pid, "POOLCUDA_MAX_IDLE=1M", "idle_decay=0".upper())
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{program.pid}: POOLCUDA_MAX_IDLE=1M\n{program.pid}: POOLCUDA_IDLE_DECAY=0\n"
    program.do("free 0")
    assert idle(program) <= MIB


def test_set_leaves_alone_what_the_program_has_set_itself(program):
    assert program.do(f"limit {MAX_IDLE} {MIB}") == 0
    program.do(f"alloc 0 {64 * MIB}")
    program.do("churn")
    assert command("set", program.pid, "STEAL=0").returncode == 0
    program.do("free 0")
    assert idle(program) <= MIB


def test_a_setting_that_changed_is_in_the_report(tmp_path):
    with Program(POOLCUDA_STATS="1", POOLCUDA_STATS_FILE=str(tmp_path / "report")) as program:
        program.do("churn")
        assert command("set", program.pid, "STEAL=0").returncode == 0
        program.end()
    assert "POOLCUDA_STEAL=0" in (tmp_path / "report").read_text().splitlines()[1]


@pytest.mark.parametrize("setting, why", [
    ("POOLCUDA_MAX_IDLE=much", 'POOLCUDA_MAX_IDLE="much": expected auto, a size'),
    ("POOLCUDA_MAX_IDEL=1G", "did you mean POOLCUDA_MAX_IDLE?"),
    ("POLICY=vmm", "POOLCUDA_POLICY: read when a program starts"),
    ("MAX_IDLE", "expected POOLCUDA_MAX_IDLE=VALUE"),
    ("STEAL=", 'POOLCUDA_STEAL="": expected 0 or 1'),
    ("MAX_IDLE=" + "9" * 300, "a setting of more than 255 bytes"),
])
def test_a_bad_setting_is_refused_before_any_program_is_asked(program, setting, why):
    refused = command("set", program.pid, "STEAL=0", setting)
    assert refused.returncode == 2 and refused.stdout == ""
    assert len(refused.stderr.splitlines()) == 1 and why in refused.stderr


def test_each_failure_is_reported_in_one_line(program):
    for who, why in (("999999999", "no such process"), (str(os.getpid()), "not a pooled"),
                     ("1-1", "no such process")):
        refused = command("trim", "--timeout=0.05", "--", who)
        assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1 and why in refused.stderr
    for who in ("many", "-5", "", "5x", "5-", "5-6-7", "999999999999"):
        refused = command("trim", "--", who)
        assert refused.returncode == 2 and "expected a process id, or `all`" in refused.stderr
    for bad in (["--timeout", "soon"], ["--device", "-1"], ["lots"], ["1M", "2M"]):
        assert command("trim", program.pid, *bad).returncode == 2
    assert command("set", program.pid).returncode == 2


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_command_that_waits_bars_others_and_one_that_is_stopped_or_killed_does_not(program, how):
    program.do(f"alloc 0 {8 * MIB}")
    program.do("free 0")

    def asked_meanwhile():
        return command("trim", program.pid, "--timeout=0.05").stderr

    with subprocess.Popen([COMMAND, "trim", str(program.pid), "--timeout", str(guard.LIMIT)]) as asking:
        guard.wait_for(lambda: is_asked(program), "the request is posted")
        guard.wait_for(lambda: asked_meanwhile().endswith("within 0.05 s: others are asking it just now\n"), "it bars another")
        asking.send_signal(how)
        guard.wait_for(lambda: "it allocates and frees no memory just now" in asked_meanwhile(), "it does no more")
        program.do("churn")
        done = command("trim", program.pid)
        assert done.returncode == 0 and done.stdout == f"{program.pid}: released 8.0 MiB\n"
        asking.send_signal(signal.SIGCONT)  # it asks once more, and is answered
    assert asking.returncode == (0 if how == signal.SIGSTOP else -how) and is_asked(program) is False


def test_a_command_that_waits_for_others_bars_nobody_from_who_has_answered(program):
    program.do("churn")
    with Program(**KEEP) as other, subprocess.Popen([COMMAND, "trim", "all", "--timeout", str(guard.LIMIT)]) as asking:
        guard.wait_for(lambda: is_asked(other), "the other is asked")

        def is_left():
            mailbox = pages.read(program.page)[pages.MAILBOX_AT:]
            return struct.unpack_from("<I", mailbox)[0] and not struct.unpack_from("<I", mailbox, 560)[0]

        guard.wait_for(lambda: is_left() or asking.poll() is not None, "it has left the one")
        assert asking.poll() is None
        other.do("churn")
    assert asking.returncode == 0


def seal(data):
    """FNV-1a, as requests have it."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return value


def test_a_hostile_requester_changes_nothing_and_harms_nothing(program):
    """Another program of this user may write anything into the mailbox."""
    at = pages.MAILBOX_AT
    program.do("churn")
    with pages.Joined(program.page) as page:
        for serial, (kind, device, text) in enumerate([
                (99, 0, b""), (1, -7, b""), (2, 0, b"\xff" * 256), (2, 0, b"x" * 256), (1, 1 << 30, b""),
                (2, -1, b"POOLCUDA_TRACE=/etc/passwd\0"), (0, 0, b"")], 1):
            text = text.ljust(256, b"\0")
            sealed = struct.pack("<QQQQQ", serial, kind, device & 0xffffffff, 1 << 63, 1 << 63) + text
            request = struct.pack("<IiQQ", kind, device, 1 << 63, 0) + text
            page[at + 8:at + 8 + len(request)] = request
            page[at + 544:at + 568] = struct.pack("<QQQ", 1 << 63, seal(sealed), serial << 32 | 1)
            page[at:at + 4] = struct.pack("<I", serial)
            while struct.unpack_from("<I", page, at + 4)[0] != serial:
                assert program.process.poll() is None
        page[128:128 + (1 << 14)] = b"\xff" * (1 << 14)
        page[at:at + 1024] = b"\xff" * 1024
    assert program.do("churn") == 0
    program.do("alloc 0 4096")
    assert program.end() == 0


def test_figures_that_another_process_has_overwritten_make_no_report(tmp_path):
    with Program(POOLCUDA_STATS="1") as program:
        with pages.Joined(program.page) as page:
            page[:1 << 15] = b"\xff" * (1 << 15)
        program.do("alloc 0 4096")
        assert program.end() == 0


# --- top ---

def test_top_shows_one_line_per_program_sorted(program):
    program.do(f"alloc 0 {50 * MIB}")
    with Program(**KEEP) as other:
        other.do(f"alloc 0 {60 * MIB}")

        def order(key):
            lines = command("top", "--once", "--sort", key).stdout.splitlines()
            assert re.split(r"  +", lines[0].strip())[:2] == ["PID", "DEVICES"]
            rows = [line.split()[0] for line in lines[1:]]
            return [int(row) for row in rows if row in (str(program.pid), str(other.pid))]

        assert order("held") == order("live") == [other.pid, program.pid]
        assert order("pid") == sorted([program.pid, other.pid])
    assert command("top", "--sort", "beauty").returncode == 2
    assert command("top", "--interval", "0").returncode == 2


@NEEDS_MOUNT
def test_top_says_how_to_start_a_pooled_program_if_there_is_none():
    script = "umount /dev/shm 2>/dev/null; mount -t tmpfs none /dev/shm && exec \"$0\" top"
    told = subprocess.run(["unshare", "--mount", "sh", "-c", script, COMMAND], capture_output=True, text=True,
                          check=False)
    assert told.returncode == 0 and told.stdout == ""
    assert "to start one: poolcuda run ./app" in told.stderr


def test_text_of_a_page_is_made_harmless(program):
    page = bytearray(pages.read(program.page))
    at = page.index(str(PROGRAMS).encode())
    page[at:at + 30] = b'/a/\x1b[2J"\\\n\x7f\xff\xc2\x9b evil\0'.ljust(30, b"\0")
    struct.pack_into("<QQ", page, pages.PROCESS_AT, 4194998, 77)  # of another namespace, where it is not known to be stale
    hostile = FOLDER / "4194998"
    made = pages.put(hostile, page)
    try:
        for form in (["--once"], ["--prometheus", "-"]):
            shown = subprocess.run([COMMAND, "top", *form], capture_output=True, check=True).stdout
            assert "evil" in shown.decode("utf-8") and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown.decode())
        assert "evil" in json.dumps(processes())
    finally:
        hostile.unlink()
        pages.forget(made)


class Screen:
    """`poolcuda top` on a terminal of its own."""

    def __init__(self, lines=24, columns=120, ignored=()):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # which Ctrl-\ would leave
            os.execve(COMMAND, ["poolcuda", "top", "--interval", "0.1"], {**os.environ, "TERM": "vt100"})
        self.resize(lines, columns)
        self.text = ""

    def resize(self, lines, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, pattern):
        while not re.search(pattern, self.text):
            ready, _, _ = select.select([self.terminal], [], [], guard.LIMIT)
            assert ready, self.text
            try:
                self.text += os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:
                assert False, self.text
        self.text = ""

    def press(self, keys):
        os.write(self.terminal, keys.encode())

    def end(self):
        self.press("q")
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_top_on_a_terminal_refreshes_sorts_resizes_and_quits(program):
    program.do(f"alloc 0 {33 * MIB}")
    screen = Screen()
    screen.until(rf"{program.pid}[^\n]*33\.0 MiB")
    screen.press("p")
    screen.until(r"pid\*")
    program.do(f"alloc 1 {200 * MIB}")
    screen.until(r"233\.0 MiB|233\.")
    screen.resize(10, 60)
    screen.until(r"PID")
    screen.resize(3, 20)
    screen.press("h")
    assert screen.end() == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])
def test_top_gives_the_terminal_back_and_ends_by_the_signal_that_ends_it(program, how):
    screen = Screen()
    screen.until(str(program.pid))
    assert not termios.tcgetattr(screen.terminal)[3] & termios.ECHO
    if how in (signal.SIGINT, signal.SIGQUIT):
        screen.press("\x03" if how == signal.SIGINT else "\x1c")  # Ctrl-C, Ctrl-\
    else:
        os.kill(screen.pid, how)
    assert os.waitstatus_to_exitcode(os.waitpid(screen.pid, 0)[1]) == -how
    assert termios.tcgetattr(screen.terminal)[3] & termios.ECHO
    os.close(screen.terminal)


def test_top_ends_once_its_terminal_is_gone_also_where_a_hang_up_is_ignored(program):
    screen = Screen(ignored=[signal.SIGHUP])
    screen.until(str(program.pid))
    os.close(screen.terminal)
    guard.wait_for(lambda: os.waitpid(screen.pid, os.WNOHANG)[0], "it ends without a terminal")


# --- Prometheus ---

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'


def parse_exposition(text):
    """The text format as its specification has it, strictly: {name: (type, {labels: value})}."""
    assert text.endswith("\n")
    metrics, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = re.fullmatch(rf"# HELP ({NAME}) (?:[^\\]|\\\\|\\n)+", line)[1]
            assert current not in metrics, "one group of lines per metric"
            metrics[current] = (None, {})
        elif line.startswith("# TYPE "):
            found = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line)
            assert found[1] == current and metrics[current] == (None, {})
            metrics[current] = (found[2], {})
            assert (found[2] == "counter") == current.endswith("_total")
        else:
            found = re.fullmatch(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (\d+(?:\.\d+)?)", line)
            assert found and found[1] == current and metrics[current][0], line
            labels = tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or ""))
            assert labels not in metrics[current][1] and len(dict(labels)) == len(labels)
            metrics[current][1][labels] = float(found[3])
    return metrics


def test_the_figures_are_written_for_prometheus(program, tmp_path):
    program.do(f"alloc 0 {20 * MIB}")
    file = tmp_path / "poolcuda.prom"
    file.write_text("old")
    before = file.stat().st_ino
    assert command("top", "--prometheus", file).returncode == 0
    assert file.stat().st_ino != before, "another file takes its place at once"
    assert [path.name for path in tmp_path.iterdir()] == ["poolcuda.prom"]
    assert file.stat().st_mode & 0o444 == 0o444
    metrics = parse_exposition(file.read_text())

    def value(name, **labels):
        return [v for k, v in metrics[name][1].items()
                if {"pid": str(program.pid), **labels}.items() <= dict(k).items()]

    assert value("poolcuda_malloc_calls_total") == [2]
    assert value("poolcuda_device_in_use_bytes", device="0") == [20 * MIB]
    assert sum(metrics["poolcuda_processes"][1].values()) >= 1
    labels = dict(next(k for k in metrics["poolcuda_held_bytes"][1] if dict(k)["pid"] == str(program.pid)))
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert labels == {"pid": str(program.pid), "command": str(PROGRAMS / "steered"), "user": user, "job_id": "", "step_id": "", "rank": ""}
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "metrics"], input=file.read_text(), text=True, check=True)


@pytest.mark.parametrize("variables, expected", [
    ({"SLURM_JOB_ID": "42", "SLURM_STEP_ID": "1", "SLURM_PROCID": "3"}, ("42", "1", "3")),
    ({"PBS_JOBID": "17.head", "PMIX_RANK": "5"}, ("17.head", "", "5")),
    ({"LSB_JOBID": "8"}, ("8", "", "")),
    ({"JOB_ID": "anything"}, ("", "", "")),  # without what Grid Engine sets beside it
    ({"JOB_ID": "9", "SGE_TASK_ID": "2"}, ("9", "2", "")),
    ({"SLURM_STEP_ID": "1"}, ("", "", "")),
    ({"SLURM_JOB_ID": "x" * 100}, ("x" * 63, "", ""))], ids=lambda value: "-".join(map(str, value))[:40])
def test_a_batch_job_and_its_step_are_labels(variables, expected):
    with Program(**variables) as program:
        seen = program.figures()
        assert (seen["job"] or "", seen["step"] or "", "" if seen["rank"] is None else str(seen["rank"])) == expected
        metrics = parse_exposition(command("top", "--prometheus=-").stdout)
        labels = dict(next(k for k in metrics["poolcuda_held_bytes"][1] if dict(k)["pid"] == str(program.pid)))
        assert (labels["job_id"], labels["step_id"], labels["rank"]) == expected


def test_openmetrics_has_the_same_figures_in_its_own_form(program):
    program.do(f"alloc 0 {20 * MIB}")
    plain = parse_exposition(command("top", "--prometheus=-").stdout)
    text = command("top", "--openmetrics=-").stdout
    assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
    families, kind = {}, None
    for line in text.splitlines()[:-1]:
        word = line.split()
        if word[:2] == ["#", "HELP"]:
            name, kind = word[2], None
        elif word[:2] == ["#", "TYPE"]:
            assert word[2] == name and name not in families
            families[name], kind = {}, word[3]
            assert kind in ("counter", "gauge") and not name.endswith("_total")
        elif word[:2] == ["#", "UNIT"]:
            assert word[2] == name and name.endswith("_" + word[3])
        else:
            sample, value = line.rsplit(" ", 1)
            assert sample.split("{")[0] == name + {"counter": "_total", "gauge": ""}[kind]
            families[name][sample] = float(value)
    assert {name + ("_total" if name + "_total" in plain else "") for name in families} == set(plain)
    units = {name for name in families if name.endswith(("_bytes", "_seconds"))}
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# UNIT ")} == units
    in_use = families["poolcuda_device_in_use_bytes"]
    assert [value for sample, value in in_use.items() if f'pid="{program.pid}"' in sample] == [20 * MIB]


def test_waits_are_told_in_seconds(program):
    text = command("top", "--prometheus=-").stdout
    assert "poolcuda_wait_seconds_total{" in text and "_ns" not in re.sub(r"{.*?}", "", text)


def test_both_forms_at_once_are_refused(tmp_path):
    done = command("top", f"--prometheus={tmp_path / 'a'}", f"--openmetrics={tmp_path / 'b'}")
    assert done.returncode == 2 and "expected one of them" in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", [["--prometheus=-"], ["--openmetrics=-"], ["--all-users", "--json"]])
def test_who_only_looks_leaves_the_last_figures_of_the_killed_alone(form, tmp_path, monkeypatch):
    """A service that may not write where the figures go would lose them."""
    monkeypatch.chdir(tmp_path)
    with Program(POOLCUDA_STATS_FILE="figures") as program:
        made = pages.number(program.page)
        program.do("alloc 0 4096")
        program.say("kill")
        program.process.wait()
        shown = command("top", *form)
        assert shown.returncode == 0 and str(program.pid) not in shown.stdout
        assert pages.exists(made) and program.page.exists()
        processes()
        assert not pages.exists(made) and not program.page.exists()


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def nobody_may_run():
    return os.geteuid() == 0 and subprocess.run([*NOBODY, "test", "-x", str(PROGRAMS / "steered"), "-a", "-r", str(COMMAND)],
                                                check=False).returncode == 0


NEEDS_NOBODY = pytest.mark.skipif(not nobody_may_run(), reason="needs root, and a build folder that others may read")


@NEEDS_NOBODY
def test_root_sees_all_users_programs_by_who_owns_them(program):
    with Program(prefix=NOBODY, SLURM_JOB_ID="7") as other:
        rows = json.loads(command("top", "--all-users", "--json").stdout)["processes"]
        seen = {row["pid"]: (row["user"], row["job"]) for row in rows}
        assert seen[program.pid] == ("root", None) and seen[other.pid] == ("nobody", "7")
        assert other.pid not in {row["pid"] for row in processes()}
        table = command("top", "--all-users").stdout
        assert table.startswith("USER") and re.search(rf"^nobody +{other.pid} ", table, re.M)
        text = command("top", "--all-users", "--prometheus=-").stdout
        counts = parse_exposition(text)["poolcuda_processes"][1]
        assert counts[(("user", "nobody"),)] == 1 and counts[(("user", "root"),)] >= 1


@NEEDS_NOBODY
def test_who_may_not_read_others_programs_is_told(program):
    with Program(prefix=NOBODY) as other:
        done = command("top", "--all-users", "--json", prefix=NOBODY)
        assert [row["pid"] for row in json.loads(done.stdout)["processes"]] == [other.pid] and done.returncode == 0
        assert done.stderr == "poolcuda top: 1 other user has pooled programs that only root may read: not shown\n"
        assert program.pid not in {row["pid"] for row in json.loads(done.stdout)["processes"]}


@NEEDS_NOBODY
def test_root_takes_no_page_for_anothers_than_its_owners(program):
    """A user's entry that names root's memory, a link to root's entry, and a folder of another name show nothing."""
    with Program(prefix=NOBODY) as other:
        forged = program.page.read_bytes()
        folder = FOLDER.with_name("poolcuda-65534")
        namespace = re.search(r"\d+", os.readlink("/proc/self/ns/pid"))[0]
        entry, link, away = folder / str(program.pid), folder / f"{program.pid}-{namespace}", FOLDER.with_name("poolcuda-065534")
        entry.write_bytes(forged)
        os.chown(entry, 65534, 65534)
        link.symlink_to(program.page)
        shutil.copytree(FOLDER, away)
        try:
            rows = json.loads(command("top", "--all-users", "--json").stdout)["processes"]
            assert sorted(row["pid"] for row in rows if row["user"] == "nobody") == [other.pid]
            assert [row["user"] for row in rows if row["pid"] == program.pid] == ["root"]
        finally:
            entry.unlink()
            link.unlink()
            shutil.rmtree(away)


def test_a_file_for_prometheus_that_cannot_be_written_is_reported(tmp_path):
    refused = command("top", "--prometheus", tmp_path / "absent" / "file")
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1


def test_the_file_for_prometheus_is_written_again_at_each_interval(program, tmp_path):
    file = tmp_path / "again.prom"
    with subprocess.Popen([COMMAND, "top", "--prometheus", file, "--interval", "0.1"]) as writing:
        while not file.exists():
            assert writing.poll() is None
        program.do("alloc 0 4096")
        while f'pid="{program.pid}"' not in file.read_text() or not re.search(
                rf'malloc_calls_total{{pid="{program.pid}"[^}}]*}} 2\n', file.read_text()):
            assert writing.poll() is None
        writing.send_signal(signal.SIGTERM)
