"""poolcuda convert: nothing of a trace is lost, and what cannot be read or written is reported in one line."""

import csv
import gzip
import os
import subprocess

import pytest
from conftest import COMMAND, PROGRAMS, ROOT

HEADER = "t_us,op,id,size,stream,site"
TRACES = sorted((ROOT / "tests/data").glob("*.csv.gz"))


def convert(source, target):
    return subprocess.run([COMMAND, "convert", source, target], capture_output=True, text=True, check=False)


def converted(source, target):
    done = convert(source, target)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return target.read_bytes()


def rows_of(data):
    return list(csv.reader(data.decode().splitlines()))


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_converting_twice_makes_the_same_bytes(tmp_path, trace):
    once = converted(trace, tmp_path / "once.csv")
    assert converted(tmp_path / "once.csv", tmp_path / "twice.csv") == once
    original = rows_of(gzip.decompress(trace.read_bytes()))
    assert len(rows_of(once)) == len(original)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_the_name_says_how_it_is_compressed_and_the_trace_is_the_same(tmp_path, ending):
    plain = converted(TRACES[0], tmp_path / "plain.csv")
    packed = converted(TRACES[0], tmp_path / f"packed.csv{ending}")
    assert len(packed) < len(plain) / 2
    assert packed.startswith({".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}[ending])
    assert converted(tmp_path / f"packed.csv{ending}", tmp_path / "again.csv") == plain


def test_names_of_sites_stay_whatever_is_in_them(tmp_path):
    names = ["a,b", 'say "hi"', " blanks around ", "plain+0x1f < lib.so+0x2", "", '"', ","]
    with (tmp_path / "in.csv").open("w", newline="") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_ALL)
        writer.writerow(HEADER.split(","))
        for number, name in enumerate(names):
            writer.writerow([number, "A", number, 100, "", name])
    made = converted(tmp_path / "in.csv", tmp_path / "out.csv")
    assert [row[5] for row in rows_of(made)[1:]] == names
    assert converted(tmp_path / "out.csv", tmp_path / "again.csv") == made


def test_kernels_keep_their_nanoseconds(tmp_path):
    (tmp_path / "in.csv").write_text(f"{HEADER}\n0,A,1,8,,\n1,K,,0.001,,\n2.002,K,,14.25,3,k\n3,K,,,,\n")
    made = converted(tmp_path / "in.csv", tmp_path / "out.csv")
    assert [row for row in rows_of(made) if row[1] == "K"] == [
        ["1", "K", "", "0.001", "0", ""], ["2.002", "K", "", "14.250", "1", "k"],
        ["3", "K", "", "0", "0", ""]]


def test_devices_stay_and_one_device_needs_no_column(run, tmp_path):
    run(PROGRAMS / "devices", env={"POOLCUDA_TRACE": str(tmp_path / "raw"), "SIMCUDA_DEVICES": "2"})
    made = converted(tmp_path / "raw", tmp_path / "out.csv")
    header, *rows = rows_of(made)
    assert ",".join(header) == f"{HEADER},device"
    assert {row[6] for row in rows if row[1] == "A"} == {"0", "1"}
    assert converted(tmp_path / "out.csv", tmp_path / "again.csv") == made
    assert rows_of(converted(TRACES[0], tmp_path / "one.csv"))[0] == HEADER.split(",")


def test_what_cannot_be_read_is_reported_and_nothing_written(tmp_path):
    (tmp_path / "bad.csv").write_text(f"{HEADER}\n0,A,1,many,,\n")
    done = convert(tmp_path / "bad.csv", tmp_path / "out.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"poolcuda convert: {tmp_path}/bad.csv:2: size \"many\", "
                           "expected a whole number of bytes\n")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_file_that_cannot_be_written_is_reported_in_one_line(ending):
    done = convert(TRACES[0], f"/nowhere/at/all{ending}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"poolcuda convert: /nowhere/at/all{ending}: No such file or directory; "
                           "expected a file that can be written\n")


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_full_disk_is_reported_in_one_line(tmp_path, ending):
    os.symlink("/dev/full", tmp_path / f"full{ending}")
    done = convert(TRACES[0], tmp_path / f"full{ending}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"poolcuda convert: {tmp_path}/full{ending}: No space left on device; "
                           "expected a file that can be written\n")
