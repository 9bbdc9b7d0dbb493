"""What becomes of a test that hangs."""

import os
import pathlib
import shutil
import subprocess

import guard
import pytest

HANGS = """
import sys, time
sys.path.insert(0, {tests!r})
import guard, subprocess
from guard import guarded
def test_hangs():
    {step}
"""


@pytest.fixture
def hang(tmp_path):
    """hang(step): what pytest says about a test whose last step hangs."""
    def judge(step):
        (tmp_path / "test_it.py").write_text(HANGS.format(tests=str(pathlib.Path(guard.__file__).parent), step=step))
        done = guard.run(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "test_it.py"],
                         env={**os.environ, "POOLCUDA_TEST_HANG_SECONDS": "2"},
                         capture_output=True, text=True)
        assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout + done.stderr
        return done.stdout
    return judge


def test_a_program_that_hangs_is_reported_with_its_last_output_and_stacks(hang):
    told = hang("""guard.run(["sh", "-c", "echo step 3; exec sleep 1000"], capture_output=True, text=True)""")
    assert "printed nothing for 2 s" in told and "step 3" in told
    assert "install gdb or elfutils" in told if not shutil.which("gdb") and not shutil.which("eu-stack") else \
        "sleep 1000" in told


class Slow:
    """A process that is asked for its end several times, and has printed a line more each time."""
    args, printed = ["slow"], b""

    def communicate(self, _given, timeout):
        if self.printed.count(b"\n") == 5:
            return self.printed.decode(), ""
        self.printed += b"a line\n"
        raise subprocess.TimeoutExpired(self.args, timeout, output=self.printed)


def test_a_program_that_goes_on_printing_does_not_hang():
    """However long it takes in all."""
    assert guard.await_end(Slow(), None) == ("a line\n" * 5, "")


def test_a_condition_that_does_not_come_true_is_reported_with_what_was_waited_for(hang):
    assert "waited 2 s for this: the sun in the west" in hang('guard.wait_for(lambda: False, "the sun in the west")')


def test_anything_else_that_hangs_is_reported_with_its_line_and_what_it_started_ends(hang):
    told = hang("with subprocess.Popen(['sleep', '1000'], stdout=subprocess.PIPE) as started: started.stdout.read()")
    assert "nothing happened for 2 s" in told and "stdout.read()" in told
