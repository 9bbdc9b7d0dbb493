"""A file that is none of what a subcommand reads is reported in one line, and the command fails."""

import gzip
import json
import os
import shutil
import subprocess

import guard
import pytest
from conftest import COMMAND, ROOT

TRACE = ROOT / "tests/data/ssim.csv.gz"

# Each subcommand that reads files, as a command that takes the bad file in the place of BAD and writes to OUT.
READERS = {
    "report": ["report", "BAD"],
    "replay": ["replay", "BAD"],
    "tune": ["tune", "BAD"],
    "compare": ["compare", "BAD", "BAD"],
    "convert": ["convert", "BAD", "OUT.csv"],
    "doctor": ["doctor", "BAD"],
    "run": ["run", "BAD"],
}


def truncated_gzip(path):
    path.write_bytes(gzip.compress(b"t_us,op,id,size,stream,site\n" * 1000)[:60])


def huge(path):
    with open(path, "wb") as file:
        file.write(b"{")
        file.truncate(1 << 40)


MAKERS = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": truncated_gzip,
    "huge": huge,
    "binary": lambda path: path.write_bytes(os.urandom(1 << 16)),
    "wrong version": lambda path: path.write_text(json.dumps(
        {"format": "poolcuda report", "kind": "poolcuda-replay", "version": 99})),
    "wrong version of a trace": lambda path: path.write_bytes(b"poolcuda trace\n\0" + b"\xff" * 48),
    "folder": lambda path: path.mkdir(),
    "unreadable": lambda path: (path.write_bytes(b"x"), path.chmod(0)),
    "escape sequences": lambda path: path.write_bytes(b"\x1b]0;owned\x07\n" * 100),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("reader", READERS)
def test_a_bad_file_is_reported_in_one_line_with_a_nonzero_exit(reader, maker, tmp_path):
    bad, out = tmp_path / "bad", tmp_path / "out.csv"
    MAKERS[maker](bad)
    words = [str(bad) if word == "BAD" else str(out) if word == "OUT.csv" else word for word in READERS[reader]]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POOLCUDA_", "LD_"))}
    done = guard.run([COMMAND, *words], env=clean, capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode not in (0, -11, -6), done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
    if reader == "doctor":  # what it says of a file is its answer, on standard output
        assert b"problem" in done.stdout
        return
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("poolcuda") and str(bad) in lines[0]
    assert not out.exists(), "nothing is left of a conversion that failed"


@pytest.mark.parametrize("reader", [*(name for name in READERS if name != "doctor"), "trim", "set"])
def test_no_argument_is_bad_usage(reader):
    done = subprocess.run([COMMAND, reader], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert 0 < len(done.stderr.splitlines()) <= 4, "the fault and where help is"


def test_a_subcommand_that_is_none_is_reported():
    done = subprocess.run([COMMAND, "reprot"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("poolcuda: reprot: unknown command")


def test_an_output_that_exists_or_cannot_be_made_is_reported(tmp_path):
    shutil.copy(TRACE, tmp_path / "in.csv.gz")
    done = subprocess.run([COMMAND, "convert", tmp_path / "in.csv.gz", "/nowhere/out.csv"], capture_output=True, text=True,
                          check=False)
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1 and "/nowhere/out.csv" in done.stderr


def test_a_small_file_that_would_fill_the_memory_is_refused_by_what_it_unpacks_to(tmp_path):
    """The bounds themselves: tests/unit/test_input.c."""
    bomb = tmp_path / "bomb"
    lines = b"\n" * (16 << 20)  # empty ones are passed over
    bomb.write_bytes(gzip.compress(b"t_us,op,id,size,stream,site\n0,A,0,4096,0,x\n") + gzip.compress(lines) * 1000)
    done = subprocess.run([COMMAND, "convert", bomb, tmp_path / "out.csv"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"poolcuda convert: {bomb}:") and not (tmp_path / "out.csv").exists()
    assert "unpacks to more than 256 MiB and 100 times its size, expected less; " in done.stderr
    assert "unpack it first" in done.stderr
