"""No test waits for ever, and none depends on how fast the machine is: what shows no sign of life for ten minutes
fails, and says at which step that was and where every thread stood.

$POOLCUDA_TEST_HANG_SECONDS: another limit.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import pytest

LIMIT = float(os.environ.get("POOLCUDA_TEST_HANG_SECONDS", "600"))


def family(pid):
    """A process and all that descend from it, the youngest last."""
    found = [pid]
    for each in found:
        for children in pathlib.Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def stacks(pids):
    """Where the threads of processes stand, if a debugger is installed."""
    if shutil.which("eu-stack"):
        command = ["eu-stack", "-p"]
    elif shutil.which("gdb"):
        command = ["gdb", "-q", "-batch", "-nx", "-ex", "thread apply all backtrace 16", "-p"]
    else:
        return "(to see where it stood install gdb or elfutils)\n"
    text = ""
    for each in pids:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            name = pathlib.Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            done = subprocess.run([*command, str(each)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  errors="replace", timeout=60, check=False)
            text += f"--- process {each}: {name}\n{done.stdout}"
    return text


def as_text(output):
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def end_of(output):
    return "".join(as_text(output).splitlines(keepends=True)[-60:])


def end_hanging(process):
    """Ends a process that hangs and all its descendants: SIGABRT first, at which some programs of ours tell their last
    steps. What it had printed, and what it prints now."""
    descendants = family(process.pid)
    process.send_signal(signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=10)
    for pid in descendants:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    return process.communicate()


def await_end(process, given):
    """(output, errors) of a process. Its output is the sign of life."""
    printed = 0
    while True:
        try:
            return process.communicate(given, timeout=LIMIT)
        except subprocess.TimeoutExpired as slow:
            given, before, printed = None, printed, len(slow.output or b"") + len(slow.stderr or b"")
            if printed > before:
                continue
        stood = stacks(family(process.pid))
        output, errors = end_hanging(process)
        pytest.fail(f"{process.args} printed nothing for {LIMIT:.0f} s.\n--- the end of its output:\n{end_of(output)}"
                    f"--- and of its errors:\n{end_of(errors)}{stood}", pytrace=True)


# pylint: disable-next=redefined-builtin
def run(command, *, input=None, capture_output=False, check=False, **options):
    """subprocess.run, but for what hangs."""
    if capture_output:
        options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with alarm_set(None), subprocess.Popen(command, **options) as process:
        try:
            output, errors = await_end(process, input)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def end_all_others():
    """Where what the test has started stands; that is then ended, else the test would wait for it again."""
    others = family(os.getpid())[1:]
    stood = stacks(others)
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return stood


def wait_for(condition, what):
    """Until condition() is true."""
    end = time.monotonic() + LIMIT
    with alarm_set(2 * LIMIT):  # for a condition that hangs itself
        while not condition():
            if time.monotonic() > end:
                pytest.fail(f"waited {LIMIT:.0f} s for this: {what}\n{end_all_others()}")
            time.sleep(0.01)


def wait_for_end(process, what):
    """The exit code of a process that was started with Popen and is to end by itself."""
    wait_for(lambda: process.poll() is not None, what)
    return process.returncode


@contextlib.contextmanager
def alarm_set(seconds):
    """The clock for whatever else a test does: begun anew, or stopped (None), and begun anew behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    running = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    signal.setitimer(signal.ITIMER_REAL, seconds or 0, seconds or 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, LIMIT if running else 0, LIMIT)


def on_alarm(_number, _frame):
    # The line at which the test stood is the last of the traceback.
    pytest.fail(f"nothing happened for {LIMIT:.0f} s at the last step below.\n{end_all_others()}", pytrace=True)


@pytest.fixture(autouse=True)
def guarded():
    """Around each test of a folder whose conftest.py has it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, LIMIT, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
