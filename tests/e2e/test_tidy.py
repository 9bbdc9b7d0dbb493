"""scripts/check-tidy: who reads the end of its output knows which files failed, and why."""

import json
import os
import shutil
import subprocess

import pytest
from conftest import ROOT

# What clang-tidy stands for here: the source says it.
TOOL = """#!/bin/sh
[ "$1" = --version ] && echo 1 && exit
for file; do :; done
. "$file"
"""


@pytest.fixture
def tidy(tmp_path):
    """check-tidy in a folder of its own with these sources: its status and its output's lines."""
    def run(sources, *arguments):
        for folder in ("scripts", "build", "bin"):
            (tmp_path / folder).mkdir()
        shutil.copy(ROOT / "scripts/check-tidy", tmp_path / "scripts")
        (tmp_path / ".clang-tidy").write_text("")
        for tool, text in (("clang-tidy", TOOL), ("ninja", "#!/bin/sh\n")):
            (tmp_path / "bin" / tool).write_text(text)
            (tmp_path / "bin" / tool).chmod(0o755)
        for name, text in sources.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "build/compile_commands.json").write_text(json.dumps(
            [{"directory": str(tmp_path / "build"), "file": f"../{name}", "command": f"cc {name}", "output": f"{name}.o"}
             for name in sources]))
        done = subprocess.run([tmp_path / "scripts/check-tidy", *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
        return done.returncode, (done.stdout + done.stderr).splitlines()
    return run


GOOD = {f"good{number:02}.c": "exit 0\n" for number in range(60)}


def test_the_end_repeats_which_files_failed_and_what_was_printed_for_each(tidy):
    code, lines = tidy({"first.c": "echo 'first.c:1:1: error: unused [x]'; exit 1\n",
                        "second.c": "echo 'second.c:2:2: error: null [y]'; exit 1\n", **GOOD})
    end = "\n".join(lines[-40:])
    assert code == 1
    assert "first.c: clang-tidy ended with status 1" in end and "first.c:1:1: error: unused [x]" in end
    assert "second.c: clang-tidy ended with status 1" in end and "second.c:2:2: error: null [y]" in end
    assert lines[-1] == "check-tidy: clang-tidy objects to 2 of 62 files"


def test_the_end_tells_a_killed_clang_tidy_by_its_signal(tidy):
    code, lines = tidy({"killed.c": "kill -9 $$\n", **GOOD})
    assert code == 1
    assert "killed.c: clang-tidy was killed by SIGKILL and printed nothing" in "\n".join(lines[-40:])


def test_the_end_leaves_out_what_no_reader_of_forty_lines_would_see_and_says_so(tidy):
    long = "for i in $(seq 50); do echo \"note $i\"; done; echo \"x.c:1:1: error: $file\"; for i in $(seq 50); do echo more; done; exit 1\n"
    code, lines = tidy({"one.c": long, "two.c": long, **GOOD})
    end = lines[-40:]
    assert code == 1
    assert sum("x.c:1:1: error:" in line for line in end) == 2 and sum("from its 101 lines, all of them above:" in line for line in end) == 2
    assert [sum(f"{name}.c: clang-tidy ended" in line for line in end) for name in ("one", "two")] == [1, 1]


def test_the_end_tells_of_as_many_failed_files_as_it_has_room_for_when_all_fail(tidy):
    code, lines = tidy({name: "echo 'x.c:1:1: error: null [y]'; exit 3\n" for name in GOOD})
    end = lines[-40:]
    assert code == 1
    assert sum("clang-tidy ended with status 3:" in line for line in end) == 12
    assert end.count("x.c:1:1: error: null [y]") >= 12
    assert any("files more, above" in line for line in end)
    assert lines[-1] == "check-tidy: clang-tidy objects to 60 of 60 files"


def test_files_that_passed_leave_nothing_at_the_end_but_the_count(tidy):
    code, lines = tidy(GOOD)
    assert code == 0
    assert lines[-1].startswith("60 of 60: ")


def test_help_says_what_it_does_and_analyses_nothing(tidy):
    code, lines = tidy({"first.c": "exit 1\n"}, "--help")
    assert code == 0 and lines[0].startswith("usage: check-tidy")
    assert not any("first.c" in line for line in lines)
