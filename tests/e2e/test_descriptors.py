"""Descriptors and pipes that the library remembers: what the program puts in their place is the program's."""

import os
import socket

import guard
import pytest
from conftest import LIBRARY, PROGRAMS
from steered import environment
from writers import names

ALL = {"POOLCUDA_STATS": "1", "POOLCUDA_CHECK": "1", "POOLCUDA_CHECK_LEAKS": "1"}
FILES = {"POOLCUDA_STATS_FILE": "figures", "POOLCUDA_TRACE": "trace", "POOLCUDA_LOG": "log", "POOLCUDA_CHECK_LOG": "check"}


def start(mode, folder, stderr, **variables):
    return guard.run([str(PROGRAMS / "descriptors"), mode], cwd=folder, stdout=-1, stderr=stderr, text=True, check=False,
                     env=environment(LD_PRELOAD=str(LIBRARY), **variables))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("mine.")}


@pytest.mark.parametrize("mode", ["reuses", "socket"])
@pytest.mark.parametrize("variables", [ALL, {**ALL, **FILES}, {**ALL, "POOLCUDA_LOG": "stderr"}, {**FILES, "POOLCUDA_STATS": "1"}])
def test_what_the_program_opens_under_a_number_that_was_ours_stays_empty(mode, variables, tmp_path):
    with (tmp_path / "error").open("wb") as error:
        done = start(mode, tmp_path, error, **variables)
    assert (done.returncode, done.stdout) == (0, "done\n")
    found = files(tmp_path)
    assert len(found) >= 60
    for name, content in found.items():
        assert not content.strip(b"\0"), name


@pytest.mark.parametrize("allowed", [1024, 24])
def test_the_programs_files_have_the_numbers_that_they_have_natively(allowed, tmp_path):
    def numbers(**variables):
        done = guard.run(["sh", "-c", f'ulimit -n {allowed}; exec "$0" numbers', PROGRAMS / "descriptors"], cwd=tmp_path, stdout=-1,
                         stderr=-1, text=True, check=False, env=environment(**variables))
        assert done.returncode == 0, done.stderr
        return [int(number) for number in done.stdout.splitlines()[0].split()]

    native = numbers()
    pooled = numbers(LD_PRELOAD=str(LIBRARY), **ALL, **FILES)
    assert len(native) == len(pooled) == 8 and len(list(tmp_path.iterdir())) == 4
    if allowed == 1024:  # of few that are allowed each of our files takes one
        assert pooled == native


def test_a_standard_error_that_is_closed_at_the_start_is_the_programs_from_then_on(tmp_path):
    script = 'exec "$0" reuses 2>&-'
    done = guard.run(["sh", "-c", script, PROGRAMS / "descriptors"], cwd=tmp_path, stdout=-1, text=True, check=False,
                     env=environment(LD_PRELOAD=str(LIBRARY), POOLCUDA_LOG="stderr", **ALL))
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert files(tmp_path)["mine.2"] == b""


def test_a_standard_error_that_was_left_alone_gets_its_report(tmp_path):
    with (tmp_path / "error").open("wb") as error:
        start("plain", tmp_path, error, **ALL)
    said = (tmp_path / "error").read_text()
    assert "held from the driver" in said and "========= POOLCUDA CHECK" in said


def broken(kind):
    """The number of something to write to that nobody reads any more."""
    if kind == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    one, other = socket.socketpair()
    other.close()
    return one.detach()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("mode", ["plain", "handled", "pending"])
@pytest.mark.parametrize("variables", [ALL, {"POOLCUDA_STATS": "json", "POOLCUDA_LOG": "stderr"},
                                       {"POOLCUDA_STEEL": "1", "POOLCUDA_TRACE": "/dev/stderr"},
                                       {"POOLCUDA_STATS_FILE": "/dev/stderr", "POOLCUDA_CHECK_LOG": "/dev/fd/2", "POOLCUDA_CHECK": "1"}])
def test_a_standard_error_that_nobody_reads_is_no_signal_to_the_program(kind, mode, variables, tmp_path):
    error = broken(kind)
    done = start(mode, tmp_path, error, **variables)
    os.close(error)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert not names(tmp_path)
