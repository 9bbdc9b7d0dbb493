"""poolcuda doctor: files that are no programs."""

import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

import pytest
from conftest import COMMAND, PROGRAMS
from diagnoses import Diagnosis, IS_ROOT, NOBODY, OPENER, doctor, environment


def test_missing(doctor):
    for name in ("no-such-program", "./absent", "/nowhere/at/all"):
        assert doctor(name).problems == {"missing"}


def test_a_name_without_a_path_means_path(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "program")
    said = doctor("program")
    assert said.problems == {"missing"} and "write ./program" in said.text("missing")


def test_unreadable():
    """As nobody, with a copy of the command in a folder that all can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        command, program = pathlib.Path(folder) / "poolcuda", pathlib.Path(folder) / "program"
        shutil.copy(COMMAND, command)
        shutil.copy(OPENER, program)
        command.chmod(0o755)
        program.chmod(0o111 if IS_ROOT else 0)
        done = subprocess.run([command, "doctor", "--json", program], capture_output=True, text=True, check=False,
                              env=environment(), cwd="/", user=NOBODY if IS_ROOT else None)
        assert "unreadable" in Diagnosis(done).problems
        assert "Permission denied" in Diagnosis(done).text("unreadable")


def test_not_executable(doctor, tmp_path):
    shutil.copy(OPENER, tmp_path / "program")
    (tmp_path / "program").chmod(0o644)
    assert doctor("./program").problems == {"not-executable"}


@pytest.mark.parametrize("content, problem", [
    (b"", "empty"), (b"MZ\x90\0 no ELF", "not-elf"), (b"\x7fEL", "not-elf"), (b"\x7fELF", "damaged"),
    (b"\x7fELF\2\1\1" + bytes(200), "damaged"), (b"\x7fELF" + b"\xff" * 2000, "damaged"),
    (b"#!", "interpreter-missing"), (b"#!/no/such/interpreter\n", "missing")])
def test_what_is_no_program(doctor, tmp_path, content, problem):
    (tmp_path / "program").write_bytes(content)
    (tmp_path / "program").chmod(0o755)
    assert problem in doctor("./program").problems


def test_directories_and_devices(doctor, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("./", "./fifo", "/dev/null"):
        assert doctor(name).problems == {"not-a-file"}


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6])
def test_truncated(doctor, tmp_path, part):
    data = (PROGRAMS / "named_sites-static").read_bytes()
    loads_end = 0
    offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for i in range(count):
        kind, _, start, _, _, size = struct.unpack_from("<IIQQQQ", data, offset + 56 * i)
        if kind == 1:
            loads_end = max(loads_end, start + size)
    (tmp_path / "program").write_bytes(data[:int(loads_end * part)])
    (tmp_path / "program").chmod(0o755)
    said = doctor("./program")
    assert said.problems == {"damaged"} and "shorter than its headers say" in said.text("damaged")


def test_without_section_headers_it_sees_the_same(doctor, tmp_path):
    """What is loaded does not need them; packers remove them."""
    data = bytearray((PROGRAMS / "named_sites").read_bytes())
    struct.pack_into("<Q", data, 40, 0)
    struct.pack_into("<HH", data, 60, 0, 0)
    (tmp_path / "program").write_bytes(data)
    (tmp_path / "program").chmod(0o755)
    said = doctor("./program")
    assert said.code == 0 and said.facts["routes"] == ["shared-runtime"]
