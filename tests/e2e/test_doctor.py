"""poolcuda doctor: its arguments, and the form of what it prints."""

import os
import pty
import re
import subprocess

import pytest
from conftest import COMMAND, ROOT
from diagnoses import OPENER, doctor, environment, text_of


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["--with-library"], [""], ["--with-library=", "/bin/true"], ["-l", "", "/bin/true"]])
def test_bad_usage_exits_with_2(arguments):
    done = subprocess.run([COMMAND, "doctor", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr


def test_the_text_ends_with_the_next_command():
    works = text_of(OPENER, "an argument").splitlines()
    assert works[-2:] == ["pooling will work", f"next: {COMMAND} run -- {OPENER} 'an argument'"]
    fails = text_of("/dev/null").splitlines()
    assert fails[0].startswith("problem   /dev/null is no regular file")
    assert fails[-2].startswith("pooling will not work")
    assert text_of().endswith(f"next: {COMMAND} run -- PROGRAM\n")


def test_names_are_made_harmless(doctor):
    for name in ("./a\033[31mb\nc", "./\u202eb", "./\x9b31m"):
        said = text_of(name)
        assert not re.search(r"[\033\u202e\x9b]", said) and "a" not in said.split("\n")[0][:8]
    assert doctor(b"./bad\xff".decode(errors="surrogateescape")).problems == {"missing"}


def test_colours_are_for_terminals_that_want_them():
    def shown(**env):
        pid, file = pty.fork()
        if pid == 0:
            os.execve(COMMAND, [str(COMMAND), "doctor", str(OPENER)], environment(**env))
        text = b""
        try:
            while piece := os.read(file, 4096):
                text += piece
        except OSError:
            pass
        os.waitpid(pid, 0)
        os.close(file)
        return text
    assert b"\033[32mok" in shown()
    assert b"\033" not in shown(NO_COLOR="1")
    assert "\033" not in text_of(OPENER)


def test_the_documents_list_every_finding_and_no_other():
    told = set()
    for source in (ROOT / "src/cli/doctor").glob("*.c"):
        told |= set(re.findall(r'findings_add\(\s*[\w>&.-]+,\s*"([\w-]+)"', source.read_text()))
    documented = set(re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs/doctor.md").read_text(), re.M))
    assert len(told) > 30 and documented == told
